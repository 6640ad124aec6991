"""Real drivers with several targets, killed with SIGKILL between the commits of two of them, around each commit and the
settling of each quarantine, and at random moments. Each record is in each table once.

BLIZZARD_KILLS=100 kills a hundred drivers; pytest --junitxml=FILE keeps the numbers.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from tests.drivers import Driver, run
from tests.flows.targets import Targets
from tests.ingesting import DDL

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]

KILLS = int(os.environ.get("BLIZZARD_KILLS", "4"))
SEED = int(os.environ.get("BLIZZARD_SEED", "1"))
# The point, and its how-manieth visit in a run whose first batch is for all targets. With two of them the first three
# are after the commit of the one and before that of the other.
BETWEEN = (("commit.after", 1), ("commit.before", 2), ("commit.during", 2))
AROUND = (
    *(("quarantine.before", 1), ("quarantine.after", 2), ("commit.answer", 1), ("commit.answer", 2)),
    *(("commit.before", 1), ("quarantine.before", 2), ("commit.during", 1), ("quarantine.after", 1)),
    *(("commit.after", 2), ("commit.before", 3), ("commit.answer", 3), ("commit.during", 3)),
)
NARROW = {"ddl": "id BIGINT", "evolution": "ignore"}


class Killing:
    """A pipeline whose drivers are killed. There is always something new to read, with a bad record in each file."""

    def __init__(self, folder: Path, own: dict[str, dict[str, Any]]) -> None:
        limits = {"max_records": 60, "max_files": 3}
        self.targets = Targets(folder, own, {"limits": limits, "bad_records": {"first_batch_max_ratio": 1.0}})
        self.folder, self.files, self.records = folder, 0, 0
        self.met = Counter[str]()
        self.rng = random.Random(SEED)

    def add_files(self) -> None:
        for _ in range(3):
            ids = range(self.records, self.records + 30)
            self.targets.put(f"{self.files:05d}.ndjson", ids, bad_ids=[ids[7]])
            self.files, self.records = self.files + 1, self.records + 30

    @property
    def sequences(self) -> dict[str, int]:
        return {name: self.targets.sequence(name) for name in self.targets.own}

    def kill_at(self, point: str, nth: int) -> list[int]:
        """How many commits each target has made more, in order."""
        self.add_files()
        before = self.sequences
        killed = Driver(self.folder, *self.targets.words(), fault=f"{point}=kill@{nth}").wait()
        assert killed.code == -9, killed.stderr
        return self._after(before)

    def kill_in_a_moment(self) -> list[int]:
        """After the first commit to any table, somewhere in what follows."""
        self.add_files()
        before = self.sequences
        driver = Driver(self.folder, *self.targets.words())
        driver.wait_until(lambda: self.sequences != before, "a commit")
        time.sleep(self.rng.uniform(0, 0.8))
        driver.kill()
        return self._after(before)

    def _after(self, before: dict[str, int]) -> list[int]:
        self.targets.check_none_twice()
        moved = sorted(sequence - before[name] for name, sequence in self.sequences.items())
        self.met["apart" if len(set(moved)) > 1 else "alike"] += 1
        return moved

    def finish(self, capsys: pytest.CaptureFixture[str], *more: str) -> None:
        """A run to the end, and what it must have led to."""
        finished = run(self.folder, *self.targets.words(), *more)
        assert finished.code == 0, finished.stderr
        bad_ids = range(7, self.records, 30)
        self.targets.check_each_once(set(range(self.records)) - set(bad_ids), bad_ids)
        capsys.readouterr()
        assert main(["audit", *self.targets.words("--json")]) == 0
        found = json.loads(capsys.readouterr().out)["targets"]
        balance = {"records": self.records, "rows": self.records - self.files, "quarantined": self.files}
        for name in self.targets.own:
            assert (found[name]["ok"], found[name]["ingested"]) == (True, self.files)
            assert found[name]["balance"] == balance | {"dropped": 0, "unaccounted": 0}


def test_drivers_killed_between_and_around_the_commits_of_two_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    killing = Killing(tmp_path, {"one": {}, "two": {"schema": NARROW}})
    for number in range(KILLS):
        if number % 2 == 0:
            point, nth = BETWEEN[number // 2 % len(BETWEEN)]
            assert killing.kill_at(point, nth) == [0, 1], (point, nth)
        elif number % 8 == 7:
            killing.kill_in_a_moment()
        else:
            killing.kill_at(*AROUND[number // 2 % len(AROUND)])
    # A killed run leaves files to read: after a hundred they are more than such small batches read in time.
    killing.finish(capsys, "--set", "limits.max_files=1000", "--set", "limits.max_records=100000")
    record_property("killed", dict(killing.met))


def test_drivers_killed_between_the_commits_of_three_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them is optional, and one has a quarantine that it shares with the first."""
    shared = {"quarantine": {"path": str(tmp_path / "bad")}}
    own: dict[str, dict[str, Any]] = {
        "one": shared,
        "two": {"schema": NARROW, "required": False},
        "three": {**shared, "schema": {"ddl": DDL}},
    }
    killing = Killing(tmp_path, own)
    points = [("commit.after", 2), ("quarantine.before", 2), ("commit.before", 2), ("commit.after", 1)]
    for number in range(max(1, KILLS // 4)):
        assert killing.kill_at(*points[number % len(points)]) in ([0, 0, 1], [0, 1, 1])
    killing.finish(capsys)


def test_one_target_with_each_committer_and_a_driver_killed_between_their_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_spark = {"table": {"committer": "delta-spark", "sole_writer": True}}
    killing = Killing(tmp_path, {"by_spark": by_spark, "by_rust": {"schema": NARROW}})
    assert killing.kill_at("commit.after", 1) == [0, 1]
    killing.finish(capsys)
    assert killing.targets.sequence("by_spark") == killing.targets.sequence("by_rust")


def test_two_drivers_with_the_same_targets_that_race_from_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where their batches differ each may be stopped by the other. The next run goes on."""
    killing = Killing(tmp_path, {"one": {}, "two": {"schema": NARROW}})
    killing.add_files()
    drivers = [Driver(tmp_path, *killing.targets.words()) for _ in range(2)]
    ends = [driver.wait() for driver in drivers]
    assert sorted(end.code for end in ends) in ([0, 0], [0, 4], [4, 4]), [end.stderr for end in ends]
    killing.targets.check_none_twice()
    killing.finish(capsys)
