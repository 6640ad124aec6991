"""An example DAG: a one-time Databricks run, every hour. Copy it into the DAG folder and change the values.

The access mode matters: docs/deploy-databricks.md says which modes can write, and why.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from blizzard.airflow import Databricks, Ingest, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None


def tell_somebody(context: Any) -> None:
    """Put in its place what reaches a person. Not called for a try that is retried, nor for a run that was skipped."""
    logging.getLogger("airflow.task").error("tell somebody: %s: %s", context["ti"].dag_id, context.get("exception"))


dag = make_dag(
    "blizzard_databricks",
    Ingest(
        source="s3://landing/invoices",
        table="s3://lake/invoices",
        pipeline="invoices",
        schema="id BIGINT, issued_at TIMESTAMP, total DECIMAL(12, 2)",  # of a new table; an existing one must fit it
    ),
    Databricks(
        wheel="/Volumes/main/blizzard/dist/blizzard_delta-0.1.0-cp310-abi3-linux_x86_64.whl",
        summary_dir="s3://lake/_blizzard/summaries",
        compute={
            "new_cluster": {
                "spark_version": "17.3.x-scala2.13",
                "node_type_id": "i3.xlarge",
                "num_workers": 2,
                "data_security_mode": "SINGLE_USER",
                "aws_attributes": {"instance_profile_arn": "arn:aws:iam::000000000000:instance-profile/blizzard"},
            }
        },
    ),
    schedule=timedelta(hours=1),
    start_date=datetime(2024, 1, 1, tzinfo=timezone.utc),
    default_args={"on_failure_callback": tell_somebody},
)
