"""Schemas of other libraries: which Arrow and Spark types are taken, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.load import load_schema


@pytest.mark.parametrize(
    ("arrow", "word"),
    [
        (pa.bool_(), "BOOLEAN"),
        (pa.int8(), "TINYINT"),
        (pa.int16(), "SMALLINT"),
        (pa.int32(), "INT"),
        (pa.int64(), "BIGINT"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "DOUBLE"),
        *((t, "STRING") for t in (pa.string(), pa.large_string(), pa.string_view())),
        *((t, "BINARY") for t in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(16))),
        *((t, "DATE") for t in (pa.date32(), pa.date64())),
        *((pa.timestamp(unit, tz="Europe/Oslo"), "TIMESTAMP") for unit in ("s", "ms", "us", "ns")),
        *((pa.timestamp(unit), "TIMESTAMP_NTZ") for unit in ("s", "ms", "us", "ns")),
        (pa.decimal128(38, 10), "DECIMAL(38,10)"),
        (pa.decimal256(20, 0), "DECIMAL(20,0)"),
        (pa.dictionary(pa.int8(), pa.large_string()), "STRING"),
        (pa.struct([("x", pa.int8()), pa.field("y", pa.string(), nullable=False)]),
         "STRUCT<x: TINYINT, y: STRING NOT NULL>"),
        *((kind(pa.int64()), "ARRAY<BIGINT>") for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        (pa.list_(pa.int64(), 3), "ARRAY<BIGINT>"),
        (pa.map_(pa.large_string(), pa.list_(pa.date32())), "MAP<STRING, ARRAY<DATE>>"),
    ],
)  # fmt: skip
def test_each_arrow_type_that_delta_has_is_taken(arrow: pa.DataType, word: str) -> None:
    assert load_schema(pa.schema([("a", arrow)])) == parse_ddl(f"a {word}")


@pytest.mark.parametrize(
    ("arrow", "reason"),
    [
        (pa.uint8(), "uint8; use int16"),
        (pa.uint32(), "uint32; use int64"),
        (pa.uint64(), r"uint64; use decimal128\(20, 0\)"),
        (pa.float16(), "halffloat; use float32"),
        (pa.null(), "null; use string"),
        (pa.time64("us"), r"time64\[us\]; use string"),
        (pa.duration("s"), r"duration\[s\]"),
        (pa.decimal128(10, -2), r"decimal128\(10, -2\); use a decimal128 of at most 38 digits"),
        (pa.decimal256(39, 0), r"decimal256\(39, 0\)"),
        (pa.dictionary(pa.int8(), pa.uint8()), "uint8"),
        (pa.dense_union([pa.field("x", pa.int8())]), "dense_union"),
    ],
)
def test_a_type_that_delta_lacks_is_refused_by_name(arrow: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"column a: Delta has no type for Arrow's {reason}"):
        load_schema(pa.schema([("a", arrow)]))
    with pytest.raises(SchemaError, match=r"column a\.element\.x: Delta has no type"):
        load_schema(pa.schema([("a", pa.list_(pa.struct([("x", arrow)])))]))


def test_what_holds_for_every_schema_holds_for_arrow_too() -> None:
    with pytest.raises(SchemaError, match="column a: named more than once"):
        load_schema(pa.schema([("a", pa.int8()), ("A", pa.int8())]))
    with pytest.raises(SchemaError, match="column a: the map has BIGINT keys"):
        load_schema(pa.schema([("a", pa.map_(pa.int64(), pa.int8()))]))
    with pytest.raises(SchemaError, match="it has no columns"):
        load_schema(pa.schema([]))
    deep: Any = pa.int8()
    for _ in range(MAX_DEPTH + 1):
        deep = pa.list_(deep)
    with pytest.raises(SchemaError, match="deep"):
        load_schema(pa.schema([("a", deep)]))
    assert load_schema(pa.schema([pa.field("a", pa.list_(pa.field("x", pa.int8(), nullable=False)))]))["fields"][0][
        "type"
    ] == {"type": "array", "elementType": "byte", "containsNull": False}


def test_an_arrow_type_that_is_no_schema_is_refused() -> None:
    with pytest.raises(SchemaError, match="not an Arrow schema"):
        load_schema(pa.int64())


def test_arrow_files_hold_a_schema_in_three_ways(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    (tmp_path / "alone.arrow").write_bytes(schema.serialize().to_pybytes())
    with pa.ipc.new_file(str(tmp_path / "file.arrow"), schema):
        pass
    with pa.ipc.new_stream(str(tmp_path / "stream.arrow"), schema):
        pass
    for name in ("alone", "file", "stream"):
        assert to_ddl(load_schema(str(tmp_path / f"{name}.arrow"))) == "a BIGINT, b ARRAY<STRING>"


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"id BIGINT, name STRING, and more"])
def test_a_file_that_is_not_arrow_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.arrow").write_bytes(content)
    with pytest.raises(SchemaError, match="is not Arrow IPC"):
        load_schema(str(tmp_path / "s.arrow"))


def test_a_spark_type_and_a_delta_dict_are_taken() -> None:
    ddl = "id BIGINT NOT NULL, m MAP<STRING, ARRAY<DOUBLE>>, d DECIMAL(9,2)"
    struct = (
        spark.StructType()
        .add("id", spark.LongType(), nullable=False)
        .add("m", spark.MapType(spark.StringType(), spark.ArrayType(spark.DoubleType())))
        .add("d", spark.DecimalType(9, 2))
    )
    assert load_schema(struct) == load_schema(json.loads(struct.json())) == parse_ddl(ddl)
    assert load_schema(parse_ddl(ddl)) == parse_ddl(ddl)


def test_a_spark_type_that_cannot_be_filled_is_refused() -> None:
    with pytest.raises(SchemaError, match="column a: 'void'"):
        load_schema(spark.StructType().add("a", spark.NullType()))
    with pytest.raises(SchemaError, match="outermost"):
        load_schema(spark.LongType())


@pytest.mark.parametrize("given", [5, b"id BIGINT", ["id BIGINT"]])
def test_what_is_no_schema_at_all_is_refused(given: Any) -> None:
    with pytest.raises(SchemaError, match="is not a schema; give DDL"):
        load_schema(given)
