"""An example DAG: a run of the job that the bundle in jobs/databricks makes, every hour. Copy it and change the values.

Deploy the bundle with pause_status=PAUSED and max_retries=0: Airflow starts the job and decides about retries.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from blizzard.airflow import DatabricksJob, Ingest, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None


def tell_somebody(context: Any) -> None:
    """Put in its place what reaches a person. Not called for a try that is retried, nor for a run that was skipped."""
    logging.getLogger("airflow.task").error("tell somebody: %s: %s", context["ti"].dag_id, context.get("exception"))


dag = make_dag(
    "blizzard_databricks_job",
    Ingest(
        source="s3://landing/shipments",
        table="s3://lake/shipments",
        pipeline="shipments",
        schema="id BIGINT, sent_at TIMESTAMP, carrier STRING",  # of a new table; an existing one must fit it
    ),
    DatabricksJob(
        job_id="{{ var.value.get('blizzard_job_id', '1') }}",
        summary_dir="s3://lake/_blizzard/summaries",
    ),
    schedule=timedelta(hours=1),
    start_date=datetime(2024, 1, 1, tzinfo=timezone.utc),
    default_args={"on_failure_callback": tell_somebody},
)
