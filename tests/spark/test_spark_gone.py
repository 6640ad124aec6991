"""The JVM of a driver killed, and the driver not: one line, exit 75, and the next run goes on where the log says."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import Driver, Finished, ids, job, run

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]

SMALL_BATCHES = ("--set", "limits.max_files=1")


def jvm_of(driver: Driver) -> int | None:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == driver.process.pid and (folder / "comm").read_text().strip() == "java":
                return int(folder.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return None


def kill_jvm(driver: Driver) -> None:
    jvm = jvm_of(driver)
    assert jvm is not None
    os.kill(jvm, signal.SIGKILL)


def check_end(finished: Finished, kind: str = "spark_gone") -> None:
    assert finished.code == 75, finished.stderr
    assert finished.summary["error_kind"] == kind
    assert finished.stderr.splitlines()[-1].endswith(f"[{kind}]")
    assert "Traceback" not in finished.stderr
    assert "Exception" not in finished.stderr


@pytest.mark.parametrize("follows", [(), ("--follow",)])
def test_killed_in_a_batch(tmp_path: Path, follows: tuple[str, ...]) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=10)
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *job(tmp_path, *follows), fault=f"task.before_parquet_close=hang:{marker}")
    driver.wait_until(marker.exists, "a task was under way")
    kill_jvm(driver)
    check_end(driver.wait())
    assert ids(tmp_path / "table") == []
    if not follows:
        assert run(tmp_path, *job(tmp_path)).code == 0
        assert ids(tmp_path / "table") == list(range(total))


def test_killed_while_a_batch_commits_and_the_next_is_read(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=4, records=10)
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *job(tmp_path, *SMALL_BATCHES), fault=f"commit.during=hang:{marker}@2")
    driver.wait_until(marker.exists, "the second batch was about to be committed")
    kill_jvm(driver)
    time.sleep(1)  # the driver may notice before the commit is made, or after it
    marker.unlink()
    check_end(driver.wait())
    assert ids(tmp_path / "table")[:20] == list(range(20))  # a commit needs no JVM


def test_killed_while_a_run_that_follows_waits(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=1, records=10)
    soon = ("--follow", "--set", "follow.poll_s=0.2", "--set", "follow.jitter_s=0")
    driver = Driver(tmp_path, *job(tmp_path, *soon))
    driver.wait_until(lambda: "committed version 1" in driver.stderr, "it had committed")
    kill_jvm(driver)
    write_events(str(tmp_path / "src"), files=1, records=10, first_file=1)
    check_end(driver.wait())


def test_killed_while_it_starts(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=1, records=10)
    driver = Driver(tmp_path, *job(tmp_path))
    driver.wait_until(lambda: jvm_of(driver) is not None, "a JVM was starting")
    kill_jvm(driver)
    check_end(driver.wait(), "spark_session")
    assert not (tmp_path / "table").exists()
