"""A replay: the lines in quarantine are parsed once more, and those that pass now become rows of the table.

It is a batch like any other, whose lines come from the quarantine table instead of the source: it takes the
pipeline's next sequence, and its one commit holds the rows, names those that failed again as pending, and says which
records were taken. `settle` makes the quarantine table follow; if this process dies before it, the next run does.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.batch import Checkpoint
from blizzard.core.codec import encode_state, fence_app_id
from blizzard.core.ledger import Ledger, encode_ledger
from blizzard.core.state import CheckpointState
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Budget, TaskPlan, TaskReport
from blizzard.delta.commit import commit_batch
from blizzard.delta.quarantine import DeltaRsQuarantine, replay_marks
from blizzard.errors import ConfigError
from blizzard.inflight import CommitQueue
from blizzard.ingesting import BatchIngest
from blizzard.ports import CommitRequest, Ports, StopRequest
from blizzard.schema import DeltaSchema
from blizzard.schema.evolve import Observations
from blizzard.schema.fit import fingerprint
from blizzard.source.lines import LongLine
from blizzard.starting import RunSettings, Start
from blizzard.summary import Summary
from blizzard.tasks.layout import BatchStamp, RowOrigin, UnusableOrigin, complete_table
from blizzard.tasks.parse import RESCUED_COLUMN, ParsedBlock, RecordParser
from blizzard.tasks.quarantine import BadRow, QuarantineWriter, Selection
from blizzard.tasks.task import JobSpec
from blizzard.tasks.write import open_writer
from blizzard.testing.faults import reach

_Reason: TypeAlias = tuple[str, str, str | None]  # kind, message, column

_MAX_UNKNOWN_NAMES = 20
# A replay reads no file of the source: one task without slices, and no bound but the quarantine itself.
_PLAN = BatchPlan(
    tasks=(TaskPlan(slot=0, slices=(), budget=Budget(output_bytes=1 << 62, max_records=None, seconds=None)),),
    frontier=(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of the records. Where none passed, nothing was committed and the quarantine is as it was."""

    replayed: int
    still_bad: int
    sequence: int  # the pipeline's newest, this replay's own if it committed
    delta_version: int


def replay(ports: Ports, settings: RunSettings, chosen: Selection) -> Replayed:
    """Append what passes now of the chosen records. `ports.ingestor` is the `QuarantineIngestor` of these ports.

    Refuses what a run would refuse, and is fenced as a run is.
    """
    table = ports.place.open()
    if table is None:
        raise ConfigError("there is no Delta table to replay into", kind="table_not_found")
    summary, planned_ms = Summary(), ports.clock.now_ms()
    state = Start(ports, settings, summary).begin(table, ports.source.list())
    if chosen.through_sequence is None or chosen.through_sequence > state.sequence:
        chosen = replace(chosen, through_sequence=state.sequence)
    assert isinstance(ports.ingestor, QuarantineIngestor)
    ports.ingestor.chosen = chosen
    # Those that fail again were in quarantine before: there is room for them.
    settings = replace(settings, max_quarantined=None)
    queue = CommitQueue(ports, settings, summary, table, state.delta_version)
    state, result = BatchIngest(ports, settings, summary, table, queue).run(_PLAN, state, planned_ms=planned_ms)
    rows, still_bad = sum(f.rows for f in result.files), sum(f.rows for f in result.quarantine)
    if rows == 0:
        _forget(ports.ingestor.spec, result)
        return Replayed(replayed=0, still_bad=still_bad, sequence=state.sequence, delta_version=table.version)
    after = state_after(state, chosen, result, batch_id=os.urandom(8).hex(), now_ms=ports.clock.now_ms())
    checkpoint = seal_replay(after, rows)
    reach("replay.before_commit")
    version = commit_batch(
        table,
        CommitRequest(
            app_id=checkpoint.app_id,
            fence_app_id=checkpoint.fence_app_id,
            sequence=after.sequence,
            last_updated_ms=after.taken_at_ms,
            ledger=checkpoint.ledger,
            files=result.files,
        ),
        after,
        planned_ms=planned_ms,
        attempts=settings.commit_attempts,
        clock=ports.clock,
        progress=ports.progress,
    )
    ports.quarantine.settle(after)
    return Replayed(replayed=rows, still_bad=still_bad, sequence=after.sequence, delta_version=version)


