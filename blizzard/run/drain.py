"""The loop of a run: recover, discover; then plan, ingest and commit until nothing is left; then clean the source.

Only the Delta log outlives a run. After any doubt the position is read from the log again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from blizzard.core import events
from blizzard.core.batch import find_passed, next_position
from blizzard.core.commit import Intent
from blizzard.core.events import Held, Noted, Planned, Warned
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.core.look import Listed, Look
from blizzard.core.plan import is_drained
from blizzard.core.position import FOR_A_PERSON, Position
from blizzard.errors import BadData, Refused, Temporary
from blizzard.run.after_ingest import clean_announced, clean_up
from blizzard.run.commit import Committing, FilesGone, PositionMoved
from blizzard.run.commit_queue import CommitQueue
from blizzard.run.discover import Discovered, discover, look_at_all, warn_of
from blizzard.run.ingest import BatchIngest
from blizzard.run.plan import plan
from blizzard.run.ports import Ports, Table
from blizzard.run.recover import Start, recover, recover_without_table, renew_at_once, renewal_of
from blizzard.run.settings import RunSettings

# How often one run reads a batch whose files were deleted before the commit.
_READ_AGAIN = 3
_REASONS_SHOWN = 3
_EMPTY_TABLE = (
    "the table that this run made is there, without a row: the next run fills it. A table keeps its schema: to make it"
    " with another one (--schema, --hints), delete it first"
)
_NOTHING_NEW = "nothing new; the position was committed once more"


def drain(ports: Ports, settings: RunSettings, table: Table | None) -> Table | None:
    """Ingest what is listed now. `table` None: it must be made first. Returns the table; None if none was made."""
    run, lost = _Run(ports, settings, table), 0
    while True:
        try:
            run.drain()
            return run.table
        except PositionMoved as moved:  # ends: each time the log holds one more commit of ours
            ports.emit(Warned(message=f"{moved}; recovering from the log"))
            run = run.again(has_committed=True)
        except FilesGone as gone:
            lost += 1
            if lost == _READ_AGAIN:
                raise
            ports.emit(Warned(message=f"{gone} Reading it again."))
            run = run.again(has_committed=run.batches > 0)


class _Run:
    def __init__(self, ports: Ports, settings: RunSettings, table: Table | None, batches: int = 0) -> None:
        self._ports, self._settings = ports, settings
        self.table = table
        self.batches = batches  # that are in the log
        self._has_made_table = False
        self._held: dict[str, str] = {}  # left to the next run, and why

    def again(self, *, has_committed: bool) -> _Run:
        """Begin again from the log."""
        if self.table is not None:
            self.table.refresh()
        # The first commit has recorded where to begin.
        settings = replace(self._settings, start_from=None) if has_committed else self._settings
        return _Run(self._ports, settings, self.table, self.batches)

    def drain(self) -> None:
        whole = None
        if self.table is None:
            whole = self._look_before_there_is_a_table()
            if whole is None:
                return
            self._ports.ingestor.start()  # make no table if there is no session to fill it
            if self._ports.stop.requested():
                return
            self.table = _create_table(self._ports, self._settings)
            self._has_made_table = True
        try:
            _, discovered = begin(self._ports, self._settings, self.table, whole)
            self._work_through(self.table, discovered)
        except BadData:
            self._take_table_back()
            raise

    def _take_table_back(self) -> None:
        """Data stopped the run. An empty table would only hold the next one to a schema that may not fit."""
        if not self._has_made_table or self.batches:
            return
        if self._ports.place.take_back(self._settings.pipeline, self._settings.run_id):
            self.table = None
            self._ports.quarantine.take_back(self._settings.run_id)
        else:
            self._ports.emit(Warned(message=_EMPTY_TABLE))

    def _look_before_there_is_a_table(self) -> Listed | None:
        """None: there is nothing to ingest, so no table is made."""
        whole, fresh = look_at_all(self._ports, self._settings), recover_without_table(self._ports, self._settings)
        if not is_drained(fresh.marks, whole.files, whole.held):
            return whole
        waiting = len(whole.held)
        self._ports.emit(events.Discovered(backlog_files=waiting, backlog_bytes=0, held=waiting, has_table=False))
        return None

    def _work_through(self, table: Table, discovered: Discovered) -> None:
        position, self._held = discovered.position, dict(discovered.listed.held)
        look = Look(discovered.listed, position, self._settings.late.grace_ms)
        commits = self._commit_queue(table, position)
        ingest = BatchIngest(self._ports, self._settings, table, commits)
        try:
            with commits.finished_in_order():
                while True:
                    position, discovered = discovered.take_up(position, self._settings.late)
                    if not self._goes_on(position, discovered, commits):
                        break
                    position = self._ingest_batch(position, discovered, look, ingest, commits)
                if discovered.renewal is not None and not commits.added:
                    position = self._renew(position, commits)
        finally:
            self.batches += commits.landed
        if commits.newest is not None:  # its commit has announced what will be cleaned
            clean_up(self._ports, self._settings.cleaning, table, position, commits.newest.position.sequence)
        self._report_held(position, discovered.listed)

    def _commit_queue(self, table: Table, position: Position) -> CommitQueue:
        return CommitQueue(
            Committing.through(self._ports, self._settings, table),
            self._ports.background,
            self._ports.emit,
            planned_on=position.on.delta_version,
            max_inflight=self._settings.max_inflight,
        )

    def _goes_on(self, position: Position, discovered: Discovered, commits: CommitQueue) -> bool:
        limit = self._settings.max_batches
        return not (
            self._ports.stop.requested()
            or (limit is not None and self.batches + commits.added >= limit)
            or is_drained(position.marks, discovered.listed.files, self._held)
        )

    def _ingest_batch(
        self, position: Position, discovered: Discovered, look: Look, ingest: BatchIngest, commits: CommitQueue
    ) -> Position:
        """Read one batch, queue its commit, and return the position for the next plan."""
        planned_ms, slots, given_up = self._ports.clock.now_ms(), self._ports.ingestor.start(), discovered.given_up
        batch = plan(
            position.marks,
            discovered.listed.files,
            self._settings.limits,
            slots=slots,
            cores=self._ports.ingestor.cores,
            held=self._held,
            given_up=given_up,
            framing=position.framing,
        )
        self._ports.emit(Planned(plan=batch, sequence=position.sequence + 1))
        position, result = ingest.run(batch, position, planned_ms=planned_ms)
        changed = dict.fromkeys(result.changed, "changed after it was listed")
        self._held |= changed | result.unreadable
        warn_of(self._ports.emit, tuple(changed), "left to the next run: changed after being listed")
        self._warn_of_unreadable(result.unreadable)
        if not result.slices:
            return position
        after = next_position(
            position,
            batch,
            result,
            batch_id=result.batch_id,
            now_ms=self._ports.clock.now_ms(),
            held=self._held | dict(given_up),
            look=look,
        )
        late = find_passed(position.marks, result)
        commits.add(Intent(position=after, result=result, planned_ms=planned_ms, late=late))
        return after

    def _warn_of_unreadable(self, unreadable: Mapping[str, str]) -> None:
        for_a_person = [f"{path} ({why})" for path, why in unreadable.items() if why.startswith(FOR_A_PERSON)]
        others = tuple(path for path, why in unreadable.items() if not why.startswith(FOR_A_PERSON))
        warn_of(self._ports.emit, others, "left to the next run: cannot be read to the end")
        if for_a_person:
            held = f"{count(len(for_a_person), 'file')} held back until somebody acts, and tried by every run"
            self._ports.emit(Warned(message=f"{held}: {some(for_a_person, at_most=_REASONS_SHOWN)}"))

    def _renew(self, position: Position, commits: CommitQueue) -> Position:
        intent = renewal_of(position, now_ms=self._ports.clock.now_ms())
        commits.add(intent)
        self._ports.emit(Noted(message=f"{_NOTHING_NEW} (sequence {intent.position.sequence})"))
        return intent.position

    def _report_held(self, position: Position, listed: Listed) -> None:
        """One unreadable file must not stop the others. If no file could be read, or too many are held, raise."""
        self._ports.emit(Held(files=len(self._held)))
        named = position.marks.in_progress  # a file that is only young counts if the mark has passed it
        held = {path: why for path, why in self._held.items() if path in named or path not in listed.held}
        if len(held) > self._settings.max_held_files:
            raise BadData(
                f"{len(held):,} files are held back, more than limits.max_held_files"
                f" ({self._settings.max_held_files:,}); the first: {_first(held)}. What could be read is"
                f" committed. Fix or move them, or raise the limit.",
                kind=Kind.TOO_MANY_HELD_FILES,
            )
        if self.batches:
            return
        unavailable = {path: why for path, why in self._held.items() if why.startswith(f"{Kind.UNAVAILABLE}:")}
        if unavailable:
            raise Temporary(
                f"none of the new files could be read: {_first(unavailable)}. Run again.", kind=Kind.STORE_UNAVAILABLE
            )
        unreadable = {path: why for path, why in self._held.items() if why.startswith(FOR_A_PERSON)}
        if unreadable:
            raise BadData(
                f"none of the new files could be read, {len(unreadable)} of them for a reason that a retry does not"
                f" change: {_first(unreadable)}. Every run tries them again.",
                kind=Kind.UNREADABLE_FILES,
            )


def begin(ports: Ports, settings: RunSettings, table: Table, whole: Listed | None = None) -> tuple[Start, Discovered]:
    """Where the run goes on, and what there is to read. `whole` is a listing of everything, if there is one."""
    if whole is None and settings.start_from is not None and settings.start_from.adopts:
        whole = look_at_all(ports, settings)
    start = recover(ports, settings, table, whole.files if whole is not None else ())
    if start.is_fragile and not ports.stop.requested():
        start = renew_at_once(ports, settings, table, start)
    discovered = discover(ports, settings, table, start, whole)
    position, renewal = clean_announced(ports, settings.cleaning, table, discovered.position)
    return start, replace(discovered, position=position, renewal=discovered.renewal or renewal)


def _create_table(ports: Ports, settings: RunSettings) -> Table:
    ports.place.create(settings.pipeline)
    table = ports.place.open()
    if table is None:
        raise Refused("the table was created and is gone again", kind=Kind.TABLE_CREATE)
    return table


def _first(held: Mapping[str, str]) -> str:
    path, why = next(iter(held.items()))
    return f"{path} ({why})"
