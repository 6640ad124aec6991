"""Step one: decides where a run goes on. Reads the log backwards, and settles what the last commit left pending.

The position is in the Delta log and nowhere else. One that cannot be trusted is refused, never guessed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from blizzard.core.adopt import Adoption, adoption_warnings, check_rust_reader, decide_adoption
from blizzard.core.batch import RunIdentity, position_before, renewed_position
from blizzard.core.commit import Intent
from blizzard.core.events import Noted, Recovered, StandsAt, Warned
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.late import as_looked_at
from blizzard.core.log import TableFacts, standings_of
from blizzard.core.paths import WORDS, Path
from blizzard.core.position import Position
from blizzard.core.readers import check_moved
from blizzard.core.recover import ADOPTED, Fresh, Resume, StartFrom, decide_recovery
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.errors import Refused, Temporary
from blizzard.run.commit import Committing, new_batch_id
from blizzard.run.ports import Ports, Table
from blizzard.run.settings import RunSettings
from blizzard.run.settle import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run goes on. `position` belongs to the table version that was looked at; sequence 0 means that this
    pipeline has committed nothing. `renewal` says why it must be committed once more, even if nothing is read."""

    found: Resume | Fresh
    position: Position
    renewal: str | None = None

    @property
    def is_fragile(self) -> bool:
        """Whether the place where the position was found may soon be gone."""
        return WORDS[self.found.path].warning is not None


def recover(ports: Ports, settings: RunSettings, table: Table, listing: Sequence[SourceFile] = ()) -> Start:
    """Leaves nothing pending; raises if the run must not go on. A `listing` helps to notice a source that was moved."""
    found = _decide(ports, settings, table, listing)
    if isinstance(found, Resume):
        # First what the last commit left pending, then new work.
        settle(ports.quarantine, table, found.position, since=found.version)
    position = _position_before(ports, settings, table, found)
    if isinstance(found, Fresh):  # if the quarantine knows this pipeline, the table was put back from a copy
        settle(ports.quarantine, table, position, since=table.version)
    if position.paused is None:  # else nothing is written under this schema
        _require_same_schema(ports, table)
    if isinstance(found, Resume) and position.framing != found.position.framing:
        # The next commit holds it, so this is said once.
        before, now = found.position.framing, position.framing
        ports.emit(Noted(message=f"files that are not begun are read with source.framing {now} now, before: {before}"))
    newest = found.position if isinstance(found, Resume) else position
    ports.emit(StandsAt(newest=newest, version=position.on.delta_version))
    start = Start(found=found, position=position, renewal=_renewal(ports, settings, table, found))
    if isinstance(found, Resume) and not start.is_fragile:  # else it is committed once more, and followed then
        ports.mirror.follow(found.position, found.version)
    return start


def recover_without_table(ports: Ports, settings: RunSettings) -> Fresh:
    found = _decide(ports, settings, None, ())
    assert isinstance(found, Fresh)
    return found


def _decide(ports: Ports, settings: RunSettings, table: Table | None, listing: Sequence[SourceFile]) -> Resume | Fresh:
    started, path = time.monotonic(), Path.REFUSED
    try:
        found = decide_again(ports, settings, table, listing)
        path = found.path
    finally:
        ports.emit(Recovered(path=path, seconds=time.monotonic() - started, has_table=table is not None))
    warnings = [WORDS[path].warning]
    if isinstance(found, Fresh) and found.start_from == ADOPTED:
        warnings += adoption_warnings(found.marks)
    for warning in filter(None, warnings):
        ports.emit(Warned(message=warning))
    return found