def state_after(
    state: CheckpointState, chosen: Selection, result: BatchResult, *, batch_id: str, now_ms: int
) -> CheckpointState:
    """The position in the source stays where it was."""
    return replace(
        state,
        sequence=state.sequence + 1,
        batch_id=batch_id,
        taken_at_ms=max(now_ms, state.taken_at_ms),
        add_path=result.files[0].path,
        pending_quarantine=tuple(f.path for f in result.quarantine),
        replayed=replay_marks(chosen),
    )


def seal_replay(state: CheckpointState, rows: int) -> Checkpoint:
    ledger = Ledger(
        pipeline=state.pipeline,
        sequence=state.sequence,
        run_id=state.run_id,
        batch_id=state.batch_id,
        base_version=state.delta_version,
        source=state.source,
        records=rows,
        entries=(),  # no file was read
    )
    return Checkpoint(
        state=state,
        app_id=encode_state(state),
        fence_app_id=fence_app_id(state.pipeline),
        ledger=encode_ledger(ledger),
    )


def _forget(spec: JobSpec, result: BatchResult) -> None:
    """Nothing was committed, so nobody has heard of these files."""
    for file in result.quarantine:
        os.unlink(os.path.join(spec.quarantine_root, file.path))


class QuarantineIngestor:
    """Stands where a run has its Spark job: the lines of the chosen records, parsed in this process."""

    slots = 1

    def __init__(self, spec: JobSpec, quarantine: DeltaRsQuarantine) -> None:
        self.spec, self._quarantine = spec, quarantine
        self.chosen = Selection()

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.spec.layout.schema)

    def adopt(self, schema: DeltaSchema) -> None:
        self.spec = replace(self.spec, layout=self.spec.layout.with_schema(schema))

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        del plan, stop  # killing a replay does no harm
        selection = replace(self.chosen, pipeline=self.spec.pipeline, table_id=ticket.table_id, complete=True)
        parsing = _Reparsing(self.spec, ticket)
        for rows in self._quarantine.read(selection):
            parsing.add(rows.to_pylist())
        return BatchResult(reports=(parsing.finish(),))


