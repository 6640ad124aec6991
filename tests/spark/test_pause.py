"""A real driver is reading when another process pauses its pipeline: it ends as paused; nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import Driver, ids, job, run

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]

COMMITTERS = {
    "delta-rs": ["--committer", "delta-rs"],
    "delta-spark": ["--committer", "delta-spark", "--set", "table.sole_writer=true"],
}


def blizzard(folder: Path, *words: str) -> dict[str, Any]:
    """A command on the table, in a process of its own."""
    command = [sys.executable, "-m", "blizzard", *words, "--table", str(folder / "table"), "--json"]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": Driver.java_options}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("committer", COMMITTERS)
def test_a_driver_that_is_overtaken_by_a_pause_ends_as_paused_and_each_record_arrives_once(
    tmp_path: Path, committer: str
) -> None:
    total = write_events(str(tmp_path / "src"), files=4, records=500)
    by, marker = COMMITTERS[committer], tmp_path / "reached"
    batches = ("--set", "limits.max_files=2", *by)
    driver = Driver(tmp_path, *job(tmp_path, *batches), fault=f"commit.before=hang:{marker}@2")
    try:
        driver.wait_until(marker.exists, "the second batch was read")
        done = blizzard(tmp_path, "pause", "--reason", "a migration", *by)
        assert (done["changed"], done["sequence"]) == (True, 2)
        marker.unlink()
        overtaken = driver.wait()
    finally:
        driver.kill()
    assert (overtaken.code, overtaken.summary["status"]) == (0, "paused"), overtaken.stderr
    assert (overtaken.summary["records"], overtaken.summary["paused"]["reason"]) == (1000, "a migration")
    assert len(ids(tmp_path / "table")) == 1000
    waiting = run(tmp_path, *job(tmp_path, *batches))
    assert (waiting.code, waiting.summary["status"], waiting.summary["records"]) == (0, "paused", 0)
    assert blizzard(tmp_path, "resume", *by)["sequence"] == 3
    rest = run(tmp_path, *job(tmp_path, *batches))
    assert (rest.code, rest.summary["status"], rest.summary["records"]) == (0, "done", 1000), rest.stderr
    assert ids(tmp_path / "table") == list(range(total))


def test_a_driver_that_follows_waits_out_a_pause_from_another_process(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=1, records=50)
    quick = ("--follow", "--set", "follow.poll_s=0.2", "--set", "follow.jitter_s=0")
    driver = Driver(tmp_path, *job(tmp_path, *quick))
    try:
        driver.wait_until(lambda: len(ids(tmp_path / "table")) == 50, "the first file was in")
        blizzard(tmp_path, "pause", "--reason", "not now")
        driver.wait_until(lambda: "(not now): nothing is read" in driver.stderr, "it had seen the pause")
        write_events(str(tmp_path / "src"), files=2, records=50)
        assert blizzard(tmp_path, "resume")["sequence"] == 3
        driver.wait_until(lambda: len(ids(tmp_path / "table")) == 100, "it went on by itself")
        driver.terminate()
        finished = driver.wait()
    finally:
        driver.kill()
    assert (finished.code, finished.summary["status"], finished.summary["records"]) == (0, "stopped", 100)
    assert ids(tmp_path / "table") == list(range(100))
