"""Blocks through pyarrow's JSON reader, where the native parser is not installed.

All or nothing: either every line of the block is certainly a record, or the reference reads them all. Guards make sure
that pyarrow's rows are the records of the lines. pyarrow reads no maps and variants from JSON and knows none of the
settings that change what a value may be, so there the reference reads everything.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.json as pa_json

from blizzard.schema import DeltaSchema, holds_variant
from blizzard.schema.arrow import to_arrow
from blizzard.source.lines import newline_positions
from blizzard.tasks.convert import DoubtError, finish_table, holds_decimal, reading_type
from blizzard.tasks.guards import check_bytes
from blizzard.tasks.parsed import FastBlock, Span
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy
from blizzard.tasks.syntax import WHITESPACE

# The reader counts a block in 32 bits.
_MAX_BYTES = 1 << 30


class ReferenceOnly:
    """No fast parser at all: every line is left to the reference."""

    name = "reference"

    def __init__(self, arrow_schema: pa.Schema) -> None:
        self._schema = arrow_schema

    def read(self, data: bytes) -> FastBlock:
        lines = spans(data)
        doubtful = [span for span in lines if data[span[1] : span[2]].strip(WHITESPACE)]
        return FastBlock(
            table=self._schema.empty_table(), lines=len(lines), blank=len(lines) - len(doubtful), doubtful=doubtful
        )


class ArrowReader:
    name = "pyarrow"

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy, arrow_schema: pa.Schema) -> None:
        self._declared, self._schema = to_arrow(schema), arrow_schema
        reading = [(column.name, reading_type(column.type)) for column in self._declared]
        self._is_able = all(inner is not None for _, inner in reading) and not (
            policy.formats or policy.coerce or policy.rename or holds_variant(schema)
        )
        self._holds_decimal = any(holds_decimal(column.type) for column in self._declared)
        if self._is_able:
            self._options = pa_json.ParseOptions(explicit_schema=pa.schema(reading), unexpected_field_behavior="error")
        self._otherwise = ReferenceOnly(arrow_schema)

    def read(self, data: bytes) -> FastBlock:
        try:
            table = self.read_certain(data)
        except DoubtError:
            return self._otherwise.read(data)
        return FastBlock(table=table, lines=table.num_rows, blank=0, doubtful=())

    def read_certain(self, data: bytes) -> pa.Table:
        """One row per line, exact, or `DoubtError`."""
        if not self._is_able or len(data) > _MAX_BYTES:
            raise DoubtError
        lines = check_bytes(data, holds_decimal=self._holds_decimal)
        try:
            table = pa_json.read_json(
                pa.BufferReader(data),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=self._options,
            )
        except pa.ArrowInvalid:
            raise DoubtError from None
        if table.num_rows != lines:
            raise DoubtError  # two values on a line
        table = finish_table(table, self._declared)
        if RESCUED_COLUMN in self._schema.names:
            return table.append_column(self._schema.field(RESCUED_COLUMN), pa.nulls(table.num_rows, pa.string()))
        return table


def spans(data: bytes) -> list[Span]:
    """Every line of the block."""
    ends = newline_positions(data).tolist()
    if data and not data.endswith(b"\n"):
        ends.append(len(data))
    starts = [0, *(end + 1 for end in ends[:-1])] if ends else []
    return [(index, start, end) for index, (start, end) in enumerate(zip(starts, ends, strict=True))]
