"""What is inferred from records, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH
from blizzard.schema.ddl import to_ddl
from blizzard.schema.infer import infer_schema


def inferred(*values: Any) -> str:
    return to_ddl(infer_schema({"a": value} for value in values)).removeprefix("a ")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((True, False), "BOOLEAN"),
        ((1, -(2**63), 2**63 - 1), "BIGINT"),
        ((1, 2**63), "DECIMAL(38,0)"),
        ((2**63, 1), "DECIMAL(38,0)"),
        ((10**38 - 1, -(10**38) + 1), "DECIMAL(38,0)"),
        ((10**38,), "DOUBLE"),
        ((10**38, 1), "DOUBLE"),
        ((1, 1.0), "DOUBLE"),
        ((1.5, 2**63, 1), "DOUBLE"),
        (("x", ""), "STRING"),
        ((None, None), "STRING"),
        ((None, 1, None), "BIGINT"),
        (([1], [None, 2.5], [], None), "ARRAY<DOUBLE>"),
        (([], []), "ARRAY<STRING>"),
        (([None],), "ARRAY<STRING>"),
        (([[1]], [[]]), "ARRAY<ARRAY<BIGINT>>"),
        (({}, {}), "MAP<STRING, STRING>"),
        (([{}],), "ARRAY<MAP<STRING, STRING>>"),
        (({}, {"x": 1}, None), "STRUCT<x: BIGINT>"),
        (({"y": 1}, {"x": "s", "y": 0.5}), "STRUCT<y: DOUBLE, x: STRING>"),
        (([{"x": 1}, {"y": True}],), "ARRAY<STRUCT<x: BIGINT, y: BOOLEAN>>"),
    ],
)
def test_a_column_gets_a_type_that_takes_every_value(values: tuple[Any, ...], expected: str) -> None:
    assert inferred(*values) == expected


@pytest.mark.parametrize(
    "value",
    [
        "2024-02-29T23:59:59Z",
        "2024-01-01T00:00:00.1Z",
        "2024-01-01T00:00:00.123456000Z",
        "2024-01-01T00:00:00.123456+05:30",
        "0001-01-01T00:00:00-00:00",
        "9999-12-31T23:59:59Z",
    ],
)
def test_date_times_with_a_zone_are_timestamps(value: str) -> None:
    assert inferred(value, None, "2024-01-01T00:00:00Z") == "TIMESTAMP"


@pytest.mark.parametrize(
    "value",
    [
        "2023-02-29T00:00:00Z",  # no such day
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00",  # no zone
        "2024-01-01T00:00:00+0530",
        "2024-01-01 00:00:00Z",
        "2024-01-01t00:00:00z",
        "2024-01-01T00:00:00.1234567Z",  # a timestamp keeps microseconds
        "2024-01-01T00:00:00.Z",
        "0001-01-01T00:00:00+00:01",  # before year 1 in UTC
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "٢٠٢٤-01-01T00:00:00Z",
        "2024-01-01",  # a date among timestamps
    ],
)
def test_a_column_with_one_value_that_is_no_such_date_time_is_text(value: str) -> None:
    assert inferred("2024-01-01T00:00:00Z", value) == "STRING"
    assert inferred(value, "2024-01-01T00:00:00Z") == "STRING"


def test_dates_are_dates_only_if_each_is_a_real_day() -> None:
    assert inferred("2024-02-29", None, "0001-01-01") == "DATE"
    assert inferred("2024-02-29", "2023-02-29") == "STRING"
    assert inferred("2024-02-29", "20240301") == "STRING"
    assert inferred("2024-02-29", "") == "STRING"


def test_columns_come_in_the_order_they_are_first_seen_and_are_nullable() -> None:
    schema = infer_schema([{"b": None}, {"a": 1, "b": "x"}, {"c": {}, "a": None}])
    assert to_ddl(schema) == "b STRING, a BIGINT, c MAP<STRING, STRING>"


def test_every_conflict_is_in_the_one_message_with_an_example_of_each_kind() -> None:
    records: list[dict[str, Any]] = [
        {"id": 7, "u": {"x": [1]}, "fine": 1, "m": {}, "many": 1},
        {"id": "seven", "u": {"x": ["y" * 100]}, "fine": 2.5, "m": [], "many": True},
        {"many": "z"},
    ]
    with pytest.raises(SchemaError) as refused:
        infer_schema(records)
    message = str(refused.value)
    assert 'column id: holds number (7) and string ("seven")' in message
    assert 'column u.x.element: holds number (1) and string ("yyyyy' in message
    assert "column m: holds object ({}) and array ([])" in message
    assert 'column many: holds number (1) and boolean (true) and string ("z")' in message
    assert "fine" not in message
    assert "y" * 50 not in message


def test_names_that_cannot_stand_together_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"column id: named more than once \(id, ID\)"):
        infer_schema([{"id": 1}, {"ID": 2}])
    with pytest.raises(SchemaError, match=r"column u\.k: named more than once"):
        infer_schema([{"u": {"k": 1, "K": 1}}])
    with pytest.raises(SchemaError, match=r"column u\.element\.k: named more than once"):
        infer_schema([{"u": [{"k": 1}]}, {"u": [{"K": 2}]}])
    with pytest.raises(SchemaError, match="column u: the column name '' is empty"):
        infer_schema([{"u": {"": 1}}])


@pytest.mark.parametrize("records", [[], [{}], [{}, {}]])
def test_records_without_a_column_give_no_schema(records: list[dict[str, Any]]) -> None:
    with pytest.raises(SchemaError, match="no columns"):
        infer_schema(records)


def test_a_record_nested_past_the_limit_is_refused_and_not_a_crash() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert inferred(value).startswith("ARRAY<ARRAY<")
    for _ in range(900):
        value = {"x": value}
    with pytest.raises(SchemaError, match=f"more than {MAX_DEPTH} deep"):
        inferred(value)


def test_a_value_json_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="column a: bytes is not a JSON value"):
        inferred(b"x")


def test_records_are_taken_one_by_one_from_an_iterator() -> None:
    assert to_ddl(infer_schema(iter([{"a": 1}]))) == "a BIGINT"
