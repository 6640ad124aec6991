"""A block of NDJSON lines into an Arrow table, fast where that is exact, by the reference everywhere else.

Each line is one record, blank, or bad, exactly as `records.RecordReader` says. A fast parser yields only rows that it
is certain of; every line that it leaves is read by the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from blizzard import native
from blizzard.core.observed import Observations
from blizzard.core.tally import Tally, tally
from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, show_column
from blizzard.schema.arrow import to_arrow
from blizzard.schema.evolve import observe
from blizzard.tasks.arrow_reader import ArrowReader, ReferenceOnly
from blizzard.tasks.native_reader import NativeReader
from blizzard.tasks.parsed import NO_LINES, BadLine, FastBlock, ParsedBlock, Span
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.records import Record, RecordReader
from blizzard.tasks.syntax import LineError

_BOM = b"\xef\xbb\xbf"


class ParserDisagrees(Exception):
    """The native parser made another row of a line than the reference. None of its rows can be trusted."""


class ParserMissing(Exception):
    """The native parser was asked for, and this process does not have it."""


class FastReader(Protocol):
    name: str

    def read(self, data: bytes) -> FastBlock: ...


class RecordParser:
    """Parses blocks of whole lines into tables of `to_arrow(schema)`, plus `_rescued_data` if the policy rescues.

    `parser` is auto, native, pyarrow or reference. Not for two threads at once: make one for each."""

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None, parser: str = "auto") -> None:
        self._policy = policy or ParsePolicy()
        self._schema: pa.Schema = to_arrow(schema)
        if self._policy.rescues:
            _refuse_rescued_column(self._schema)
            self._schema = self._schema.append(pa.field(RESCUED_COLUMN, pa.string()))
        self._reference = RecordReader(schema, self._policy)
        self._fast = _choose(parser, schema, self._policy, self._schema)

    @property
    def name(self) -> str:
        """Which parser reads the lines that are not doubtful."""
        return self._fast.name

    def parse(self, data: bytes, *, first_of_file: bool) -> ParsedBlock:
        bom = _BOM if first_of_file and data.startswith(_BOM) else b""
        content = data[len(bom) :]
        if bom and not content:
            return ParsedBlock(table=self._schema.empty_table(), lines=1, blank=1, bad=(), row_lines=NO_LINES)
        fast = self._fast.read(content)
        self._compare(content, fast)
        judged = _Judged(self._reference, self._policy.unknown is Unknown.REPORT)
        for span in fast.doubtful:
            judged.read(content, span, bom)
        if not fast.has_all_observed:
            self._observe_all(content, judged)
        return self._put_together(fast, judged)

    def _put_together(self, fast: FastBlock, judged: _Judged) -> ParsedBlock:
        table, row_lines = fast.table, fast.row_lines
        if judged.records:
            rows = np.arange(table.num_rows) if row_lines is None else row_lines
            indexes = np.concatenate([rows, np.array(judged.indexes, np.int64)])
            order = np.argsort(indexes, kind="stable")
            together = pa.concat_tables([table, _to_table(judged.records, self._schema)]).combine_chunks()
            table = together if np.all(order[:-1] < order[1:]) else together.take(pa.array(order))
            row_lines = indexes[order]
        elif row_lines is None and table.num_rows < fast.lines:
            row_lines = NO_LINES
        return ParsedBlock(
            table=table,
            lines=fast.lines,
            blank=fast.blank,
            bad=tuple(judged.bad),
            row_lines=None if row_lines is None or len(row_lines) == fast.lines else row_lines,
            undeclared=fast.undeclared.merge(judged.undeclared),
            cut_times=fast.cut_times.merge(judged.cut_times),
            doubtful=len(fast.doubtful),
            observed=_merge(fast.observed, judged.observed),
        )

    def _compare(self, content: bytes, fast: FastBlock) -> None:
        """Some rows are read by the reference as well. A difference is a defect of the native parser."""
        if not fast.witnessed:
            return
        try:
            records = [self._reference.read(content[start:end]) for _, start, end in fast.witnessed]
        except LineError as error:
            raise ParserDisagrees(f"the reference calls a line {error.kind}") from None
        rows = fast.table.take(pa.array([row for row, _, _ in fast.witnessed], pa.int64()))
        expected = _to_table(records, self._schema)
        if not rows.equals(expected):
            differing = [name for name in self._schema.names if not rows[name].equals(expected[name])]
            raise ParserDisagrees(f"in {', '.join(show_column((name,)) for name in differing)}")

    def _observe_all(self, content: bytes, judged: _Judged) -> None:
        """There were more fields than the fast parser remembers."""
        again = _Judged(self._reference, True)
        for span in ReferenceOnly(self._schema).read(content).doubtful:
            again.read(content, span, b"")
        judged.found = again.found


class _Judged:
    """What the reference says about the lines that were left to it."""

    def __init__(self, reference: RecordReader, observes: bool) -> None:
        self._reference, self._observes = reference, observes
        self.records: list[Record] = []
        self.indexes: list[int] = []
        self.bad: list[BadLine] = []
        self.found: list[tuple[ColumnPath, Any]] = []
        self._undeclared: dict[ColumnPath, int] = {}
        self._cut: dict[ColumnPath, int] = {}

    def read(self, content: bytes, span: Span, bom: bytes) -> None:
        index, start, end = span
        line = content[start:end]
        try:
            self.records.append(self._reference.read(line))
        except LineError as error:
            # The error itself is not kept: with its traceback, 30,000 of them took four times as long.
            self.bad.append(_bad_line(span, line, error, bom))
            return
        self.indexes.append(index)
        _count(self._undeclared, (path for path, _ in self._reference.undeclared))
        _count(self._cut, self._reference.cut)
        if self._observes:
            self.found += self._reference.undeclared

    @property
    def undeclared(self) -> Tally:
        return tally(self._undeclared.items())

    @property
    def cut_times(self) -> Tally:
        return tally(self._cut.items())

    @property
    def observed(self) -> Observations | None:
        return observe(self.found) if self.found else None


def _choose(parser: str, schema: DeltaSchema, policy: ParsePolicy, arrow_schema: pa.Schema) -> FastReader:
    if parser == "native" and not native.is_available():
        raise ParserMissing(native.why_not())
    if parser == "native" or (parser == "auto" and native.is_available()):
        return NativeReader(schema, policy, arrow_schema)
    if parser in ("auto", "pyarrow"):
        return ArrowReader(schema, policy, arrow_schema)
    return ReferenceOnly(arrow_schema)


def _count(counts: dict[ColumnPath, int], paths: Iterable[ColumnPath]) -> None:
    for path in paths:
        counts[path] = counts.get(path, 0) + 1


def _merge(one: Observations | None, other: Observations | None) -> Observations | None:
    return one.merge(other) if one and other else one or other


def _bad_line(span: Span, line: bytes, error: LineError, bom: bytes) -> BadLine:
    index, start, _ = span
    mark = bom if index == 0 else b""
    offset = len(bom) + start - len(mark)
    return BadLine(index, error.kind, str(error), error.column, mark + line, offset, error.reason)


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
