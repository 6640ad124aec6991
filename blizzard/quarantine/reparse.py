"""Parses records from quarantine once more. Each becomes a row of the table or goes back; none is lost."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import LineKind
from blizzard.core.observed import Observations
from blizzard.core.reasons import NO_REASONS, Met, Reason, tally_reasons
from blizzard.core.tally import NOTHING
from blizzard.core.types import BatchTicket, TaskReport
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.source.frames import as_one_line
from blizzard.source.lines import LongLine
from blizzard.tasks.layout import RowOrigin, UnusableOrigin, complete_table
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import BadLine, ParsedBlock
from blizzard.tasks.quarantine import BadRow
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import open_outputs, stamp_of

_Reason: TypeAlias = tuple[str, str, str | None]  # kind, message, column


class Reparsing:
    """Every record goes to the table or back into quarantine."""

    def __init__(self, spec: TaskSpec, ticket: BatchTicket) -> None:
        self._spec = spec
        self._parser = RecordParser(spec.layout.record_schema, spec.parsing, spec.parser)
        self._stamp = stamp_of(spec, ticket)
        self._writer, self._quarantine = open_outputs(spec, ticket, "replay")
        self._bytes_read = self._rescued = 0
        self._doubtful = 0
        self._undeclared = self._cut_times = NOTHING
        self._reasons = NO_REASONS
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

    def abandon(self) -> None:
        """No commit will name what was written."""
        self._writer.abandon()
        self._quarantine.abandon()

    def finish(self) -> TaskReport:
        return TaskReport(
            slot=0,
            files=self._writer.close(),
            bytes_read=self._bytes_read,
            quarantine=self._quarantine.close(),
            rescued=self._rescued,
            undeclared=self._undeclared,
            cut_times=self._cut_times,
            reasons=self._reasons,
            parser=self._parser.name,
            doubtful=self._doubtful,
            observed=self._observed,
        )

    def _why_not_a_line(self, record: dict[str, Any]) -> _Reason | None:
        size, limit = len(record["raw"]), self._spec.max_record_bytes
        if size > limit:
            return LineKind.TOO_LONG, str(LongLine(head=b"", size_bytes=size, limit_bytes=limit)), None
        return None

    def _parse(self, records: list[dict[str, Any]]) -> None:
        data = b"".join(_line(record) + b"\n" for record in records)
        parsed = self._parser.parse(data, first_of_file=False)
        if parsed.lines != len(records):
            raise RuntimeError(f"{len(records)} lines became {parsed.lines}")
        self._bytes_read += len(data)
        self._reasons = self._reasons.merge(tally_reasons(_met(bad, records[bad.number]) for bad in parsed.bad))
        failed: dict[int, _Reason] = {bad.number: (bad.kind, bad.message, bad.column) for bad in parsed.bad}
        row_lines = range(parsed.table.num_rows) if parsed.row_lines is None else parsed.row_lines.tolist()
        unfilled = self._write(parsed.table, records, row_lines)
        # What was met on lines that go back is not ignored, cut or rescued.
        good = b"".join(_line(records[i]) + b"\n" for i in row_lines if i not in unfilled)
        self._notice(self._parser.parse(good, first_of_file=False) if unfilled else parsed)
        failed |= unfilled
        for index in failed.keys() | set(range(len(records))).difference(row_lines):
            # A blank line is not a record and should not be here. It goes back unchanged.
            self._put_back(records[index], *failed.get(index, _same(records[index])))

    def _write(self, table: pa.Table, records: list[dict[str, Any]], row_lines: Sequence[int]) -> dict[int, _Reason]:
        """Write the rows. Returns those for which a column of the table cannot be filled."""
        try:
            self._writer.write(self._complete(table, [records[i] for i in row_lines]))
            return {}
        except UnusableOrigin:
            failed: dict[int, _Reason] = {}
        for row, index in enumerate(row_lines):
            try:
                self._writer.write(self._complete(table.slice(row, 1), [records[index]]))
            except UnusableOrigin as e:
                failed[index] = (LineKind.MISSING_VALUE, str(e), e.column)
        return failed

    def _complete(self, table: pa.Table, records: list[dict[str, Any]]) -> pa.Table:
        # Records that became rows are UTF-8.
        texts = pa.array([_line(r).decode() for r in records], pa.string()) if self._spec.layout.keeps_raw else None
        return complete_table(table, self._spec.layout, _origins(records), self._stamp, texts)

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
        self._doubtful += parsed.doubtful
        self._undeclared = self._undeclared.merge(parsed.undeclared)
        self._cut_times = self._cut_times.merge(parsed.cut_times)
        if parsed.observed is not None:
            self._observed = parsed.observed if self._observed is None else self._observed.merge(parsed.observed)
        if RESCUED_COLUMN in parsed.table.column_names:
            column = parsed.table[RESCUED_COLUMN]
            self._rescued += len(column) - column.null_count


def _met(bad: BadLine, record: dict[str, Any]) -> tuple[Reason, Met]:
    reason = bad.reason or Reason(kind=bad.kind, column=bad.column)
    return reason, Met(records=1, path=record["source_file"], line=record["line"], message=bad.message)


def _line(record: dict[str, Any]) -> bytes:
    raw: bytes = record["raw"]
    return as_one_line(raw.removeprefix(BOM_UTF8) if record["line"] == 1 else raw)


def _same(record: dict[str, Any]) -> _Reason:
    return record["error_kind"], record["message"], record["column"]


def _origins(records: Iterable[dict[str, Any]]) -> list[RowOrigin]:
    """The origin of each record as at first, so that it gets the same record key."""
    groups = groupby(records, key=lambda record: (record["source_file"], record["source_etag"]))
    return [
        RowOrigin(path=path, etag=etag, line_numbers=np.array([r["line"] - 1 for r in group], np.int64))
        for (path, etag), group in groups
    ]
