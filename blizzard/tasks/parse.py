"""A block of NDJSON lines into an Arrow table: pyarrow's reader behind guards that make it exact.

Each line is one record, blank, or bad, just as `records.RecordReader` says; a block that the guards cannot
vouch for is cut into pieces until the doubtful lines are alone, and the reference reads those. Schemas with
maps, which pyarrow cannot read from JSON, go through the reference line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, islice
from operator import not_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, show_column, show_path
from blizzard.schema.arrow import to_arrow
from blizzard.schema.evolve import Declared, Observations, observe
from blizzard.source.lines import Positions
from blizzard.tasks.convert import DoubtError, finish_table, holds_decimal, reading_type
from blizzard.tasks.guards import UntidyError, check_bytes, guess_row
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.records import Record, RecordReader
from blizzard.tasks.screen import Screen
from blizzard.tasks.syntax import WHITESPACE, LineError
from blizzard.tasks.undeclared import sample_lines, undeclared_in

_BOM = b"\xef\xbb\xbf"
_OPEN, _CLOSE = b"{}"

# One call of pyarrow's reader costs 0.15 to 0.25 ms: the reference reads about this many lines in that time.
_FEW_LINES = 8
# Looking at every line costs most of a call on the whole block; what the look cannot tell is worth a few cuts more.
# After that the reference reads what is left: however bad a block is, it costs little more than the reference alone.
_DOUBTS_BEFORE_SCREEN = 2
_MAX_DOUBTS = 20
# The reader counts a block in 32 bits.
_MAX_BYTES = 1 << 30
# So many lines tell whether a look at all of them is worth its time.
_SCREEN_SAMPLE = 64
# After a block with lines for the reference, the lines of so many blocks are looked at before they are read.
_WARY_BLOCKS = 8
# Names of undeclared fields that one parser remembers.
_MAX_NOTICED = 20
_UNDECLARED = "unexpected field"  # in pyarrow's message


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is not a record. `index` counts the lines of the block from 0, `offset` its bytes, both with the
    byte order mark; `kind` is stable."""

    index: int
    kind: str
    message: str
    column: str | None
    raw: bytes
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBlock:
    """The good records in line order, and what became of the other lines.

    `row_lines` is the line of each row, counted from 0, or None where row i is line i. `unknown` names undeclared
    fields that the parser has not named before; `observed` is what such fields held, if the policy asks for it.
    """

    table: pa.Table
    lines: int
    blank: int
    bad: tuple[BadLine, ...]
    row_lines: Positions | None = field(default=None, compare=False)
    unknown: tuple[str, ...] = ()
    observed: Observations | None = None

    @classmethod
    def of_whole(cls, table: pa.Table) -> ParsedBlock:
        """Every line is a row."""
        return cls(table=table, lines=table.num_rows, blank=0, bad=())


