"""The DAG in a real Airflow, with a real spark-submit: what becomes of the task when a run ends in each of its ways."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from tests.airflow.airflow_home import ROOT, TIMEOUT_S, AirflowHome
from tests.drivers import ids, job, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.process]

EXAMPLE = ROOT / "jobs/airflow_spark_submit.py"
FAULTY = Path(__file__).parent / "dags/faulty.py"


def test_a_run_succeeds_with_its_summary_in_xcom_and_the_next_is_skipped(airflow: AirflowHome, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=50)
    first = airflow.run(EXAMPLE, "blizzard_spark_submit")
    assert (first.state, first.tries) == ("success", 1), first.log
    assert first.summary is not None
    assert (first.summary["status"], first.summary["records"]) == ("done", total)
    assert ids(tmp_path / "table") == list(range(total))
    second = airflow.run(EXAMPLE, "blizzard_spark_submit")
    assert (second.state, second.tries) == ("skipped", 1), second.log
    assert second.summary is not None
    assert second.summary["status"] == "idle"


def test_a_run_that_failed_is_told_to_somebody_and_not_retried(airflow: AirflowHome, tmp_path: Path) -> None:
    failed = airflow.run(EXAMPLE, "blizzard_spark_submit", EVENTS_SOURCE=str(tmp_path / "nowhere"))
    assert (failed.state, failed.tries) == ("failed", 1), failed.log
    assert failed.summary is not None
    assert failed.summary["error_kind"] == "source_not_found"
    (told,) = [line for line in failed.log.splitlines() if "tell somebody: blizzard_spark_submit: " in line]
    assert "a retry would not help" in told


def test_a_fenced_run_fails_and_is_not_retried(airflow: AirflowHome, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=50)
    marker = tmp_path / "reached"
    slow = airflow.start(FAULTY, "faulty", TEST_FAULT=f"commit.during=hang:{marker}")
    deadline = time.monotonic() + TIMEOUT_S
    while not marker.exists():
        assert time.monotonic() < deadline, "the task's driver never came to its commit"
        assert slow.poll() is None, slow.communicate()[0]
        time.sleep(0.1)
    overtaking = run(tmp_path, *job(tmp_path, "--pipeline", "events"))
    assert overtaking.summary["records"] == total, overtaking.stderr
    marker.unlink()  # now it goes on
    fenced = airflow.wait(slow)
    assert (fenced.state, fenced.tries) == ("failed", 1), fenced.log
    assert fenced.summary is not None
    assert (fenced.summary["exit_code"], fenced.summary["error_kind"]) == (4, "fenced")
    assert "a retry would not help" in fenced.log
    assert ids(tmp_path / "table") == list(range(total))


def test_a_killed_driver_is_retried_and_every_record_is_there_once(airflow: AirflowHome, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=6, records=50)
    retried = airflow.run(FAULTY, "faulty", TEST_FAULT="commit.after=kill@2")
    assert "killed by signal 9" in retried.log, retried.log
    assert (retried.state, retried.tries) == ("success", 2), retried.log
    assert retried.summary is not None
    assert retried.summary["recovery"] == "log"
    assert 0 < retried.summary["records"] < total, "the first try committed nothing, or everything"
    assert ids(tmp_path / "table") == list(range(total))
