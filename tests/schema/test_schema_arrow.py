"""The Arrow types that stand for a schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl


def struct(data_type: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "a", "type": data_type, "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("BIGINT", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("BOOLEAN", pa.bool_()),
        ("STRING", pa.string()),
        ("BINARY", pa.binary()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("VARIANT", pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])),
    ],
)
def test_each_type_has_its_exact_arrow_type(word: str, expected: pa.DataType) -> None:
    assert to_arrow(parse_ddl(f"a {word}")) == pa.schema([pa.field("a", expected)])


def test_nested_types_keep_nullability_and_the_names_delta_gives_their_parts() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": False}
    schema = parse_ddl("id INT NOT NULL, s STRUCT<x: INT NOT NULL, m: MAP<STRING, DATE>>")
    schema["fields"].append({"name": "t", "type": array, "nullable": True, "metadata": {}})
    arrow = to_arrow(schema)
    assert [field.nullable for field in arrow] == [False, True, True]
    assert not arrow.field("s").type.field("x").nullable
    map_type: Any = arrow.field("s").type.field("m").type
    assert (map_type.key_field.name, map_type.item_field.name) == ("key", "value")
    assert (map_type.key_field.nullable, map_type.item_field.nullable) == (False, True)
    list_type: Any = arrow.field("t").type
    assert list_type.value_field == pa.field("element", pa.int64(), nullable=False)


@pytest.mark.parametrize("name", ["void", "interval day", "char(3)", "decimal(39,0)", "decimal(3,-1)"])
def test_a_type_without_an_arrow_type_is_refused_by_column(name: str) -> None:
    array = {"type": "array", "elementType": name, "containsNull": True}
    with pytest.raises(SchemaError, match=r"column a\.element: .* cannot be written"):
        to_arrow(struct(array))
    with pytest.raises(SchemaError, match="column a: UDT"):
        to_arrow(struct({"type": "udt"}))


def test_the_deepest_schema_allowed_passes_arrows_c_interface() -> None:
    ddl = "c " + "MAP<STRING, " * (MAX_DEPTH - 1) + "INT" + ">" * (MAX_DEPTH - 1)
    schema: Any = to_arrow(parse_ddl(ddl))
    copied: Any = pa.Schema
    assert copied._import_from_c_capsule(schema.__arrow_c_schema__()) == schema
