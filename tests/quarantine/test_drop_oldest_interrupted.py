"""Dropping the oldest batches, interrupted: a process that dies anywhere, and a person who is at the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from deltalake import DeltaTable

from blizzard import faults
from blizzard.core.log import payloads
from blizzard.core.plan import Limits
from blizzard.errors import Fenced
from blizzard.quarantine import contents
from blizzard.tasks.quarantine import Selection
from tests.delta.test_hostile_log import change_payload
from tests.flows.backups import Elsewhere, add_file, lines, live
from tests.flows.in_process import newest
from tests.flows.replaying import HOPELESS, STRICT, mendable, newest_position, replay_in
from tests.ingesting import ids, line, write
from tests.quarantine.test_drop_oldest import dropping, run_batches
from tests.quarantine.test_records_that_leave import folder

POINTS = (
    *("task.before_parquet_close", "commit.before", "commit.during", "commit.answer", "commit.after"),
    *("quarantine.before", "quarantine.copied", "quarantine.after"),
)


class Died(BaseException):
    """The process is gone: nothing may catch this."""


@contextmanager
def at(point: str, act: Callable[[], object], nth: int = 1) -> Iterator[None]:
    """Do this when a process comes to the point."""
    faults._visits.clear()
    with (
        mock.patch.object(faults, "_act", side_effect=lambda action, at: act()),
        mock.patch.dict("os.environ", {"BLIZZARD_FAULT": f"{point}=x@{nth}"}),
    ):
        yield


def die() -> None:
    raise Died


def run_and_die(flow: Elsewhere, point: str, nth: int = 1) -> None:
    with at(point, die, nth):
        try:
            flow.run(limits=Limits(max_files=1), **dropping(2))
        except Died:
            pass


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    """The quarantine is full: sequences 1 and 2."""
    flow = Elsewhere(tmp_path)
    run_batches(flow, 1, 2)
    return flow


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_dies_anywhere_leaves_the_newest_that_fit(
    flow: Elsewhere, point: str, nth: int, compacts: bool
) -> None:
    if compacts:  # what stays of a file must be copied
        DeltaTable(flow.quarantine.root).optimize.compact()
    for number in (3, 4, 5):
        add_file(flow, number)
    run_and_die(flow, point, nth)
    committed = ids(flow.table)[-1]
    held = live(flow)
    # Before settling the quarantine is as it was, after it as it will be: no half of it is ever seen.
    assert held in (lines(committed - 1, committed), lines(max(1, committed - 2), max(2, committed - 1)))
    run_and_die(flow, point)
    flow.run(limits=Limits(max_files=1), **dropping(2))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4, 5], lines(4, 5))


def test_the_next_run_finishes_it_under_any_setting(flow: Elsewhere) -> None:
    """What was decided is in the log, and is not decided again."""
    add_file(flow, 3)
    run_and_die(flow, "commit.after")
    assert live(flow) == lines(1, 2)
    flow.run(max_quarantined=None)
    assert live(flow) == lines(2, 3)


def test_a_damaged_payload_is_made_good_from_the_ledger(flow: Elsewhere) -> None:
    add_file(flow, 3)
    run_and_die(flow, "commit.after")
    change_payload(flow.table, lambda fields: {k: v for k, v in fields.items() if k != "sequence"})
    flow.run(**dropping(2))
    assert live(flow) == lines(2, 3)
    assert run_batches(flow, 4).dropped_records == 1
    assert live(flow) == lines(3, 4)


@pytest.mark.parametrize("point", ["commit.before", "commit.after", "quarantine.before", "quarantine.copied"])
def test_what_a_person_purges_meanwhile_is_no_error(flow: Elsewhere, point: str) -> None:
    """Its own commit comes between the look and ours: then we look again."""
    with at(point, lambda: contents.purge(flow.quarantine, Selection(source_file="1.ndjson"))):
        summary = run_batches(flow, 3)
    assert (live(flow), summary.dropped_records) == (lines(2, 3), 1)
    assert any("no record was left to drop of 1 batch" in text for text in flow.told.notes)
    run_batches(flow, 4)
    assert live(flow) == lines(3, 4)


def test_what_a_person_purges_beside_it_stays_away(flow: Elsewhere) -> None:
    with at("quarantine.copied", lambda: contents.purge(flow.quarantine, Selection(source_file="2.ndjson"))):
        run_batches(flow, 3)
    assert live(flow) == lines(3)
    assert flow.told.notes == []


def test_a_compaction_meanwhile_is_no_error(flow: Elsewhere) -> None:
    with at("quarantine.copied", DeltaTable(flow.quarantine.root).optimize.compact):
        run_batches(flow, 3)
    assert live(flow) == lines(2, 3)


def test_another_pipeline_that_settles_meanwhile_is_no_error(flow: Elsewhere) -> None:
    other = Elsewhere(flow.folder, pipeline="q", src_at=flow.folder / "other", table_at=flow.folder / "second")
    add_file(other, 11)
    with at("quarantine.copied", lambda: other.run(**dropping(2))):
        run_batches(flow, 3)
    assert live(flow) == sorted(lines(2, 3, 11))


def test_the_second_of_two_drivers_drops_nothing(flow: Elsewhere) -> None:
    add_file(flow, 3)
    second = Elsewhere(flow.folder, runs=100)

    def be_faster() -> None:
        flow.run(**dropping(2))

    with pytest.raises(Fenced):
        second.run(while_reading=be_faster, **dropping(1))
    assert live(flow) == lines(2, 3)
    second.run(**dropping(1))
    assert live(flow) == lines(2, 3)


def test_a_replay_meanwhile_fences_the_batch(tmp_path: Path) -> None:
    flow = Elsewhere(tmp_path)
    for number in (1, 2):
        write(flow.src / f"{number}.ndjson", line(number) + mendable(10 + number) + b"\n")
        flow.run(spec=STRICT)
    write(flow.src / "3.ndjson", line(3) + HOPELESS + b"\n")
    second = Elsewhere(flow.folder, runs=100)

    def be_faster() -> None:
        replay_in(flow)

    with pytest.raises(Fenced):
        second.run(while_reading=be_faster, spec=STRICT, **dropping(2))
    second.run(spec=STRICT, **dropping(2))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 11, 12], [HOPELESS])


def test_settling_again_changes_nothing(flow: Elsewhere) -> None:
    run_batches(flow, 3)
    position, before = newest_position(flow), newest(folder(flow))
    assert position.quarantine.dropped
    for _ in range(3):
        flow.quarantine.settle(position)
    assert (newest(folder(flow)), live(flow)) == (before, lines(2, 3))


def test_only_a_commit_that_drops_carries_names(flow: Elsewhere) -> None:
    run_batches(flow, 3)
    (dropping_commit,) = payloads(next(flow.open().scan_back()))
    write(flow.src / "4.ndjson", b'{"id":4}\n')
    flow.run(**dropping(2))
    assert newest_position(flow).quarantine.dropped == ()
    assert newest_position(flow).quarantine.head is not None
    assert dropping_commit != payloads(next(flow.open().scan_back()))[0]
