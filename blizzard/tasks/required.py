"""Fields that may not be null, where the struct around them is null.

Arrow may have null for them there, and rightly so. pyarrow refuses to write that into a Parquet column that is
required, so they get an empty value, which no reader sees. A null anywhere else stays, and is refused.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def fill_required(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if _holds_required(field.type):
            chunks = [_filled(chunk) for chunk in table.column(index).chunks]
            table = table.set_column(index, field, pa.chunked_array(chunks, field.type))
    return table


def _holds_required(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(not field.nullable or _holds_required(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _holds_required(kind.item_type)
    return pa.types.is_list(kind) and _holds_required(kind.value_type)


def _filled(values: Any) -> Any:
    kind = values.type
    if not _holds_required(kind):
        return values
    if pa.types.is_struct(kind):
        is_null = pc.is_null(values)
        children = [_filled_field(values.field(index), field, is_null) for index, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=is_null)
    inner = values.values
    if pa.types.is_map(kind):
        inner = pa.StructArray.from_arrays([values.keys, _filled(values.items)], fields=list(inner.type))
    else:
        inner = _filled(inner)
    return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], values.null_count, values.offset, [inner])


def _filled_field(values: Any, field: Any, is_null: Any) -> Any:
    if not field.nullable and values.null_count:
        values = pc.if_else(is_null, _empty(field.type), values)
    return _filled(values)


def _empty(kind: Any) -> pa.Scalar:
    """A value that is not null, nor is anything in it that may not be: pyarrow puts it into a struct that is null."""
    return pa.array([None], pa.struct([pa.field("empty", kind, nullable=False)])).field(0)[0]
