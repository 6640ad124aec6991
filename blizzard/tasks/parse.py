"""A block of NDJSON lines into an Arrow table: pyarrow's reader behind guards that make it exact.

Each line is one record, blank, or bad, exactly as `records.RecordReader` says. A block that the guards cannot vouch for
is cut into pieces; the reference reads small doubtful pieces, and the rest after 20 doubts. Schemas with maps, which
pyarrow cannot read from JSON, go through the reference line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from blizzard.core.observed import Observations
from blizzard.core.tally import NOTHING, Tally
from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, show_column, show_path
from blizzard.schema.arrow import to_arrow
from blizzard.schema.evolve import Declared, observe
from blizzard.source.lines import Positions
from blizzard.tasks.convert import DoubtError, finish_table, holds_decimal, reading_type, with_null_fields
from blizzard.tasks.guards import UntidyError, check_bytes, guess_row
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.records import Record, RecordReader
from blizzard.tasks.screen import Screen
from blizzard.tasks.sorting import BadLine, Sorting, cut, split_lines, tidy
from blizzard.tasks.syntax import WHITESPACE, LineError
from blizzard.tasks.undeclared import sample_lines, undeclared_in

_BOM = b"\xef\xbb\xbf"

# One call of pyarrow's reader costs 0.15 to 0.25 ms: the reference reads about this many lines in that time.
_FEW_LINES = 8
# Looking at every line costs most of a call on the whole block; what the look cannot tell is worth a few cuts more.
# After that the reference reads what is left: however bad a block is, it costs little more than the reference alone.
_DOUBTS_BEFORE_SCREEN = 2
_MAX_DOUBTS = 20
# The reader counts a block in 32 bits.
_MAX_BYTES = 1 << 30
# After a block with lines for the reference, the lines of so many blocks are looked at before they are read.
_WARY_BLOCKS = 8
# Names of undeclared fields that one parser remembers.
_MAX_NOTICED = 20
_MAX_ALWAYS_NULL = 200
_UNDECLARED = "unexpected field"  # in pyarrow's message


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
    undeclared: Tally = NOTHING
    cut_times: Tally = NOTHING
    doubtful: int = 0

    @classmethod
    def of_whole(cls, table: pa.Table) -> ParsedBlock:
        """Every line is a row."""
        return cls(table=table, lines=table.num_rows, blank=0, bad=())


class RecordParser:
    """Parses blocks of whole lines into tables of `to_arrow(schema)`, plus `_rescued_data` if the policy rescues.

    Between blocks it remembers undeclared fields that it has reported or that were always null, and what makes the next
    block fast, such as which columns had bad values. This changes the speed, and whether an undeclared field is
    reported again; never a row or a bad line."""

    name = "pyarrow"

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None) -> None:
        self._delta_schema = schema
        self._names = Declared(schema)
        self._policy = policy or ParsePolicy()
        self._every_unknown_counts = self._policy.unknown in (Unknown.BAD, Unknown.RESCUE) or self._policy.keeps_rest
        self._declared: pa.Schema = to_arrow(schema)
        self._schema = self._declared
        if self._policy.rescues:
            _refuse_rescued_column(self._declared)
            self._schema = self._declared.append(pa.field(RESCUED_COLUMN, pa.string()))
        self._reader = RecordReader(schema, self._policy, self._notice)
        reading = [(column.name, reading_type(column.type)) for column in self._declared]
        self._is_fast = all(inner is not None for _, inner in reading)
        self._holds_decimal = any(holds_decimal(column.type) for column in self._declared)
        self._always_null: set[ColumnPath] = set()  # undeclared, and no reason to look at a block while they are
        if self._is_fast:
            self._reading = pa.schema(reading)
            self._strict = _options(self._reading, "error")
            self._loose = _options(self._reading, "ignore")
        self._screen = Screen(schema, undeclared_too=self._every_unknown_counts)
        self._wary = 0
        self._blamed: frozenset[str] | None = frozenset()  # columns that had bad values; None: any may
        self._is_strict = True
        self._noticed: dict[ColumnPath, None] = {}
        self._met_undeclared = False

    def parse(self, data: bytes, *, first_of_file: bool) -> ParsedBlock:
        starts_with_bom = first_of_file and data.startswith(_BOM)
        if starts_with_bom:
            data = data[len(_BOM) :]
        known = len(self._noticed)
        self._met_undeclared = False
        if self._policy.unknown is Unknown.REPORT:
            self._is_strict = True  # every block is to be told from one that holds nothing new
        parsed = self._parse(data, starts_with_bom)
        observed = self._look_around(data, parsed)
        unknown = tuple(map(show_path, islice(self._noticed, known, None)))
        return replace(parsed, unknown=unknown, observed=observed) if unknown or observed else parsed

    def _parse(self, data: bytes, starts_with_bom: bool) -> ParsedBlock:
        if self._wary:
            self._wary -= 1
            parsed = self._parse_warily(data, starts_with_bom)
            if parsed is not None:
                return parsed
        try:
            try:
                return ParsedBlock.of_whole(self._read_fast(data))
            except UntidyError:
                table = self._read_fast(tidy(data))
        except DoubtError as doubt:
            return self._parse_slowly(data, doubt, starts_with_bom)
        lines = split_lines(data, starts_with_bom)
        row_lines = np.flatnonzero([bool(line.strip(WHITESPACE)) for line in lines])
        blank = len(lines) - table.num_rows
        return ParsedBlock(table=table, lines=len(lines), blank=blank, bad=(), row_lines=row_lines if blank else None)

    def _parse_warily(self, data: bytes, starts_with_bom: bool) -> ParsedBlock | None:
        """Dirt comes in heaps, and a bad line found before the block is read saves reading it twice. None where the
        look was of no use."""
        sorting = Sorting(lines=split_lines(data, starts_with_bom))
        suspects = self._screen.find_suspects(sorting.lines, self._blamed)
        if len(suspects) > len(sorting.lines) // 4:
            return None
        try:
            sorting.keep_all_but(suspects, self._read_fast)
        except DoubtError:
            return None
        return self._judge(sorting, _BOM if starts_with_bom else b"")

    def _parse_slowly(self, data: bytes, doubt: DoubtError, starts_with_bom: bool) -> ParsedBlock:
        sorting = Sorting(lines=split_lines(data, starts_with_bom))
        lines = sorting.records() if self._is_fast else sorting.everything()
        pending = [lines] if isinstance(doubt, UntidyError) else cut(lines, doubt.row)
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
                pending += cut(piece, again.row)
                if doubts == _DOUBTS_BEFORE_SCREEN:
                    pending = [sorting.screen(pending, self._screen)]
            else:
                sorting.keep(table, [index for index, _ in piece])
        return self._judge(sorting, _BOM if starts_with_bom else b"")

    def _judge(self, sorting: Sorting, bom: bytes) -> ParsedBlock:
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

    def _read_fast(self, data: bytes) -> pa.Table:
        """One row per line, exact, or `DoubtError`."""
        if not self._is_fast or len(data) > _MAX_BYTES:
            raise DoubtError
        line_ends = check_bytes(data, holds_decimal=self._holds_decimal)
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
            if not self._is_strict or self._every_unknown_counts or _UNDECLARED not in str(error):
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
            self._expect_null(path for path, kinds in found.kinds.items() if kinds == {"null"})
            return found if found.kinds else None
        if self._policy.unknown is Unknown.IGNORE and not self._is_strict and len(self._noticed) < _MAX_NOTICED:
            for _ in self._others(sample_lines(data)):
                pass
        return None

    def _expect_null(self, paths: Iterable[ColumnPath]) -> None:
        """A field that only ever holds null cannot become a column, but would make every block be looked at."""
        new = {path for path in paths if path[:-1] not in self._always_null} - self._always_null
        if new and self._is_fast and len(self._always_null) + len(new) <= _MAX_ALWAYS_NULL:
            self._always_null |= new
            self._strict = _options(with_null_fields(self._reading, self._always_null), "error")


def _options(schema: pa.Schema, unexpected: str) -> pa_json.ParseOptions:
    return pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)


def _refuse_rescued_column(schema: pa.Schema) -> None:
    for name in schema.names:
        if name.lower() == RESCUED_COLUMN:
            raise SchemaError(
                f"{show_column((name,))}: the policy fills a column of this name; "
                "rename the column, or turn the rescuing of data off"
            )


def _to_table(records: list[Record], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([record[column.name] for record in records], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)
