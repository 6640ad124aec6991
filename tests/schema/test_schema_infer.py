"""What is inferred from records, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.hints import parse_hints
from blizzard.schema.infer import Inference, InferenceSettings, infer_schema


def inferred(*values: Any) -> str:
    return to_ddl(infer_schema({"a": value} for value in values).schema).removeprefix("a ")


def hinted(hints: str, *records: dict[str, Any]) -> Inference:
    return infer_schema(records, parse_hints(hints))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((True, False), "BOOLEAN"),
        ((1, -(2**63), 2**63 - 1), "BIGINT"),
        ((1, 2**63), "DECIMAL(38,0)"),
        ((2**63, 1), "DECIMAL(38,0)"),
        ((10**38 - 1, -(10**38) + 1), "DECIMAL(38,0)"),
        ((10**38,), "STRING"),
        ((1, 10**38, 1.5), "STRING"),
        ((10**5000,), "STRING"),
        ((1.5, float("inf"), 1), "STRING"),
        ((1, 1.0), "DOUBLE"),
        ((1.5, 2**53, 1), "DOUBLE"),
        ((1.5, 2**53 + 1, 1), "STRING"),
        ((2**53 + 1, 1), "BIGINT"),
        ((2**63, 0.5), "STRING"),
        (("x", ""), "STRING"),
        ((None, 1, None), "BIGINT"),
        (([1], [None, 2.5], [], None), "ARRAY<DOUBLE>"),
        (([[1]], [[]]), "ARRAY<ARRAY<BIGINT>>"),
        ((1, "x"), "STRING"),
        (("2024-01-01", True), "STRING"),
        (([], {}), "STRING"),
        (({"x": 1}, [1], 1), "STRING"),
        (([1, "x"], [None]), "ARRAY<STRING>"),
        (({"x": [1]}, {"x": {"y": 1}}), "STRUCT<x: STRING>"),
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
        "2024-01-01T00:00:00+0530",
        "2024-01-01T00:00:00-03",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00Z",
        "2024-01-01T00:00Z",
        "2024-01-01T00:00:00.1234567Z",
        "2024-01-01T00:00:00.123456789+00:00",
        "2024-01-01",
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
        "2024-01-01T00:00:00",  # no zone, beside one with a zone
        "2024-01-01t00:00:00z",
        "2024-01-01T00:00:00.Z",
        "0001-01-01T00:00:00+00:01",  # before year 1 in UTC
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "٢٠٢٤-01-01T00:00:00Z",
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
    schema = infer_schema([{"b": None}, {"a": 1, "b": "x"}, {"c": [True], "a": None}]).schema
    assert to_ddl(schema) == "b STRING, a BIGINT, c ARRAY<BOOLEAN>"


def test_a_column_that_never_held_a_value_is_left_out_and_named() -> None:
    inference = infer_schema(
        [{"id": 1, "n": None, "e": [], "o": {}, "u": {"x": [None], "y": {}, "z": 1}, "v": {"w": {}}}]
    )
    assert to_ddl(inference.schema) == "id BIGINT, u STRUCT<z: BIGINT>"
    assert inference.left_out == ("n", "e", "o", "u.x", "u.y", "v")


def test_every_mixed_column_is_told_with_an_example_of_each_kind() -> None:
    records: list[dict[str, Any]] = [
        {"id": 7, "u": {"x": [1]}, "fine": 1, "m": {}, "many": 1, "big": 10**38},
        {"id": "seven", "u": {"x": ["y" * 100]}, "fine": 2.5, "m": [], "many": True},
        {"many": "z"},
    ]
    remarks = "\n".join(infer_schema(records).remarks)
    assert 'id is a STRING, for it held number (7) and string ("seven")' in remarks
    assert 'u.x.element is a STRING, for it held number (1) and string ("yyyyy' in remarks
    assert "m is a STRING, for it held object ({}) and array ([])" in remarks
    assert 'many is a STRING, for it held number (1) and boolean (true) and string ("z")' in remarks
    assert "big is a STRING, for no other type holds all of its numbers exactly" in remarks
    assert "fine" not in remarks
    assert "y" * 50 not in remarks


def test_names_that_cannot_stand_together_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"column `ä`: named more than once \(`ä`, `Ä`\)"):
        infer_schema([{"ä": 1}, {"Ä": 2}])


def test_names_that_no_column_can_have_are_left_out_and_told() -> None:
    inferred = infer_schema([{"": 1, "id": 1, "u": {"": 1, "b\x00": 2, "v": 1}, "only": {"": 1}}])
    assert to_ddl(inferred.schema) == "id BIGINT, u STRUCT<v: BIGINT>"
    told = "cannot be the name of a column; its values go the way of fields without one (schema.evolution)"
    assert [remark for remark in inferred.remarks if told in remark] == [
        f"schema: '' {told}",
        f"column u: '' {told}",
        f"column u: 'b\\x00' {told}",
        f"column only: '' {told}",
    ]


def test_spellings_of_one_name_are_one_column_with_the_smallest() -> None:
    records = [{"id": 1, "u": {"k": 1}, "l": [{"k": 1}]}, {"ID": 2.5, "U": {"K": "t"}, "L": [{"K": True, "z": 1}]}]
    assert to_ddl(infer_schema(records).schema) == (
        "ID DOUBLE, U STRUCT<K: STRING>, L ARRAY<STRUCT<K: STRING, z: BIGINT>>"
    )
    assert to_ddl(hinted("id DECIMAL(9,2)", *records[:2]).schema).startswith("id DECIMAL(9,2), U ")


def test_columns_get_the_names_that_the_settings_give_them() -> None:
    records: list[dict[str, Any]] = [{"userId": 1, "home City": {"zipCode": 1}}, {"user_id": 2}]
    assert (
        to_ddl(infer_schema(records, settings=InferenceSettings(rename="snake")).schema)
        == "user_id BIGINT, home_city STRUCT<zip_code: BIGINT>"
    )
    rename = {("userId",): "uid", ("home", "zipCode"): "zip", ("home City",): "home"}
    assert to_ddl(infer_schema(records, settings=InferenceSettings(rename=rename)).schema) == (
        "uid BIGINT, home STRUCT<zip: BIGINT>, user_id BIGINT"
    )


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a=b"])
def test_a_name_that_spark_does_not_take_is_refused_where_spark_makes_the_table(name: str) -> None:
    assert infer_schema([{name: 1}]).schema["fields"][0]["name"] == name
    with pytest.raises(SchemaError, match=rf"column `{re.escape(name)}`: Spark makes no table .*schema\.rename"):
        infer_schema([{name: 1}], settings=InferenceSettings(by_spark=True))
    with pytest.raises(SchemaError, match=rf"column u\.element\.`{re.escape(name)}`: Spark makes no table"):
        infer_schema([{"u": [{name: 1}]}], settings=InferenceSettings(by_spark=True))
    assert (
        infer_schema([{name: 1}], settings=InferenceSettings(rename="snake", by_spark=True)).schema["fields"][0]["name"]
        == "a_b"
    )


def test_names_inside_what_becomes_text_do_not_matter() -> None:
    assert inferred({"k": 1, "K": 1}, 5) == "STRING"
    inference = hinted("u MAP<STRING, BIGINT>, v STRING", {"u": {"k": 1, "K": 1}, "v": [{"": 1}]})
    assert to_ddl(inference.schema) == "u MAP<STRING, BIGINT>, v STRING"


@pytest.mark.parametrize("records", [[], [{}], [{}, {}], [{"a": None, "b": {"c": []}}]])
def test_records_without_a_value_give_no_schema(records: list[dict[str, Any]]) -> None:
    with pytest.raises(SchemaError, match="no column of the records holds a value"):
        infer_schema(records)
    assert to_ddl(hinted("a INT", *records).schema) == "a INT"


def test_a_record_nested_past_the_limit_is_refused_and_not_a_crash() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert to_ddl(parse_ddl(f"a {inferred(value)}")) == f"a {inferred(value)}"
    with pytest.raises(SchemaError, match="deep"):
        inferred([value])
    for _ in range(900):
        value = {"x": value}
    with pytest.raises(SchemaError, match=f"column a.x.x...: nested more than {MAX_DEPTH} deep"):
        inferred(value)
    assert to_ddl(hinted("a.x.x STRING", {"a": value}).schema) == "a STRUCT<x: STRUCT<x: STRING>>"


def test_a_value_json_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="column a: bytes is not a JSON value"):
        inferred(b"x")


def test_records_are_taken_one_by_one_from_an_iterator() -> None:
    assert to_ddl(infer_schema(iter([{"a": 1}])).schema) == "a BIGINT"