class _Reparsing:
    """Every record goes to the table or back into quarantine."""

    def __init__(self, spec: JobSpec, ticket: BatchTicket) -> None:
        self._spec = spec
        self._parser = RecordParser(spec.layout.record_schema, spec.parsing)
        self._stamp = BatchStamp(
            pipeline=spec.pipeline, sequence=ticket.sequence, ingested_at_us=ticket.planned_ms * 1000
        )
        name = f"blizzard-{spec.run_id}-{ticket.sequence:08d}-replay-{os.urandom(6).hex()}"
        self._writer = open_writer(
            spec.layout,
            folder=spec.table_root,
            name_prefix=name,
            indexed_columns=spec.indexed_columns,
            target_bytes=spec.target_file_bytes,
            codec=spec.codec,
        )
        self._quarantine = QuarantineWriter(
            folder=spec.quarantine_root,
            name=f"{name}.parquet",
            pipeline=spec.pipeline,
            table_id=ticket.table_id,
            sequence=ticket.sequence,
            run_id=spec.run_id,
        )
        self._bytes_read = self._rescued = 0
        self._unknown: dict[str, None] = {}
        self._observed: Observations | None = None

    def add(self, records: Sequence[dict[str, Any]]) -> None:
        lines = []
        for record in records:
            reason = self._why_not_a_line(record)
            if reason is None:
                lines.append(record)
            else:
                self._put_back(record, *reason)
        if lines:
            self._parse(lines)

    def finish(self) -> TaskReport:
        return TaskReport(
            slot=0,
            files=self._writer.close(),
            bytes_read=self._bytes_read,
            quarantine=self._quarantine.close(),
            rescued=self._rescued,
            unknown_fields=tuple(self._unknown)[:_MAX_UNKNOWN_NAMES],
            observed=self._observed,
        )

    def _why_not_a_line(self, record: dict[str, Any]) -> _Reason | None:
        size, limit = len(record["raw"]), self._spec.max_record_bytes
        if size > limit:
            return "too_long", str(LongLine(head=b"", size_bytes=size, limit_bytes=limit)), None
        if b"\n" in record["raw"]:  # somebody else wrote it: one record is one line
            return _same(record)
        return None

    def _parse(self, records: list[dict[str, Any]]) -> None:
        data = b"".join(_line(record) + b"\n" for record in records)
        parsed = self._parser.parse(data, first_of_file=False)
        if parsed.lines != len(records):
            raise RuntimeError(f"{len(records)} lines became {parsed.lines}")
        self._bytes_read += len(data)
        self._notice(parsed)
        failed = {bad.index: (bad.kind, bad.message, bad.column) for bad in parsed.bad}
        row_lines = range(parsed.table.num_rows) if parsed.row_lines is None else parsed.row_lines.tolist()
        failed |= self._write(parsed.table, records, row_lines)
        for index in failed.keys() | set(range(len(records))).difference(row_lines):
            # A blank line is no record and has no business here; it stays as it is.
            self._put_back(records[index], *failed.get(index, _same(records[index])))

    def _write(self, table: pa.Table, records: list[dict[str, Any]], row_lines: Sequence[int]) -> dict[int, _Reason]:
        """Pass the rows on. Returns those for which a column of the table cannot be filled."""
        try:
            self._writer.write(self._complete(table, [records[i] for i in row_lines]))
            return {}
        except UnusableOrigin:
            failed = {}
        for row, index in enumerate(row_lines):
            try:
                self._writer.write(self._complete(table.slice(row, 1), [records[index]]))
            except UnusableOrigin as e:
                failed[index] = (e.kind, str(e), None)
        return failed

    def _complete(self, table: pa.Table, records: list[dict[str, Any]]) -> pa.Table:
        return complete_table(table, self._spec.layout, _origins(records), self._stamp)

    def _put_back(self, record: dict[str, Any], kind: str, message: str, column: str | None) -> None:
        row = BadRow(
            source_file=record["source_file"],
            source_etag=record["source_etag"],
            line=record["line"],
            byte_offset=record["byte_offset"],
            raw=record["raw"],
            raw_bytes=record["raw_bytes"],
            kind=kind,
            message=message,
            column=column,
            since=record["quarantined_at"],
        )
        self._quarantine.add(row)

    def _notice(self, parsed: ParsedBlock) -> None:
        self._unknown |= dict.fromkeys(parsed.unknown)
        if parsed.observed is not None:
            self._observed = parsed.observed if self._observed is None else self._observed.merge(parsed.observed)
        if RESCUED_COLUMN in parsed.table.column_names:
            column = parsed.table[RESCUED_COLUMN]
            self._rescued += len(column) - column.null_count


def _line(record: dict[str, Any]) -> bytes:
    raw: bytes = record["raw"]
    return raw.removeprefix(BOM_UTF8) if record["line"] == 1 else raw


def _same(record: dict[str, Any]) -> _Reason:
    return record["error_kind"], record["message"], record["column"]


def _origins(records: Iterable[dict[str, Any]]) -> list[RowOrigin]:
    """As if they had passed at first, so that they get the same key."""
    groups = groupby(records, key=lambda record: (record["source_file"], record["source_etag"]))
    return [
        RowOrigin(path=path, etag=etag, line_numbers=np.array([r["line"] - 1 for r in group], np.int64))
        for (path, etag), group in groups
    ]