def decide_again(
    ports: Ports, settings: RunSettings, table: Table | None, listing: Sequence[SourceFile]
) -> Resume | Fresh:
    """The same decision, without events; raises where it refuses."""
    return decide_start(
        table,
        pipeline=settings.pipeline,
        source=ports.source.identity,
        scan_commits=settings.scan_commits,
        start_from=settings.start_from,
        reads_again=settings.reads_again,
        listing=listing,
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
    # The Rust program writes no fence, so only the whole log shows whether there is a newer position.
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


def _adopt(facts: TableFacts | None, pipeline: str, source: SourceIdentity, listing: Sequence[SourceFile]) -> Adoption:
    adoption = decide_adoption(facts, pipeline=pipeline, source=source, listing=listing)
    if isinstance(adoption, Refuse):
        raise Refused(adoption.message, kind=adoption.kind)
    return adoption


def _require_unread(
    table: Table,
    facts: TableFacts,
    pipeline: str,
    source: SourceIdentity,
    fresh: Fresh,
    listing: Sequence[SourceFile],
) -> None:
    """A new pipeline must not read what the Rust program, or another pipeline at another place, has read."""
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


def _position_before(ports: Ports, settings: RunSettings, table: Table, found: Resume | Fresh) -> Position:
    newest = next(table.scan_back(), None)
    identity = RunIdentity(
        pipeline=settings.pipeline,
        run_id=settings.run_id,
        source=ports.source.identity,
        table_id=table.table_id,
        schema_fingerprint=table.schema_fingerprint,
        framing=settings.framing,
    )
    timestamp_ms = newest.timestamp_ms if newest is not None else 0
    position = position_before(found, identity, version=table.version, timestamp_ms=timestamp_ms)
    if isinstance(found, Fresh) and found.start_from == ADOPTED:
        return as_looked_at(position, ports.source.now_ms())
    return position


def _require_same_schema(ports: Ports, table: Table) -> None:
    """The table may have changed while Spark was starting."""
    table.check_writable()
    if table.schema_fingerprint != ports.ingestor.schema_fingerprint:
        raise Temporary(
            "the table's schema was changed, or another driver made it. Run again.", kind=Kind.SCHEMA_CHANGED
        )


def _renewal(ports: Ports, settings: RunSettings, table: Table, found: Resume | Fresh) -> str | None:
    if isinstance(found, Fresh):
        return None
    age_ms = ports.clock.now_ms() - found.position.taken_at_ms
    if table.txn_retention_ms is not None and age_ms > table.txn_retention_ms // 4:
        return "it would expire"
    if table.version - found.version > settings.scan_commits:
        return "it is behind many commits of others, and every run would search long for it"
    if found.is_judged:
        return "otherwise every run would read the whole log to judge it"
    return None


def renewal_of(position: Position, *, now_ms: int) -> Intent:
    """The position once more, without data."""
    after = renewed_position(position, batch_id=new_batch_id(), now_ms=now_ms)
    return Intent(position=after, planned_ms=now_ms, kind=CommitKind.RENEWAL)


def renew_at_once(ports: Ports, settings: RunSettings, table: Table, start: Start) -> Start:
    """Commit the position alone, before anything is listed or read. Even if this run then stops, an OPTIMIZE or a log
    cleanup cannot make the next run lose it."""
    committing = Committing.through(ports, settings, table)
    intent = renewal_of(start.position, now_ms=ports.clock.now_ms())
    message = "the position is committed once more, so that the log holds it again"
    ports.emit(Noted(message=f"{message} (sequence {intent.position.sequence})"))
    try:
        _, version = committing.commit_edit(intent)
    except Temporary as e:  # the run can go on without it
        ports.emit(Warned(message=f"the position could not be committed once more: {e}"))
        return start
    table.refresh()
    # The next commit looks at what others committed after this version.
    position = replace(intent.position, on=replace(intent.position.on, delta_version=version))
    return replace(start, position=position, renewal=None)


def stay_paused(ports: Ports, settings: RunSettings, table: Table, start: Start) -> None:
    """Read nothing. What was pending is settled already; the position must not expire, however long the pause is."""
    paused = start.position.paused
    assert paused is not None
    ports.remarks.paused(settings.pipeline, paused, ports.emit)
    if start.renewal is not None and not ports.stop.requested():
        renew_at_once(ports, settings, table, start)
