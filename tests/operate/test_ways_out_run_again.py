"""Exit 75 and 4: the same command again is all there is to do. Every record is there once after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard import faults
from blizzard.errors import Fenced, Temporary
from blizzard.spark.job import failure_of
from tests.failing import ends_with
from tests.flows.backups import add_file, lines, live, three_batches
from tests.flows.in_process import Flow, newest
from tests.ingesting import ids, write_ids
from tests.run.test_broken_files import _refusing


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Ids 0 to 2 are in, 3 to 5 are new."""
    made = Flow(tmp_path).first_run()
    write_ids(made.src / "b.ndjson", 3, 6)
    return made


def again(flow: Flow, before: int) -> None:
    """Nothing landed; the next run does it all, and the one after it nothing."""
    assert newest(flow.table) == before
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]
    assert flow.run().commits == 0


def test_commit_failed(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    before = newest(flow.table)
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", "commit.during=raise")
    with ends_with("commit_failed") as error:
        flow.run()
    assert error.value.exit_code == 75
    monkeypatch.delenv("BLIZZARD_FAULT")
    again(flow, before)


def test_batch_too_old(flow: Flow) -> None:
    before = newest(flow.table)

    def take_a_day() -> None:
        flow.clock.ms += 86_400_001

    with ends_with("batch_too_old") as error:
        flow.run(while_reading=take_a_day)
    assert error.value.exit_code == 75
    again(flow, before)


def test_store_unavailable(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    before = newest(flow.table)
    with monkeypatch.context() as patch:
        patch.setattr("blizzard.store.local.open", _refusing("b.ndjson"), raising=False)
        with ends_with("store_unavailable") as error:
            flow.run()
    assert error.value.exit_code == 75
    again(flow, before)


def test_spark_job(flow: Flow) -> None:
    before = newest(flow.table)

    def fail() -> None:
        raise failure_of(RuntimeError("Job aborted due to stage failure: ExecutorLostFailure"))

    with ends_with("spark_job") as error:
        flow.run(while_reading=fail)
    assert isinstance(error.value, Temporary)
    again(flow, before)


def test_fenced(flow: Flow) -> None:
    """The other run has read it; this one stops, and the next finds nothing to do."""
    other = Flow(flow.folder, runs=10)

    def overtake() -> None:
        other.run()

    with pytest.raises(Fenced) as error:
        flow.run(while_reading=overtake)
    assert (error.value.kind, error.value.exit_code) == ("fenced", 4)
    again(flow, newest(flow.table))


def test_quarantine_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = three_batches(tmp_path)
    add_file(flow, 4)
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed") as error:
        flow.run()
    assert error.value.exit_code == 75
    monkeypatch.delenv("BLIZZARD_FAULT")
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(1, 2, 3, 4))
