"""From what pyarrow's JSON reader can read to the exact types of the table, a column at a time.

pyarrow takes a date for a number, a binary for its raw text, and drops the zone of a timestamp without one;
those are read as strings and converted here. Whatever is not certainly exact raises `DoubtError`. Nothing is decided
here: the reference decides.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.tasks.values import FIRST_US, LAST_US, from_base64

_DAY_US = 86_400_000_000
_LARGEST_FLOAT = (2 - 2**-23) * 2.0**127


class DoubtError(Exception):
    """pyarrow's rows are not certainly the records of these lines."""


def reading_type(target: pa.DataType) -> pa.DataType | None:
    """The type to ask pyarrow's JSON reader for, or None if it has no way to read this one (a map)."""
    if pa.types.is_map(target):
        return None
    if pa.types.is_struct(target):
        fields = [(field.name, reading_type(field.type)) for field in target]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    if pa.types.is_list(target):
        element = reading_type(target.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    if pa.types.is_decimal(target):
        # In 128 bits pyarrow's reader wraps around unseen: 4e20 in a decimal(38,18) becomes 59717633079061536536.6.
        return pa.decimal256(target.precision, target.scale)
    if pa.types.is_date(target) or pa.types.is_binary(target) or target == pa.timestamp("us"):
        return pa.string()
    return target


def holds_decimal(target: pa.DataType) -> bool:
    if pa.types.is_struct(target):
        return any(holds_decimal(field.type) for field in target)
    return holds_decimal(target.value_type) if pa.types.is_list(target) else pa.types.is_decimal(target)


def finish_table(table: pa.Table, target: pa.Schema) -> pa.Table:
    """The same rows in exactly the target's types, or `DoubtError`."""
    columns = []
    for field in target:
        chunks = table.column(field.name).chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        columns.append(_finish_field(column, field, parent=None))
    return pa.Table.from_arrays(columns, schema=target)


def _finish_field(array: Any, field: pa.Field, *, parent: Any) -> Any:
    if not field.nullable and array.null_count:
        missing = array.is_null()
        # A field of a null struct is null too, and rightly so.
        if pc.any(missing if parent is None else pc.and_(missing, parent.is_valid())).as_py():
            raise DoubtError
    return _finish_array(array, field.type)


def _finish_array(array: Any, target: pa.DataType) -> Any:
    if array.offset:
        raise DoubtError  # the buffers below are taken whole
    if pa.types.is_struct(target):
        children = [_finish_field(array.field(i), field, parent=array) for i, field in enumerate(target)]
        return _rebuild(array, target, children)
    if pa.types.is_list(target):
        child = _finish_field(array.values, target.value_field, parent=None)
        return _rebuild(array, target, [child])
    return _finish_scalars(array, target)


def _rebuild(array: Any, target: pa.DataType, children: list[Any]) -> Any:
    own_buffers = array.buffers()[: 1 if pa.types.is_struct(target) else 2]
    return pa.Array.from_buffers(target, len(array), own_buffers, array.null_count, 0, children)


def _finish_scalars(array: Any, target: pa.DataType) -> Any:
    if pa.types.is_floating(target):
        # A number beyond the range arrives as infinity: 1e39 in a float, 1.7976931348623159e308 in a double.
        largest = _LARGEST_FLOAT if pa.types.is_float32(target) else sys.float_info.max
        _refuse_outside(array, -largest, largest)
    elif pa.types.is_decimal(target):
        # pyarrow counts the digits before it adds those of the scale, so that 100000000 passes for decimal(10,2).
        largest_decimal = Decimal((0, (9,) * target.precision, -target.scale))
        _refuse_outside(array, largest_decimal.copy_negate(), largest_decimal)
        return array.cast(target)
    elif pa.types.is_binary(target):
        return _decode_base64(array)
    elif pa.types.is_date(target):
        array = _cast_text(array, target)
        # pyarrow knows a year 0, and a zone can lead out of the years 1 to 9999.
        _refuse_outside(array.view(pa.int32()), FIRST_US // _DAY_US, LAST_US // _DAY_US)
    elif pa.types.is_timestamp(target):
        array = _cast_text(array, target) if target.tz is None else array
        _refuse_outside(array.view(pa.int64()), FIRST_US, LAST_US)
    return array


def _cast_text(array: Any, target: pa.DataType) -> Any:
    """pyarrow's cast is strict where its JSON reader is not: it refuses a zone where the type has none."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        raise DoubtError from None


def _decode_base64(array: Any) -> Any:
    content: list[bytes | None] = []
    for text in array.to_pylist():
        value = None if text is None else from_base64(text)
        if value is None and text is not None:
            raise DoubtError
        content.append(value)
    return pa.array(content, pa.binary())


def _refuse_outside(numbers: Any, low: Any, high: Any) -> None:
    extremes = pc.min_max(numbers)
    lowest, highest = extremes["min"].as_py(), extremes["max"].as_py()
    if lowest is not None and not (low <= lowest and highest <= high):
        raise DoubtError
