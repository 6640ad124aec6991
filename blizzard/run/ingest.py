"""One batch from its plan to a result that may be committed: new columns added, too much bad data refused."""

from __future__ import annotations

import time
from dataclasses import replace

from blizzard.core.bad import find_excess
from blizzard.core.kinds import Kind
from blizzard.core.position import Position
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, TaskReport
from blizzard.errors import TOO_MANY_BAD, BadData, Temporary, error_of_failure
from blizzard.run.commit import new_batch_id
from blizzard.run.inflight import CommitQueue
from blizzard.run.ports import Ports, Table
from blizzard.run.starting import RunSettings
from blizzard.run.summary import Summary
from blizzard.schema.evolve import Evolution, evolve_schema
from blizzard.store.failures import failure_to_write

# Every round adds a column, so that this is never reached by data that keeps to any schema.
_MAX_ROUNDS = 50
_MAX_NAMES = 20
# Records whose field names are data (an id, a date) would add columns without end: Delta writes all of them into every
# checkpoint, and Spark cannot open a table whose schema is some 20 MB.
_MAX_NEW_COLUMNS = 1_000
_MAX_COLUMNS = 5_000


class BatchIngest:
    def __init__(
        self, ports: Ports, settings: RunSettings, summary: Summary, table: Table, commits: CommitQueue
    ) -> None:
        self._ports, self._settings, self._summary = ports, settings, summary
        self._table, self._commits = table, commits

    def run(self, plan: BatchPlan, position: Position, *, planned_ms: int) -> tuple[Position, BatchResult]:
        """The result, and the state before it: under another schema if columns were added on the way."""
        ticket = BatchTicket(
            sequence=position.sequence + 1,
            planned_ms=planned_ms,
            table_id=position.on.table_id,
            batch_id=new_batch_id(),
        )
        started = time.monotonic()
        result = self._read(plan, ticket)
        for _ in range(_MAX_ROUNDS):
            if not self._add_columns(result):
                break
            # What the other tasks wrote stands: a file without the new columns reads as null there.
            slots = frozenset(r.slot for r in result.reports if r.observed is not None)
            result = _replaced(result, self._read(plan.only(slots), ticket).reports)
        else:
            raise BadData(
                "the batch shows new fields however many columns are added: are the names of these fields data? Nothing"
                " of it was committed. Use schema.evolution rescue or ignore, or change the source.",
                kind=Kind.SCHEMA_UNSTABLE,
            )
        self._ports.telemetry.ingested(result, time.monotonic() - started)
        self._ports.stop.batch_ended()
        self._note_unknown(result)
        # That of the files, not the table's: the table may have been changed, and seen again, while they were written.
        written_under = self._ports.ingestor.schema_fingerprint
        result = replace(self._within_limits(result), batch_id=ticket.batch_id)
        return replace(position, on=replace(position.on, schema_fingerprint=written_under)), result

    def _read(self, plan: BatchPlan, ticket: BatchTicket) -> BatchResult:
        result = self._ports.ingestor.run(plan, ticket=ticket, stop=self._commits)
        if result.failure is not None:
            raise error_of_failure(result.failure)
        return result

    def _add_columns(self, result: BatchResult) -> bool:
        observed = [r.observed for r in result.reports if r.observed is not None]
        if not observed:
            return False
        evolution = evolve_schema(self._table.schema, observed)
        if evolution.refused:
            self._ports.progress.warn(f"fields that cannot become columns are ignored: {_listed(evolution.refused)}")
        if not evolution.added:
            return False
        _refuse_endless(evolution)
        self._commits.wait()  # so that no batch in flight was written under a schema that is gone when it commits
        try:
            self._table.add_columns(evolution.schema, pipeline=self._settings.pipeline)
        except Exception as e:
            raise failure_to_write(e, "the table") or Temporary(
                f"the columns {_listed(evolution.added)} could not be added to the table ({e}); nothing of this batch"
                f" was committed. Run again.",
                kind=Kind.SCHEMA_CHANGED,
            ) from e
        self._ports.ingestor.adopt(self._table.schema)
        self._summary.added_columns += evolution.added
        self._ports.progress.note(f"new columns: {_listed(evolution.added)}")
        return True

    def _note_unknown(self, result: BatchResult) -> None:
        known = self._summary.unknown_fields
        new = [name for name in result.unknown_fields if name not in known][: _MAX_NAMES - len(known)]
        if new:
            known += new
            self._ports.progress.warn(f"the table has no column for these fields: {_listed(new)}")

    def _within_limits(self, result: BatchResult) -> BatchResult:
        excess = find_excess(result, self._settings.bad)
        if excess is not None:
            raise BadData(
                f"{excess}. Nothing of this batch was committed. {TOO_MANY_BAD}", kind=Kind.TOO_MANY_BAD_RECORDS
            )
        limit, rows = self._settings.max_quarantined, sum(f.rows for f in result.quarantine)
        if limit is None or not rows:
            return result
        self._commits.wait()  # a batch in flight may be in the table already, and would be counted twice or not at all
        room = max(0, limit - self._ports.quarantine.count(self._settings.pipeline, self._table.table_id))
        if rows <= room:
            return result
        if not self._settings.rejects_overflow:
            raise BadData(
                f"{rows:,} bad records more, but the quarantine table has room for {room:,} (quarantine.max_records is"
                f" {limit:,}). Nothing of this batch was committed. Replay what can be mended (blizzard dlq replay),"
                f" export the rest before you purge it (dlq export, dlq purge), or raise the limit.",
                kind=Kind.QUARANTINE_FULL,
            )
        kept, result = _fit_quarantine(result, room)
        self._summary.rejected += rows - kept
        self._ports.progress.warn(f"the quarantine table is full: {rows - kept:,} bad records are dropped")
        return result


def _refuse_endless(evolution: Evolution) -> None:
    """Before any is added: a column cannot be taken back."""
    if len(evolution.added) > _MAX_NEW_COLUMNS or len(evolution.schema["fields"]) > _MAX_COLUMNS:
        raise BadData(
            f"the table would get {len(evolution.added):,} new columns and have {len(evolution.schema['fields']):,}"
            f" ({_listed(evolution.added[:3])}, …): are the names of these fields data? Nothing of this batch was"
            f" committed and no column was added. Use schema.evolution rescue or ignore, or change the source.",
            kind=Kind.TOO_MANY_COLUMNS,
        )


def _replaced(result: BatchResult, reports: tuple[TaskReport, ...]) -> BatchResult:
    newer = {r.slot: r for r in reports}
    return BatchResult(reports=tuple(newer.get(r.slot, r) for r in result.reports))


def _fit_quarantine(result: BatchResult, room: int) -> tuple[int, BatchResult]:
    """As many files of bad records as there is room for, and their rows."""
    kept, reports = 0, []
    for report in result.reports:
        rows = sum(f.rows for f in report.quarantine)
        fits = kept + rows <= room
        kept += rows if fits else 0
        # The lines of the others are then in the source files alone.
        cut = () if fits else tuple(replace(s, cut=s.bad) for s in report.slices)
        reports.append(report if fits else replace(report, quarantine=(), slices=cut))
    return kept, BatchResult(reports=tuple(reports))


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
