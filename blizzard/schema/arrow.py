"""A schema as a pyarrow schema: the exact types of the Parquet files of the table.

Never widens or narrows a type: one that Arrow cannot hold exactly is refused by name.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, show_column
from blizzard.schema.ddl import show_type

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    # Delta keeps microseconds. Spark would read another unit as another type.
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    # Readers know from the table's schema that these are the parts of a variant. Spark writes them so.
    "variant": pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]),
}


def to_arrow(schema: DeltaSchema) -> pa.Schema:
    """The Arrow schema with the same columns, types and nullability."""
    return pa.schema([_arrow_field(field, ()) for field in schema["fields"]])


def _arrow_field(field: dict[str, Any], parent: ColumnPath) -> pa.Field[Any]:
    path = (*parent, field["name"])
    return pa.field(field["name"], _arrow_type(field["type"], path), nullable=field["nullable"])


def _arrow_type(data_type: DeltaType, path: ColumnPath) -> pa.DataType:
    match data_type:
        case str() if data_type in _PRIMITIVES:
            return _PRIMITIVES[data_type]
        case str() if digits := decimal_digits(data_type):
            return pa.decimal128(*digits)
        case {"type": "struct", "fields": fields}:
            return pa.struct([_arrow_field(field, path) for field in fields])
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return pa.list_(pa.field("element", _arrow_type(element, (*path, "element")), nullable=nullable))
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            entry_key: Any = pa.field("key", _arrow_type(key, (*path, "key")), nullable=False)
            entry_value: Any = pa.field("value", _arrow_type(value, (*path, "value")), nullable=nullable)
            entries: pa.DataType = pa.map_(entry_key, entry_value)
            return entries
        case _:
            raise SchemaError(
                f"{show_column(path)}: {show_type(data_type)} cannot be written by blizzard; "
                "ingest into a table without this column, or change its type"
            )
