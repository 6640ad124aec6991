"""blizzard as a task of Airflow: one DAG, one run at a time, and a retry only if it can help.

`make_dag` takes an `Ingest` (what) and a runner (where): `SparkSubmit`, `EmrStep`, `EmrServerless`, `Databricks` or
`DatabricksJob`. Airflow and its providers are imported when a DAG or an operator is made, never by other packages of
blizzard. This package needs none of blizzard's dependencies, so a worker can install blizzard without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blizzard.airflow.ingest import Ingest
from blizzard.airflow.runners import Databricks, DatabricksJob, EmrServerless, EmrStep, SparkSubmit

if TYPE_CHECKING:
    from blizzard.airflow.dags import make_dag

__all__ = ["Databricks", "DatabricksJob", "EmrServerless", "EmrStep", "Ingest", "SparkSubmit", "make_dag"]


def __getattr__(name: str) -> Any:
    if name == "make_dag":
        from blizzard.airflow.dags import make_dag

        return make_dag
    raise AttributeError(name)
