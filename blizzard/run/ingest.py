"""Step four: reads one batch and returns a result to commit. Adds new columns; refuses too much bad data."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace

from blizzard.core.bad import find_excess
from blizzard.core.events import ColumnsAdded, Ingested, Noted, Rejected, UnknownFields, Warned
from blizzard.core.framing import LINES
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.core.parsers import parser_remarks
from blizzard.core.position import Position
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, TaskFailure, TaskReport
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
from blizzard.run.commit_queue import CommitQueue, StopOfBatch
from blizzard.run.ports import Ports, Table
from blizzard.run.settings import RunSettings
from blizzard.schema import show_path
from blizzard.schema.evolve import RESCUED_COLUMN, Evolution, evolve_schema

# Every round adds a column. Data with a fixed set of fields never needs this many rounds.
_MAX_ROUNDS = 50
_MAX_NAMES = 20
# Field names that are data (an id, a date) would add columns without end. Delta writes all columns into every
# checkpoint, and Spark cannot open a table with a schema of about 20 MB.
_MAX_NEW_COLUMNS = 1_000
_MAX_COLUMNS = 5_000
_TOO_MANY_BAD = (
    "Look at the lines, and check whether the schema fits them (blizzard schema diff). Fix the files or the schema, or"
    " raise the limit."
)


class BatchIngest:
    def __init__(self, ports: Ports, settings: RunSettings, table: Table, commits: CommitQueue) -> None:
        self._ports, self._settings, self._table, self._commits = ports, settings, table, commits
        self._stop = StopOfBatch(stop=ports.stop, commits=commits)
        self._parser_remarks: set[str] = set()
        self._unknown: set[str] = set()  # fields that were reported
        self._cut: set[str] = set()  # columns whose cut times were reported
        self._framings: set[str] = set()  # that were reported
        self._siblings: set[str] = set()  # keys beside arrays that were reported
        self._refused: set[str] = set()  # fields that were reported because they cannot become columns

    def run(self, plan: BatchPlan, position: Position, *, planned_ms: int) -> tuple[Position, BatchResult]:
        """The result, and the position before it, with the schema fingerprint that the files were written under."""
        ticket = BatchTicket(
            sequence=position.sequence + 1,
            planned_ms=planned_ms,
            table_id=position.on.table_id,
            batch_id=new_batch_id(),
        )
        self._warn_of_other_settings(position)
        started = time.monotonic()
        result = self._read(plan, ticket)
        for _ in range(_MAX_ROUNDS):
            if not self._add_columns(result):
                break
            # The files of the other tasks stay: the new columns read as null in them.
            slots = frozenset(r.slot for r in result.reports if r.observed is not None)
            result = _replaced(result, self._read(plan.only(slots), ticket).reports)
        else:
            raise BadData(
                "the batch shows new fields however many columns are added: are the names of these fields data? Nothing"
                " of it was committed. Use schema.evolution rescue or ignore, or change the source.",
                kind=Kind.SCHEMA_UNSTABLE,
            )
        self._ports.emit(Ingested(result=result, seconds=time.monotonic() - started))
        self._ports.stop.batch_ended()
        self._note_unknown(result)
        self._note_cut(result)
        self._note_parsers(result)
        self._note_framings(result)
        # The fingerprint of the files, not of the table: the table may have changed while they were written.
        written_under = self._ports.ingestor.schema_fingerprint
        result = replace(
            self._within_limits(result),
            batch_id=ticket.batch_id,
            ignores_undeclared=self._settings.ignores_undeclared,
        )
        read_under = self._settings.settings_fingerprint
        on = replace(position.on, schema_fingerprint=written_under, settings_fingerprint=read_under)
        return replace(position, on=on), result

    def _warn_of_other_settings(self, position: Position) -> None:
        """After the batch the position has these settings, so this is said once."""
        begun = [path for path, progress in position.marks.in_progress.items() if progress.records]
        if begun and position.on.settings_fingerprint != self._settings.settings_fingerprint:
            self._warn(
                f"the settings that decide what a line becomes (schema.*, bad_records.policy) are not those under which"
                f" the first lines of these files were read: {some(sorted(begun), _MAX_NAMES)}. The rest is read under"
                f" the new ones."
            )

    def _read(self, plan: BatchPlan, ticket: BatchTicket) -> BatchResult:
        result = self._ports.ingestor.run(plan, ticket=ticket, stop=self._stop)
        if result.failure is not None:
            raise error_of_failure(result.failure)
        return result

    def _add_columns(self, result: BatchResult) -> bool:
        observed = [r.observed for r in result.reports if r.observed is not None]
        if not observed:
            return False
        settings = self._settings
        evolution = evolve_schema(self._table.schema, observed, settings.rename, by_spark=settings.spark_adds_columns)
        refused = [name for name in evolution.refused if name not in self._refused][: _MAX_NAMES - len(self._refused)]
        if refused:
            self._refused.update(refused)
            self._warn(f"fields that cannot become columns go to {RESCUED_COLUMN}: {some(refused, _MAX_NAMES)}")
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

    def _note_unknown(self, result: BatchResult) -> None:
        new = [name for name in map(show_path, result.undeclared.paths) if name not in self._unknown]
        new = new[: _MAX_NAMES - len(self._unknown)]
        if new:
            self._unknown.update(new)
            self._ports.emit(UnknownFields(names=tuple(new)))
            self._warn(f"the table has no column for these fields: {some(new, _MAX_NAMES)}")

    def _note_cut(self, result: BatchResult) -> None:
        for path in result.cut_times.paths:
            column, cut = show_path(path), result.cut_times.counts[path]
            if column not in self._cut and len(self._cut) < _MAX_NAMES:
                self._cut.add(column)
                self._ports.emit(
                    Noted(
                        message=f"{column}: {count(cut, 'timestamp')} had digits beyond a microsecond; they were cut"
                        f" (schema.timestamps: exact makes them bad)"
                    )
                )

    def _note_parsers(self, result: BatchResult) -> None:
        settings = self._settings
        for remark in parser_remarks(result.reports, asked=settings.parser, native_here=settings.native_here):
            if remark not in self._parser_remarks:
                self._parser_remarks.add(remark)
                self._warn(remark)

    def _note_framings(self, result: BatchResult) -> None:
        for piece in result.slices:
            if piece.framing not in (LINES, *self._framings):
                self._framings.add(piece.framing)
                self._ports.emit(Noted(message=f"not one record a line: {piece.path} is read as {piece.framing}"))
        new = [name for name in map(show_path, result.siblings.paths) if name not in self._siblings]
        new = new[: _MAX_NAMES - len(self._siblings)]
        if new:
            self._siblings.update(new)
            self._warn(f"nothing reads what stands beside the array of records: {some(new, _MAX_NAMES)}")

    def _warn(self, message: str) -> None:
        self._ports.emit(Warned(message=message))

    def _within_limits(self, result: BatchResult) -> BatchResult:
        excess = find_excess(result, self._settings.bad)
        if excess is not None:
            raise BadData(
                f"{excess}. Nothing of this batch was committed. {_TOO_MANY_BAD}", kind=Kind.TOO_MANY_BAD_RECORDS
            )
        limit, rows = self._settings.max_quarantined, sum(f.rows for f in result.quarantine)
        if limit is None or not rows:
            return result
        self._commits.wait()  # with a batch in flight the count could be wrong
        room = max(0, limit - self._ports.quarantine.count(self._settings.pipeline, self._table.table_id))
        if rows <= room:
            return result
        if not self._settings.rejects_overflow:
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


def _refuse_endless(evolution: Evolution) -> None:
    """Called before any column is added: a column cannot be taken back."""
    if len(evolution.added) > _MAX_NEW_COLUMNS or len(evolution.schema["fields"]) > _MAX_COLUMNS:
        raise BadData(
            f"the table would get {len(evolution.added):,} new columns and have {len(evolution.schema['fields']):,}"
            f" ({some(evolution.added[:3])}, …): are the names of these fields data? Nothing of this batch was"
            f" committed and no column was added. Use schema.evolution rescue or ignore, or change the source.",
            kind=Kind.TOO_MANY_COLUMNS,
        )


def _replaced(result: BatchResult, reports: tuple[TaskReport, ...]) -> BatchResult:
    newer = {r.slot: r for r in reports}
    return BatchResult(reports=tuple(newer.get(r.slot, r) for r in result.reports))


def _fit_quarantine(result: BatchResult, room: int) -> tuple[int, BatchResult]:
    """Keeps as many files of bad records as there is room for. Returns how many rows they have, and the result."""
    kept, reports = 0, []
    for report in result.reports:
        rows = sum(f.rows for f in report.quarantine)
        fits = kept + rows <= room
        kept += rows if fits else 0
        # The bad lines of the files that are left out exist only in the source files.
        cut = () if fits else tuple(replace(s, cut=s.bad) for s in report.slices)
        reports.append(report if fits else replace(report, quarantine=(), slices=cut))
    return kept, BatchResult(reports=tuple(reports))


def error_of_failure(failure: TaskFailure) -> BlizzardError:
    """The exception for what a task reported."""
    where = failure.path if failure.line is None else f"{failure.path} {failure.counts} {failure.line}"
    what = f"{where}: {failure.message}. Nothing of this batch was committed."
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
        case Kind.WORKER_ENVIRONMENT:
            return ConfigError(
                f"{failure.message}. Nothing of this batch was committed. Leave the key out, or give the executors the"
                f" native parser: docs/deploy-cluster.md.",
                kind=Kind.WORKER_ENVIRONMENT,
            )
        case Kind.NOT_WRITABLE:
            return ConfigError(f"{what} Give the user who runs this the right to write there.", kind=Kind.NOT_WRITABLE)
        case kind:
            return BadFile(f"{what} Replace the file, or move it away, and run again.", kind=kind)
