"""Whose turn it is to read: at most so many pipelines of a fleet at once, and who has waited longest is next.

Only reading takes a turn. A pipeline that lists, recovers or waits for a store that does not answer holds up nobody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from blizzard.core.kinds import Kind
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Cores, SharedPlan
from blizzard.errors import Temporary
from blizzard.run.ports import Ingestor, Reader, StopRequest
from blizzard.schema import DeltaSchema

_LOOK_S = 0.5  # how often somebody who waits asks whether to give up


class Turns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._queue: deque[object] = deque()
        self._change = threading.Condition()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def take(self, gives_up: Callable[[], bool]) -> bool:
        """Wait for a turn. False: `gives_up` came first."""
        me = object()
        with self._change:
            self._queue.append(me)
            try:
                while not self._free or self._queue[0] is not me:
                    if gives_up():
                        return False
                    self._change.wait(_LOOK_S)
                self._free -= 1
                return True
            finally:
                self._queue.remove(me)
                self._change.notify_all()

    def give_back(self) -> None:
        with self._change:
            self._free += 1
            self._change.notify_all()


@dataclass(slots=True, kw_only=True)
class InTurn:
    """An ingestor that reads each batch in its turn. So with a long backlog the others read between two batches.
    `does` is told what it does: `queued`, then `reading`, then `working`."""

    ingestor: Ingestor
    turns: Turns
    does: Callable[[str], None]

    @property
    def schema_fingerprint(self) -> str:
        return self.ingestor.schema_fingerprint

    @property
    def cores(self) -> Cores:
        return self.ingestor.cores

    def prepare(self) -> None:
        self.ingestor.prepare()

    def start(self, stop: StopRequest) -> int:
        return self.ingestor.start(stop)

    def adopt(self, schema: DeltaSchema) -> None:
        self.ingestor.adopt(schema)

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        with _turn(self.turns, self.does, stop) as is_ours:
            return self.ingestor.run(plan, ticket=ticket, stop=stop) if is_ours else BatchResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsInTurn:
    """The same for a pipeline with several targets."""

    reader: Reader
    turns: Turns
    does: Callable[[str], None]

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopRequest
    ) -> Mapping[str, BatchResult]:
        with _turn(self.turns, self.does, stop) as is_ours:
            if is_ours:
                return self.reader.run(plan, tickets=tickets, stop=stop)
            return {name: BatchResult() for name in plan.wanted}


@contextmanager
def _turn(turns: Turns, does: Callable[[str], None], stop: StopRequest) -> Iterator[bool]:
    """Whether the turn came. Asked to stop, a batch ends with what it has read: nothing. If the batch before it has
    failed, it must not end well."""
    does("queued")
    try:
        if not turns.take(lambda: stop.requested() or stop.must_cancel()):
            if stop.must_cancel():
                raise Temporary("the batch was cancelled; nothing of it was committed", kind=Kind.INTERRUPTED)
            yield False
            return
        try:
            does("reading")
            yield True
        finally:
            turns.give_back()
    finally:
        does("working")
