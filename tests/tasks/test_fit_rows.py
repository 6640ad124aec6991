"""Rows of a transform in the columns of a table: exactly, or the record is named with what does not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from blizzard.schema.arrow import to_arrow
from blizzard.schema.from_arrow import from_arrow
from blizzard.schema.load import load_schema
from blizzard.schema.results import VOID, result_problems
from blizzard.tasks.fit_rows import RowFit, failing
from blizzard.tasks.transform_step import Made

UTC = dt.timezone.utc
US = dt.timedelta(microseconds=1)


def fitted(values: Any, sql_type: str) -> tuple[list[Any], dict[int, str]]:
    """The values that fit the column, and what is said of the others."""
    table, column = load_schema(f"c {sql_type}"), pa.chunked_array([values])
    is_void = pa.types.is_null(values.type)
    schema: Any = {"type": "struct", "fields": [{"name": "c", "type": VOID, "nullable": True, "metadata": {}}]}
    schema = schema if is_void else from_arrow(pa.schema([("c", values.type)]))
    assert result_problems(schema, table) == []
    made = Made(table=pa.table({"c": column}), schema=schema, records=np.arange(len(values)))
    rows, misfits = RowFit(schema, table).take(made)
    rows.validate(full=True)
    assert rows.schema == to_arrow(table)
    return rows["c"].to_pylist(), {row: misfit.message for row, misfit in misfits.items()}


@pytest.mark.parametrize(
    ("values", "sql_type", "kept", "wrong"),
    [
        (pa.array([1, 300, None, -129]), "TINYINT", [1, None], [1, 3]),
        (pa.array([1, 10**5, None]), "DECIMAL(5,0)", [Decimal(1), None], [1]),
        (pa.array([1, 1000]), "DECIMAL(5,2)", [Decimal("1.00")], [1]),
        (pa.array([Decimal("1.25"), Decimal("1.50")]), "DECIMAL(4,1)", [Decimal("1.5")], [0]),
        (pa.array([Decimal("2.00"), Decimal("2.50"), None]), "BIGINT", [2, None], [1]),
        (pa.array([Decimal(10) ** 20, Decimal(1)], pa.decimal128(38, 0)), "BIGINT", [1], [0]),
        (pa.array([2**53, 2**53 + 1]), "DOUBLE", [float(2**53)], [1]),
        (pa.array([2.0, 2.5, None, float("nan")]), "BIGINT", [2, None], [1, 3]),
        (pa.array([0.5, float("nan"), float("inf"), None]), "DOUBLE", [0.5, None], [1, 2]),
        (pa.array([0.5], pa.float32()), "DOUBLE", [0.5], []),
        (pa.array([1, 1000], pa.timestamp("ns")), "TIMESTAMP_NTZ", [dt.datetime(1970, 1, 1) + US], [0]),
        (
            pa.array([1], pa.timestamp("s", "Europe/Berlin")),
            "TIMESTAMP",
            [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
            [],
        ),
        (pa.array([2**62], pa.timestamp("s")), "TIMESTAMP_NTZ", [], [0]),
        (pa.array([2**60, 0], pa.timestamp("us")), "TIMESTAMP_NTZ", [dt.datetime(1970, 1, 1)], [0]),
        (pa.array([2**31 - 1, 0, None], pa.date32()), "DATE", [dt.date(1970, 1, 1), None], [0]),
        (pa.array([86_400_000, 1], pa.date64()), "DATE", [dt.date(1970, 1, 2)], [1]),
        (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"], []),
        (pa.array(["a"], pa.large_string()), "STRING", ["a"], []),
        (pa.array(["a"], pa.string_view()), "STRING", ["a"], []),
        (pa.array([b"ab"], pa.binary(2)), "BINARY", [b"ab"], []),
        (pa.array([None, None]), "STRUCT<a: INT>", [None, None], []),
        (pa.array([None]), "ARRAY<INT>", [None], []),
        (pa.array([None]), "MAP<STRING, INT>", [None], []),
        (pa.array([[1], None, [], [1, 300]]), "ARRAY<TINYINT>", [[1], None, []], [3]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "ARRAY<INT>", [[1, 2]], []),
        (pa.array([{"Y": 1}, None, {"Y": 300}]), "STRUCT<x: STRING, y: TINYINT>", [{"x": None, "y": 1}, None], [2]),
        (
            pa.array([{"x": {"y": 0.5}}, {"x": {"y": float("inf")}}]),
            "STRUCT<x: STRUCT<y: DOUBLE>>",
            [{"x": {"y": 0.5}}],
            [1],
        ),
        (
            pa.array([[("a", 1)], None, [], [("b", 300), ("c", 1)]], pa.map_(pa.string(), pa.int64())),
            "MAP<STRING, TINYINT>",
            [[("a", 1)], None, []],
            [3],
        ),
    ],
)
def test_a_value_is_kept_exactly_or_its_row_is_named(values: Any, sql_type: str, kept: Any, wrong: Any) -> None:
    got, said = fitted(values, sql_type)
    assert got == kept
    assert sorted(said) == wrong
    assert all("does not fit" in message for message in said.values())


def test_a_part_of_a_larger_array_is_taken_where_it_is() -> None:
    """Blocks are cut without a copy, so arrays begin in the middle of others."""
    lists = pa.array([[9, 9], [1], None, [2, 3], [9]]).slice(1, 3)
    assert fitted(lists, "ARRAY<INT>") == ([[1], None, [2, 3]], {})
    maps = pa.array([[("z", 9)], [("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), pa.int64())).slice(1, 3)
    assert fitted(maps, "MAP<STRING, INT>") == ([[("a", 1)], None, [("b", 2)]], {})
    structs = pa.array([{"x": 9}, {"x": 1}, None, {"x": 2}]).slice(1, 3)
    assert fitted(structs, "STRUCT<x: INT>") == ([{"x": 1}, None, {"x": 2}], {})


def test_a_misfit_shows_the_value_and_the_type() -> None:
    assert fitted(pa.array([300]), "TINYINT")[1] == {0: "column c: 300 does not fit TINYINT"}
    (message,) = fitted(pa.array([[10**18] * 100]), "ARRAY<INT>")[1].values()
    assert len(message) < 200


def schema_of(field: dict[str, Any]) -> Any:
    return {"type": "struct", "fields": [{"name": "c", "nullable": True, "metadata": {}} | field]}


@pytest.mark.parametrize(
    ("field", "values", "wrong"),
    [
        ({"type": "long", "nullable": False}, pa.array([1, None, 2]), [1]),
        (
            {"type": {"type": "array", "elementType": "long", "containsNull": False}},
            pa.array([[1], [None], None, []]),
            [1],
        ),
        (
            {"type": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}},
            pa.array([[("a", 1)], [("a", None)], None], pa.map_(pa.string(), pa.int64())),
            [1],
        ),
        (
            {"type": {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": False, "metadata": {}}]}},
            pa.array([{"x": 1}, {"x": None}, None]),
            [1],
        ),
    ],
)
def test_null_where_the_table_has_not_null_is_a_misfit(field: dict[str, Any], values: Any, wrong: list[int]) -> None:
    table, made_schema = schema_of(field), from_arrow(pa.schema([("c", values.type)]))
    made = Made(table=pa.table({"c": values}), schema=made_schema, records=np.arange(len(values)))
    rows, misfits = RowFit(made_schema, table).take(made)
    assert sorted(misfits) == wrong
    rows.validate(full=True)
    assert rows.num_rows == len(values) - len(wrong)


def test_columns_are_those_of_the_table_in_its_order() -> None:
    made_table = pa.table({"B": [1, 2], "a": ["x", "y"]})
    made_schema, table = from_arrow(made_table.schema), load_schema("a STRING, b INT, c DATE")
    made = Made(table=made_table, schema=made_schema, records=np.arange(2))
    rows, misfits = RowFit(made_schema, table).take(made)
    assert (rows.to_pylist()[0], misfits) == ({"a": "x", "b": 1, "c": None}, {})
    assert rows.schema == to_arrow(table)


@pytest.mark.parametrize("wrong", [[], [0], [9], [0, 9], [3, 4, 5], list(range(10))])
def test_what_fails_is_found_with_at_most_two_questions_for_each(wrong: list[int]) -> None:
    asked: list[tuple[int, int]] = []

    def fits(start: int, end: int) -> bool:
        asked.append((start, end))
        return not any(start <= row < end for row in wrong)

    assert failing(10, fits) == wrong
    assert len(asked) <= 2 * 10
