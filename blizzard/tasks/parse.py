"""A block of NDJSON lines into an Arrow table: pyarrow's reader behind guards that make it exact.

Each line is one record, blank, or bad, just as `records.RecordReader` says; a block that the guards cannot
vouch for is cut into pieces until the doubtful lines are alone, and the reference reads those. Schemas with
maps, which pyarrow cannot read from JSON, go through the reference line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.source.lines import Positions, newline_positions
from blizzard.tasks.convert import DoubtError, find_suspects, finish_table, holds_decimal, reading_type
from blizzard.tasks.records import MAX_NESTING, WHITESPACE, LineError, Record, RecordReader, is_too_deep

_BOM = b"\xef\xbb\xbf"
_RETURN, _OPEN, _CLOSE = b"\r{}"

# One call of pyarrow's reader costs 0.15 to 0.25 ms: the reference reads about this many lines in that time.
_FEW_LINES = 8
# Looking for suspects costs as much as two calls on the whole block; what the look cannot tell is worth a few
# cuts more. After that the reference reads what is left: however bad a block is, it costs little more than
# with the reference alone.
_DOUBTS_BEFORE_SCREEN = 2
_MAX_DOUBTS = 20
# The reader counts a block in 32 bits.
_MAX_BYTES = 1 << 30
_SCAN_BYTES = 1 << 18

# Two characters and how far apart they stand, to find candidates quickly.
_CONSTANTS = ((b"N", 2, b"N"), (b"I", 2, b"f"))
_EXPONENTS = ((b"+", 1, b"-"), (b"0", 1, b"x"), (b"0", 1, b"X"), (b"\\", 3, b"0"), (b"e", 1, b"-"), (b"E", 1, b"-"))
# NaN and Inf, which pyarrow takes for numbers: bare, what follows is a comma or a bracket, unlike in "Info".
# For decimals it also takes "1e+-1" and "1e0x2" (0.1 and 100), also in escapes, and for an exponent such as -100
# it reads past its 76 powers of ten (apache/arrow#50965). With 38 digits of fraction at most, -29 is safe.
_HAZARD = re.compile(
    rb"(?:NaN|Inf(?:inity)?)[ \t\r\n]*[,\]}]"
    rb"|\+-|(?<=[eE+])0[xX]|\\u00(?:2[bBdDeE]|3[0-9]|[46]5|[57]8)|(?<=[0-9.])[eE]-0*(?:[3-9][0-9]|[0-9]{3})"
)
_ROW_IN_MESSAGE = re.compile(r"in row (\d+)\s*$")
_TEXT_IN_MESSAGE = re.compile(r"couldn't parse:(.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is not a record. `index` counts the lines of the block from 0; `kind` is stable."""

    index: int
    kind: str
    message: str
    column: str | None
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBlock:
    """The good records in line order, and what became of the other lines."""

    table: pa.Table
    lines: int
    blank: int
    bad: tuple[BadLine, ...]


class UntidyError(DoubtError):
    """Not every line runs from { to }: blank lines, spaces around a record, or worse."""


