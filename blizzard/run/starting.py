"""How a run comes to the state it continues: recovery, the table, and what must hold before anything is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from blizzard.core.adopt import Adoption, adoption_warnings, check_rust_reader, decide_adoption
from blizzard.core.bad import BadPolicy
from blizzard.core.batch import RunIdentity, position_before
from blizzard.core.kinds import Kind
from blizzard.core.late import (
    EVERYTHING,
    LatePolicy,
    Scope,
    Unexpected,
    as_looked_at,
    compare_with_ledgers,
    plan_listing,
)
from blizzard.core.log import TableFacts, fence_version, standings_of
from blizzard.core.look import Listed
from blizzard.core.plan import Limits, count_backlog, is_drained
from blizzard.core.position import Position
from blizzard.core.readers import check_moved
from blizzard.core.recover import ADOPTED, Fresh, Resume, StartFrom, check_in_progress, decide_recovery
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, SourceIdentity, find_file
from blizzard.errors import ConfigError, Refused, Temporary
from blizzard.run.after_ingest import Cleaning
from blizzard.run.inflight import CommitQueue
from blizzard.run.late import FilesToTakeUp
from blizzard.run.ports import Ports, Table
from blizzard.run.settle import settle
from blizzard.run.summary import Summary

NO_FILE_MATCHES = "no file of the source matches its pattern"
_UNUSUAL_PATHS = {
    "ledgers": "the newest checkpoint cannot be read; its position was rebuilt from the one before and the ledgers",
    "delta_checkpoint": "the commit with the position is no longer in the log; it was found in a Delta checkpoint",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    pipeline: str
    run_id: str
    limits: Limits
    bad: BadPolicy = field(default_factory=BadPolicy)
    max_quarantined: int | None = None
    rejects_overflow: bool = False  # else the run stops
    scan_commits: int = 100
    start_from: StartFrom | None = None
    reads_again: bool = False  # what another pipeline of the table has read
    max_batches: int | None = None
    max_inflight: int = 2
    max_held_files: int = 1_000
    late: LatePolicy = field(default_factory=LatePolicy)
    cleaning: Cleaning | None = None
    commit_attempts: int = 8


def check_start_from(start_from: StartFrom | None, listing: Sequence[SourceFile]) -> None:
    """A misspelt name would skip everything, or nothing."""
    if start_from is not None and start_from.after is not None and find_file(listing, start_from.after) is None:
        raise ConfigError(
            f"--start-from after:{start_from.after}: there is no such file in the source", kind=Kind.USAGE
        )


def decide_start(
    table: Table | None,
    *,
    pipeline: str,
    source: SourceIdentity | None,
    scan_commits: int,
    start_from: StartFrom | None = None,
    reads_again: bool = False,
    listing: Sequence[SourceFile] = (),
) -> Resume | Fresh:
    """What recovery decides; raises where it refuses. With a `listing`, a source that was moved is noticed."""
    adopts = start_from is not None and start_from.adopts and source is not None
    # The Rust program has no fence that would say whether there is a newer position than the one that is found.
    depth = sys.maxsize if adopts else scan_commits
    facts = table.observe(pipeline, scan_commits=depth) if table is not None else None
    if start_from is not None and start_from.adopts and source is not None:
        start_from = replace(start_from, adopted=_adopt(facts, pipeline, source, listing).marks)
    recovery = decide_recovery(facts, pipeline=pipeline, source=source, start_from=start_from, reads_again=reads_again)
    if isinstance(recovery, Refuse):
        raise Refused(recovery.message, kind=recovery.kind)
    if isinstance(recovery, Fresh) and facts is not None and table is not None and source is not None:
        _require_unread(table, facts, pipeline, source, recovery, listing)
    return recovery


def _require_unread(
    table: Table,
    facts: TableFacts,
    pipeline: str,
    source: SourceIdentity,
    fresh: Fresh,
    listing: Sequence[SourceFile],
) -> None:
    """A pipeline that begins must not read what another program, or a pipeline at another place, has read."""
    if fresh.reads_again or not listing:
        return
    refusal = check_rust_reader(facts, source, fresh.marks) or check_moved(
        table.scan_back(),
        standings_of(facts.commits, facts.checkpoint),
        pipeline=pipeline,
        source=source,
        begins_at=fresh.marks,
        listing=listing,
    )
    if refusal is not None:
        raise Refused(refusal.message, kind=refusal.kind)


def _adopt(facts: TableFacts | None, pipeline: str, source: SourceIdentity, listing: Sequence[SourceFile]) -> Adoption:
    adoption = decide_adoption(facts, pipeline=pipeline, source=source, listing=listing)
    if isinstance(adoption, Refuse):
        raise Refused(adoption.message, kind=adoption.kind)
    return adoption


class Start:
    def __init__(self, ports: Ports, settings: RunSettings, summary: Summary) -> None:
        self._ports, self._settings, self._summary = ports, settings, summary
        self._files = FilesToTakeUp(ports.progress, settings.late, summary)
        # To commit the position once more although nothing was read: it would expire, or what a look found out would
        # be found out again and again.
        self.renewal_due = False
        self.recovered: Resume | Fresh | None = None
        self.is_fragile = False  # what it was recovered from may soon be gone
        self._listing_s = 0.0

    @property
    def given_up(self) -> dict[str, str]:
        return self._files.given_up

    @property
    def waiting(self) -> tuple[str, ...]:
        """Files that will be read although their mark has passed them, and that no state names yet."""
        return self._files.waiting

    @property
    def found(self) -> Unexpected:
        return self._files.found

    def list_for_new_table(self) -> Listed:
        listed = self._look(EVERYTHING)
        self._check_names(listed)
        return listed

    def begin(self, table: Table, whole: Listed | None = None) -> tuple[Position, Listed]:
        """The state to go on from and the files to go through, or a reason not to. `whole` is a listing of everything,
        if there is one already."""
        if whole is None and self._settings.start_from is not None and self._settings.start_from.adopts:
            whole = self._look(EVERYTHING)
        position = self.go_on(table, whole.files if whole is not None else ())
        if self.is_fragile and not self._ports.stop.requested():
            position = self._renew_at_once(table, position)
        scope = plan_listing(position, self._settings.late, now_ms=self._ports.source.now_ms())
        started = time.monotonic()
        listed = whole or self._look(scope)
        self._listing_s = time.monotonic() - started
        self._check_names(listed)
        if position.sequence == 0 and whole is None:  # with the names at hand more can be told about it
            self._decide(table, listed.files)
        if not is_drained(position.marks, listed.files, listed.held):
            self._ports.ingestor.prepare()
        return self._compare(position, listed, table, asked_for_all=scope.is_full)

    def go_on(self, table: Table, listing: Sequence[SourceFile] = ()) -> Position:
        """The state to go on from, with nothing left pending."""
        recovery = self.recover(table, listing)
        if isinstance(recovery, Resume):
            # What the last commit left pending comes before new work.
            settle(self._ports.quarantine, table, recovery.position, since=recovery.version)
            age_ms = self._ports.clock.now_ms() - recovery.position.taken_at_ms
            self.renewal_due = table.txn_retention_ms is not None and age_ms > table.txn_retention_ms // 4
            # Behind many commits of others it would take long to find, by every run until the next batch.
            self.renewal_due |= table.version - recovery.version > self._settings.scan_commits
            self.renewal_due |= recovery.is_judged  # else the whole log is read again by every run until then
            self.is_fragile = recovery.path in _UNUSUAL_PATHS
        position = self._position_before(recovery, table)
        if isinstance(recovery, Fresh):  # a quarantine that knows this pipeline is of a table that was put back
            settle(self._ports.quarantine, table, position, since=table.version)
        self._check_table(table)
        self._ports.telemetry.stands_at(recovery.position if isinstance(recovery, Resume) else position)
        return position

    def _look(self, scope: Scope) -> Listed:
        """A listing, with nothing hidden that a deletion has left half done."""
        listed = self._ports.source.look(scope)
        if listed.asides:
            for said in self._ports.source.finish_asides(listed.asides):
                self._ports.progress.warn(said)
            listed = self._ports.source.look(scope)
        return listed

    def _renew_at_once(self, table: Table, position: Position) -> Position:
        """The position goes into a commit of its own before anything is listed or read: whatever then stops this run,
        an OPTIMIZE or a log cleanup cannot make the next one lose it."""
        commits = CommitQueue(self._ports, self._settings, self._summary, table, position.on.delta_version)
        renewed = commits.renew(position, "the position is committed once more, so that the log holds it again")
        try:
            commits.wait()
        except Temporary as e:  # an idle run is as good without it
            self._ports.progress.warn(f"the position could not be committed once more: {e}")
            return position
        table.refresh()
        self.renewal_due = False
        # What others commit after that very version is looked at before the next commit.
        landed_in = self._summary.delta_version or renewed.on.delta_version
        return replace(renewed, on=replace(renewed.on, delta_version=landed_in))

    def _check_names(self, listed: Listed) -> None:
        if not listed.files and listed.is_full:
            self._ports.progress.warn(NO_FILE_MATCHES)
        check_start_from(self._settings.start_from, listed.files)

    def recover(self, table: Table | None, listing: Sequence[SourceFile] = ()) -> Resume | Fresh:
        self._summary.recovery, started = "refused", time.monotonic()
        try:
            recovery = self._decide(table, listing)
            self.recovered, self._summary.recovery = recovery, recovery.path
        finally:
            if table is not None:
                self._ports.telemetry.recovered(self._summary.recovery, time.monotonic() - started)
        if isinstance(recovery, Fresh) and recovery.start_from == ADOPTED:
            for warning in adoption_warnings(recovery.marks):
                self._ports.progress.warn(warning)
        if recovery.path in _UNUSUAL_PATHS:
            self._ports.progress.warn(_UNUSUAL_PATHS[recovery.path])
        return recovery

    def _decide(self, table: Table | None, listing: Sequence[SourceFile]) -> Resume | Fresh:
        return decide_start(
            table,
            pipeline=self._settings.pipeline,
            source=self._ports.source.identity,
            scan_commits=self._settings.scan_commits,
            start_from=self._settings.start_from,
            reads_again=self._settings.reads_again,
            listing=listing,
        )

    def create_table(self) -> Table:
        self._ports.place.create(self._settings.pipeline)
        table = self._ports.place.open()
        if table is None:
            raise Refused("the table was created and is gone again", kind=Kind.TABLE_CREATE)
        return table

    def take_up_late(self, position: Position) -> Position:
        """Name late files, so that they are read although their mark has passed them."""
        return self._files.take_up(position)

    def _check_table(self, table: Table) -> None:
        """The table opened here may not be the one looked at before Spark came up."""
        table.check_writable()
        if table.schema_fingerprint != self._ports.ingestor.schema_fingerprint:
            raise Temporary(
                "the table's schema was changed, or another driver made it. Run again.", kind=Kind.SCHEMA_CHANGED
            )

    def _position_before(self, recovery: Resume | Fresh, table: Table) -> Position:
        newest = next(table.scan_back(), None)
        timestamp_ms = newest.timestamp_ms if newest is not None else 0
        identity = RunIdentity(
            pipeline=self._settings.pipeline,
            run_id=self._settings.run_id,
            source=self._ports.source.identity,
            table_id=table.table_id,
            schema_fingerprint=table.schema_fingerprint,
        )
        position = position_before(recovery, identity, version=table.version, timestamp_ms=timestamp_ms)
        if isinstance(recovery, Fresh) and recovery.start_from == ADOPTED:
            position = as_looked_at(position, self._ports.source.now_ms())
        self._summary.delta_version, self._summary.sequence = position.on.delta_version, position.sequence
        return position

    def _compare(
        self, position: Position, listed: Listed, table: Table, *, asked_for_all: bool
    ) -> tuple[Position, Listed]:
        """The listing held against the position and the ledgers."""
        found = self._unexpected(position, listed, table)
        if found.unclear and not listed.is_full:  # with all names at hand more can be told
            listed, asked_for_all = self._look(EVERYTHING), True
            found = self._unexpected(position, listed, table)
        refusal = check_in_progress(position.marks, listed.files)
        if refusal is not None:
            raise Refused(refusal.message, kind=refusal.kind)
        # A folder is listed whole by every run, asked or not: that alone is no news.
        is_new_look = asked_for_all and (position.seen.relist_names or 0) > self._settings.late.relist_max_names
        # What is left alone is told by every run for a while, and then no longer looked for in all ledgers each time.
        is_old_news = listed.at_ms - (position.seen.relist_watermark_ms or 0) > self._settings.late.grace_ms
        is_settled = bool(found.unclear or (is_old_news and (found.late or found.rewritten)))
        # Else every idle run would read all ledgers again, because a file was taken away.
        is_long = found.settled_names is not None and not found and found.commits_read > self._settings.scan_commits
        self.renewal_due |= is_new_look or is_long or (listed.is_full and is_settled)
        position = self._files.decide(found, position, listed)
        files, stored_bytes = count_backlog(position.marks, listed.files, self.waiting)
        self._ports.telemetry.listed(
            files=files, stored_bytes=stored_bytes, late=len(found.late), seconds=self._listing_s
        )
        return self._clean(position, table), listed

    def _clean(self, position: Position, table: Table) -> Position:
        """Archive or delete, where that is asked for, what a commit has said will be; and say what comes next."""
        cleaning = self._settings.cleaning
        if cleaning is None or position.sequence == 0:
            return position
        if position.cleaned.done_through < position.cleaned.due_through and self.clean_up(
            position, table, position.sequence
        ):
            position = replace(position, cleaned=replace(position.cleaned, done_through=position.cleaned.due_through))
            self.renewal_due = True  # else an idle pipeline would look at them again each time
        through = cleaning.due_through(position, table.scan_back(), self._ports.clock.now_ms())
        self.renewal_due |= through > position.cleaned.due_through
        return replace(position, cleaned=replace(position.cleaned, due_through=through))

    def clean_up(self, position: Position, table: Table, sequence: int) -> bool:
        """What `state`, committed under this sequence, says is to be cleaned. Whether nothing of it is left."""
        cleaning = self._settings.cleaning
        if cleaning is None or position.cleaned.done_through == position.cleaned.due_through:
            return False
        later = (fence_version(commit, position.pipeline) for commit in table.commits_after(position.on.delta_version))
        if any(found is not None and found > sequence for found in later):
            return False  # somebody has moved the position meanwhile
        cleaned = cleaning.run(position, table.scan_back(), self._ports.progress, self._ports.quarantine)
        self._summary.cleaned_files += cleaned.done
        self._summary.kept_files = cleaned.kept
        return cleaned.is_complete

    def _unexpected(self, position: Position, listed: Listed, table: Table) -> Unexpected:
        return compare_with_ledgers(listed, position, table.scan_back(), self._settings.late)
