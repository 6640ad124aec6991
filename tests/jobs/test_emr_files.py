"""The files for EMR against the services' own models, which botocore carries, and against blizzard's own parser."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from blizzard.airflow import EmrServerless, EmrStep, Ingest
from blizzard.cli.parser import build_parser

FOLDER = Path(__file__).parents[2] / "jobs/emr"
STEPS = json.loads((FOLDER / "steps.json").read_text())
JOB_RUN = json.loads((FOLDER / "serverless-job-run.json").read_text())


def problems(service: str, operation: str, parameters: dict[str, Any]) -> str:
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    report = ParamValidator().validate(parameters, model.input_shape)
    return str(report.generate_report())


def with_token(job_run: dict[str, Any]) -> dict[str, Any]:
    return {"clientToken": "the command line makes one", **job_run}


def test_the_steps_are_what_emr_takes() -> None:
    assert problems("emr", "AddJobFlowSteps", {"JobFlowId": "j-1", "Steps": STEPS}) == ""


def test_the_job_run_is_what_emr_serverless_takes() -> None:
    assert problems("emr-serverless", "StartJobRun", with_token(JOB_RUN)) == ""


def test_the_models_do_find_mistakes() -> None:
    assert "Unknown parameter" in problems("emr", "AddJobFlowSteps", {"JobFlowId": "j", "Steps": [{"name": "x"}]})
    wrong = with_token(JOB_RUN) | {"jobDriver": {"sparkSubmit": {"entryPointArguments": "--source"}}}
    assert "Invalid type" in problems("emr-serverless", "StartJobRun", wrong)


@pytest.mark.parametrize("which", ["step", "job run"])
def test_the_arguments_are_those_of_blizzard_run(which: str) -> None:
    if which == "step":
        words = STEPS[0]["HadoopJarStep"]["Args"]
        arguments = words[words.index("s3://BUCKET/_blizzard/ingest.py") + 1 :]
    else:
        arguments = JOB_RUN["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    options = build_parser().parse_args(["run", *arguments])
    assert (options.source, options.table) == ("s3://BUCKET/landing/events", "s3://BUCKET/lake/events")


def confs(words: list[str]) -> dict[str, str]:
    return dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--conf")


def test_the_files_and_the_airflow_runners_ask_for_the_same_settings() -> None:
    """Two descriptions of one thing do not drift apart."""
    ingest = Ingest(source="a", table="b", pipeline="p")
    mine = EmrStep(job_flow_id="j", application="x.py", environment="e", summary_dir="s").step(ingest)
    assert confs(mine["HadoopJarStep"]["Args"]).items() <= confs(STEPS[0]["HadoopJarStep"]["Args"]).items()
    archive = confs(shlex.split(JOB_RUN["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"]))
    runner = EmrServerless(
        application_id="a",
        execution_role_arn="r",
        application="x.py",
        environment=archive["spark.archives"].removesuffix("#environment"),
        summary_dir="s",
    )
    asked = confs(shlex.split(runner.job_driver(ingest)["sparkSubmit"]["sparkSubmitParameters"]))
    assert asked.items() <= archive.items()


def test_the_role_may_write_where_the_job_writes() -> None:
    policy = json.loads((FOLDER / "role-policy.json").read_text())
    writable = [r for s in policy["Statement"] if "s3:PutObject" in s["Action"] for r in s["Resource"]]
    for written in ("lake/events/part", "lake/events_quarantine/part", "_blizzard/summaries/events.json"):
        name = f"arn:aws:s3:::BUCKET/{written}"
        assert any(re.fullmatch(re.escape(r).replace(r"\*", ".*"), name) for r in writable), written
