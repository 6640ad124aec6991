"""Runs on a real cluster, with the packed interpreter: executors, workers and drivers killed with SIGKILL while a task
has written its files and not yet said so. Every record is in the table once, with speculation and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.cluster.standalone import StandaloneCluster, executor_of, kill
from tests.cluster.submitting import SPECULATION, Submission, Submitted
from tests.drivers import ids
from tests.flows.targets import Targets

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.usefixtures("fast_drivers"),
]
both_ways = pytest.mark.parametrize("held", ["no speculation", "speculation"], indirect=True)


@dataclass
class Held:
    """A run whose second task waits, with all its files written; with speculation, both attempts at it do."""

    folder: Path
    run: Submitted
    tasks: list[int]

    def let_go(self) -> None:
        (self.folder / "held/go").touch()

    def check_speculation(self) -> None:
        """Spark's own word for it, which a driver that was killed could not write down."""
        copies = [event for event in self.run.events("TaskStart") if event["Task Info"]["Speculative"]]
        assert len(copies) == len(self.tasks) - 1


@pytest.fixture
def total(tmp_path: Path) -> int:
    return write_events(str(tmp_path / "src"), files=4, records=500)


@pytest.fixture
def submission(cluster: StandaloneCluster, environment: Path, package_zip: Path, tmp_path: Path) -> Submission:
    python = environment / "bin/python"
    return Submission(tmp_path, cluster.url, package_zip, driver_python=python, python=str(python))


@pytest.fixture
def held(request: pytest.FixtureRequest, submission: Submission, total: int, tmp_path: Path) -> Iterator[Held]:
    yield from hold(submission, tmp_path, speculates=request.param == "speculation")


@pytest.fixture
def held_targets(submission: Submission, targets: Targets, tmp_path: Path) -> Iterator[Held]:
    yield from hold(submission, tmp_path, speculates=False)


def hold(submission: Submission, tmp_path: Path, *, speculates: bool) -> Iterator[Held]:
    folder = tmp_path / "held"
    folder.mkdir()
    fault = {"spark.executorEnv.BLIZZARD_FAULT": f"task.1.written=hold:{folder}"}
    run = submission.start(settings=fault | (SPECULATION if speculates else {}))
    try:
        tasks = run.wait_for_held(folder, 2 if speculates else 1)
        yield Held(tmp_path, run, tasks)
    finally:
        run.kill()


NARROW = {"ddl": "id BIGINT, kind STRING", "evolution": "ignore"}


@pytest.fixture
def targets(submission: Submission, total: int, tmp_path: Path) -> Targets:
    """Two, and one of them has another schema."""
    made = Targets(tmp_path, {"whole": {"schema": {"ddl": EVENT_DDL}}, "narrow": {"schema": NARROW}}, schema=None)
    submission.words = made.words()
    return made


def written(folder: Path) -> int:
    return len(list((folder / "table").glob("*.parquet")))


def committed(folder: Path) -> int:
    return len(DeltaTable(str(folder / "table")).file_uris())


def test_the_packed_environment_is_all_that_a_cluster_needs(
    submission: Submission, environment_archive: Path, total: int, tmp_path: Path
) -> None:
    submission.archive, submission.python = environment_archive, "./environment/bin/python"
    run = submission.start()
    finished = run.wait()
    assert finished.code == 0, finished.stderr
    assert finished.summary["records"] == total
    assert ids(tmp_path / "table") == list(range(total))
    used = {event["Task Info"]["Executor ID"] for event in run.events("TaskEnd")}
    assert used == {"0", "1"}
    again = submission.start().wait()
    assert (again.code, again.summary["status"]) == (0, "idle")


@pytest.mark.parametrize("held", ["speculation"], indirect=True)
def test_attempts_that_all_end_count_once(held: Held, total: int, tmp_path: Path) -> None:
    held.let_go()
    finished = held.run.wait()
    assert finished.code == 0, finished.stderr
    held.check_speculation()
    assert written(tmp_path) == committed(tmp_path) + len(held.tasks) - 1
    assert ids(tmp_path / "table") == list(range(total))


@both_ways
@pytest.mark.parametrize("what", ["executor", "worker"])
def test_a_killed_executor_or_worker_loses_and_doubles_nothing(
    held: Held, cluster: StandaloneCluster, total: int, tmp_path: Path, what: str
) -> None:
    executor = executor_of(held.tasks[0])
    if what == "worker":
        cluster.kill_worker_of(executor)
    kill(executor)
    held.let_go()
    finished = held.run.wait()
    assert finished.code == 0, finished.stderr
    assert finished.summary["records"] == total
    assert ids(tmp_path / "table") == list(range(total))
    held.check_speculation()
    assert held.run.events("ExecutorRemoved")
    assert written(tmp_path) > committed(tmp_path)  # what the killed attempt wrote is there, and nobody names it


@both_ways
def test_a_killed_driver_loses_and_doubles_nothing(
    held: Held, submission: Submission, cluster: StandaloneCluster, total: int, tmp_path: Path
) -> None:
    held.run.kill()
    held.let_go()
    assert ids(tmp_path / "table") == []
    cluster.heal()
    finished = submission.start().wait()
    assert finished.code == 0, finished.stderr
    assert finished.summary["recovery"] == "fresh"
    assert ids(tmp_path / "table") == list(range(total))


def test_a_killed_worker_loses_and_doubles_nothing_in_any_of_two_targets(
    held_targets: Held, cluster: StandaloneCluster, targets: Targets, total: int
) -> None:
    executor = executor_of(held_targets.tasks[0])
    cluster.kill_worker_of(executor)
    kill(executor)
    held_targets.let_go()
    finished = held_targets.run.wait()
    assert finished.code == 0, finished.stderr
    assert held_targets.run.events("ExecutorRemoved")
    targets.check_each_once(range(total))


def test_a_driver_killed_between_the_commits_of_two_targets_loses_and_doubles_nothing(
    submission: Submission, cluster: StandaloneCluster, targets: Targets, total: int
) -> None:
    killed = submission.start(fault="commit.after=kill@1").wait()
    assert killed.code != 0
    assert sorted(targets.ids(name).total() for name in targets.own) == [0, total]
    cluster.heal()
    finished = submission.start().wait()
    assert finished.code == 0, finished.stderr
    targets.check_each_once(range(total))
