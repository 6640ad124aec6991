"""Parses records from quarantine once more. Each becomes a row of the table or goes back; none is lost."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import LineKind
from blizzard.core.reasons import NO_REASONS, Met, Reason, tally_reasons
from blizzard.core.types import BatchTicket, TaskReport
from blizzard.source.frames import as_one_line
from blizzard.source.lines import LongLine
from blizzard.tasks.layout import RowOrigin, UnusableOrigin, complete_table
from blizzard.tasks.outputs import open_outputs
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import NO_LINES, BadLine, Noticed, ParsedBlock
from blizzard.tasks.quarantine import BadRow
from blizzard.tasks.routing import Routing
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.target import stamp_of
from blizzard.tasks.transform import transforming_of

_Reason: TypeAlias = tuple[str, str, str | None]  # kind, message, column


class Reparsing:
    """Every record goes to the table or back into quarantine."""

    def __init__(self, spec: TaskSpec, ticket: BatchTicket) -> None:
        self._spec = spec
        self._parser = RecordParser(spec.record_schema, spec.parsing, spec.parser)
        self._transforming = None if spec.transform is None else transforming_of(spec, gives_up=False)
        self._stamp = stamp_of(spec, ticket)
        self._writer, self._quarantine = open_outputs(spec, ticket, "replay")
        self._routing = None if spec.where is None else Routing(spec.where, replace(spec, routes=()))
        judged = None if self._routing is None else self._routing.parsing
        self._judging = None if judged is None else judged.make()
        self._bytes_read = 0
        self.not_selected = 0
        self._noticed = Noticed()
        self._reasons = NO_REASONS

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
            rescued=self._noticed.rescued,
            undeclared=self._noticed.undeclared,
            cut_times=self._noticed.cut_times,
            reasons=self._reasons,
            parser=self._parser.name,
            doubtful=self._noticed.doubtful,
            observed=self._noticed.observed,
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
        found = parsed.table.num_rows
        parsed = self._transform(self._route(parsed, data, records))
        self._reasons = self._reasons.merge(tally_reasons(_met(bad, records[bad.number]) for bad in parsed.bad))
        failed: dict[int, _Reason] = {bad.number: (bad.kind, bad.message, bad.column) for bad in parsed.bad}
        row_lines = range(parsed.table.num_rows) if parsed.row_lines is None else parsed.row_lines.tolist()
        unfilled = self._write(parsed.table, records, row_lines)
        # What was met on lines that go back is not ignored, cut or rescued.
        good = b"".join(_line(records[i]) + b"\n" for i in row_lines if i not in unfilled)
        is_whole = not unfilled and parsed.table.num_rows == found
        self._noticed.add(parsed if is_whole else self._parser.parse(good, first_of_file=False))
        failed |= unfilled
        for index in failed.keys() | set(range(len(records))).difference(row_lines):
            # A record that is not for this table goes back unchanged; so does a blank line, which should not be here.
            self._put_back(records[index], *failed.get(index, _same(records[index])))

    def _transform(self, parsed: ParsedBlock) -> ParsedBlock:
        """Records that the transform leaves out go back too: they leave a quarantine only as rows."""
        if self._transforming is None:
            return parsed
        transformed = self._transforming.apply(parsed)
        self.not_selected += len(transformed.filtered)
        return replace(transformed, filtered=NO_LINES)

    def _route(self, parsed: ParsedBlock, data: bytes, records: list[dict[str, Any]]) -> ParsedBlock:
        """Without the records that are not for this table. It is a quarantine of this table, so none of them leaves."""
        if self._routing is None:
            return parsed
        judged = None if self._judging is None else self._judging.parse(data, first_of_file=False)
        routed = self._routing.apply(parsed, judged, lambda number: _line(records[number])).parsed
        self.not_selected += len(routed.filtered)
        return replace(routed, filtered=NO_LINES)

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
