"""Fixtures for tests with a real Airflow: one migrated metadata database for all, a copy of it for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.airflow.airflow_home import AirflowHome, migrate
from tests.s3.conftest import bucket, s3_server  # noqa: F401

_VENV = Path(__file__).parents[2] / ".venv-airflow"


@pytest.fixture(scope="session")
def airflow_bin() -> Path:
    """The environment that `make setup-airflow` made. Without it these tests are skipped, but fail in CI."""
    if not (_VENV / ".ready").exists():
        reason = "Airflow is not installed: run make setup-airflow"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return _VENV / "bin"


@pytest.fixture(scope="session")
def migrated(airflow_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return migrate(airflow_bin, tmp_path_factory.mktemp("airflow-migrated"))


@pytest.fixture
def airflow(airflow_bin: Path, migrated: Path, tmp_path: Path, fast_drivers: None) -> AirflowHome:
    return AirflowHome(airflow_bin, migrated, tmp_path)
