"""The operators for EMR and Databricks in a real Airflow with the real providers; only the services are played."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.airflow_home import ROOT, TIMEOUT_S, environment
from tests.s3.endpoint import ACCESS_KEY, REGION, SECRET_KEY
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.airflow

DAGS = ["blizzard_databricks", "blizzard_databricks_job", "blizzard_emr_serverless", "blizzard_emr_step"]


def inside(airflow_bin: Path, home: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = environment(home) | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(
        [str(airflow_bin / "python"), *command], env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


@pytest.fixture(scope="module")
def told(airflow_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("airflow-operators")
    script = ["-m", "tests.airflow.inside.operators", str(ROOT / "jobs"), str(home / "summaries")]
    done = inside(airflow_bin, home, *script)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("dag", DAGS)
def test_one_run_at_a_time_and_the_task_waits_for_its_job(told: Any, dag: str) -> None:
    assert (told[dag]["max_active_runs"], told[dag]["catchup"], told[dag]["retries"]) == (1, False, 3)
    assert told[dag]["at_once"] == 1  # a backfill does not count the runs that are there besides
    assert told[dag]["waits"]
    assert told[dag]["summary_dir"] == "s3://lake/_blizzard/summaries"
    assert told[dag]["tells"] == ["tell_somebody"]


@pytest.mark.parametrize(
    ("name", "end", "has_summary"),
    [
        ("done", "success", True),
        ("idle", "skip", True),
        ("idle again", "success", True),
        ("fenced", "fail: blizzard: no reason was given [fenced]", True),
        ("temporary", "retry: blizzard: no reason was given [spark_job]", True),
        ("lost", "retry: blizzard: the driver ended before it could say why: there is no summary", False),
        ("silent", "fail: blizzard: the service says that the job succeeded, but there is no summary", False),
        ("stale", "retry: blizzard: the driver ended before it could say why: the summary at", False),
    ],
)
@pytest.mark.parametrize("dag", DAGS)
def test_the_task_ends_as_its_summary_says(told: Any, dag: str, name: str, end: str, has_summary: bool) -> None:
    found = told[dag]["ends"][name]
    assert [said.startswith(end) for said in found["ends"]] == [True, True], found["ends"]
    assert ("summary" in found["xcom"]) == has_summary


@pytest.mark.parametrize("dag", DAGS)
def test_each_attempt_has_a_name_and_a_summary_of_its_own(told: Any, dag: str) -> None:
    asked = [json.dumps(request) for end in told[dag]["ends"].values() for request in end["asked"]]
    assert len(set(asked)) == len(asked) == 2 * len(told[dag]["ends"])
    folder = f"done/{dag}/manual__2024-01-01T00_00_00_00_00/ingest-1-"
    assert folder in asked[0]


def test_the_services_are_asked_for_what_was_rendered(told: Any) -> None:
    step = told["blizzard_emr_step"]["ends"]["done"]["asked"][0]
    assert step["JobFlowId"] == "j-RENDERED"
    assert step["Steps"][0]["HadoopJarStep"]["Args"][:3] == ["spark-submit", "--deploy-mode", "cluster"]
    job = told["blizzard_databricks_job"]["ends"]["done"]["asked"][0]
    assert job["job_id"] == "42"
    assert job["job_parameters"]["source"] == "s3://landing/shipments"
    assert job["idempotency_token"] == job["job_parameters"]["attempt"]
    for dag in DAGS:
        asked = json.dumps(told[dag]["ends"]["done"]["asked"][0])
        assert "id BIGINT" in asked, "a first run needs the schema"
    serverless = told["blizzard_emr_serverless"]["ends"]["done"]["asked"][0]
    assert serverless["clientToken"] == serverless["jobDriver"]["sparkSubmit"]["entryPointArguments"][-3]
    submitted = told["blizzard_databricks"]["ends"]["done"]["asked"][0]
    assert len(submitted["idempotency_token"]) <= 64
    assert submitted["idempotency_token"] == submitted["tasks"][0]["python_wheel_task"]["parameters"][-3]


@pytest.mark.s3
def test_a_worker_reads_a_summary_on_s3(airflow_bin: Path, tmp_path: Path, s3_server: S3Server, bucket: Bucket) -> None:
    bucket.put_files([("summaries/a b+c.json", b'{"status":"done"}')])
    connection = {
        "conn_type": "aws",
        "login": ACCESS_KEY,
        "password": SECRET_KEY,
        "extra": {"endpoint_url": s3_server.endpoint, "region_name": REGION},
    }
    names = [bucket.uri("summaries/a b+c.json"), bucket.uri("summaries/a b+c.json", "s3a"), bucket.uri("none.json")]
    code = f"from blizzard.airflow.attempts import read; print([read(name, 'aws_default') for name in {names!r}])"
    done = inside(airflow_bin, tmp_path, "-c", code, AIRFLOW_CONN_AWS_DEFAULT=json.dumps(connection))
    read = b'{"status":"done"}'
    assert done.stdout.splitlines()[-1:] == [repr([read, read, None])], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("missing", "module", "package"),
    [
        ("airflow.providers.apache.spark.operators", "blizzard.airflow.spark", "apache-airflow-providers-apache-spark"),
        ("airflow.providers.amazon.aws.operators", "blizzard.airflow.emr", "apache-airflow-providers-amazon"),
        (
            "airflow.providers.databricks.operators",
            "blizzard.airflow.databricks",
            "apache-airflow-providers-databricks",
        ),
        ("airflow", "blizzard.airflow.dags", "'blizzard-delta[airflow]'"),
    ],
)
def test_a_worker_without_a_package_is_told_what_to_install(
    airflow_bin: Path, tmp_path: Path, missing: str, module: str, package: str
) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    last = inside(airflow_bin, tmp_path, "-c", code).stderr.splitlines()[-1]
    assert last.startswith("blizzard.airflow.requirements.MissingPackage: blizzard.airflow: ")
    assert f"pip install {package}" in last


@pytest.mark.parametrize("file", sorted(path.name for path in (ROOT / "jobs").glob("airflow_*.py")))
def test_a_worker_without_blizzard_is_told_what_to_install(airflow_bin: Path, tmp_path: Path, file: str) -> None:
    code = f"import sys, runpy; sys.modules['blizzard'] = None; runpy.run_path({os.fspath(ROOT / 'jobs' / file)!r})"
    last = inside(airflow_bin, tmp_path, "-c", code).stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "pip install --no-deps blizzard-delta" in last
