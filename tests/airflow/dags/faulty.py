"""A DAG whose first try runs into the fault that the test asks for; its retry does not."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone

from blizzard.airflow import Ingest, SparkSubmit, make_dag

fault = os.environ["TEST_FAULT"]
dag = make_dag(
    "faulty",
    Ingest(
        source=os.environ["EVENTS_SOURCE"],
        table=os.environ["EVENTS_TABLE"],
        pipeline="events",
        schema=os.environ["EVENTS_SCHEMA"],
        options={"limits.max_files": "2"},
    ),
    SparkSubmit(
        application=os.environ["BLIZZARD_APPLICATION"],
        options={"env_vars": {"BLIZZARD_FAULT": "{{ '" + fault + "' if ti.try_number == 1 else '' }}"}},
    ),
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=timezone.utc),
    retries=2,
    retry_delay=timedelta(seconds=1),
)