class RecordParser:
    """Parses blocks of whole lines into tables of exactly `to_arrow(schema)`; keeps nothing between them."""

    def __init__(self, schema: DeltaSchema) -> None:
        self._delta_schema = schema
        self._schema: pa.Schema = to_arrow(schema)
        self._reader = RecordReader(schema)
        reading = [(column.name, reading_type(column.type)) for column in self._schema]
        self._is_fast = all(inner is not None for _, inner in reading)
        self._holds_decimal = any(holds_decimal(column.type) for column in self._schema)
        if self._is_fast:
            self._parse_options = pa_json.ParseOptions(
                explicit_schema=pa.schema(reading), unexpected_field_behavior="ignore"
            )

    def parse(self, data: bytes, *, first_of_file: bool, newlines: Positions | None = None) -> ParsedBlock:
        """`newlines` is where they are in the block, if the caller knows."""
        starts_with_bom = first_of_file and data.startswith(_BOM)
        if starts_with_bom:
            data = data[len(_BOM) :]
            newlines = None if newlines is None else newlines - len(_BOM)
        tidied = data
        try:
            try:
                table = self._read_fast(data, newlines)
            except UntidyError:
                tidied = _tidy(data)
                table = self._read_fast(tidied)
        except DoubtError as doubt:
            return self._parse_slowly(data, doubt, starts_with_bom)
        lines = table.num_rows if tidied is data else data.count(b"\n") + (not data.endswith(b"\n"))
        return ParsedBlock(table=table, lines=lines, blank=lines - table.num_rows, bad=())

    def _parse_slowly(self, data: bytes, doubt: DoubtError, starts_with_bom: bool) -> ParsedBlock:
        sorting = _Sorting(lines=_split_lines(data, starts_with_bom))
        lines = sorting.records() if self._is_fast else sorting.everything()
        pending = [lines] if isinstance(doubt, UntidyError) else _cut(lines, doubt.row)
        doubts = 0
        while pending:
            piece = pending.pop()
            if len(piece) <= _FEW_LINES or doubts == _MAX_DOUBTS or not self._is_fast:
                sorting.to_reference += [index for index, _ in piece]
                continue
            try:
                table = self._read_fast(b"\n".join([line for _, line in piece]))
            except DoubtError as again:
                doubts += 1
                pending += _cut(piece, again.row)
                if doubts == _DOUBTS_BEFORE_SCREEN:
                    pending = [sorting.screen(pending, self._delta_schema)]
            else:
                sorting.keep(table, [index for index, _ in piece])
        return self._judge(sorting, _BOM if starts_with_bom else b"")

    def _judge(self, sorting: _Sorting, bom: bytes) -> ParsedBlock:
        records: list[Record] = []
        indexes: list[int] = []
        bad: list[BadLine] = []
        for index in sorted(sorting.to_reference):
            line = sorting.lines[index]
            try:
                records.append(self._reader.read(line))
                indexes.append(index)
            except LineError as error:
                raw = (bom if index == 0 else b"") + line
                bad.append(BadLine(index=index, kind=error.kind, message=str(error), column=error.column, raw=raw))
        sorting.keep(_to_table(records, self._schema), indexes)
        return ParsedBlock(table=sorting.in_line_order(), lines=len(sorting.lines), blank=sorting.blank, bad=tuple(bad))

    def _read_fast(self, data: bytes, newlines: Positions | None = None) -> pa.Table:
        """One row per line, exact, or `DoubtError`."""
        if not self._is_fast or len(data) > _MAX_BYTES:
            raise DoubtError
        line_ends = check_bytes(data, newlines, holds_decimal=self._holds_decimal)
        options = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            table = pa_json.read_json(pa.BufferReader(data), read_options=options, parse_options=self._parse_options)
        except pa.ArrowInvalid as error:
            raise DoubtError(_guess_row(str(error), data, line_ends)) from None
        if table.num_rows != len(line_ends):
            raise DoubtError  # two values on a line
        return finish_table(table, self._schema)


Piece: TypeAlias = list[tuple[int, bytes]]


@dataclass(slots=True, kw_only=True)
class _Sorting:
    """The lines of a block while it is being decided which of them the fast path can read."""

    lines: list[bytes]
    blank: int = 0
    to_reference: list[int] = field(default_factory=list)
    _tables: list[Any] = field(default_factory=list)
    _indexes: list[Positions] = field(default_factory=list)

    def everything(self) -> Piece:
        """All lines that are not blank, stripped."""
        stripped = [(index, line.strip(WHITESPACE)) for index, line in enumerate(self.lines)]
        found = [(index, line) for index, line in stripped if line]
        self.blank = len(self.lines) - len(found)
        return found

    def records(self) -> Piece:
        """The lines from { to }; any other that is not blank is for the reference."""
        found = self.everything()
        return self._leave_out([line[0] != _OPEN or line[-1] != _CLOSE for _, line in found], found)

    def screen(self, pieces: list[Piece], schema: DeltaSchema) -> Piece:
        piece = [numbered for piece in pieces for numbered in piece]
        suspects = find_suspects([line for _, line in piece], schema)
        return self._leave_out([row in suspects for row in range(len(piece))], piece)

    def _leave_out(self, is_suspect: list[bool], piece: Piece) -> Piece:
        self.to_reference += [index for index, _ in compress(piece, is_suspect)]
        return list(compress(piece, map(not_, is_suspect)))

    def keep(self, table: pa.Table, indexes: list[int]) -> None:
        self._tables.append(table)
        self._indexes.append(np.array(indexes, dtype=np.int64))

    def in_line_order(self) -> pa.Table:
        table = pa.concat_tables(self._tables).combine_chunks()
        indexes = np.concatenate(self._indexes)
        if np.all(indexes[:-1] < indexes[1:]):
            return table
        return table.take(pa.array(np.argsort(indexes)))


