"""How positions get to a mirror: on a thread of its own, in any order of drivers, crashes and tables put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.events import Event, Mirrored, MirrorFailed, Noted, Warned
from blizzard.core.log import CommitFacts, positions_in
from blizzard.core.mirror import Change, Held, Series, Version, VersionId, version_of
from blizzard.core.position import Position
from blizzard.run.mirror import MirrorThread, TableMirror, Wanted, bring_up_to_date
from tests.core.logs import ledger_of, own
from tests.core.test_codec import EXAMPLE, example

SERIES = Series(pipeline="p", table_id=EXAMPLE.on.table_id, table="file:///t")


class Died(Exception):
    """The process, in the middle of something."""


def nothing() -> None:
    return None


@dataclass
class ModelMirror:
    """A mirror of files in memory: each step is visible to others. `between` is what happens before each step."""

    files: dict[int, Version] = field(default_factory=dict)
    latest: Version | None = None
    between: Callable[[], None] = nothing
    shown: str = "model"

    @contextmanager
    def opened(self) -> Iterator[ModelMirror]:
        self.between()
        yield self

    def look(self, series: Series) -> Held:
        self.between()
        batches: dict[int, str | None] = dict.fromkeys(self.files)
        latest = self.latest
        is_newest = latest is not None and latest.sequence == max(batches, default=0)
        return Held(batches=batches, newest=latest.id if latest is not None and is_newest else None)

    def batch_of(self, series: Series, sequence: int) -> str | None:
        self.between()
        return self.files[sequence].batch_id if sequence in self.files else None

    def apply(self, series: Series, change: Change) -> None:
        for version in change.write:
            self.between()
            self.files[version.sequence] = version
        self.between()
        self.latest = change.newest or self.latest
        for gone in change.remove:
            self.between()
            self.files.pop(gone.sequence, None)


@dataclass
class ModelLog:
    """Commits of one pipeline, oldest first. A table put back from a backup loses the newest."""

    commits: list[CommitFacts] = field(default_factory=list)
    batches: int = 0

    def commit(self) -> Position:
        self.batches += 1
        sequence = len(self.commits) + 1
        ledger = ledger_of(sequence, batch_id=f"b{self.batches}")
        self.commits.append(own(sequence, ledger, batch_id=f"b{self.batches}"))
        return self.newest

    @property
    def newest(self) -> Position:
        return example(sequence=len(self.commits), batch_id=self.batch, pipeline="p", delta_version=0)

    @property
    def batch(self) -> str:
        return positions_in(self.commits[-1].txns)[0].batch_id

    def read(self) -> Iterator[CommitFacts]:
        return reversed(list(self.commits))


def wanted(mirror: ModelMirror, log: ModelLog, position: Position, **changes: Any) -> Wanted:
    made = Wanted(
        place=mirror,
        series=SERIES,
        position=position,
        delta_version=position.sequence,
        keep=4,
        read_log=log.read,
        emit=lambda _: None,
    )
    return replace(made, **changes)


STEPS = st.lists(st.sampled_from(["commit", "late", "put back", "die", "go on", "go on", "go on"]), max_size=40)


@settings(max_examples=300)
@given(STEPS, st.lists(st.sampled_from(["commit", "put back", "idle"]), min_size=1, max_size=8))
def test_whatever_happens_in_between_the_next_run_makes_the_mirror_agree(steps: list[str], runs: list[str]) -> None:
    """At each step of one driver others may commit and copy, the table may be put back, the process may die."""
    mirror, log, queue, depth = ModelMirror(), ModelLog(), iter(steps), 0
    old: list[Position] = []

    def copy(position: Position, confirmed: VersionId | None) -> None:
        try:
            bring_up_to_date(wanted(mirror, log, position), confirmed)
        except Died:
            pass

    def meanwhile() -> None:
        nonlocal depth
        step = next(queue, "go on")
        if step == "go on" or depth > 3:
            return
        depth += 1
        try:
            if step == "die":
                raise Died
            if step == "put back" and len(log.commits) > 1:
                log.commits.pop()
            elif step == "late" and old:
                copy(old[0], None)
            else:
                old.append(log.commit())
                copy(old[-1], None)
        finally:
            depth -= 1

    mirror.between = meanwhile
    confirmed: VersionId | None = None
    for run in runs:
        if run == "put back" and len(log.commits) > 1:
            log.commits.pop()
            confirmed = None  # another process
        if run == "commit" or not log.commits:
            old.append(log.commit())
        copy(log.newest, confirmed)
    mirror.between = nothing
    bring_up_to_date(wanted(mirror, log, log.newest), None)  # an idle run
    newest = log.newest
    assert mirror.latest is not None
    assert mirror.latest.id == VersionId(sequence=newest.sequence, batch_id=newest.batch_id)
    assert max(mirror.files) == newest.sequence
    assert mirror.files[newest.sequence].batch_id == newest.batch_id
    if "put back" not in {*steps, *runs}:  # nothing is missing, and only so many are kept
        first = max(1, newest.sequence - 3) if "die" not in steps else min(mirror.files)
        assert sorted(mirror.files) == list(range(first, newest.sequence + 1))


def test_the_middle_is_filled_from_the_log_and_the_oldest_leave() -> None:
    mirror, log = ModelMirror(), ModelLog()
    bring_up_to_date(wanted(mirror, log, log.commit()), None)
    for _ in range(5):
        log.commit()
    bring_up_to_date(wanted(mirror, log, log.newest), VersionId(sequence=1, batch_id="b1"))
    assert sorted(mirror.files) == [3, 4, 5, 6]


@pytest.mark.parametrize("commits", [0, 1])
def test_what_one_process_did_not_get_to_is_made_up_for_by_the_next(commits: int) -> None:
    """The newest position comes first. It must not hide that those before it are missing, however far below."""
    mirror, log = ModelMirror(), ModelLog()
    bring_up_to_date(wanted(mirror, log, log.commit(), keep=10), None)
    for _ in range(3):
        log.commit()
    mirror.between = fails("gone", after=4)  # once the newest is written
    with pytest.raises(OSError, match="gone"):
        bring_up_to_date(wanted(mirror, log, log.newest, keep=10), None)
    assert sorted(mirror.files) == [1, 4]
    mirror.between = nothing
    for _ in range(commits):  # by a version that did not look below
        newest = version_of(SERIES, log.commit(), 0)
        mirror.apply(SERIES, Change(write=(newest,), newest=newest))
    bring_up_to_date(wanted(mirror, log, log.newest, keep=10), None)
    assert sorted(mirror.files) == list(range(1, 5 + commits))


def test_an_ordinary_commit_reads_no_log() -> None:
    mirror, log = ModelMirror(), ModelLog()
    bring_up_to_date(wanted(mirror, log, log.commit()), None)

    def read() -> Iterator[CommitFacts]:
        raise AssertionError("the log was read")

    at = VersionId(sequence=1, batch_id="b1")
    bring_up_to_date(wanted(mirror, log, log.commit(), read_log=read), at)
    bring_up_to_date(wanted(mirror, log, log.newest, read_log=read), None)  # idle: it is there
    assert sorted(mirror.files) == [1, 2]


@dataclass
class Copying:
    """A thread with a mirror, and what it says."""

    mirror: ModelMirror = field(default_factory=ModelMirror)
    log: ModelLog = field(default_factory=ModelLog)
    thread: MirrorThread = field(default_factory=MirrorThread)
    events: list[Event] = field(default_factory=list)
    table: str = SERIES.table

    def follow(self) -> None:
        position = self.log.commit()
        following = TableMirror(
            thread=self.thread,
            place=self.mirror,
            table=self.table,
            keep=10,
            read_log=self.log.read,
            emit=self.events.append,
        )
        following.follow(position, position.sequence)

    def said(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def fails(text: str, after: int = 0) -> Callable[[], None]:
    well = iter(range(after))

    def fail() -> None:
        if next(well, None) is None:
            raise OSError(28, text)

    return fail


def test_trouble_is_said_once_counted_each_time_and_made_up_for() -> None:
    copying = Copying()
    copying.mirror.between = fails("No space left on device")
    for _ in range(3):
        copying.follow()
        copying.thread.finish()
    assert [event.sequence for event in copying.said(MirrorFailed)] == [1, 2, 3]
    (warning,) = copying.said(Warned)
    assert (
        "the mirror model could not be written: [Errno 28] No space left on device. The run goes on" in warning.message
    )
    copying.mirror.between = nothing
    copying.follow()
    copying.thread.finish()
    assert sorted(copying.mirror.files) == [1, 2, 3, 4]
    assert copying.said(Mirrored) == [Mirrored(sequence=4)]
    (note,) = copying.said(Noted)
    assert note.message == "the mirror model holds everything up to sequence 4 again"


def test_of_several_targets_only_the_one_in_trouble_is_told_of_and_only_once() -> None:
    """What goes well for another target does not make its trouble new."""
    broken, well = Copying(), Copying(table="file:///other")
    well.thread = broken.thread
    broken.mirror.between = fails("Is a directory")
    for _ in range(3):
        for copying in (broken, well):
            copying.follow()
            copying.thread.finish()
    assert (len(broken.said(MirrorFailed)), len(broken.said(Warned))) == (3, 1)
    assert (well.said(Mirrored)[-1].sequence, well.said(Noted)) == (3, [])
    broken.mirror.between = nothing
    broken.follow()
    broken.thread.finish()
    assert len(broken.said(Noted)) == 1


def test_a_mirror_that_never_answers_is_given_up_and_says_nothing_later() -> None:
    copying, goes_on, hangs = Copying(), threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        assert goes_on.wait(60)

    copying.mirror.between = hang
    copying.follow()  # returns at once, and so does the next
    copying.follow()
    assert hangs.wait(60)
    copying.thread.finish(within_s=0.01)
    (failed,) = copying.said(MirrorFailed)  # of each series only the newest waits
    assert failed.sequence == 2
    (warning,) = copying.said(Warned)
    assert "it has not answered within 0.01 seconds" in warning.message
    (abandoned,) = [thread for thread in threading.enumerate() if thread.name == "blizzard-mirror"]
    copying.mirror.between = nothing
    goes_on.set()
    abandoned.join(60)
    assert len(copying.events) == 2
    copying.follow()
    copying.thread.finish()
    assert (sorted(copying.mirror.files), copying.said(Mirrored)) == ([1, 2, 3], [Mirrored(sequence=3)])


def test_a_service_says_that_its_mirror_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no end that would wait for the mirror and give it up."""
    copying, goes_on, hangs = Copying(), threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        assert goes_on.wait(60)

    copying.mirror.between = hang
    copying.follow()
    assert hangs.wait(60)
    copying.follow()
    assert copying.events == []
    monkeypatch.setattr("blizzard.run.mirror.REPORT_AFTER_S", 0.0)
    for _ in range(2):
        copying.follow()
    assert [event.sequence for event in copying.said(MirrorFailed)] == [3, 4]
    (warning,) = copying.said(Warned)
    assert "could not be written: it has not answered for more than 0 seconds. The run goes on" in warning.message
    copying.mirror.between = nothing
    goes_on.set()
    copying.thread.finish()
    assert (sorted(copying.mirror.files), copying.said(Mirrored)[-1].sequence) == ([1, 2, 3, 4], 4)
    assert len(copying.said(Noted)) == 1


def test_no_room_for_a_thread_does_not_stop_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = Copying()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        copying.follow()
        copying.thread.finish()
    assert "can't start new thread" in copying.said(Warned)[0].message
    copying.follow()
    copying.thread.finish()
    assert sorted(copying.mirror.files) == [1, 2]


def test_a_table_put_back_from_a_backup_is_said() -> None:
    copying = Copying()
    for _ in range(3):
        copying.follow()
    copying.thread.finish()
    del copying.log.commits[1:]
    copying.thread = MirrorThread()  # another process
    copying.follow()
    copying.thread.finish()
    (warning,) = copying.said(Warned)
    assert "the mirror model had 1 sequence (3) that the log of the table does not have" in warning.message
    assert {s: v.batch_id for s, v in copying.mirror.files.items()} == {1: "b1", 2: "b4"}
