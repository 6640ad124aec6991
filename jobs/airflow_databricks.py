"""Example DAGs: a one-time Databricks run, and a run of the job that the bundle in jobs/databricks makes.

Copy the one you need. The access mode matters: docs/deploy-databricks.md says which modes can write, and why.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

try:
    from blizzard.airflow import Databricks, DatabricksJob, Ingest, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
EVENTS = Ingest(source="s3://landing/events", table="s3://lake/events", pipeline="events")
SUMMARIES = "s3://lake/_blizzard/summaries"

submitted = make_dag(
    "blizzard_databricks",
    EVENTS,
    Databricks(
        wheel="/Volumes/main/blizzard/dist/blizzard_delta-0.1.0-cp310-abi3-linux_x86_64.whl",
        summary_dir=SUMMARIES,
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
    start_date=START,
)

existing = make_dag(
    "blizzard_databricks_job",
    EVENTS,
    DatabricksJob(job_id="{{ var.value.get('blizzard_job_id', '1') }}", summary_dir=SUMMARIES),
    schedule=timedelta(hours=1),
    start_date=START,
)
