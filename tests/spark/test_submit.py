"""The ways a run is started: spark-submit with the thin job file, and the console script without an active venv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import Driver, Finished, ids, job, run

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def plain_environment() -> dict[str, str]:
    """No venv on PATH and no PYSPARK_PYTHON: whatever python3 the machine has comes first."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "VIRTUAL_ENV"))},
        "JDK_JAVA_OPTIONS": Driver.java_options,
    }


def call(command: list[str], environment: dict[str, str]) -> Finished:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    return Finished(done.returncode, done.stdout, done.stderr)


def test_spark_submit_runs_the_job_file(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=50)
    command = [str(BIN / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    environment = plain_environment() | {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    finished = call([*command, str(ROOT / "jobs/ingest.py"), *job(tmp_path)], environment)
    assert finished.code == 0, finished.stderr
    assert finished.summary["records"] == total
    assert ids(tmp_path / "table") == list(range(total))


def test_the_console_script_works_without_activating_its_venv(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=1, records=50)
    finished = call([str(BIN / "blizzard"), "run", *job(tmp_path)], plain_environment())
    assert finished.code == 0, finished.stderr
    assert finished.summary["records"] == total
    looked = subprocess.run(
        [str(BIN / "blizzard"), "files", "--table", str(tmp_path / "table")], capture_output=True, text=True, check=True
    )
    assert "events-00000.ndjson.gz" in looked.stdout


def test_a_run_prints_progress_on_stderr_and_one_object_on_stdout(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=2, records=50)
    finished = run(tmp_path, *job(tmp_path, "--pipeline", "p", "--set", "limits.max_files=1", "--max-batches", "1"))
    assert finished.code == 0, finished.stderr
    assert len(finished.stdout.splitlines()) == 1
    summary = finished.summary
    assert (summary["pipeline"], summary["commits"], summary["backlog_files"]) == ("p", 1, 1)
    assert "batch 1: committed version 1, sequence 1: 50 records" in finished.stderr
    assert "pipeline p" in finished.stderr
