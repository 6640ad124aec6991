"""An example DAG: a step on a running EMR cluster, every hour. Copy it into the DAG folder and change the values.

Put jobs/ingest.py and the archive that `make dist` builds on S3. The worker reads the summary with `aws_default`.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from blizzard.airflow import EmrStep, Ingest, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None


def tell_somebody(context: Any) -> None:
    """Put in its place what reaches a person. Not called for a try that is retried, nor for a run that was skipped."""
    logging.getLogger("airflow.task").error("tell somebody: %s: %s", context["ti"].dag_id, context.get("exception"))


dag = make_dag(
    "blizzard_emr_step",
    Ingest(
        source="s3://landing/signups",
        table="s3://lake/signups",
        pipeline="signups",
        schema="id BIGINT, at TIMESTAMP, email STRING, plan STRING",  # of a new table; an existing one must fit it
    ),
    EmrStep(
        job_flow_id="{{ var.value.get('emr_cluster_id', 'j-0000000000000') }}",
        application="s3://lake/_blizzard/ingest.py",
        environment="s3://lake/_blizzard/blizzard-env-0.1.0-linux_x86_64.tar.gz",
        summary_dir="s3://lake/_blizzard/summaries",
        # What a batch is cut for, whether or not executors are allocated dynamically.
        conf={
            "spark.executor.instances": "4",
            "spark.dynamicAllocation.maxExecutors": "4",
            "spark.executor.cores": "4",
        },
    ),
    schedule=timedelta(hours=1),
    start_date=datetime(2024, 1, 1, tzinfo=timezone.utc),
    default_args={"on_failure_callback": tell_somebody},
)
