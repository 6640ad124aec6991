"""What an idle pipeline costs: a glance at the log and the source, and no more until something has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import deltalake
import pytest

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.delta.handles import open_handle
from blizzard.run.assemble import Assembly
from blizzard.service import glance as module
from blizzard.service.glance import WHOLE_EVERY_S, Glance
from tests.flows.in_process import Flow, write_foreign
from tests.flows.operating import InProcessOperation, going, wait_until
from tests.ingesting import ids, write, write_ids


class Cycles:
    """The cycles of one pipeline as an operation makes them, by hand."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.now_s, self.whole = flow, 0.0, 0
        given = {"source.path": str(flow.src), "table.path": str(flow.table)}
        self.assembly = Assembly(request=make_request(make_config(given), pipeline="p"))
        self.glance = Glance("p", now_s=lambda: self.now_s)

    def cycle(self) -> bool:
        """Whether it was a whole one."""
        self.now_s += 10
        if self.glance.shows_nothing_new(self.assembly):
            return False
        self.whole += 1
        summary = self.flow.run()
        self.glance.remember(was_idle=not summary.commits)
        return True


@pytest.fixture
def cycles(tmp_path: Path) -> Cycles:
    """Idle, and known to be."""
    made = Cycles(Flow(tmp_path).first_run())
    # The first finds nothing, the second begins with a look and finds nothing either.
    assert [made.cycle() for _ in range(4)] == [True, True, False, False]
    return made


def test_a_new_file_is_seen_by_the_next_glance(cycles: Cycles) -> None:
    write_ids(cycles.flow.src / "b.ndjson", 3, 6)
    assert [cycles.cycle() for _ in range(4)] == [True, True, True, False]
    assert ids(cycles.flow.table) == [0, 1, 2, 3, 4, 5]


def test_a_file_that_was_written_again_is_seen(cycles: Cycles) -> None:
    path = write_ids(cycles.flow.src / "a.ndjson", 0, 4)
    os.utime(path, ns=(10**18, 10**18))
    assert cycles.cycle()
    assert any("changed after" in warning for warning in cycles.flow.told.warnings)


def test_a_commit_of_somebody_else_is_seen(cycles: Cycles) -> None:
    write_foreign(cycles.flow.table, 100)
    assert [cycles.cycle() for _ in range(3)] == [True, False, False]


def test_a_table_that_was_put_in_its_place_is_seen(cycles: Cycles) -> None:
    log = cycles.flow.table / "_delta_log" / f"{1:020d}.json"
    log.write_text(log.read_text() + "\n")
    assert cycles.cycle()


def test_what_only_time_changes_comes_with_a_whole_cycle(cycles: Cycles) -> None:
    whole = cycles.whole
    for _ in range(int(3 * WHOLE_EVERY_S / 10)):
        cycles.cycle()
    assert cycles.whole - whole == 3


def test_a_file_that_is_too_young_is_waited_for_by_whole_cycles(cycles: Cycles) -> None:
    write(cycles.flow.src / "b.ndjson", b"")  # empty: its writer may have only begun
    assert all(cycles.cycle() for _ in range(3))


def test_what_comes_between_the_look_and_the_cycle_is_not_missed(
    cycles: Cycles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The glance is taken before the cycle: a file that comes later differs from it."""
    write_foreign(cycles.flow.table, 100)  # so that a whole cycle follows
    remember = cycles.glance.remember

    def write_late(*, was_idle: bool) -> None:
        write_ids(cycles.flow.src / "b.ndjson", 3, 6)
        remember(was_idle=was_idle)

    monkeypatch.setattr(cycles.glance, "remember", write_late)
    assert cycles.cycle()
    monkeypatch.undo()
    assert cycles.cycle()
    assert ids(cycles.flow.table) == [0, 1, 2, 3, 4, 5, 100]


def test_trouble_is_left_to_the_cycle_which_can_say_what_it_is(cycles: Cycles) -> None:
    (cycles.flow.src / "a.ndjson").unlink()
    cycles.flow.src.rmdir()
    assert not cycles.glance.shows_nothing_new(cycles.assembly)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def count(root: str, *given: Any, **named: Any) -> deltalake.DeltaTable:
        found.append(root)
        return open_handle(root, *given, **named)

    monkeypatch.setattr("blizzard.delta.place.open_handle", count)
    return found


def test_a_pipeline_that_follows_and_is_idle_opens_no_table(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = module._Places.look

    def counted(places: module._Places) -> object:
        looks.append("")
        return look(places)

    monkeypatch.setattr(module._Places, "look", counted)
    flow = Flow(tmp_path).first_run()
    with going(InProcessOperation(flow, {"api.address": "127.0.0.1:0"})):
        wait_until(lambda: len(looks) > 5)
        before = len(opened)
        wait_until(lambda: len(looks) > 20)
        assert len(opened) == before
        write_ids(flow.src / "b.ndjson", 3, 6)
        wait_until(lambda: ids(flow.table) == [0, 1, 2, 3, 4, 5])
