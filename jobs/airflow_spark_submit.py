"""An example DAG: spark-submit from the worker, every ten minutes. Copy it into the DAG folder and change the values.

The Spark connection (`spark_default`) names the master. The worker needs `spark-submit` on its PATH. The driver's
Python (PYSPARK_PYTHON) needs blizzard and its dependencies.
"""

from __future__ import annotations

import logging
import os
from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from blizzard.airflow import Ingest, SparkSubmit, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None


def tell_somebody(context: Any) -> None:
    """Put in its place what reaches a person. Not called for a try that is retried, nor for a run that was skipped."""
    logging.getLogger("airflow.task").error("tell somebody: %s: %s", context["ti"].dag_id, context.get("exception"))


dag = make_dag(
    "blizzard_spark_submit",
    Ingest(
        source=os.environ.get("EVENTS_SOURCE", "s3a://landing/events"),
        table=os.environ.get("EVENTS_TABLE", "s3a://lake/events"),
        pipeline="events",
        # Of a new table; an existing one must fit it.
        schema=os.environ.get("EVENTS_SCHEMA", "id BIGINT, ts TIMESTAMP, kind STRING"),
        options={"limits.max_files": "1000"},
    ),
    SparkSubmit(
        application=os.environ.get("BLIZZARD_APPLICATION", "/opt/blizzard/jobs/ingest.py"),
        # In client mode the exit code is known and no summary_dir is needed. In cluster mode it is not:
        #   summary_dir="s3://lake/_blizzard/summaries", options={"deploy_mode": "cluster", "archives": "…#environment"}
        options={
            "conn_id": "spark_default",
            "env_vars": {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", "/opt/blizzard/venv/bin/python")},
        },
    ),
    schedule=timedelta(minutes=10),
    start_date=datetime(2024, 1, 1, tzinfo=timezone.utc),
    default_args={"on_failure_callback": tell_somebody},
)
