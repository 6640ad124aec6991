"""The arguments that each runner gives to its service, without Airflow."""

from __future__ import annotations

import pytest

from blizzard.airflow import Databricks, DatabricksJob, EmrServerless, EmrStep, Ingest
from blizzard.cli.parser import build_parser
from blizzard.cli.wheel_task import arguments_of

EVENTS = Ingest(
    source="s3://in/events",
    table="s3://lake/events",
    pipeline="events",
    schema="id BIGINT, ts TIMESTAMP",
    config="s3://in/blizzard.yaml",
    options={"limits.max_files": "10", "bad_records.policy": "fail"},
    flags=("--max-batches", "3"),
)


def test_the_arguments_are_those_of_blizzard_run() -> None:
    options = build_parser().parse_args(["run", *EVENTS.arguments(), "--attempt", "a", "--summary", "s3://x/y.json"])
    assert (options.source, options.table, options.pipeline) == ("s3://in/events", "s3://lake/events", "events")
    assert (options.schema, options.config) == ("id BIGINT, ts TIMESTAMP", "s3://in/blizzard.yaml")
    assert options.assignments == ["limits.max_files=10", "bad_records.policy=fail"]
    assert (options.max_batches, options.attempt, options.summary) == (3, "a", "s3://x/y.json")


def test_an_emr_step_runs_the_packed_environment_once() -> None:
    runner = EmrStep(
        job_flow_id="j-1", application="s3://b/ingest.py", environment="s3://b/env.tar.gz", summary_dir="s"
    )
    arguments = runner.step(EVENTS)["HadoopJarStep"]["Args"]
    at = arguments.index("s3://b/ingest.py")
    assert arguments[at + 1 :] == EVENTS.arguments()
    submit = arguments[:at]
    assert submit[submit.index("--archives") + 1] == "s3://b/env.tar.gz#environment"
    assert "spark.pyspark.python=./environment/bin/python" in submit
    assert "spark.yarn.maxAppAttempts=1" in submit


def test_emr_serverless_runs_the_packed_environment() -> None:
    runner = EmrServerless(
        application_id="a",
        execution_role_arn="r",
        application="s3://b/ingest.py",
        environment="s3://b/env.tar.gz",
        summary_dir="s",
        conf={"spark.executor.cores": "4"},
    )
    driver = runner.job_driver(EVENTS)["sparkSubmit"]
    assert driver["entryPoint"] == "s3://b/ingest.py"
    assert driver["entryPointArguments"] == EVENTS.arguments()
    assert "--conf spark.archives=s3://b/env.tar.gz#environment" in driver["sparkSubmitParameters"]
    assert "--conf spark.executor.cores=4" in driver["sparkSubmitParameters"]


def test_a_databricks_task_calls_the_entry_point_that_raises() -> None:
    runner = Databricks(wheel="/w.whl", summary_dir="s", compute={"existing_cluster_id": "c"})
    task = runner.task(EVENTS)
    assert task["python_wheel_task"]["entry_point"] == "blizzard-ingest"
    assert arguments_of(task["python_wheel_task"]["parameters"]) == EVENTS.arguments()
    assert task["existing_cluster_id"] == "c"


def test_a_databricks_job_takes_no_options_it_would_lose() -> None:
    runner = DatabricksJob(job_id="1", summary_dir="s")
    plain = Ingest(source="a", table="b", pipeline="p")
    assert runner.job_parameters(plain) == {"source": "a", "table": "b", "pipeline": "p"}
    with pytest.raises(ValueError, match="into the definition of the existing Databricks job"):
        runner.job_parameters(EVENTS)


def test_several_targets_need_no_table() -> None:
    several = Ingest(source="a", pipeline="p", config="targets.yaml")
    assert several.arguments() == ["--source", "a", "--pipeline", "p", "--config", "targets.yaml"]
