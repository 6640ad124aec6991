"""The last line of a terminal while a run lasts: what it does before it reads, and a bar while it does.

The tasks tell how far they are where they can (`core/events.py`, Reading). Where nobody tells anything, the line
has the tasks and the time only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from blizzard.core.events import Committed, Discovered, Ended, Event, Ingested, OfTarget, Planned, Reading
from blizzard.core.lists import count
from blizzard.service.progress import JsonProgress, Seen, TerminalProgress
from blizzard.text.streams import put_status
from blizzard.text.terminal import Colour, can_show, columns_of, is_terminal, painted

_TICK_S = 0.25
_BAR_COLUMNS = 24
_SMALLEST_BAR = 8
# So long a rate says more about the beginning than about the end.
_RATE_AFTER_S = 1.0
_LEFT_AFTER_S = 3.0


@dataclass(slots=True)
class LiveBatch:
    """The batch that is read now. Moments are those of a clock that never goes back."""

    number: int
    tasks: int
    reading: Reading | None = None
    first: Reading | None = None  # that tells anything
    first_s: float = 0.0
    newest_s: float = 0.0
    is_read: bool = False  # its commit is under way

    def take(self, reading: Reading, now_s: float) -> None:
        self.reading, self.newest_s = reading, now_s
        if self.first is None and reading.is_told:
            self.first, self.first_s = reading, now_s

    def tasks_shown(self) -> str:
        ended = None if self.reading is None else self.reading.ended_tasks
        return count(self.tasks, "task") if ended is None else f"{ended:,}/{count(self.tasks, 'task')}"


def batch_parts(batch: LiveBatch, seen: Collection[Seen]) -> tuple[float | None, list[str]]:
    """How much of the source is read, if it is known (0 to 1), and what to say about it; the most important first. With
    several targets each file of the source counts once: as done when the last target is through."""
    files = max((one.done + one.backlog for one in seen), default=0)
    stored = max((one.done_bytes + one.backlog_bytes for one in seen), default=0)
    done_files = files - max((one.backlog for one in seen), default=0)
    done_bytes = stored - max((one.backlog_bytes for one in seen), default=0)
    told, first = batch.reading, batch.first
    if batch.is_read:
        return None, ["committing"]
    if told is None or first is None or not told.is_told:
        return None, [batch.tasks_shown()]
    seconds, read = batch.newest_s - batch.first_s, min(stored, done_bytes + told.stored_bytes)
    parts = [count(sum(one.records for one in seen) + told.records, "record")]
    if seconds >= _RATE_AFTER_S:
        parts.append(f"{(told.json_bytes - first.json_bytes) / 1e6 / seconds:,.0f} MB/s")
    parts.append(f"{done_files + told.files:,}/{count(files, 'file')}")
    since_first = told.stored_bytes - first.stored_bytes
    if seconds >= _LEFT_AFTER_S and since_first > 0:
        parts.append(f"{clock((stored - read) * seconds / since_first)} left")
    return read / max(stored, 1), [*parts, batch.tasks_shown()]


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:00:00`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar_of(share: float, columns: int, *, has_blocks: bool) -> tuple[str, str]:
    """The part that is done, and the part that is not."""
    filled = int(columns * min(1.0, share))
    full, empty = ("█", "░") if has_blocks else ("#", "-")
    return full * filled, empty * (columns - filled)


class LiveProgress(TerminalProgress):
    """Lines of text, and below them one that is redrawn, on the terminal that stderr is."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s, self._started_s = now_s, now_s()
        self._what = ""  # what it does, while it does not read
        self._batch: LiveBatch | None = None
        self._share = 0.0  # of the bar
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._ticks: threading.Thread | None = None

    def begin(self, what: str) -> None:
        with self._changing:
            self._what = what
        self.draw()
        if self._ticks is None:
            self._ticks = threading.Thread(target=self._tick, name="blizzard-terminal", daemon=True)
            self._ticks.start()

    def see(self, event: Event) -> None:
        super().see(event)
        with self._changing:
            self._take(event.event if isinstance(event, OfTarget) else event)

    def _take(self, event: Event) -> None:
        match event:
            case Reading() if self._batch is not None:
                self._batch.take(event, self._now_s())
            case Ingested() if self._batch is not None:
                self._batch.is_read = True
            case Discovered():
                self._share = 0.0
            case Ended():
                self._batch, self._what = None, ""
            case _:
                pass

    def _plan(self, planned: Planned) -> None:
        number = self._batch_of(planned.sequence) or 1
        with self._changing:
            self._batch = LiveBatch(number=number, tasks=len(planned.plan.tasks))

    def _commit(self, committed: Committed) -> None:
        super()._commit(committed)
        with self._changing:
            if self._batch is not None and self._batch.is_read:
                self._batch, self._what = None, ""

    def close(self) -> None:
        with self._changing:
            self._ended.set()
            put_status("")

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            self.draw()

    def draw(self) -> None:
        with self._changing:
            line = self._line()
            if not self._ended.is_set():
                put_status(line)

    def _line(self) -> str:
        """As wide as the terminal, less one column: a terminal may begin a new line after the last one."""
        now_s, columns = self._now_s(), columns_of(sys.stderr) - 1
        elapsed = clock(now_s - self._started_s)
        if self._batch is None:
            return f"{self._what} {elapsed}"[:columns] if self._what else ""
        share, parts = batch_parts(self._batch, self._seen.values())
        before, after = f"batch {self._batch.number}  ", "  ".join([*parts[:3], elapsed, *parts[3:]])
        if share is None:
            return f"{before}{after}"[:columns]
        # Tasks read ahead, and what no commit has counted yet is missing for a moment: then the bar waits.
        self._share = share = max(share, self._share)
        after = f" {share:4.0%}  {after}"
        room = min(_BAR_COLUMNS, max(_SMALLEST_BAR, columns - len(before) - len(after)))
        done, rest = bar_of(share, room, has_blocks=can_show(sys.stderr, "█░"))
        fits = max(0, columns - len(before) - room)
        return f"{before}{painted(done, Colour.GREEN)}{rest}{after[:fits]}"


def make_progress(kind: str, pipeline: str | None = None, run_id: str | None = None) -> TerminalProgress | JsonProgress:
    if kind == "json":
        return JsonProgress(pipeline, run_id)
    return LiveProgress() if is_terminal(sys.stderr) else TerminalProgress()
