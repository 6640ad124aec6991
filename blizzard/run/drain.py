"""The whole story of a run: recover, list, plan, ingest, commit, until drained or told to stop.

The only state that outlives a run is in the Delta log; after any doubt it is read again from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from blizzard.core.kinds import Kind
from blizzard.core.late import Unexpected
from blizzard.core.look import Listed, Look
from blizzard.core.plan import TooManyPrefixes, count_backlog, is_drained, plan_batch
from blizzard.core.position import FOR_A_PERSON, Marks, Position
from blizzard.core.recover import Fresh, Resume
from blizzard.core.types import BatchPlan
from blizzard.errors import BadData, Refused, Temporary
from blizzard.run.inflight import CommitQueue
from blizzard.run.ingest import BatchIngest
from blizzard.run.landing import FilesGone, PositionMoved
from blizzard.run.late import tell
from blizzard.run.ports import Ports
from blizzard.run.starting import RunSettings, Start
from blizzard.run.summary import Summary

# How often a batch whose files were taken away is read by one run.
_READ_AGAIN = 3


def run_pipeline(ports: Ports, settings: RunSettings, summary: Summary) -> None:
    """Drain what is listed now. `summary` tells what was committed even when this raises."""
    lost = 0
    while True:
        try:
            return _Run(ports, settings, summary).drain()
        except PositionMoved as moved:  # each time round, the log holds one more commit of ours
            ports.progress.warn(f"{moved}; recovering from the log")
            settings = replace(settings, start_from=None)  # it was said, and recorded in the first commit
        except FilesGone as gone:
            lost += 1
            if lost == _READ_AGAIN:
                raise
            ports.progress.warn(f"{gone} Reading it again.")
            if summary.commits:
                settings = replace(settings, start_from=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSteps:
    """How a run begins: what it found, and the first batch; without one it is idle."""

    recovered: Resume | Fresh
    position: Position | None  # None: the table is yet to be made
    listed: Listed
    found: Unexpected
    plan: BatchPlan | None
    backlog: tuple[int, int]  # files and stored bytes
    renews: bool


def look_ahead(ports: Ports, settings: RunSettings, summary: Summary) -> FirstSteps:
    """The first steps of `run_pipeline`, up to the first plan. They change what the ports and the cleaning let them
    change: a settled quarantine, cleaned source files."""
    return _Run(ports, settings, summary).look_ahead()


class _Run:
    def __init__(self, ports: Ports, settings: RunSettings, summary: Summary) -> None:
        self._ports, self._settings, self._summary = ports, settings, summary
        self._start = Start(ports, settings, summary)
        self._held: dict[str, str] = {}  # left to the next run, and why
        self._young: Mapping[str, str] = {}  # of those, the ones that were left alone from the beginning

    def drain(self) -> None:
        table = self._ports.place.open()
        whole: Listed | None = None
        if table is None:
            whole = listed = self._start.list_for_new_table()
            if is_drained(self._start.recover(None).marks, listed.files, listed.held):
                self._summary.backlog_files = self._summary.held_files = len(listed.held)
                return  # nothing to put into a table: none is made
            _ = self._ports.ingestor.slots  # without a session that can fill it, no table is made
            if self._ports.stop.requested():
                return
            table = self._start.create_table()
        position, listed = self._start.begin(table, whole)
        self._held, self._young, begun_at = dict(listed.held), listed.held, position.sequence
        self._summary.backlog_files = count_backlog(position.marks, listed.files, self._start.waiting)[0]
        look = Look(listed, position, self._settings.late.grace_ms)
        commits = CommitQueue(self._ports, self._settings, self._summary, table, position.on.delta_version, look)
        ingest = BatchIngest(self._ports, self._settings, self._summary, table, commits)
        with commits.finished_in_order():
            while True:
                position = self._start.take_up_late(position)
                if not self._goes_on(position, listed, commits):
                    break
                position = self._ingest_batch(position, listed, ingest, commits)
            if self._renews(position):
                commits.renew(position)
        if self._summary.sequence != begun_at:  # what is to be cleaned is committed
            self._start.clean_up(position, table, self._summary.sequence or 0)
        self._tell_held(position)

    def look_ahead(self) -> FirstSteps:
        table, position = self._ports.place.open(), None
        if table is None:
            listed = self._start.list_for_new_table()
            marks = self._start.recover(None).marks
            backlog = count_backlog(marks, listed.files)
        else:
            position, listed = self._start.begin(table)
            backlog = count_backlog(position.marks, listed.files, self._start.waiting)
            position = self._start.take_up_late(position)
            marks = position.marks
        self._held = dict(listed.held)
        is_idle = is_drained(marks, listed.files, self._held)
        assert self._start.recovered is not None  # or it would have refused
        return FirstSteps(
            recovered=self._start.recovered,
            position=position,
            listed=listed,
            found=self._start.found,
            plan=None if is_idle else self._plan(marks, listed, self._ports.ingestor.slots),
            backlog=backlog,
            renews=self._start.is_fragile or (is_idle and position is not None and self._renews(position)),
        )

    def _renews(self, position: Position) -> bool:
        return self._start.renewal_due and position.sequence == self._summary.sequence and not self._summary.commits

    def _goes_on(self, position: Position, listed: Listed, commits: CommitQueue) -> bool:
        limit = self._settings.max_batches
        return not (
            self._ports.stop.requested()
            or (limit is not None and self._summary.commits + commits.pending >= limit)
            or is_drained(position.marks, listed.files, self._held)
        )

    def _ingest_batch(self, position: Position, listed: Listed, ingest: BatchIngest, commits: CommitQueue) -> Position:
        """Read one batch, queue its commit, and return the state the next one is planned on."""
        planned_ms, slots = self._ports.clock.now_ms(), self._ports.ingestor.slots
        plan = self._plan(position.marks, listed, slots)
        self._ports.progress.planned(
            plan, sequence=position.sequence + 1, backlog_files=self._summary.backlog_files or 0
        )
        position, result = ingest.run(plan, position, planned_ms=planned_ms)
        changed = dict.fromkeys(result.changed, "changed after it was listed")
        self._held |= changed | result.unreadable
        tell(self._ports.progress, tuple(changed), "left to the next run: they changed after they were listed")
        tell(self._ports.progress, tuple(result.unreadable), "left to the next run: they cannot be read to their end")
        if not result.slices:
            return position
        held = self._held | self._start.given_up
        return commits.add(position, plan, result, planned_ms=planned_ms, held=held)

    def _plan(self, position: Marks, listed: Listed, slots: int) -> BatchPlan:
        try:
            return plan_batch(
                position,
                listed.files,
                self._settings.limits,
                slots=slots,
                held=self._held,
                given_up=self._start.given_up,
            )
        except TooManyPrefixes as e:
            way_out = (
                "The key of a pipeline that has begun cannot be changed. Move the parts that it has not begun into"
                " another folder, and read that as another source, with a --pipeline name of its own"
                if position.prefix_marks
                else "Choose a key with fewer values, or leave source.marks_per out"
            )
            raise Refused(f"{e}. Nothing more was read. {way_out}.", kind=Kind.TOO_MANY_PREFIXES) from e

    def _tell_held(self, position: Position) -> None:
        """One file's trouble must not stop the others; trouble with all of them is no good end."""
        self._summary.held_files = len(self._held)
        named = position.marks.in_progress  # of files that are only young, those that the mark has passed
        held = {path: why for path, why in self._held.items() if path in named or path not in self._young}
        if len(held) > self._settings.max_held_files:
            raise BadData(
                f"{len(held):,} files are held back, more than limits.max_held_files"
                f" ({self._settings.max_held_files:,}); the first: {_first(held)}. What could be read is"
                f" committed. Mend or move them, or raise the limit.",
                kind=Kind.TOO_MANY_HELD_FILES,
            )
        if self._summary.commits:
            return
        unavailable = {path: why for path, why in self._held.items() if why.startswith("unavailable:")}
        if unavailable:
            raise Temporary(
                f"none of the new files could be read: {_first(unavailable)}. Run again.", kind=Kind.STORE_UNAVAILABLE
            )
        unreadable = {path: why for path, why in self._held.items() if why.startswith(FOR_A_PERSON)}
        if unreadable:
            raise BadData(
                f"none of the new files could be read, {len(unreadable)} of them for a reason that stays:"
                f" {_first(unreadable)}. They are tried again by every run.",
                kind=Kind.UNREADABLE_FILES,
            )


def _first(held: Mapping[str, str]) -> str:
    path, why = next(iter(held.items()))
    return f"{path} ({why})"
