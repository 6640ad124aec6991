"""The DAG around a run: one run at a time, no catchup, and retries with growing delays."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from blizzard.airflow.ingest import Ingest
from blizzard.airflow.requirements import DAG
from blizzard.airflow.runners import Runner


def make_dag(
    dag_id: str,
    ingest: Ingest,
    runner: Runner,
    *,
    schedule: Any,
    start_date: datetime,
    retries: int = 3,
    retry_delay: timedelta = timedelta(minutes=2),
    task_id: str = "ingest",
    **dag_options: Any,
) -> Any:
    """A DAG with one task. Only temporary failures and lost drivers are retried, `retries` times."""
    default_args = {
        "retries": retries,
        "retry_delay": retry_delay,
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=30),
        # A backfill of Airflow 3 counts its own runs only, and begins ten at once beside those of `max_active_runs`.
        "max_active_tis_per_dag": 1,
        **dag_options.pop("default_args", {}),
    }
    dag = DAG(
        dag_id,
        schedule=schedule,
        start_date=start_date,
        # A second driver of a pipeline is fenced. Each run takes all files, so earlier intervals have nothing left.
        max_active_runs=1,
        catchup=False,
        default_args=default_args,
        **{"tags": ["blizzard"], **dag_options},
    )
    with dag:
        runner.operator(ingest, task_id)
    return dag
