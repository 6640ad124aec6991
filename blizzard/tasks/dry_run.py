"""Reads slices as a task does, and writes nothing: what would become rows, what would be bad, and how fast it goes.

Only the writers differ from those of a run. What a line becomes is decided by the same code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.core.bad import BadPolicy
from blizzard.core.observed import FieldPath
from blizzard.core.trial import Trial, growth_of
from blizzard.core.types import BatchResult, BatchTicket, Budget, DataFile, Slice, TaskPlan, TaskReport
from blizzard.source.spread import spread
from blizzard.tasks.parse import ParserMissing, RecordParser
from blizzard.tasks.partitioned import RowWriter
from blizzard.tasks.quarantine import BadRow, BadRows, BadRowWriter
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.target import Target
from blizzard.tasks.task import run_task

# More files say little more, and each costs a request to the store.
_MOST_FILES = 50
# For a few records of a file no large block of it is fetched and decompressed.
_SMALL_BLOCK_BYTES = 256 * 1024
_SMALL_SHARE = 5_000
_MEASURED_S = 0.3
# The speed of less would be that of what is done once.
_ENOUGH_BYTES = 1_000_000
_TICKET = BatchTicket(sequence=0, planned_ms=0, table_id="")


class _CountedRows:
    """Counts the values of each column, and keeps the first rows."""

    written_bytes = 0

    def __init__(self, found: _Found, keeps: int) -> None:
        self._found, self._keeps = found, keeps
        self._rows: list[dict[str, Any]] = []
        self._filled: dict[FieldPath, int] = {}

    def write(self, table: pa.Table) -> None:
        if len(self._rows) < self._keeps:
            self._rows += table.slice(0, self._keeps - len(self._rows)).to_pylist()
        for column in table.schema:
            _count_filled(self._filled, (column.name,), table[column.name])

    def close(self) -> tuple[DataFile, ...]:
        """Only an attempt that reads to its end is closed."""
        self._found.rows += self._rows
        for path, count in self._filled.items():
            self._found.filled[path] = self._found.filled.get(path, 0) + count
        return ()

    def abandon(self) -> None:
        return None


def _count_filled(filled: dict[FieldPath, int], path: FieldPath, values: Any) -> None:
    filled[path] = filled.get(path, 0) + len(values) - values.null_count
    if pa.types.is_struct(values.type):
        for index, inner in enumerate(values.type):
            _count_filled(filled, (*path, inner.name), pc.struct_field(values, [index]))


class _NoQuarantine:
    def add(self, row: BadRow) -> None:
        del row

    def add_lines(self, rows: BadRows) -> None:
        del rows

    def close(self) -> tuple[DataFile, ...]:
        return ()

    def abandon(self) -> None:
        return None


@dataclass(slots=True)
class _Found:
    rows: list[dict[str, Any]] = field(default_factory=list)
    filled: dict[FieldPath, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NothingWritten:
    """In place of the files of a task."""

    found: _Found
    keeps: int

    def open(self, targets: Sequence[Target], part: str) -> Sequence[tuple[RowWriter, BadRowWriter]]:
        del part
        return [(_CountedRows(self.found, self.keeps - len(self.found.rows)), _NoQuarantine()) for _ in targets]

    def end_marker(self, target: Target) -> None:
        del target


def read_without_writing(spec: TaskSpec, slices: Sequence[Slice], *, max_records: int | None, rows: int) -> Trial:
    """Read so many lines of these slices, spread over them; all of them for None. `rows` are kept to be shown. Limits
    on bad records do not end it."""
    spec = replace(spec, bad=BadPolicy(records="rescue" if spec.bad.records == "rescue" else "quarantine"))
    outputs = _NothingWritten(found=_Found(), keeps=rows)
    _warm_up(spec)
    started = time.monotonic()
    if max_records is None:  # as one task: small files are parsed together
        reports = [_read(spec, tuple(slices), 0, None, outputs)] if slices else []
        seconds = time.monotonic() - started
        measured, speed = reports, _speed(reports, seconds)
    else:
        chosen = [slices[i] for i in spread(len(slices), min(_MOST_FILES, max_records))]
        reports = _read_shares(spec, chosen, max_records, outputs)
        seconds = time.monotonic() - started
        measured, speed = _measure(spec, chosen)
    return Trial(
        slices=tuple(slices),
        result=BatchResult(reports=tuple(reports)),
        filled=outputs.found.filled,
        first_rows=tuple(outputs.found.rows),
        seconds=seconds,
        bytes_per_s=speed,
        growth=growth_of(slices, [*reports, *measured]),
    )


def _measure(spec: TaskSpec, slices: Sequence[Slice]) -> tuple[list[TaskReport], float | None]:
    """How fast one file goes. Few records of many files say nothing: a parser is slow at first, since its first rows
    are read twice."""
    if not slices:
        return [], None
    largest = max(slices, key=lambda piece: piece.size_bytes)
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=_MEASURED_S)
    outputs = _NothingWritten(found=_Found(), keeps=0)
    started = time.monotonic()
    report = run_task(spec, TaskPlan(slot=0, slices=(largest,), budget=budget), _TICKET, outputs)
    return [report], _speed([report], time.monotonic() - started)


def _speed(reports: Sequence[TaskReport], seconds: float) -> float | None:
    read = sum(report.bytes_read for report in reports)
    return read / seconds if read >= _ENOUGH_BYTES else None


def _warm_up(spec: TaskSpec) -> None:
    """The first parser of a process loads its library, and pandas with it. That says nothing about its speed."""
    with suppress(ParserMissing):  # the task reports it
        RecordParser(spec.record_schema, spec.parsing, spec.parser).parse(b"{}\n{}\n", first_of_file=False)


def _read_shares(
    spec: TaskSpec, slices: Sequence[Slice], max_records: int, outputs: _NothingWritten
) -> list[TaskReport]:
    """The same number of each. What a short file leaves of its share goes to the files after it."""
    reports: list[TaskReport] = []
    left = max_records
    for slot, piece in enumerate(slices):
        share = -(-left // (len(slices) - slot))
        if not share:
            break
        small = spec if share >= _SMALL_SHARE else replace(spec, block_bytes=min(spec.block_bytes, _SMALL_BLOCK_BYTES))
        reports.append(_read(small, (piece,), slot, share, outputs))
        left -= sum(s.to_record - s.from_record for s in reports[-1].slices)
    return reports


def _read(
    spec: TaskSpec, slices: tuple[Slice, ...], slot: int, max_records: int | None, outputs: _NothingWritten
) -> TaskReport:
    budget = Budget(output_bytes=1 << 62, max_records=max_records, seconds=None)
    return run_task(spec, TaskPlan(slot=slot, slices=slices, budget=budget), _TICKET, outputs)
