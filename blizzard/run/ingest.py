"""Step four, for one target: what comes before, between and after the reads of a batch. Adds new columns; refuses too
much bad data. The reading itself is in `read.py`, for all targets that share it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from blizzard.core.bad import find_excess, is_mostly_bad
from blizzard.core.events import ColumnsAdded, Ingested, Noted, Rejected, Warned
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.core.overflow import Leaving, choose_leaving
from blizzard.core.parsers import parser_remarks
from blizzard.core.position import Position
from blizzard.core.types import BatchResult, BatchTicket, TaskFailure
from blizzard.errors import (
    BadData,
    BadFile,
    BadRecord,
    BlizzardError,
    ConfigError,
    Refused,
    Temporary,
    failure_to_write,
)
from blizzard.run.commit import new_batch_id
from blizzard.run.commit_queue import CommitQueue
from blizzard.run.ports import Ports, Table
from blizzard.run.reasons import Advisor
from blizzard.run.settings import BLOCK, DROP_OLDEST, RunSettings
from blizzard.schema import parse_path, show_path
from blizzard.schema.evolve import Evolution, evolve_schema
from blizzard.schema.value_kinds import MAX_COLUMNS

_MAX_NAMES = 20
# Field names that are data (an id, a date) would add columns without end.
_MAX_NEW_COLUMNS = 1_000
_TOLD_REASONS = 3
_TOO_MANY_BAD = (
    "Look at the lines, and check whether the schema fits them (blizzard plan --validate). Fix the files or the schema,"
    " or raise the limit."
)


class BatchIngest:
    """What one target does around the reading of a batch."""

    def __init__(self, ports: Ports, settings: RunSettings, table: Table, commits: CommitQueue) -> None:
        self._ports, self._settings, self._table, self._commits = ports, settings, table, commits

    def begin(self, position: Position, *, planned_ms: int) -> BatchTicket:
        self._warn_of_other_settings(position)
        return BatchTicket(
            sequence=position.sequence + 1,
            planned_ms=planned_ms,
            table_id=position.on.table_id,
            batch_id=new_batch_id(),
        )

    def slots_to_read_again(self, result: BatchResult) -> frozenset[int]:
        """Adds the columns that the records need. The slots in which they were met must be read again; none if the
        table has all columns. The files of the other slots stay: the new columns read as null in them."""
        if result.failure is not None:
            raise error_of_failure(result.failure)
        if not self._add_columns(result):
            return frozenset()
        return frozenset(r.slot for r in result.reports if r.observed is not None)

    def end(
        self, position: Position, result: BatchResult, *, batch_id: str, seconds: float
    ) -> tuple[Position, BatchResult]:
        """The result, and the position before it, with the schema fingerprint that the files were written under."""
        self._ports.emit(Ingested(result=result, seconds=seconds))
        # The fingerprint of the files, not of the table: the table may have changed while they were written.
        written_under = self._ports.ingestor.schema_fingerprint
        result = replace(
            self._within_limits(result, is_first=position.sequence == 0),
            batch_id=batch_id,
            ignores_undeclared=self._settings.ignores_undeclared,
        )
        self._remark_on(result)  # only now: a batch that is not committed puts nothing into quarantine
        read_under = self._settings.settings_fingerprint
        on = replace(
            position.on,
            schema_fingerprint=written_under,
            settings_fingerprint=read_under,
            transform=self._settings.transform,
        )
        return replace(position, on=on), result

    def _warn_of_other_settings(self, position: Position) -> None:
        """After the batch the position has these settings, so this is said once."""
        begun = [path for path, progress in position.marks.in_progress.items() if progress.records]
        if begun and position.on.settings_fingerprint != self._settings.settings_fingerprint:
            self._warn(
                f"the settings that decide what a line becomes (schema.*, bad_records.policy, where) are not those"
                f" under which the first lines of these files were read: {some(sorted(begun), _MAX_NAMES)}. The rest is"
                f" read under the new ones."
            )
        before, now = position.on.transform, self._settings.transform
        if before == now:
            return
        if begun:
            self._warn(
                f"the transform, or the schema that it reads, is not the one that the first records of these files went"
                f" through: {some(sorted(begun), _MAX_NAMES)}. The rest goes through"
                f" {'none' if now is None else 'the new one'}."
            )
        elif now is None:
            self._warn("the last batch of this pipeline went through a transform, and this run has none")

    def _add_columns(self, result: BatchResult) -> bool:
        observed = [r.observed for r in result.reports if r.observed is not None]
        if not observed:
            return False
        settings = self._settings
        evolution = evolve_schema(
            self._table.schema,
            observed,
            settings.rename,
            by_spark=settings.spark_adds_columns,
            exact_timestamps=settings.exact_timestamps,
        )
        self._ports.remarks.refused(evolution.refused, self._ports.emit)
        if not evolution.added:
            return False
        _refuse_endless(evolution)
        self._commits.wait()  # a batch in flight has the old schema, and must commit before the schema changes
        try:
            self._table.add_columns(evolution.schema, pipeline=self._settings.pipeline)
        except Exception as e:
            raise failure_to_write(e, "the table") or Temporary(
                f"the columns {some(evolution.added, _MAX_NAMES)} could not be added to the table ({e}); nothing of"
                f" this batch was committed. Run again.",
                kind=Kind.SCHEMA_CHANGED,
            ) from e
        self._ports.ingestor.adopt(self._table.schema)
        self._ports.emit(ColumnsAdded(names=tuple(evolution.added)))
        self._ports.emit(Noted(message=f"new columns: {some(evolution.added, _MAX_NAMES)}"))
        return True

    def _remark_on(self, result: BatchResult) -> None:
        ports, settings = self._ports, self._settings
        ports.remarks.about(result, settings.bad, settings.advisor, ports.emit)
        on_driver = ports.ingestor.cores.on_driver
        parsers = parser_remarks(
            result.reports, asked=settings.parser, native_here=settings.native_here, on_driver=on_driver
        )
        ports.remarks.about_parsers(parsers, ports.emit)

    def _warn(self, message: str) -> None:
        self._ports.emit(Warned(message=message))

    def _within_limits(self, result: BatchResult, *, is_first: bool) -> BatchResult:
        excess = find_excess(result, self._settings.bad)
        if excess is not None:
            raise BadData(
                f"{excess}. Nothing of this batch was committed. {_TOO_MANY_BAD}",
                kind=Kind.TOO_MANY_BAD_RECORDS,
                further=self._settings.advisor.lines(result.reasons, _TOLD_REASONS),
            )
        if is_first and is_mostly_bad(result, self._settings.bad):
            raise mostly_bad(result, self._settings.advisor)
        limit, rows = self._settings.max_quarantined, _bad_rows(result)
        if limit is None or not rows:
            return result
        self._commits.wait()  # with a batch in flight the count could be wrong
        if self._settings.overflow == DROP_OLDEST:
            return self._make_room(result, limit)
        room = max(0, limit - self._ports.quarantine.count(self._settings.pipeline, self._table.table_id))
        if rows <= room:
            return result
        if self._settings.overflow == BLOCK:
            raise BadData(
                f"{rows:,} more bad records, but the quarantine table has room for {room:,} (quarantine.max_records is"
                f" {limit:,}). Nothing of this batch was committed. Replay what can be fixed (blizzard dlq replay),"
                f" export the rest before you purge it (dlq export, dlq purge), or raise the limit.",
                kind=Kind.QUARANTINE_FULL,
            )
        kept, result = _fit_quarantine(result, room)
        self._ports.emit(Rejected(records=rows - kept))
        self._warn(f"the quarantine table is full: {rows - kept:,} bad records are dropped")
        return result

    def _make_room(self, result: BatchResult, limit: int) -> BatchResult:
        """The oldest batches leave the quarantine. Of a batch that alone is too large, what does not fit never gets in:
        for it no other record has to leave."""
        rows = _bad_rows(result)
        kept, result = _fit_quarantine(result, limit) if rows > limit else (rows, result)
        if kept < rows:
            self._ports.emit(Rejected(records=rows - kept))
            self._warn(
                f"this batch has {rows:,} bad records, and quarantine.max_records is {limit:,}: {rows - kept:,} of them"
                f" are dropped"
            )
        if not kept:
            return result
        held = self._ports.quarantine.batches(self._settings.pipeline, self._table.table_id)
        leaving = choose_leaving(held, new_rows=kept, limit=limit)
        if leaving.batches:
            self._warn(_told_of(leaving, limit))
        return replace(result, dropped=leaving.batches)


def _bad_rows(result: BatchResult) -> int:
    return sum(f.rows for f in result.quarantine)


def _told_of(leaving: Leaving, limit: int) -> str:
    first, last = leaving.batches[0].sequence, leaving.batches[-1].sequence
    which = f"sequence {first}" if first == last else f"sequences {first} to {last}"
    over = (
        f". {leaving.over:,} more than quarantine.max_records ({limit:,}) stay: one commit cannot name so many batches,"
        f" the next ones go on"
        if leaving.over
        else ""
    )
    return (
        f"the quarantine table is full. Dropped to make room: {count(leaving.rows, 'bad record')} of {which}"
        f" (quarantine.overflow: drop_oldest){over}"
    )


def mostly_bad(result: BatchResult, advisor: Advisor) -> BadData:
    """For the first batch of a pipeline."""
    as_it_is = "To ingest it as it is: --set bad_records.first_batch_max_ratio=1"
    records, files = result.bad + result.rows, len(result.slices)
    if not result.bad or len(result.broken) / files > result.bad / records:
        path, why = next(iter(result.broken.items()))
        return BadData(
            f"the first batch is mostly bad: {len(result.broken):,} of {count(files, 'file')} cannot be read"
            f" to the end, the first: {path} ({why}). Nothing was committed, and the source is not used up. If"
            f" the records do not lie in their files as source.framing says, change it; else replace the files, or"
            f" move them away.",
            kind=Kind.MOSTLY_BAD,
            further=[as_it_is],
        )
    return BadData(
        f"the first batch is mostly bad: {result.bad:,} of {count(records, 'record')}. The schema or"
        f" the settings do not fit them. Nothing was committed, and the source is not used up. The commonest reasons,"
        f" with what would take such records:",
        kind=Kind.MOSTLY_BAD,
        further=[
            *advisor.lines(result.reasons, _TOLD_REASONS),
            as_it_is,
        ],
    )


def _refuse_endless(evolution: Evolution) -> None:
    """Called before any column is added: a column cannot be taken back."""
    if len(evolution.added) > _MAX_NEW_COLUMNS or len(evolution.schema["fields"]) > MAX_COLUMNS:
        raise BadData(
            f"the table would get {len(evolution.added):,} new columns and have {len(evolution.schema['fields']):,}"
            f" ({some(evolution.added[:3])}, …): are the names of these fields data? Nothing of this batch was"
            f" committed and no column was added. {_way_out_of_columns(evolution.added)}",
            kind=Kind.TOO_MANY_COLUMNS,
        )


def _way_out_of_columns(added: Sequence[str]) -> str:
    """The struct that most of them are in should have been a map."""
    parents = Counter(parse_path(name)[:-1] for name in added)
    parent, columns = parents.most_common(1)[0]
    keep = "Keep such fields as JSON with schema.evolution=rescue, leave them out with ignore, or change the source."
    if not parent:
        return keep
    column = show_path(parent)
    return (
        f"{columns:,} of them are in {column}: a new table takes them as a map with"
        f" schema.hints='{column} MAP<STRING, STRING>'. {keep}"
    )


def _fit_quarantine(result: BatchResult, room: int) -> tuple[int, BatchResult]:
    """Keeps as many files of bad records as there is room for. Returns how many rows they have, and the result."""
    kept, reports = 0, []
    for report in result.reports:
        rows = sum(f.rows for f in report.quarantine)
        fits = kept + rows <= room
        kept += rows if fits else 0
        # The lines of the files that are left out exist only in the source files.
        cut = () if fits else tuple(replace(s, cut=s.bad + s.unrouted) for s in report.slices)
        reports.append(report if fits else replace(report, quarantine=(), slices=cut))
    return kept, BatchResult(reports=tuple(reports))


def error_of_failure(failure: TaskFailure) -> BlizzardError:
    """The exception for what a task reported."""
    where = failure.path if failure.line is None else f"{failure.path} {failure.counts} {failure.line}"
    what = f"{where}: {failure.message}. Nothing of this batch was committed."
    if failure.passes is not None:
        # What a store answered while it was written. Its message says what to do.
        return (Temporary if failure.passes else ConfigError)(what, kind=failure.kind)
    match failure.kind:
        case Kind.BAD_RECORD:
            return BadRecord(f"{what} Fix the line, or move the file away, and run again.")
        case Kind.TOO_MANY_BAD_RECORDS:
            return BadData(f"{what} {_TOO_MANY_BAD}", kind=Kind.TOO_MANY_BAD_RECORDS)
        case Kind.SOURCE_CHANGED:
            return Temporary(f"{what} Run again.", kind=Kind.SOURCE_CHANGED)
        case Kind.BEYOND_END:
            name = shlex.quote(failure.path)
            return Refused(
                f"{what} The file has not changed since the position was committed, so the number that was given to"
                f" checkpoint reset was too large. Correct it: blizzard checkpoint reset --file {name} --from-record N"
                f" --yes. Or leave the file as it is in the table: blizzard checkpoint skip --file {name} --yes.",
                kind=Kind.BEYOND_END,
            )
        case Kind.DISK_FULL:
            return Temporary(f"{what} Make space, and run again.", kind=Kind.DISK_FULL)
        case Kind.WORKER_ENVIRONMENT | Kind.TRANSFORM_DIFFERS | Kind.TRANSFORM_FAILED:
            return _error_of_code(failure.kind, f"{failure.message}. Nothing of this batch was committed.")
        case Kind.NOT_WRITABLE:
            return ConfigError(f"{what} Give the user who runs this the right to write there.", kind=Kind.NOT_WRITABLE)
        case kind:
            return BadFile(f"{what} Replace the file, or move it away, and run again.", kind=kind)


def _error_of_code(kind: Kind, what: str) -> BlizzardError:
    """About what the workers run, and not about a file."""
    if kind == Kind.TRANSFORM_FAILED:
        return BadData(f"{what} Correct the transform, and run again.", kind=kind)
    if kind == Kind.TRANSFORM_DIFFERS:
        return ConfigError(f"{what} Give driver and executors the same packages: docs/deploy-cluster.md.", kind=kind)
    way_out = "Leave the key out, or give the executors what they lack: docs/deploy-cluster.md."
    return ConfigError(f"{what} {way_out}", kind=kind)
