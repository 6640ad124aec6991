"""The bar on a terminal: what the tasks tell, or the tasks and the time where they tell nothing."""

from __future__ import annotations

import io
import sys

import pytest

from blizzard.core.events import Discovered, Event, Ingested, OfTarget, Planned, Reading, Warned
from blizzard.service.live import LiveProgress, bar_of, clock, make_progress
from blizzard.service.progress import TerminalProgress
from blizzard.text.streams import put_err
from tests.service.test_progress import PLAN, RESULT, Terminal, committed


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In the test itself: before it, pytest puts its own stderr back."""
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return out


def reading(**told: int) -> Reading:
    nothing = {"files": 0, "stored_bytes": 0, "records": 0, "json_bytes": 0}
    return Reading(**{"tasks": 1, "ended_tasks": 0, "is_told": bool(told), **nothing, **told})  # type: ignore[arg-type]


def last_line(terminal: Terminal) -> str:
    return terminal.getvalue().rpartition("\r\x1b[K")[2]


def test_the_bar_moves_inside_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    clock_ = Clock()
    progress = LiveProgress(clock_)
    progress.begin("starting Spark…")
    assert last_line(terminal) == "starting Spark… 0:00"
    progress.see(Discovered(backlog_files=4, backlog_bytes=1_000))
    progress.see(Planned(plan=PLAN, sequence=7))
    for event, after_s, line in (
        (reading(), 0, "batch 1  0/1 task  0:00"),
        (reading(records=10, stored_bytes=100, json_bytes=1), 1, "10 records  0/4 files  0/1 task  0:01"),
        (
            reading(records=90, stored_bytes=250, json_bytes=8_000_001),
            4,
            "90 records  2 MB/s  0/4 files  0:05  0:20 left",
        ),
    ):
        clock_.now_s += after_s
        progress.see(event)
        progress.draw()
        assert line in last_line(terminal)
    assert "█░" in last_line(terminal)
    assert " 25%  " in last_line(terminal)
    progress.see(Ingested(result=RESULT, seconds=5.0))
    progress.draw()
    assert last_line(terminal) == "batch 1  committing  0:05"
    progress.see(committed(7, 3))
    progress.draw()
    assert "batch 1: committed version 3, sequence 7: 1,500 records" in terminal.getvalue()
    progress.close()
    assert last_line(terminal) == ""


def test_what_is_said_meanwhile_goes_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = LiveProgress(Clock())
    progress.begin("starting Spark…")
    progress.see(Warned(message="careful"))
    put_err("of a library\n")
    for said in ("warning: careful", "of a library"):
        assert f"\r\x1b[K{said}\nstarting Spark… 0:00" in terminal.getvalue()
    progress.close()


def test_each_file_of_the_source_counts_once_and_the_slowest_target_is_the_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = open_terminal(monkeypatch)
    progress = LiveProgress(Clock())

    def see(target: str, *events: Event) -> None:
        for event in events:
            progress.see(OfTarget(target=target, event=event))

    for target in ("one", "two"):
        see(target, Discovered(backlog_files=4, backlog_bytes=4), Planned(plan=PLAN, sequence=1))
    see("one", Ingested(result=RESULT, seconds=1.0), committed(1, 7))
    for target, files in (("one", "0/4 files"), ("two", "1/4 files")):
        see(target, Planned(plan=PLAN, sequence=2), reading(records=1, stored_bytes=1))
        progress.draw()
        assert files in last_line(terminal)
        see("two", committed(1, 3))
    progress.close()


def test_the_bar_never_goes_back_before_the_source_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task has read ahead in a file of which the batch holds only the beginning; or the next batch is read while this
    one is committed."""
    terminal = open_terminal(monkeypatch)
    progress = LiveProgress(Clock())

    def shown(stored_bytes: int) -> str:
        progress.see(reading(records=1, stored_bytes=stored_bytes))
        progress.draw()
        return last_line(terminal)

    progress.see(Discovered(backlog_files=4, backlog_bytes=1_000))
    progress.see(Planned(plan=PLAN, sequence=1))
    assert " 50%  " in shown(500)
    assert " 50%  " in shown(250)
    progress.see(Planned(plan=PLAN, sequence=2))
    assert " 50%  " in shown(10)
    assert " 51%  " in shown(510)
    progress.see(Discovered(backlog_files=4, backlog_bytes=1_000))
    progress.see(Planned(plan=PLAN, sequence=3))
    assert "  1%  " in shown(10)
    progress.close()


def test_a_narrow_terminal_gets_no_second_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr("blizzard.service.live.columns_of", lambda _: 40)
    progress = LiveProgress(Clock())
    progress.see(Discovered(backlog_files=4, backlog_bytes=4))
    progress.see(Planned(plan=PLAN, sequence=1))
    progress.see(reading(records=10**9, stored_bytes=1, json_bytes=1))
    progress.draw()
    assert len(last_line(terminal)) == 39
    progress.close()


def test_a_bar_needs_a_terminal_that_can_redraw_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    open_terminal(monkeypatch)
    assert isinstance(make_progress("text"), LiveProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert type(make_progress("text")) is TerminalProgress
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(make_progress("text")) is TerminalProgress


def test_bars_and_times() -> None:
    assert bar_of(0.5, 4, has_blocks=True) == ("██", "░░")
    assert bar_of(1.7, 4, has_blocks=False) == ("####", "")
    assert [clock(s) for s in (7, 754, 3600)] == ["0:07", "12:34", "1:00:00"]
