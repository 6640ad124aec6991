"""Example DAGs: a step on a running EMR cluster, and a job run of EMR Serverless. Copy the one you need.

Put jobs/ingest.py and the archive that `make dist` builds on S3. The worker reads the summary with `aws_default`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

try:
    from blizzard.airflow import EmrServerless, EmrStep, Ingest, make_dag
except ModuleNotFoundError as e:
    raise ImportError(f"{e}. On every scheduler and worker: pip install --no-deps blizzard-delta") from None

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
EVENTS = Ingest(source="s3://landing/events", table="s3://lake/events", pipeline="events")
APPLICATION = "s3://lake/_blizzard/ingest.py"
ENVIRONMENT = "s3://lake/_blizzard/blizzard-env-0.1.0-linux_x86_64.tar.gz"
SUMMARIES = "s3://lake/_blizzard/summaries"

on_a_cluster = make_dag(
    "blizzard_emr_step",
    EVENTS,
    EmrStep(
        job_flow_id="{{ var.value.get('emr_cluster_id', 'j-0000000000000') }}",
        application=APPLICATION,
        environment=ENVIRONMENT,
        summary_dir=SUMMARIES,
    ),
    schedule=timedelta(hours=1),
    start_date=START,
)

serverless = make_dag(
    "blizzard_emr_serverless",
    EVENTS,
    EmrServerless(
        application_id="00f0000000000000",
        execution_role_arn="arn:aws:iam::000000000000:role/blizzard",
        application=APPLICATION,
        environment=ENVIRONMENT,
        summary_dir=SUMMARIES,
        conf={"spark.executor.instances": "4"},
    ),
    schedule=timedelta(hours=1),
    start_date=START,
)
