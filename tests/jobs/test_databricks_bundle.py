"""The asset bundle against the published models of a job, and its parameters against blizzard's own parser."""

from __future__ import annotations

import copy
import fnmatch
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job

from blizzard import __version__
from blizzard.airflow import DatabricksJob, Ingest
from blizzard.cli.parser import build_parser
from blizzard.cli.wheel_task import arguments_of
from blizzard.config.load import load_config

FILE = Path(__file__).parents[2] / "jobs/databricks/databricks.yml"
BUNDLE: dict[str, Any] = yaml.safe_load(FILE.read_text())
JOB: dict[str, Any] = BUNDLE["resources"]["jobs"]["ingest"]
TASK: dict[str, Any] = JOB["tasks"][0]


def test_the_job_is_what_the_service_takes() -> None:
    job = Job.from_dict(copy.deepcopy(JOB))  # type: ignore[arg-type]
    # One run at a time, and a run that comes due meanwhile is left out.
    assert (job.max_concurrent_runs, JOB["queue"]) == (1, {"enabled": False})
    assert job.as_dict()["tasks"][0]["python_wheel_task"]["entry_point"] == "blizzard-ingest"  # type: ignore[index]


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (("tasks", 0), {"python_wheel_taks": {}}),
        (("tasks", 0, "python_wheel_task"), {"entrypoint": "x"}),
        (("job_clusters", 0, "new_cluster"), {"data_security_mode": "DEDICATED_TO_ME"}),
        ((), {"max_concurrent_run": 1}),
    ],
)
def test_the_models_do_find_mistakes(where: tuple[Any, ...], wrong: dict[str, Any]) -> None:
    job = copy.deepcopy(JOB)
    at: Any = job
    for step in where:
        at = at[step]
    at.update(wrong)
    with pytest.raises(ValueError):
        Job.from_dict(job)  # type: ignore[arg-type]


def test_the_bundle_has_only_what_a_bundle_may_have() -> None:
    known = {"artifacts", "bundle", "include", "permissions", "resources", "run_as", "sync", "targets", "variables"}
    assert set(BUNDLE) <= known | {"workspace", "presets", "python", "experimental", "scripts"}
    used = set(re.findall(r"\$\{var\.(\w+)}", FILE.read_text()))
    assert used == set(BUNDLE["variables"])
    cluster_keys = {cluster["job_cluster_key"] for cluster in JOB["job_clusters"]}
    assert {task["job_cluster_key"] for task in JOB["tasks"]} == cluster_keys


@pytest.mark.parametrize("page", [FILE, FILE.parents[2] / "docs/deploy-databricks.md"], ids=["bundle", "docs"])
def test_what_has_no_default_is_given_to_every_command(page: Path) -> None:
    """`bundle run` asks for it as `bundle deploy` does, and knows nothing of what that one was given by --var."""
    required = {name for name, variable in BUNDLE["variables"].items() if "default" not in variable}
    assert required == {"source", "table", "instance_profile", "notify"}
    text = page.read_text()
    assert set(re.findall(r"\bBUNDLE_VAR_(\w+)=", text)) == {*required, "schema"}
    commands = re.findall(r"^[# ]*databricks bundle .*", text, re.M)
    assert len(commands) == 2
    assert not any("--var" in command for command in commands)


def test_airflow_may_have_the_schedule_and_the_retries_instead() -> None:
    """A deployment for Airflow sets two variables. Both are used, and have the values for a job on its own."""
    assert JOB["schedule"]["pause_status"] == "${var.pause_status}"
    assert TASK["max_retries"] == "${var.max_retries}"
    defaults = {name: BUNDLE["variables"][name]["default"] for name in ("pause_status", "max_retries")}
    assert defaults == {"pause_status": "UNPAUSED", "max_retries": 2}
    for given in ({"pause_status": "PAUSED", "max_retries": 0}, defaults):
        job: Any = copy.deepcopy(JOB)
        job["schedule"]["pause_status"], job["tasks"][0]["max_retries"] = given["pause_status"], given["max_retries"]
        Job.from_dict(job)


def test_only_the_deployment_for_production_runs_by_itself() -> None:
    """`mode: development` pauses only schedules that say nothing themselves. Two schedules are two drivers."""
    running = [
        name
        for name, target in BUNDLE["targets"].items()
        if target.get("variables", {}).get("pause_status", "UNPAUSED") == "UNPAUSED"
    ]
    assert running == ["prod"]


def argv(**given: str) -> list[str]:
    """As the service makes it: job parameters put in, named parameters as --key=value."""
    values = {p["name"]: p["default"] for p in JOB["parameters"]} | given
    named = TASK["python_wheel_task"]["named_parameters"]
    filled = {k: re.sub(r"{{job\.parameters\.(\w+)}}", lambda m: values[m.group(1)], v) for k, v in named.items()}
    return [f"--{key}={value}" for key, value in filled.items()]


def test_what_the_service_passes_on_is_what_blizzard_takes() -> None:
    options = build_parser().parse_args(["run", *arguments_of(argv(source="s3://a/b", table="s3://c/d", schema=""))])
    assert (options.source, options.table, options.pipeline) == ("s3://a/b", "s3://c/d", "${var.pipeline}")
    assert (options.schema, options.config, options.attempt, options.summary) == (None, None, None, None)
    assert load_config(file=None, assignments=tuple(options.assignments)).limits.max_files == 1000
    given = argv(attempt="a1", summary="s3://e/f.json", schema="id BIGINT, ts TIMESTAMP")
    options = build_parser().parse_args(["run", *arguments_of(given)])
    assert (options.attempt, options.summary, options.schema) == ("a1", "s3://e/f.json", "id BIGINT, ts TIMESTAMP")


def test_airflow_gives_only_parameters_that_the_job_has() -> None:
    ingest = Ingest(source="a", table="b", pipeline="p", schema="id BIGINT", config="c")
    given = DatabricksJob(job_id="1", summary_dir="s").job_parameters(ingest)
    assert {*given, "attempt", "summary"} == {p["name"] for p in JOB["parameters"]}


def test_the_wheel_and_its_entry_point_are_what_make_dist_builds() -> None:
    assert TASK["python_wheel_task"]["package_name"] == "blizzard-delta"
    (entry,) = entry_points(group="console_scripts", name=TASK["python_wheel_task"]["entry_point"])
    assert entry.dist is not None
    assert entry.dist.name == "blizzard-delta"
    (library,) = TASK["libraries"]
    for tag in ("cp310-abi3-linux_x86_64", "py3-none-any"):
        assert fnmatch.fnmatch(f"../../dist/blizzard_delta-{__version__}-{tag}.whl", library["whl"])
