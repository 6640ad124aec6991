"""The loop of a run: every target recovers and looks; then they plan, read and commit until nothing is left.

Targets that want mostly the same files share a read (`core/share.py`). Each commits to its own log. When one fails,
the policy says whether the others go on (`core/commit_policy.py`); what was committed stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from blizzard.core.commit_policy import CommitPolicy
from blizzard.core.share import Want
from blizzard.errors import Fenced, SparkGone
from blizzard.run.lane import Lane, Prepared
from blizzard.run.plan import plan_read
from blizzard.run.ports import Ports, Reader, StopRequest, Table
from blizzard.run.read import Part, ReadsForOne, read_batch
from blizzard.run.settings import RunSettings


def drain(ports: Ports, settings: RunSettings, table: Table | None) -> Table | None:
    """Ingest what is listed now into one table; None: it must be made first. Returns the table; None if none was made,
    or if the pipeline is paused."""
    lane = Lane(lambda: Prepared(ports=ports, settings=settings, table=table), emit=ports.emit)
    drain_all([lane], CommitPolicy(), ReadsForOne({"": ports.ingestor}), ports.stop)
    return None if lane.is_paused else lane.table


def drain_all(
    lanes: Sequence[Lane],
    policy: CommitPolicy,
    reader: Reader,
    stop: StopRequest,
    forget_looks: Callable[[], None] = lambda: None,
    *,
    looks_again_s: float | None = None,
) -> bool:
    """Ingest what is listed now into every target. Raises the error of the target whose failure ends the run.
    `forget_looks` is called when tables were opened: what was listed before must not be compared with their logs.

    With `looks_again_s`, a target that lags does not keep new files from those that are through: after this time it
    ends early, and returns True. Then the caller must look again at once."""
    run = _Run(lanes, policy, reader, stop, forget_looks, looks_again_s)
    is_early = run.drain()
    raise_cause_of_end(lanes, policy)
    return is_early


def raise_cause_of_end(lanes: Sequence[Lane], policy: CommitPolicy) -> None:
    """Raise the error of the target whose failure ends the run, if there is one."""
    cause = _cause_of_end(lanes, policy)
    if cause is not None:
        assert cause.error is not None
        raise cause.error


def _cause_of_end(lanes: Sequence[Lane], policy: CommitPolicy) -> Lane | None:
    for lane in lanes:
        if isinstance(lane.error, Fenced | SparkGone):
            return lane
    failed = {lane.name for lane in lanes if lane.error is not None}
    name = policy.cause_of_end([lane.member for lane in lanes], failed)
    return next((lane for lane in lanes if lane.name == name), None) if name is not None else None


@dataclass(frozen=True, slots=True)
class _Run:
    lanes: Sequence[Lane]
    policy: CommitPolicy
    reader: Reader
    stop: StopRequest
    forget_looks: Callable[[], None]
    looks_again_s: float | None = None
    began_s: float = field(default_factory=time.monotonic)

    def drain(self) -> bool:
        """True: some are through, and others still lag."""
        is_early = False
        for lane in self.lanes:
            lane.attempt(lane.prepare)
        while self._all_have_begun():
            wanting = [] if self._is_paused() else [lane for lane in self.lanes if lane.wants_more()]
            if wanting and not self._must_look_again(wanting):
                self._read(wanting)
                continue
            is_early |= bool(wanting)
            self._each(lambda lane: lane.finish())
            self._each(lambda lane: lane.clean_and_report(self._others(lane)))
            if not any(lane.must_begin and lane.error is None for lane in self.lanes):
                return is_early
        self._each(lambda lane: lane.wait())  # the run ends early; what is queued for the others is committed
        return False

    def _is_paused(self) -> bool:
        return any(lane.is_paused for lane in self.lanes)  # one log that says so is enough

    def _must_look_again(self, wanting: Sequence[Lane]) -> bool:
        """Those that lag have had their turn, so that nobody starves."""
        if self.looks_again_s is None or not all(lane.given_bytes for lane in wanting):
            return False
        is_one_through = any(lane.is_ready and lane not in wanting for lane in self.lanes)
        return is_one_through and time.monotonic() - self.began_s >= self.looks_again_s

    def _each(self, step: Callable[[Lane], None]) -> None:
        for lane in self.lanes:
            if lane.is_ready:
                lane.attempt(partial(step, lane))

    def _others(self, lane: Lane) -> Sequence[Lane]:
        return [other for other in self.lanes if other is not lane]

    def _all_have_begun(self) -> bool:
        """False: the run is over. Tables that are there come first: no table is made for a run that cannot begin."""
        begun = []
        beginning = [lane for lane in self.lanes if lane.must_begin and lane.error is None]
        for lane in beginning:
            lane.attempt(lane.refresh)
        if beginning:
            self.forget_looks()
        for lane in sorted(beginning, key=lambda lane: lane.table is None):
            if lane.table is None and self._is_paused():
                lane.stay_without_table()
            elif lane.error is None and self.cause_of_end() is None:
                lane.attempt(lane.begin)
                begun.append(lane)
        for lane in begun:
            if lane.is_ready and self.cause_of_end() is None:
                lane.attempt(partial(lane.compare_with, self._others(lane)))
                lane.attempt(partial(lane.clean_announced, self._others(lane)))
        return self.cause_of_end() is None

    def cause_of_end(self) -> Lane | None:
        """The target whose failure ends the run; None: the run goes on."""
        return _cause_of_end(self.lanes, self.policy)

    def _read(self, wanting: Sequence[Lane]) -> None:
        """One read, for those that share it; then their commits, in the order of the tables' ids: of two drivers with
        the same batch only one passes the first table."""
        lanes = {lane.name: lane for lane in wanting}
        planned_ms = wanting[0].ports.clock.now_ms()
        planned = [(lane, lane.attempt(lane.plan)) for lane in wanting]
        wants = [
            Want(name=lane.name, plan=plan, given_bytes=lane.given_bytes) for lane, plan in planned if plan is not None
        ]
        if not wants:
            return
        parts_of = {lane.name: (lane.settings.limits, lane.ports.ingestor) for lane in wanting}
        together, shared = plan_read(wants, parts_of.__getitem__, self.stop)
        begun = {want.name: lanes[want.name].begin_batch(want.plan, planned_ms=planned_ms) for want in together}
        parts = {name: Part(ingest=batch.ingest, ticket=batch.ticket) for name, batch in begun.items()}
        reading = [lanes[name] for name in begun]
        started = time.monotonic()
        try:
            outcomes = read_batch(self.reader, shared, parts, _StopOfRead(self, reading))
        except Exception as e:
            for lane in reading:
                lane.fail(e)
            return
        seconds = time.monotonic() - started
        self.stop.batch_ended()
        for lane in sorted(reading, key=_table_id):
            outcome = outcomes[lane.name]
            if isinstance(outcome, Exception):
                lane.fail(outcome)
            else:
                lane.attempt(partial(lane.take, begun[lane.name], outcome, seconds=seconds))


def _table_id(lane: Lane) -> str:
    return lane.table.table_id if lane.table is not None else ""


@dataclass(frozen=True, slots=True)
class _StopOfRead:
    """A read is given up when the run is asked to stop at once, or when nothing of it could be committed."""

    run: _Run
    lanes: Sequence[Lane]

    def requested(self) -> bool:
        return self.run.stop.requested()

    def must_cancel(self) -> bool:
        return self.run.stop.must_cancel() or all(lane.has_failed_commit() for lane in self.lanes)

    def ends_batch(self) -> bool:
        return self.run.stop.ends_batch()

    def batch_ended(self) -> None:
        self.run.stop.batch_ended()
