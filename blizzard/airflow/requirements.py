"""Airflow's own names, which moved between 2 and 3; and an error that says what to install if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackage(ImportError):
    """A package that this worker lacks, and the command that installs it."""


@contextmanager
def installed_by(package: str) -> Iterator[None]:
    """Around imports from `package`."""
    try:
        yield
    except ImportError as e:
        raise MissingPackage(f"blizzard.airflow: {e}. To install it: pip install {package}") from None


with installed_by("'blizzard-delta[airflow]', or on a worker with Spark elsewhere: apache-airflow"):
    try:
        from airflow.sdk import DAG
        from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
    except ImportError:
        from airflow import DAG
        from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

__all__ = ["DAG", "AirflowException", "AirflowFailException", "AirflowSkipException", "MissingPackage", "installed_by"]
