"""Real runs that follow: new files are taken up, and what is asked through the API or by signals is done."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import Driver, ids, job, run

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]
QUICK = ("--follow", "--set", "follow.poll_s=0.2", "--set", "follow.jitter_s=0")


class Api:
    """The API of a driver that says on stderr where it is."""

    def __init__(self, driver: Driver) -> None:
        driver.wait_until(lambda: "the API is at" in driver.stderr, "the API was up")
        found = re.search(r"the API is at (http://[\d.:]+)", driver.stderr)
        assert found is not None
        self._url, self._driver = found[1], driver

    def ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(self._url + path, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            body = answer.read().decode()
            assert answer.status == (202 if method == "POST" else 200)
            return json.loads(body) if answer.headers["Content-Type"] == "application/json" else body

    def wait_for(self, what: str, value: Any) -> None:
        def is_so() -> bool:
            found = self.ask("/status")
            return bool(value == (found["total"][what] if what in found["total"] else found[what]))

        self._driver.wait_until(is_so, f"{what} was {value}")


def test_a_run_that_follows_takes_up_new_files_and_is_steered_through_its_api(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=2, records=50)
    driver = Driver(tmp_path, *job(tmp_path, *QUICK, "--pipeline", "p", "--api-addr", "127.0.0.1:0"))
    try:
        api = Api(driver)
        api.wait_for("records", 100)
        assert api.ask("/health") == {"healthy": True, "state": "running", "error": None}
        assert api.ask("/ready") == {"ready": True}
        assert 'blizzard_batch_commit_total{pipeline="p"} 1.0' in api.ask("/metrics")
        assert [row["sequence"] for row in api.ask("/checkpoints")["checkpoints"]] == [1]
        assert api.ask("/pause", "POST")["state"] == "pausing"
        api.wait_for("state", "paused")
        cycles = api.ask("/status")["cycles"]
        write_events(str(tmp_path / "src"), files=3, records=50)
        driver.wait_until(lambda: api.ask("/status")["cycles"] > cycles + 1, "it had looked again, twice")
        assert ids(tmp_path / "table") == list(range(100))
        assert api.ask("/resume", "POST")["state"] == "resuming"
        api.wait_for("records", 150)
        assert api.ask("/checkpoint", "POST")["sequence"] == 5
        assert api.ask("/stop", "POST")["state"] == "stopping"
        finished = driver.wait()
    finally:
        driver.kill()
    assert finished.code == 0, finished.stderr
    assert (finished.summary["status"], finished.summary["records"], finished.summary["commits"]) == ("stopped", 150, 2)
    assert ids(tmp_path / "table") == list(range(150))


def test_asked_for_a_checkpoint_a_long_batch_is_committed_as_far_as_it_has_read(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=40, records=100)
    marker = tmp_path / "reading"
    manual = ("--set", "checkpoint.interval_s=0", "--set", "spark.slots=1")
    driver = Driver(
        tmp_path,
        *job(tmp_path, *QUICK, *manual),
        fault=f"task.block=hang:{marker}",
        env={"BLIZZARD_HANG_S": "2"},
    )
    try:
        driver.wait_until(marker.exists, "a task was reading")
        driver.process.send_signal(signal.SIGUSR2)
        driver.wait_until(lambda: ids(tmp_path / "table"), "something was committed")
        assert 0 < len(ids(tmp_path / "table")) < total
        driver.terminate()
        finished = driver.wait()
    finally:
        driver.kill()
    assert finished.code == 0, finished.stderr
    assert finished.summary["status"] == "stopped"
    assert not list((tmp_path / "table").glob("_blizzard-end-*"))
    done = run(tmp_path, *job(tmp_path))
    assert done.code == 0, done.stderr
    assert ids(tmp_path / "table") == list(range(total))
