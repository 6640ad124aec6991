"""Copies positions to a mirror, after their commit, on a thread of its own.

Never stops or delays a run: a mirror that is down, slow or full is reported, and made up for by the next commit or the
next run. What is missing is read from the log, so nothing has to be remembered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from blizzard.core.events import Emit, Mirrored, MirrorFailed, Noted, Warned
from blizzard.core.lists import count
from blizzard.core.log import CommitFacts
from blizzard.core.mirror import Series, VersionId, append, compare, follows, version_of
from blizzard.core.position import Position
from blizzard.run.ports import MirrorPlace
from blizzard.text.plain import plain

# How long the end of a run waits for a mirror that is slow.
GIVE_UP_AFTER_S = 5.0
# After so long a run that follows reports it, too: a folder on a dead network drive never answers.
REPORT_AFTER_S = 60.0
# Looked through for versions that the mirror lacks. More would take long, and older ones are of little use.
_COMMITS_COMPARED = 200
# Other drivers may write to the same series at the same time.
_ROUNDS = 3
_MADE_UP = "The run goes on; the next commit or the next run makes up for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A position that the mirror shall hold, and how to get there."""

    place: MirrorPlace
    series: Series
    position: Position
    delta_version: int
    keep: int
    read_log: Callable[[], Iterator[CommitFacts]]  # newest first
    emit: Emit


def bring_up_to_date(wanted: Wanted, confirmed: VersionId | None) -> tuple[int, ...]:
    """Make the mirror hold this position and what is missing before it. `confirmed` is what the mirror and the log were
    last known to agree on. Returns sequences that were removed because the log has them no more."""
    series, lost = wanted.series, tuple[int, ...]()
    version = version_of(series, wanted.position, wanted.delta_version)
    with wanted.place.opened() as mirror:
        for _ in range(_ROUNDS):
            held = mirror.look(series)  # before the log is read: see core/mirror.py
            if held.newest == version.id and (confirmed or not held.is_missing_some_below(version.sequence)):
                break
            change = append(held, version, keep=wanted.keep)
            if change is not None:
                mirror.apply(series, change)
                if follows(held, version, confirmed):
                    continue
                held = mirror.look(series)
            change = compare(
                held,
                islice(wanted.read_log(), _COMMITS_COMPARED),
                series,
                known=version.sequence,
                keep=wanted.keep,
                batch_of=lambda sequence, held=held: (  # type: ignore[misc]
                    held.batches[sequence] or mirror.batch_of(series, sequence)
                ),
            )
            if change.is_empty:
                break
            mirror.apply(series, change)
            lost += change.lost
    return lost


class MirrorThread:
    """Of each series only the newest position waits. The thread ends when nothing waits."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: dict[Series, Wanted] = {}
        self._thread: threading.Thread | None = None
        self._at: Wanted | None = None  # what the thread is at
        self._since = 0.0
        self._confirmed: dict[Series, VersionId] = {}
        self._said: dict[Series, str] = {}  # the trouble that is known of each

    def ask(self, wanted: Wanted) -> None:
        with self._change:
            self._waiting[wanted.series] = wanted
            why = self._too_slow() if self._thread is not None else self._start()
        if why is not None:
            self._report_failure(wanted, why)

    def _start(self) -> str | None:
        """None, or why it cannot be done."""
        self._thread = threading.Thread(target=self._work, name="blizzard-mirror", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as e:  # the machine has no room for another thread
            self._thread = None
            self._waiting.clear()
            return plain(e)
        return None

    def _too_slow(self) -> str | None:
        if self._at is None or time.monotonic() - self._since < REPORT_AFTER_S:
            return None
        return f"it has not answered for more than {REPORT_AFTER_S:g} seconds"

    def finish(self, within_s: float | None = None) -> None:
        """Wait until nothing is left to do. A mirror that does not answer is given up: its thread says no more."""
        within_s = GIVE_UP_AFTER_S if within_s is None else within_s
        with self._change:
            if self._change.wait_for(lambda: self._thread is None, timeout=within_s):
                return
            left = [*([self._at] if self._at is not None else []), *self._waiting.values()]
            self._waiting.clear()
            self._thread = self._at = None
        for wanted in {wanted.series: wanted for wanted in left}.values():
            self._report_failure(wanted, f"it has not answered within {within_s:g} seconds")

    @contextmanager
    def finished(self) -> Iterator[None]:
        """Leaving the block waits, but not long."""
        try:
            yield
        finally:
            self.finish()

    def _work(self) -> None:
        mine = threading.current_thread()
        while True:
            with self._change:
                if self._thread is not mine:
                    return  # given up
                if not self._waiting:
                    self._thread = self._at = None
                    self._change.notify_all()
                    return
                self._at, self._since = self._waiting.pop(next(iter(self._waiting))), time.monotonic()
            self._copy(self._at, mine)

    def _copy(self, wanted: Wanted, mine: threading.Thread) -> None:
        try:
            lost = bring_up_to_date(wanted, self._confirmed.get(wanted.series))
        except Exception as e:  # whatever it is, the run goes on
            with self._change:
                is_given_up = self._thread is not mine
                self._confirmed.pop(wanted.series, None)
            if not is_given_up:
                self._report_failure(wanted, plain(e))
            return
        with self._change:
            if self._thread is not mine:
                return
            position = wanted.position
            self._confirmed[wanted.series] = VersionId(sequence=position.sequence, batch_id=position.batch_id)
            was_down = self._said.pop(wanted.series, None) is not None
        if lost:
            wanted.emit(Warned(message=_lost_text(wanted, lost)))
        if was_down:
            text = f"the mirror {wanted.place.shown} holds everything up to sequence {position.sequence} again"
            wanted.emit(Noted(message=text))
        wanted.emit(Mirrored(sequence=position.sequence))

    def _report_failure(self, wanted: Wanted, why: str) -> None:
        wanted.emit(MirrorFailed(sequence=wanted.position.sequence))
        with self._change:
            is_said = why in self._said.values()
            self._said[wanted.series] = why
        if not is_said:  # a run that follows would say it at every commit
            text = f"the mirror {wanted.place.shown} could not be written: {why.rstrip('.')}. {_MADE_UP}"
            wanted.emit(Warned(message=text))


def _lost_text(wanted: Wanted, lost: tuple[int, ...]) -> str:
    named = str(lost[0]) if len(lost) == 1 else f"{lost[0]} to {lost[-1]}"
    return (
        f"the mirror {wanted.place.shown} had {count(len(lost), 'sequence')} ({named}) that the log of"
        f" the table does not have: was it put back from a backup? They are removed from the mirror"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMirror:
    """The mirror of one table's positions."""

    thread: MirrorThread
    place: MirrorPlace
    table: str  # its URI
    keep: int
    read_log: Callable[[], Iterator[CommitFacts]]
    emit: Emit

    def follow(self, position: Position, version: int) -> None:
        series = Series(pipeline=position.pipeline, table_id=position.on.table_id, table=self.table)
        self.thread.ask(
            Wanted(
                place=self.place,
                series=series,
                position=position,
                delta_version=version,
                keep=self.keep,
                read_log=self.read_log,
                emit=self.emit,
            )
        )
