"""The files for EMR against the services' own models, which botocore carries, and against blizzard's own parser."""

from __future__ import annotations

import ast
import fnmatch
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
from blizzard.spark.cores import slots_to_come
from tests.jobs.examples import emr_arguments

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


@pytest.mark.parametrize("name", ["steps.json", "serverless-job-run.json"])
def test_the_arguments_are_those_of_blizzard_run(name: str) -> None:
    options = build_parser().parse_args(["run", *emr_arguments()[name]])
    assert options.source.startswith("s3://BUCKET/landing/")
    assert options.table.startswith("s3://BUCKET/lake/")
    assert options.schema, "a first run makes the table"


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


def of_airflow(name: str) -> dict[str, str]:
    """The Spark settings of an example DAG."""
    tree = ast.parse((FOLDER.parent / name).read_text())
    found = [
        ast.literal_eval(word.value) for word in ast.walk(tree) if isinstance(word, ast.keyword) and word.arg == "conf"
    ]
    return dict(found[0]) if found else {}


@pytest.mark.parametrize(
    "settings",
    [
        confs(STEPS[0]["HadoopJarStep"]["Args"]),
        confs(shlex.split(JOB_RUN["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"])),
        of_airflow("airflow_emr_step.py"),
        of_airflow("airflow_emr_serverless.py"),
    ],
    ids=["steps", "job run", "DAG of steps", "DAG of job runs"],
)
def test_a_batch_is_cut_for_more_than_two_tasks(settings: dict[str, str]) -> None:
    """EMR allocates executors dynamically unless told otherwise: without a maximum nobody knows how many may come."""
    assert slots_to_come({"spark.dynamicAllocation.enabled": "true"} | settings) == 16
    assert slots_to_come({"spark.dynamicAllocation.enabled": "false"} | settings) == 16


READ, WRITE = {"s3:GetObject"}, {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}
LIST = "s3:ListBucket"


def needed(file: str, *more: str) -> set[tuple[str, str]]:
    """Which action on which resource a job file needs, by what each of its addresses is for."""
    options = build_parser().parse_args(["run", *emr_arguments()[file], *more])
    keys = dict(assignment.split("=", 1) for assignment in options.assignments)
    uses = {
        f"{options.source}/2026/a.ndjson.gz": READ,
        options.summary: WRITE,
        f"{options.table}/_delta_log/00000000000000000001.json": WRITE | {"s3:DeleteObject"},
        f"{options.table}_quarantine/_delta_log/00000000000000000001.json": WRITE | {"s3:DeleteObject"},
    }
    if keys.get("after_ingest.action", "none") != "none":
        uses[f"{options.source}/2026/a.ndjson.gz"] = READ | {"s3:DeleteObject"}
    if "after_ingest.archive_path" in keys:
        uses[f"{keys['after_ingest.archive_path']}/2026/a.ndjson.gz"] = WRITE
    known = {options.source, options.table, options.summary}
    for uri in re.findall(r"s3://[^\s\"#]+", (FOLDER / file).read_text()):
        if uri.endswith("/logs"):
            uses[f"{uri}/applications/1/driver.gz"] = WRITE
        elif uri not in known:
            uses[uri] = READ  # the application and the archive
    found = {
        (action, f"arn:aws:s3:::{uri.removeprefix('s3://')}") for uri, actions in uses.items() for action in actions
    }
    buckets = {uri.removeprefix("s3://").split("/")[0] for uri in uses}
    return found | {(LIST, f"arn:aws:s3:::{bucket}") for bucket in buckets}


def refused(wanted: set[tuple[str, str]], *policies: str) -> set[tuple[str, str]]:
    statements = [s for name in policies for s in json.loads((FOLDER / name).read_text())["Statement"]]
    allowed = [(action, resource) for s in statements for action in s["Action"] for resource in s["Resource"]]
    return {
        (action, name)
        for action, name in wanted
        if not any(action == given and fnmatch.fnmatchcase(name, resource) for given, resource in allowed)
    }


@pytest.mark.parametrize("file", ["steps.json", "serverless-job-run.json"])
def test_the_role_may_do_what_the_job_does(file: str) -> None:
    assert refused(needed(file), "role-policy.json") == set()


ARCHIVE = ("--set", "after_ingest.action=archive", "--set", "after_ingest.archive_path=s3://BUCKET/archive/x")


@pytest.mark.parametrize("more", [("--set", "after_ingest.action=delete"), ARCHIVE], ids=["delete", "archive"])
@pytest.mark.parametrize("file", ["steps.json", "serverless-job-run.json"])
def test_taking_source_files_away_needs_the_second_policy(file: str, more: tuple[str, ...]) -> None:
    missing = refused(needed(file, *more), "role-policy.json")
    assert "s3:DeleteObject" in {action for action, name in missing if "/landing/" in name}
    assert refused(needed(file, *more), "role-policy.json", "role-policy-after-ingest.json") == set()


def test_the_role_may_do_no_more_than_the_jobs_do() -> None:
    """Nobody is given a right on a place that no job file names."""
    wanted = needed("steps.json") | needed("serverless-job-run.json")
    for statement in json.loads((FOLDER / "role-policy.json").read_text())["Statement"]:
        for action in statement["Action"]:
            for resource in statement["Resource"]:
                used = any(action == a and fnmatch.fnmatchcase(name, resource) for a, name in wanted)
                assert used, (action, resource)