class RecordParser:
    """Parses blocks of whole lines into tables of exactly `to_arrow(schema)`, and of `_rescued_data` if the policy
    rescues. Between blocks it remembers the names of undeclared fields that it has told of, and nothing else."""

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None) -> None:
        self._delta_schema = schema
        self._names = Declared(schema)
        self._policy = policy or ParsePolicy()
        self._declared: pa.Schema = to_arrow(schema)
        self._schema = self._declared
        if self._policy.rescues:
            _refuse_rescued_column(self._declared)
            self._schema = self._declared.append(pa.field(RESCUED_COLUMN, pa.string()))
        self._reader = RecordReader(schema, self._policy, self._notice)
        reading = [(column.name, reading_type(column.type)) for column in self._declared]
        self._is_fast = all(inner is not None for _, inner in reading)
        self._holds_decimal = any(holds_decimal(column.type) for column in self._declared)
        if self._is_fast:
            self._strict = pa_json.ParseOptions(explicit_schema=pa.schema(reading), unexpected_field_behavior="error")
            self._loose = pa_json.ParseOptions(explicit_schema=pa.schema(reading), unexpected_field_behavior="ignore")
        self._screen = Screen(schema, undeclared_too=self._policy.every_unknown_counts)
        self._wary = 0
        self._blamed: frozenset[str] | None = frozenset()  # columns that had bad values; None: any may
        self._is_strict = True
        self._noticed: dict[ColumnPath, None] = {}
        self._met_undeclared = False

    def parse(self, data: bytes, *, first_of_file: bool, newlines: Positions | None = None) -> ParsedBlock:
        """`newlines` is where they are in the block, if the caller knows."""
        starts_with_bom = first_of_file and data.startswith(_BOM)
        if starts_with_bom:
            data = data[len(_BOM) :]
            newlines = None if newlines is None else newlines - len(_BOM)
        known = len(self._noticed)
        self._met_undeclared = False
        if self._policy.unknown is Unknown.REPORT:
            self._is_strict = True  # every block is to be told from one that holds nothing new
        parsed = self._parse(data, newlines, starts_with_bom)
        observed = self._look_around(data, parsed)
        unknown = tuple(map(show_path, islice(self._noticed, known, None)))
        return replace(parsed, unknown=unknown, observed=observed) if unknown or observed else parsed

    def _parse(self, data: bytes, newlines: Positions | None, starts_with_bom: bool) -> ParsedBlock:
        if self._wary:
            self._wary -= 1
            parsed = self._parse_warily(data, starts_with_bom)
            if parsed is not None:
                return parsed
        try:
            try:
                return ParsedBlock.of_whole(self._read_fast(data, newlines))
            except UntidyError:
                table = self._read_fast(_tidy(data))
        except DoubtError as doubt:
            return self._parse_slowly(data, doubt, starts_with_bom)
        lines = _split_lines(data, starts_with_bom)
        row_lines = np.flatnonzero([bool(line.strip(WHITESPACE)) for line in lines])
        blank = len(lines) - table.num_rows
        return ParsedBlock(table=table, lines=len(lines), blank=blank, bad=(), row_lines=row_lines if blank else None)

    def _parse_warily(self, data: bytes, starts_with_bom: bool) -> ParsedBlock | None:
        """Dirt comes in heaps, and a bad line found before the block is read saves reading it twice. None where the
        look was of no use."""
        sorting = _Sorting(lines=_split_lines(data, starts_with_bom))
        suspects = self._screen.find_suspects(sorting.lines, self._blamed)
        if len(suspects) > len(sorting.lines) // 4:
            return None
        try:
            sorting.keep_all_but(suspects, self._read_fast)
        except DoubtError:
            return None
        return self._judge(sorting, _BOM if starts_with_bom else b"")

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
                    pending = [sorting.screen(pending, self._screen)]
            else:
                sorting.keep(table, [index for index, _ in piece])
        return self._judge(sorting, _BOM if starts_with_bom else b"")

    def _judge(self, sorting: _Sorting, bom: bytes) -> ParsedBlock:
        records: list[Record] = []
        indexes: list[int] = []
        bad: list[BadLine] = []
        for index in sorted(sorting.to_reference):
            try:
                records.append(self._reader.read(sorting.lines[index]))
                indexes.append(index)
            except LineError as error:
                # The error itself is not kept: with its traceback, 30,000 of them took four times as long.
                bad.append(sorting.bad_line(index, error, bom))
                self._blame(error.path)
        if sorting.to_reference:
            self._wary = _WARY_BLOCKS
        if records:
            self._blamed = None  # they were good, and which column the fast path stumbled over is not known
        if records or not sorting.has_rows:
            sorting.keep(_to_table(records, self._schema), indexes)
        table, row_lines = sorting.in_line_order()
        return ParsedBlock(
            table=table,
            lines=len(sorting.lines),
            blank=sorting.blank,
            bad=tuple(bad),
            row_lines=None if len(row_lines) == len(sorting.lines) else row_lines,
        )

    def _blame(self, path: ColumnPath) -> None:
        if path and self._blamed is not None:
            self._blamed |= {path[0]}

    def _read_fast(self, data: bytes, newlines: Positions | None = None) -> pa.Table:
        """One row per line, exact, or `DoubtError`."""
        if not self._is_fast or len(data) > _MAX_BYTES:
            raise DoubtError
        line_ends = check_bytes(data, newlines, holds_decimal=self._holds_decimal)
        try:
            table = self._read_json(data)
        except pa.ArrowInvalid as error:
            raise DoubtError(guess_row(str(error), data, line_ends)) from None
        if table.num_rows != len(line_ends):
            raise DoubtError  # two values on a line
        table = finish_table(table, self._declared)
        if self._policy.rescues:
            return table.append_column(self._schema.field(RESCUED_COLUMN), pa.nulls(table.num_rows, pa.string()))
        return table

    def _read_json(self, data: bytes) -> pa.Table:
        options = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            return pa_json.read_json(
                pa.BufferReader(data),
                read_options=options,
                parse_options=self._strict if self._is_strict else self._loose,
            )
        except pa.ArrowInvalid as error:
            if not self._is_strict or self._policy.every_unknown_counts or _UNDECLARED not in str(error):
                raise
            self._is_strict = False
            self._met_undeclared = True
            if self._policy.unknown is Unknown.IGNORE:
                self._name_first(data)
            return self._read_json(data)

    def _notice(self, path: ColumnPath) -> None:
        self._met_undeclared = True
        if len(self._noticed) < _MAX_NOTICED:
            self._noticed[path] = None

    def _others(self, lines: Iterable[bytes]) -> Iterator[tuple[ColumnPath, Any]]:
        """The undeclared fields on these lines, noticed on the way."""
        for line in lines:
            for path, value in undeclared_in(line, self._names):
                self._notice(path)
                yield path, value

    def _name_first(self, data: bytes) -> None:
        """pyarrow does not say which field it met, nor where, and a sample could miss it."""
        for line in data.split(b"\n"):
            if list(self._others([line])):
                return

    def _look_around(self, data: bytes, parsed: ParsedBlock) -> Observations | None:
        """What undeclared fields held, if that is asked for; else the names of some are noticed."""
        if self._policy.unknown is Unknown.REPORT and self._met_undeclared:
            bad = {line.index for line in parsed.bad}
            good = (line for index, line in enumerate(data.split(b"\n")) if index not in bad)
            found = observe(self._others(good))
            return found if found.kinds else None
        if self._policy.unknown is Unknown.IGNORE and not self._is_strict and len(self._noticed) < _MAX_NOTICED:
            for _ in self._others(sample_lines(data)):
                pass
        return None


