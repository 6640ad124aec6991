"""One target in a run: where it stands, what it wants to read next, its commits in flight, what went wrong for it.

Only the Delta log outlives a run. After any doubt the position is read from the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from blizzard.core import events
from blizzard.core.batch import find_passed, next_position
from blizzard.core.commit import Intent
from blizzard.core.commit_policy import Member
from blizzard.core.events import Emit, Held, Noted, Planned, TargetFailed, Warned
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.ledger import LedgerEntry
from blizzard.core.lists import count_are, some
from blizzard.core.look import Listed, Look
from blizzard.core.missed import MAX_NAMED, find_missed
from blizzard.core.plan import is_drained
from blizzard.core.position import Position
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, find_file
from blizzard.errors import BadData, Fenced, Refused
from blizzard.faults import reach
from blizzard.run.after_ingest import Other, Others, clean_announced, clean_up
from blizzard.run.commit import Committing, FilesGone, OvertakenByPause, PositionMoved
from blizzard.run.commit_queue import CommitQueue, Gate
from blizzard.run.discover import Discovered, discover, look_at_all, warn_of
from blizzard.run.held import check_held, tell_held, warn_of_unreadable
from blizzard.run.ingest import BatchIngest
from blizzard.run.plan import plan
from blizzard.run.ports import Ports, Result, Table
from blizzard.run.recover import Start, recover, recover_without_table, renew_at_once, renewal_of, stay_paused
from blizzard.run.settings import RunSettings

# How often one run reads a batch whose files were deleted before the commit.
_READ_AGAIN = 3
_EMPTY_TABLE = (
    "the table that this run made is there, without a row: the next run fills it. A table keeps its schema: to make it"
    " with another one (--schema, --hints), delete it first"
)
_NOTHING_NEW = "nothing new; the position was committed once more"
# What a refusal of one of several targets says besides: its way out is an option of the run, and so for all of them.
_OF_SEVERAL = {
    Kind.SOURCE_READ_BY_OTHER: (
        "All targets have one pipeline name, and --reads-again is for all of them: a table that knows another name than"
        " the others needs a configuration of its own"
    ),
    Kind.LATE_UNCLEAR: "late_files.unclear is for all targets: use it only if it is right for each that says this",
}


@dataclass(slots=True, kw_only=True)
class _Work:
    """What a lane has once it has begun."""

    table: Table
    recovered: Position  # as the log had it
    position: Position  # the one to plan the next batch on
    discovered: Discovered
    look: Look
    commits: CommitQueue
    ingest: BatchIngest
    missed: tuple[LedgerEntry, ...] = ()  # to be said in the next commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a lane reads next: planned on `position`, not committed yet."""

    plan: BatchPlan
    position: Position
    planned_ms: int
    ticket: BatchTicket
    ingest: BatchIngest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a lane works with. `table` None: it must be made first."""

    ports: Ports
    settings: RunSettings
    table: Table | None


class Lane:
    """`prepare` opens the table; it returns None where there is no record to write, and so nothing to do. `name` is
    that of the target; a run with one table has no name for it."""

    def __init__(
        self,
        prepare: Callable[[], Prepared | None],
        *,
        emit: Emit,
        name: str = "",
        is_required: bool = True,
        gate: Gate | None = None,
    ) -> None:
        self._prepare, self._emit, self._gate = prepare, emit, gate or Gate()
        self.member = Member(name=name, is_required=is_required)
        self.table: Table | None = None
        self.error: Exception | None = None  # why it takes no further part in this run
        self.must_begin = True
        self.is_paused = False  # the log says so: nothing is read, for no target
        self._prepared: Prepared | None = None
        self.batches = 0  # that are in the log
        self.given_bytes = 0  # decompressed bytes that were read for it
        self._begun = self._lost = 0
        self._has_made_table = False
        self._held: dict[str, str] = {}  # left to the next run, and why
        self._work: _Work | None = None  # None: there is nothing to do
        self._finished: tuple[Table, Position] | None = None

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked what it wants."""
        return self.error is None and not self.must_begin

    @property
    def settings(self) -> RunSettings:
        return self._prepared_parts().settings

    @property
    def ports(self) -> Ports:
        return self._prepared_parts().ports

    def _prepared_parts(self) -> Prepared:
        assert self._prepared is not None
        return self._prepared

    def prepare(self) -> None:
        """Open the table. Before this, and where it fails, nothing else can be asked of the lane."""
        self._prepared = self._prepare()
        if self._prepared is None:
            self.must_begin = False
        else:
            self.table = self._prepared.table

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Carry out a step of this lane. What goes wrong in it ends this lane only, and `error` says it."""
        try:
            return step()
        except Exception as e:
            self.fail(e)
            return None

    def fail(self, error: Exception) -> None:
        """The lane takes no further part, or begins again from the log. An earlier commit that failed is the reason."""
        work, self._work = self._work, None
        if work is not None:
            try:
                work.commits.wait()
            except Exception as first:
                error = first
            self.batches += work.commits.landed
        if isinstance(error, PositionMoved):  # ends: each time the log holds one more commit of ours
            self._emit(Warned(message=f"{error}; recovering from the log"))
            self._begin_again(has_committed=True)
            return
        if isinstance(error, OvertakenByPause):  # ends: each time a person has paused or resumed it once more
            self._emit(Warned(message=f"{error} Recovering from the log."))
            self._begin_again(has_committed=True)
            return
        if isinstance(error, FilesGone):
            self._lost += 1
            if self._lost < _READ_AGAIN:
                self._emit(Warned(message=f"{error} Reading it again."))
                self._begin_again(has_committed=self.batches > 0)
                return
        if isinstance(error, BadData):
            self._take_table_back()
        self.error = error = _of_several(error) if self.name else error
        if self.name:
            self._emit(TargetFailed(kind=getattr(error, "kind", Kind.INTERNAL), message=str(error)))

    def _begin_again(self, *, has_committed: bool) -> None:
        self.must_begin, self._held = True, {}
        if has_committed:  # the first commit has recorded where to begin
            prepared = self._prepared_parts()
            self._prepared = replace(prepared, settings=replace(prepared.settings, start_from=None))

    def refresh(self) -> None:
        """Before it begins: the table as it is now. Its handle must not be newer than a listing that it begins with."""
        if self._begun and self.table is not None:
            self.table.refresh()
        self._begun += 1

    def stay_without_table(self) -> None:
        """The pipeline is paused: no table is made, and no session begun for it."""
        self.must_begin = False

    def begin(self) -> None:
        """Recover and look at the source; make the table if there is none."""
        self.must_begin, whole = False, None
        if self.table is None:
            whole = self._look_before_there_is_a_table()
            if whole is None:
                return
            # Make no table if there is no session to fill it.
            if not self.ports.ingestor.start(self.ports.stop) or self.ports.stop.requested():
                return
            self.table = _create_table(self.ports, self.settings)
            self._has_made_table = True
        start, whole = find_start(self.ports, self.settings, self.table, whole)
        self.is_paused = start.position.paused is not None
        if self.is_paused:
            stay_paused(self.ports, self.settings, self.table, start)
            return
        discovered = discover(self.ports, self.settings, self.table, start, whole)
        self._held = dict(discovered.listed.held)
        tell_held(self._emit, self._held)
        commits = self._commit_queue(self.table, discovered.position)
        self._work = _Work(
            table=self.table,
            recovered=start.position,
            position=discovered.position,
            discovered=discovered,
            look=Look(discovered.listed, discovered.position, self.settings.late.grace_ms),
            commits=commits,
            ingest=BatchIngest(self.ports, self.settings, self.table, commits),
        )

    def clean_announced(self, others: Sequence[Lane]) -> None:
        """Archive or delete what an earlier commit announced, if the other lanes allow it; name what is due next."""
        work = self._work
        if work is None:
            return
        position, renewal = clean_announced(
            self.ports, self.settings.cleaning, work.table, work.position, _as_logged(others)
        )
        work.position = position
        work.discovered = replace(work.discovered, renewal=work.discovered.renewal or renewal)

    def compare_with(self, others: Sequence[Lane]) -> None:
        """Say which files the others have ingested that this target can no longer read, and record them."""
        work = self._work
        if work is None:
            return
        known = [(lane, other) for lane in others if (other := lane.as_logged()) is not None]
        missed = missed_files(work.recovered, work.discovered.listed, work.table, [other for _, other in known])
        if missed and work.recovered.begun.since_ms is not None:  # its own listing leaves older files out
            looks = [lane.ports.source.look(EVERYTHING).files for lane, _ in known]
            missed = [entry for entry in missed if not any(find_file(files, entry.path) for files in looks)]
        if not missed:
            return
        names = some([entry.path for entry in missed])
        said = f"{count_are(len(missed), 'file')} gone from the source that other targets have ingested"
        self._emit(Warned(message=f"{said}, and missing in this table: {names}. The ledger says skipped of each."))
        work.missed = tuple(missed[:MAX_NAMED])
        work.discovered = replace(work.discovered, renewal=work.discovered.renewal or "it has missed files")

    def as_logged(self) -> Other | None:
        """How the log has this target; None: it cannot be said, or there is nothing yet."""
        if not self.is_ready or self._logged is None:
            return None
        table, position = self._logged
        return Other(name=self.name, position=position, table=table, quarantine=self.ports.quarantine)

    @property
    def _logged(self) -> tuple[Table, Position] | None:
        if self._work is None:
            return self._finished
        newest = self._work.commits.newest
        return self._work.table, self._work.recovered if newest is None else newest.position

    def _look_before_there_is_a_table(self) -> Listed | None:
        """None: there is nothing to ingest, so no table is made."""
        whole, fresh = look_at_all(self.ports, self.settings), recover_without_table(self.ports, self.settings)
        if not is_drained(fresh.marks, whole.files, whole.held):
            return whole
        waiting = len(whole.held)
        tell_held(self._emit, dict(whole.held), is_all=True)
        self._emit(events.Discovered(backlog_files=waiting, backlog_bytes=0, held=waiting, has_table=False))
        return None

    def _take_table_back(self) -> None:
        """Data stopped the run. An empty table would only hold the next one to a schema that may not fit."""
        if not self._has_made_table or self.batches or self.table is None:
            return
        table_id = self.table.table_id
        if self.ports.place.take_back(self.settings.pipeline, self.settings.run_id):
            self.table = None
            self.ports.quarantine.take_back(self.settings.run_id, table_id)
        else:
            self._emit(Warned(message=_EMPTY_TABLE))

    def _commit_queue(self, table: Table, position: Position) -> CommitQueue:
        return CommitQueue(
            Committing.through(self.ports, self.settings, table),
            self.ports.background,
            self.ports.emit,
            planned_on=position.on.delta_version,
            max_inflight=self.settings.max_inflight,
            gate=self._gate,
        )

    def wants_more(self) -> bool:
        """Whether there is something to read for it now."""
        work = self._work
        if not self.is_ready or work is None:
            return False
        work.position, work.discovered = work.discovered.take_up(work.position, self.settings.late)
        limit = self.settings.max_batches
        return not (
            self.ports.stop.requested()
            or (limit is not None and self.batches + work.commits.added >= limit)
            or is_drained(work.position.marks, work.discovered.listed.files, self._held)
        )

    def has_failed_commit(self) -> bool:
        """Whether what is read for it now can no longer be committed."""
        return self._work is None or self._work.commits.has_failed()

    def plan(self) -> BatchPlan | None:
        """None: it was asked to stop before anything could be read."""
        work = self._begun_work()
        slots = self.ports.ingestor.start(self.ports.stop)
        if not slots:
            return None
        return plan(
            work.position.marks,
            work.discovered.listed.files,
            self.settings.limits,
            slots=slots,
            cores=self.ports.ingestor.cores,
            held=self._held,
            given_up=work.discovered.given_up,
            framing=work.position.framing,
        )

    def begin_batch(self, planned: BatchPlan, *, planned_ms: int) -> Batch:
        work = self._begun_work()
        self._emit(Planned(plan=planned, sequence=work.position.sequence + 1))
        return Batch(
            plan=planned,
            position=work.position,
            planned_ms=planned_ms,
            ticket=work.ingest.begin(work.position, planned_ms=planned_ms),
            ingest=work.ingest,
        )

    def take(self, batch: Batch, result: BatchResult, *, seconds: float) -> None:
        """Queue the commit of what was read, and stand at the position after it."""
        work, given_up = self._begun_work(), self._begun_work().discovered.given_up
        position, result = work.ingest.end(batch.position, result, batch_id=batch.ticket.batch_id, seconds=seconds)
        work.position, self.given_bytes = position, self.given_bytes + max(1, result.bytes_read)
        changed = dict.fromkeys(result.changed, "changed after it was listed")
        self._held |= changed | result.unreadable
        warn_of(self.ports.emit, tuple(changed), "left to the next run: changed after being listed")
        warn_of_unreadable(self._emit, result.unreadable)
        tell_held(self._emit, self._held)
        if not result.slices:
            return
        after = next_position(
            position,
            batch.plan,
            result,
            batch_id=result.batch_id,
            now_ms=self.ports.clock.now_ms(),
            held=self._held | dict(given_up),
            look=work.look,
        )
        late = find_passed(position.marks, result)
        work.position = after
        missed, work.missed = work.missed, ()
        intent = Intent(position=after, result=result, planned_ms=batch.planned_ms, late=late, edited=missed)
        work.commits.add(intent)

    def _begun_work(self) -> _Work:
        assert self._work is not None
        return self._work

    def wait(self) -> None:
        """Until its commits in flight are in the log."""
        if self._work is not None:
            self._work.commits.wait()

    def finish(self) -> None:
        """Nothing more is read: renew the position if it must be, and wait until all is in the log."""
        work = self._work
        if work is None:
            return
        if work.discovered.renewal is not None and not work.commits.added:
            work.position = self._renew(work)
        work.commits.wait()

    def clean_and_report(self, others: Sequence[Lane]) -> None:
        """After `finish`: clean the source, and say what is held back."""
        work = self._work
        if work is None:
            return
        self._finished, self._work = self._logged, None
        self.batches += work.commits.landed
        if work.commits.newest is not None:  # its commit has announced what will be cleaned
            sequence = work.commits.newest.position.sequence
            clean_up(self.ports, self.settings.cleaning, work.table, work.position, sequence, _as_logged(others))
        self._emit(Held(files=len(self._held)))
        tell_held(self._emit, self._held, is_all=True)
        most, listed = self.settings.max_held_files, work.discovered.listed
        check_held(self._held, work.position, listed, at_most=most, has_read=self.batches > 0)

    def _renew(self, work: _Work) -> Position:
        intent = replace(renewal_of(work.position, now_ms=self.ports.clock.now_ms()), edited=work.missed)
        work.commits.add(intent)
        self._emit(Noted(message=f"{_NOTHING_NEW} (sequence {intent.position.sequence})"))
        return intent.position


def missed_files(position: Position, listed: Listed, table: Table, others: Sequence[Other]) -> Sequence[LedgerEntry]:
    """Files that the others have ingested and that the target at this position can no longer read."""
    logs = [other.table.scan_back() for other in others if other.position.marks != position.marks]
    return find_missed(position, listed, table.scan_back(), logs)


def begin(ports: Ports, settings: RunSettings, table: Table, others: Others = ()) -> tuple[Start, Discovered]:
    """As a target begins: where it goes on, what there is to read, and what is cleaned first. A pipeline that is paused
    is looked at as if it were resumed."""
    start, whole = find_start(ports, settings, table, None)
    discovered = discover(ports, settings, table, start, whole)
    position, renewal = clean_announced(ports, settings.cleaning, table, discovered.position, others)
    return start, replace(discovered, position=position, renewal=discovered.renewal or renewal)


def find_start(ports: Ports, settings: RunSettings, table: Table, whole: Listed | None) -> tuple[Start, Listed | None]:
    """Where the run goes on; and a listing of everything, if one was needed for that. `whole` is one from before there
    was a table."""
    had_no_table = whole is not None
    if whole is None and settings.start_from is not None and settings.start_from.adopts:
        whole = look_at_all(ports, settings)
    start = recover(ports, settings, table, whole.files if whole is not None else ())
    if had_no_table and start.position.sequence:
        raise Fenced(
            f"another run of pipeline {settings.pipeline!r} made the table and committed sequence"
            f" {start.position.sequence} to it while this one was about to. This run stops; nothing of it was"
            f" committed. Run one driver per pipeline."
        )
    if start.is_fragile and not ports.stop.requested():
        start = renew_at_once(ports, settings, table, start)
    return start, whole


def _of_several(error: Exception) -> Exception:
    if not isinstance(error, Refused):
        return error
    more = _OF_SEVERAL.get(error.kind)
    if more is None or more in str(error):  # a target that rests fails with the same error in every cycle
        return error
    return Refused(f"{error} {more}.", kind=error.kind)


def _as_logged(lanes: Sequence[Lane]) -> Sequence[Other] | None:
    """None if one of them cannot say what it needs."""
    others = [lane.as_logged() for lane in lanes]
    return None if None in others else [other for other in others if other is not None]


def _create_table(ports: Ports, settings: RunSettings) -> Table:
    ports.place.create(settings.pipeline)
    reach("table.made")
    table = ports.place.open()
    if table is None:
        raise Refused("the table was created and is gone again", kind=Kind.TABLE_CREATE)
    return table