def _split_lines(data: bytes, starts_with_bom: bool) -> list[bytes]:
    if not data and not starts_with_bom:
        return []
    lines = data.split(b"\n")
    if data.endswith(b"\n"):
        lines.pop()
    return lines


def _tidy(data: bytes) -> bytes:
    """The block without its empty lines, which are harmless and cheap to remove."""
    data = data.replace(b"\r\n", b"\n")
    while b"\n\n" in data:
        data = data.replace(b"\n\n", b"\n")
    return data.lstrip(b"\n")


def _cut(piece: Piece, row: int | None) -> list[Piece]:
    """Smaller pieces. The suspect stands alone and the rest is halved, so that even if every line is bad the
    reader is called only about once for each few lines."""
    first = 0 if row is None else min(row + 1, len(piece))
    middle = (first + len(piece)) // 2
    parts = [piece[:middle], piece[middle:]]
    if row is not None:
        parts = [piece[: first - 1], piece[first - 1 : first], piece[first:middle], piece[middle:]]
    return [part for part in parts if part]


def _to_table(records: list[Record], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([record[column.name] for record in records], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def check_bytes(data: bytes, newlines: Positions | None = None, *, holds_decimal: bool) -> Positions:
    """Where each line ends, once it is sure that pyarrow's rows, if as many as lines, are the lines' records.

    Every newline stands in `}\\n{` or `}\\r\\n{`. Inside JSON no `{` can follow the `}` of a value, and no raw
    newline can stand in a string: so no value spans lines, and each line holds one object or more.
    The first line starts with `{` too: a null there would crash pyarrow 26 (SIGSEGV).
    """
    if not data or data[0] != _OPEN:
        raise UntidyError
    content = np.frombuffer(data, np.uint8)
    newlines = newline_positions(data) if newlines is None else newlines
    ends = newlines if newlines.size and newlines[-1] == len(data) - 1 else np.append(newlines, len(data))
    closing = ends - 1 - (content[ends - 1] == _RETURN)
    if np.any(content[closing] != _CLOSE) or np.any(content[ends[:-1] + 1] != _OPEN):
        raise UntidyError
    if b"\0" in data or not is_utf8(data):
        raise DoubtError
    candidates = _find_pairs(data, (*_CONSTANTS, *_EXPONENTS) if holds_decimal else _CONSTANTS)
    for position in candidates.tolist():
        if _HAZARD.match(data, position):
            raise DoubtError(_row_at(position, ends))
    _refuse_deep_lines(data, ends)
    return ends


def _find_pairs(data: bytes, pairs: tuple[tuple[bytes, int, bytes], ...]) -> Positions:
    """Where two characters stand at their distance."""
    content = np.frombuffer(data, np.uint8)
    found: list[Positions] = [np.empty(0, np.int64)]
    first, second = np.empty(_SCAN_BYTES, bool), np.empty(_SCAN_BYTES, bool)
    for start in range(0, len(data), _SCAN_BYTES):
        for letter, distance, other in pairs:
            size = min(_SCAN_BYTES, len(data) - start - distance)
            # Most chunks lack one of the letters, and to see that costs next to nothing.
            if size > 0 and data.find(letter, start, start + size) >= 0:
                here = np.equal(content[start : start + size], letter[0], out=first[:size])
                there = content[start + distance : start + distance + size]
                here &= np.equal(there, other[0], out=second[:size])
                if here.any():
                    found.append(np.flatnonzero(here) + start)
    return np.sort(np.concatenate(found))


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        # No copy is made: decoding 4 MiB to str took 10 to 15 ms where this takes 1.
        offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _refuse_deep_lines(data: bytes, ends: Positions) -> None:
    """pyarrow reads any depth; a line must be long to be deep, so nearly all pass by their length."""
    starts = np.append(0, ends[:-1] + 1)
    for row in np.flatnonzero(ends - starts > 2 * MAX_NESTING).tolist():
        if is_too_deep(data[starts[row] : ends[row]]):
            raise DoubtError(row)


def _row_at(position: int, ends: Positions) -> int:
    return int(np.searchsorted(ends, position))


def _guess_row(message: str, data: bytes, ends: Positions) -> int | None:
    """Which line a reader's message is about. A wrong guess costs time, never a record."""
    if found := _ROW_IN_MESSAGE.search(message):
        return min(int(found[1]), len(ends) - 1)
    if found := _TEXT_IN_MESSAGE.search(message):
        position = data.find(found[1].encode("utf-8", "replace"))
        return None if position < 0 else _row_at(position, ends)
    return None