Piece: TypeAlias = list[tuple[int, bytes]]


@dataclass(slots=True, kw_only=True)
class _Sorting:
    """The lines of a block while it is being decided which of them the fast path can read."""

    lines: list[bytes]
    blank: int = 0
    to_reference: list[int] = field(default_factory=list)
    _tables: list[Any] = field(default_factory=list)
    _indexes: list[Positions] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)

    @property
    def has_rows(self) -> bool:
        return bool(self._tables)

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

    def screen(self, pieces: list[Piece], screen: Screen) -> Piece:
        piece = [numbered for piece in pieces for numbered in piece]
        few = [line for _, line in piece[:: len(piece) // _SCREEN_SAMPLE + 1]]
        if len(screen.find_suspects(few)) == len(few):
            return self._leave_out([True] * len(piece), piece)  # no use in looking at the others
        suspects = set(screen.find_suspects([line for _, line in piece]))
        return self._leave_out([row in suspects for row in range(len(piece))], piece)

    def keep_all_but(self, suspects: list[int], read: Callable[[bytes], pa.Table]) -> None:
        """Read all lines at once but these, which are blank or for the reference."""
        good: list[bytes] = []
        start = 0
        for index in suspects:
            good += self.lines[start:index]
            start = index + 1
        good += self.lines[start:]
        if good:
            self.keep(read(b"\n".join(good)), np.delete(np.arange(len(self.lines)), suspects))
        self.to_reference = [index for index in suspects if self.lines[index].strip(WHITESPACE)]
        self.blank = len(suspects) - len(self.to_reference)

    def _leave_out(self, is_suspect: list[bool], piece: Piece) -> Piece:
        self.to_reference += [index for index, _ in compress(piece, is_suspect)]
        return list(compress(piece, map(not_, is_suspect)))

    def keep(self, table: pa.Table, indexes: list[int] | Positions) -> None:
        self._tables.append(table)
        self._indexes.append(np.array(indexes, dtype=np.int64))

    def bad_line(self, index: int, error: LineError, bom: bytes) -> BadLine:
        if not self._offsets:
            self._offsets = list(accumulate((len(line) + 1 for line in self.lines), initial=len(bom)))
        mark = bom if index == 0 else b""
        return BadLine(
            index=index,
            kind=error.kind,
            message=str(error),
            column=error.column,
            raw=mark + self.lines[index],
            offset=self._offsets[index] - len(mark),
        )

    def in_line_order(self) -> tuple[pa.Table, Positions]:
        if len(self._tables) == 1:
            return self._tables[0], self._indexes[0]
        table = pa.concat_tables(self._tables).combine_chunks()
        indexes = np.concatenate(self._indexes)
        if np.all(indexes[:-1] < indexes[1:]):
            return table, indexes
        order = np.argsort(indexes)
        return table.take(pa.array(order)), indexes[order]


def _split_lines(data: bytes, starts_with_bom: bool) -> list[bytes]:
    if not data and not starts_with_bom:
        return []
    lines = data.split(b"\n")
    if data.endswith(b"\n"):
        lines.pop()
    return lines


def _refuse_rescued_column(schema: pa.Schema) -> None:
    for name in schema.names:
        if name.lower() == RESCUED_COLUMN:
            raise SchemaError(
                f"{show_column((name,))}: the policy fills a column of this name; "
                "rename the column, or turn the rescuing of data off"
            )


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
