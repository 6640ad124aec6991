"""Real drivers killed with SIGKILL: at named points, at random moments, and two at once. No record is missing or
doubled after any of it."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.drivers import Driver, ids, job, run
from tests.ingesting import ingest
from tests.source.framed import framed

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]

SMALL_BATCHES = ("--set", "limits.max_records=3000")


@pytest.fixture
def source(tmp_path: Path) -> int:
    """Six files of 1,500 events; returns how many ids there are."""
    return write_events(str(tmp_path / "src"), files=6, records=1500)


@pytest.mark.parametrize(
    ("point", "landed"),
    [
        ("task.before_parquet_close", False),
        ("commit.before", False),
        ("commit.during", False),
        ("commit.answer", True),
        ("commit.after", True),
    ],
)
def test_a_driver_killed_at_a_named_point_loses_and_doubles_nothing(
    spark: Any, tmp_path: Path, source: int, point: str, landed: bool
) -> None:
    marker = tmp_path / "reached"
    # In a worker each task has its own count of visits, in the driver the second batch is the second visit.
    nth = "" if point.startswith("task.") else "@2"
    driver = Driver(tmp_path, *job(tmp_path, *SMALL_BATCHES), fault=f"{point}=hang:{marker}{nth}")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    before = ids(tmp_path / "table")
    expected = 0 if point.startswith("task.") else 6000 if landed else 3000
    assert len(before) == len(set(before)) == expected
    summary = ingest(spark, tmp_path, schema=EVENT_DDL)
    assert summary.recovery == ("fresh" if expected == 0 else "log")
    assert summary.records == source - expected
    assert ids(tmp_path / "table") == list(range(source))


@pytest.mark.parametrize("point", ["commit.during", "commit.answer", "quarantine.before", "quarantine.after"])
def test_a_driver_killed_around_the_quarantine_keeps_each_bad_record_once(
    spark: Any, tmp_path: Path, source: int, point: str
) -> None:
    for path in sorted((tmp_path / "src").iterdir()):
        bad = f'{{"id":"{path.name}"}}\n'.encode()
        path.write_bytes(path.read_bytes() + (gzip.compress(bad) if path.suffix == ".gz" else bad))
    marker = tmp_path / "reached"
    batches = ("--set", "limits.max_files=2")
    driver = Driver(tmp_path, *job(tmp_path, *batches), fault=f"{point}=hang:{marker}@2")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    summary = ingest(spark, tmp_path, schema=EVENT_DDL)
    assert summary.recovery == "log"
    assert ids(tmp_path / "table") == list(range(source))
    quarantined = DeltaTable(str(tmp_path / "table_quarantine")).to_pyarrow_table().to_pylist()
    assert sorted(row["source_file"] for row in quarantined) == sorted(os.listdir(tmp_path / "src"))


# Every other point: tests/quarantine/test_drop_oldest_interrupted.py, without a process of its own.
@pytest.mark.parametrize("point", ["commit.answer", "quarantine.copied"])
def test_a_driver_killed_while_old_records_leave_the_quarantine_leaves_the_newest_that_fit(
    spark: Any, tmp_path: Path, source: int, point: str
) -> None:
    for path in sorted((tmp_path / "src").iterdir()):
        bad = f'{{"id":"{path.name}"}}\n'.encode()
        path.write_bytes(path.read_bytes() + (gzip.compress(bad) if path.suffix == ".gz" else bad))
    room = {"quarantine.max_records": 3, "quarantine.overflow": "drop_oldest", "limits.max_files": 2}
    settings = [word for name, value in room.items() for word in ("--set", f"{name}={value}")]
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *job(tmp_path, *settings), fault=f"{point}=hang:{marker}@2")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    summary = ingest(spark, tmp_path, schema=EVENT_DDL, options=room)
    assert summary.recovery == "log"
    assert ids(tmp_path / "table") == list(range(source))
    quarantined = DeltaTable(str(tmp_path / "table_quarantine")).to_pyarrow_table().to_pylist()
    assert sorted(row["source_file"] for row in quarantined) == sorted(os.listdir(tmp_path / "src"))[-2:]
    again = run(tmp_path, *job(tmp_path, *settings))
    assert again.summary["status"] == "idle"


@pytest.mark.parametrize(
    ("shape", "point", "landed"),
    [
        ("array in lines", "commit.answer", True),
        ("pretty", "commit.during", False),
        ("CloudTrail", "commit.after", True),
    ],
)
def test_a_driver_killed_in_the_middle_of_framed_files_loses_and_doubles_nothing(
    spark: Any, tmp_path: Path, source: int, shape: str, point: str, landed: bool
) -> None:
    for path in sorted((tmp_path / "src").iterdir()):
        content = path.read_bytes()
        is_gzip = path.suffix == ".gz"
        events = [json.loads(line) for line in (gzip.decompress(content) if is_gzip else content).splitlines()]
        path.write_bytes(gzip.compress(framed(shape, events)) if is_gzip else framed(shape, events))
    marker = tmp_path / "reached"
    batches = ("--set", "limits.max_records=2000")  # a batch ends in the middle of files
    driver = Driver(tmp_path, *job(tmp_path, *batches), fault=f"{point}=hang:{marker}@2")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    before = ids(tmp_path / "table")
    expected = 4000 if landed else 2000
    assert len(before) == len(set(before)) == expected
    summary = ingest(spark, tmp_path, schema=EVENT_DDL)
    assert summary.recovery == "log"
    assert (summary.records, summary.bad_records) == (source - expected, 0)
    assert ids(tmp_path / "table") == list(range(source))


@pytest.mark.parametrize(("point", "landed"), [("commit.during", False), ("commit.answer", True)])
def test_a_driver_killed_with_a_transform_loses_and_doubles_nothing(
    spark: Any, tmp_path: Path, source: int, point: str, landed: bool
) -> None:
    """Every third record is filtered. A batch ends in the middle of files, so the next one cuts blocks elsewhere."""
    sql = "SELECT * REPLACE (id + 1000000 AS id) FROM records WHERE id % 3 <> 0"
    transform = ("--set", f"transform.sql={sql}", "--set", "limits.max_records=2000")
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *job(tmp_path, *transform), fault=f"{point}=hang:{marker}@2")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    kept = [i + 1_000_000 for i in range(source) if i % 3]
    before = ids(tmp_path / "table")
    assert len(before) == len(set(before))
    assert set(before) < set(kept)
    summary = ingest(spark, tmp_path, schema=EVENT_DDL, options={"transform.sql": sql})
    assert summary.recovery == "log"
    read = 4000 if landed else 2000
    assert summary.records + summary.filtered_records == source - read
    assert (summary.records, summary.bad_records) == (len(kept) - len(before), 0)
    assert ids(tmp_path / "table") == kept


def test_drivers_killed_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=10, records=4000)
    rng = random.Random(20240301)
    batches = ("--set", "limits.max_records=1000")  # so many that no driver gets through before it is killed
    kills, progress = 0, []
    for _ in range(3):
        driver = Driver(tmp_path, *job(tmp_path, *batches))
        log = tmp_path / "table" / "_delta_log"
        commits = len(list(log.glob("*.json"))) if log.exists() else 0
        # Let it come to life and commit once, then strike anywhere in the batches that follow.
        driver.wait_until(lambda n=commits, log=log: log.exists() and len(list(log.glob("*.json"))) > n, "a commit")
        time.sleep(rng.uniform(0, 1.5))
        if driver.process.poll() is not None:
            break
        driver.kill()
        kills += 1
        found = ids(tmp_path / "table")
        assert len(found) == len(set(found))
        progress.append(len(found))
        if len(found) == total:
            break
    assert kills >= 2, "the source was drained before anything could be killed"
    assert progress == sorted(progress)
    finished = run(tmp_path, *job(tmp_path))
    assert finished.code == 0, finished.stderr
    assert ids(tmp_path / "table") == list(range(total))


def test_the_second_of_two_drivers_is_fenced(spark: Any, tmp_path: Path, source: int) -> None:
    marker = tmp_path / "reached"
    # The first driver has read its batch and is about to commit; the second overtakes it.
    slow = Driver(tmp_path, *job(tmp_path), fault=f"commit.during=hang:{marker}@1")
    slow.wait_until(marker.exists, "it was about to commit")
    fast = ingest(spark, tmp_path, schema=EVENT_DDL)
    assert fast.records == source
    assert slow.process.poll() is None, "the slow driver was not slow enough"
    marker.unlink()  # now it goes on
    finished = slow.wait()
    assert finished.code == 4, finished.stderr
    assert finished.summary["error_kind"] == "fenced"
    assert ids(tmp_path / "table") == list(range(source))
    again = run(tmp_path, *job(tmp_path))
    assert again.summary["status"] == "idle"


def test_two_drivers_racing_from_the_start_commit_every_record_once(spark: Any, tmp_path: Path, source: int) -> None:
    drivers = [Driver(tmp_path, *job(tmp_path, *SMALL_BATCHES)) for _ in range(2)]
    codes = sorted(d.wait().code for d in drivers)
    assert codes in ([0, 4], [0, 0])  # 0, 0: one of them found everything done
    ingest(spark, tmp_path, schema=EVENT_DDL)
    assert ids(tmp_path / "table") == list(range(source))


def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(tmp_path: Path, source: int) -> None:
    finished = run(tmp_path, *job(tmp_path, *SMALL_BATCHES), fault="commit.answer=raise@2")
    assert finished.code == 0, finished.stderr
    assert finished.summary["commits"] == 3
    assert finished.summary["records"] == source
    assert ids(tmp_path / "table") == list(range(source))


def test_a_commit_that_never_leaves_is_tried_again_and_then_given_up_as_temporary(
    spark: Any, tmp_path: Path, source: int
) -> None:
    finished = run(tmp_path, *job(tmp_path), fault="commit.during=raise")
    assert finished.code == 75, finished.stderr
    assert finished.summary["error_kind"] == "commit_failed"
    assert "attempt 2/8" in finished.stderr
    assert ids(tmp_path / "table") == []
    assert ingest(spark, tmp_path, schema=EVENT_DDL).records == source


def test_a_first_sigterm_lets_the_batch_end_and_commits_it(spark: Any, tmp_path: Path, source: int) -> None:
    held = tmp_path / "held"
    held.mkdir()
    driver = Driver(tmp_path, *job(tmp_path, *SMALL_BATCHES), fault=f"task.before_parquet_close=hold:{held}")
    driver.wait_until(lambda: any(held.iterdir()), "a task was under way")
    driver.terminate()
    driver.wait_for("stopping: ")
    (held / "go").touch()
    finished = driver.wait()
    assert finished.code == 0, finished.stderr
    assert finished.summary["status"] == "stopped"
    assert finished.summary["commits"] == 1
    assert finished.summary["backlog_files"] > 0
    assert len(ids(tmp_path / "table")) == 3000
    ingest(spark, tmp_path, schema=EVENT_DDL)
    assert ids(tmp_path / "table") == list(range(source))


@pytest.mark.parametrize("how", ["second signal", "grace over"])
def test_a_second_signal_or_the_end_of_the_grace_discards_the_batch(
    spark: Any, tmp_path: Path, source: int, how: str
) -> None:
    marker = tmp_path / "reached"
    driver = Driver(
        tmp_path,
        *job(tmp_path, "--set", f"stop_grace_s={1 if how == 'grace over' else 60}"),
        fault=f"task.before_parquet_close=hang:{marker}",
    )
    driver.wait_until(marker.exists, "a task was under way")
    driver.terminate()
    if how == "second signal":
        driver.wait_for("stopping: ")  # two signals at once would be one
        driver.terminate()
    finished = driver.wait()
    assert finished.code == 75, finished.stderr
    assert finished.summary["error_kind"] == "interrupted"
    assert ids(tmp_path / "table") == []
    assert ingest(spark, tmp_path, schema=EVENT_DDL).records == source
