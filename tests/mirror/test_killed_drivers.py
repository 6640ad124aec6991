"""Real drivers with Spark: killed between commit and copy, and with a database that never answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import Driver, ids, job, run
from tests.flows.operating import silent_server
from tests.mirror.under_test import MirrorUnderTest

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]


def test_a_killed_driver_and_a_silent_database_leave_nothing_that_a_run_does_not_make_up_for(tmp_path: Path) -> None:
    records = write_events(str(tmp_path / "src"), files=4, records=1000)
    mirror = MirrorUnderTest(kind="folder", uri=str(tmp_path / "mirror"))
    words = job(tmp_path, "--pipeline", "p", "--set", "limits.max_files=1")
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *words, *mirror.words, fault=f"commit.after=hang:{marker}@2")
    driver.wait_until(marker.exists, "its second commit had landed")
    driver.wait_until(lambda: (tmp_path / "mirror").exists() and mirror.stored.newest_of_each(), "the first was copied")
    driver.kill()
    assert mirror.sequences() == [1]
    with silent_server() as address:
        silent = f"checkpoint.mirror=postgresql://fleet:Zq7-planted@{address}/d"
        done = run(tmp_path, *words, "--max-batches", "1", "--set", silent)
    assert (done.code, done.summary["sequence"]) == (0, 3)
    assert "could not be written" in done.stderr
    assert "planted" not in done.stderr + done.stdout
    done = run(tmp_path, *words, *mirror.words)
    assert (done.code, done.summary["sequence"]) == (0, 4)
    assert mirror.sequences() == [1, 2, 3, 4]
    assert ids(tmp_path / "table") == list(range(records))
