"""An Arrow schema as the schema of a table. Encodings do not matter (large strings, dictionaries, views). A type that
Delta does not have is refused by name, never replaced by a similar one. Metadata is left out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as is_a

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, check_depth, decimal_is_possible, show_column

_PRIMITIVES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}


def from_arrow(schema: Any) -> DeltaSchema:
    """The schema with the same columns. `schema` is pyarrow's, or any object with Arrow's C interface."""
    try:
        fields = list(pa.schema(schema))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"schema: this is not an Arrow schema: {error}; give a pyarrow.Schema") from None
    return _struct(fields, ())


def read_arrow_file(path: str) -> DeltaSchema:
    """The schema of an Arrow IPC file, of a stream, or a schema serialized alone."""
    try:
        with pa.OSFile(path) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            return from_arrow(pa.ipc.open_file(file).schema if is_file else pa.ipc.read_schema(file))
    except (pa.ArrowInvalid, EOFError) as error:
        raise SchemaError(f"schema file {path} is not Arrow IPC: {error}; write it with pyarrow.ipc") from None
    except OSError as error:
        raise SchemaError(f"schema file {path} cannot be read: {error}; check it and its permissions") from error


def _struct(fields: list[Any], path: ColumnPath) -> DeltaSchema:
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": _type(f.type, (*path, f.name)), "nullable": f.nullable, "metadata": {}}
            for f in fields
        ],
    }


def _type(arrow: Any, path: ColumnPath) -> DeltaType:
    check_depth(path)
    if (name := _PRIMITIVES.get(arrow)) is not None:
        return name
    if is_a.is_dictionary(arrow):
        return _type(arrow.value_type, path)
    if is_a.is_timestamp(arrow):
        return "timestamp_ntz" if arrow.tz is None else "timestamp"
    if is_a.is_fixed_size_binary(arrow):
        return "binary"
    if is_a.is_decimal(arrow) and decimal_is_possible(arrow.precision, arrow.scale):
        return f"decimal({arrow.precision},{arrow.scale})"
    if is_a.is_struct(arrow):
        return _struct([arrow.field(i) for i in range(arrow.num_fields)], path)
    if is_a.is_map(arrow):
        return {
            "type": "map",
            "keyType": _type(arrow.key_type, (*path, "key")),
            "valueType": _type(arrow.item_type, (*path, "value")),
            "valueContainsNull": arrow.item_field.nullable,
        }
    if _is_list(arrow):
        element = _type(arrow.value_type, (*path, "element"))
        return {"type": "array", "elementType": element, "containsNull": arrow.value_field.nullable}
    raise SchemaError(f"{show_column(path)}: Delta has no type for Arrow's {arrow}; {_instead(arrow)}")


def _is_list(arrow: Any) -> bool:
    kinds = (is_a.is_list, is_a.is_large_list, is_a.is_fixed_size_list, is_a.is_list_view, is_a.is_large_list_view)
    return any(is_kind(arrow) for is_kind in kinds)


def _instead(arrow: Any) -> str:
    if is_a.is_unsigned_integer(arrow):
        wider = {8: "int16", 16: "int32", 32: "int64", 64: "decimal128(20, 0)"}[arrow.bit_width]
        return f"use {wider}"
    if is_a.is_decimal(arrow):
        return "use a decimal128 of at most 38 digits with 0 <= scale <= precision"
    return "use float32" if is_a.is_float16(arrow) else "use string, or leave the column out"
