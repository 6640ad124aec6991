"""A stop while Spark starts: nobody waits until it is up. No session is made here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.spark.session import LazySession, PooledSession, _Started
from blizzard.testing.terminals import OnTerminal
from tests.flows.in_process import Flow
from tests.ingesting import DDL, ids, write_ids


class Running:
    """What a session is that can only be stopped."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


class Slow(LazySession):
    """It is up when `may_go_on` is set."""

    def __init__(self) -> None:
        super().__init__({})
        self.may_go_on, self.begun, self.running = threading.Event(), 0, Running()

    def _start(self) -> _Started:
        self.begun += 1
        assert self.may_go_on.wait(60)
        return _Started(session=self.running, is_owned=True)


@pytest.fixture
def slow() -> Iterator[Slow]:
    session = Slow()
    yield session
    session.may_go_on.set()


def test_a_stop_before_the_start_starts_nothing(slow: Slow) -> None:
    with slow:
        assert not slow.comes_up(lambda: True)
    assert slow.begun == 0


def test_a_stop_during_the_start_does_not_wait_for_it(slow: Slow) -> None:
    answers = iter([False, False, True])
    with slow:
        assert not PooledSession(slow, "pool").comes_up(lambda: next(answers))
    assert (slow.begun, slow.running.stopped) == (1, 0)


def test_after_a_stop_that_was_withdrawn_the_same_start_is_used_and_ended(slow: Slow) -> None:
    with slow:
        slow.begin()
        assert not slow.comes_up(lambda: True)
        slow.may_go_on.set()
        assert slow.comes_up(lambda: False)
        assert slow.get() is slow.running
        assert slow.comes_up(lambda: True)  # it is up: whether to go on is not asked here
    assert (slow.begun, slow.running.stopped) == (1, 1)
    assert slow.startup_seconds > 0


def test_a_start_that_failed_is_told_by_get_and_tried_again(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("no java")

    with slow:
        with monkeypatch.context() as changed:
            changed.setattr(slow, "_start", fail)
            assert slow.comes_up(lambda: False)
            with pytest.raises(OSError, match="no java"):
                slow.get()
        slow.may_go_on.set()
        assert slow.comes_up(lambda: False)
        assert slow.get() is slow.running


@pytest.mark.process
@pytest.mark.parametrize("is_new", [True, False], ids=["new table", "table that is there"])
def test_ctrl_c_ends_a_run_whose_spark_does_not_come_up(tmp_path: Path, is_new: bool) -> None:
    """Here it never does: the JVM is a program that only waits."""
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    table = tmp_path / "new" if is_new else flow.table
    java = tmp_path / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/started\nwhile [ -e {tmp_path}/started ]; do sleep 0.1; done\n")
    java.chmod(0o755)
    words = ["--source", str(flow.src), "--table", str(table), "--schema", DDL]
    try:
        terminal = OnTerminal("run", *words, env={"JAVA_HOME": str(java.parent.parent)})
        terminal.wait_until((tmp_path / "started").exists, "Spark was being started")
        terminal.press_ctrl_c()
        assert terminal.wait() == 0
    finally:
        (tmp_path / "started").unlink(missing_ok=True)
    assert "\r\x1b[Kstopping\r\n" in terminal.screen
    assert "stopped: 0 records, 0 files finished, 0 commits" in terminal.screen
    assert '"status":"stopped"' in terminal.screen.splitlines()[-1]
    assert not (tmp_path / "new").exists()
    assert ids(flow.table) == [0, 1, 2]
