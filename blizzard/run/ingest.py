"""Step four: reads one batch and returns a result to commit. Adds new columns; refuses too much bad data."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from blizzard.core.bad import find_excess, is_mostly_bad
from blizzard.core.events import ColumnsAdded, Ingested, Noted, Rejected, Warned
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
from blizzard.run.reasons import Advisor
from blizzard.run.settings import RunSettings
from blizzard.schema import parse_path, show_path
from blizzard.schema.evolve import Evolution, evolve_schema
from blizzard.schema.value_kinds import MAX_COLUMNS

# Every round adds a column. Data with a fixed set of fields never needs this many rounds.
_MAX_ROUNDS = 50
_MAX_NAMES = 20
# Field names that are data (an id, a date) would add columns without end.
_MAX_NEW_COLUMNS = 1_000
_TOLD_REASONS = 3
_TOO_MANY_BAD = (
    "Look at the lines, and check whether the schema fits them (blizzard plan --validate). Fix the files or the schema,"
    " or raise the limit."
)


class BatchIngest:
    def __init__(self, ports: Ports, settings: RunSettings, table: Table, commits: CommitQueue) -> None:
        self._ports, self._settings, self._table, self._commits = ports, settings, table, commits
        self._stop = StopOfBatch(stop=ports.stop, commits=commits)

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
        # The fingerprint of the files, not of the table: the table may have changed while they were written.
        written_under = self._ports.ingestor.schema_fingerprint
        result = replace(
            self._within_limits(result, is_first=position.sequence == 0),
            batch_id=ticket.batch_id,
            ignores_undeclared=self._settings.ignores_undeclared,
        )
        self._remark_on(result)  # only now: a batch that is not committed puts nothing into quarantine
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
