"""Hints: what may be said about which column, and what wins."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.errors import SchemaError
from blizzard.schema.ddl import to_ddl
from blizzard.schema.hints import NO_HINTS, parse_hints
from blizzard.schema.infer import infer_schema

RECORD = {"id": 1, "user": {"age": 7, "name": "x"}, "tags": [1], "items": [{"price": 1, "n": 2}], "empty": None}


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ("id INT", "id INT"),
        ("id: DECIMAL(10, 2) NOT NULL COMMENT 'key'", "id DECIMAL(10,2) NOT NULL COMMENT 'key'"),
        ("user.age INT", "user STRUCT<age: INT, name: STRING>"),
        ("user.age INT NOT NULL, user.name BINARY", "user STRUCT<age: INT NOT NULL, name: BINARY>"),
        ("user.email STRING", "user STRUCT<age: BIGINT, name: STRING, email: STRING>"),
        ("user STRUCT<age: INT>", "user STRUCT<age: INT>"),
        ("user MAP<STRING, STRING>", "user MAP<STRING, STRING>"),
        ("user STRING", "user STRING"),
        ("tags.element DOUBLE", "tags ARRAY<DOUBLE>"),
        ("items.element.price DECIMAL(9,2)", "items ARRAY<STRUCT<price: DECIMAL(9,2), n: BIGINT>>"),
        ("empty DATE", "empty DATE"),
        ("empty.x.y DATE", "empty STRUCT<x: STRUCT<y: DATE>>"),
        ("unseen ARRAY<STRING>", "unseen ARRAY<STRING>"),
        ("`a.b`.`c d` INT", "`a.b` STRUCT<`c d`: INT>"),
        ("`element`.like INT", "element STRUCT<like: INT>"),
    ],
)
def test_a_hint_decides_its_column_and_no_other(hints: str, expected: str) -> None:
    schema = infer_schema([RECORD], parse_hints(hints)).schema
    found = {field["name"]: to_ddl({"type": "struct", "fields": [field]}) for field in schema["fields"]}
    without = {field["name"]: field for field in infer_schema([RECORD]).schema["fields"]}
    assert expected in found.values()
    assert {name: f for name, f in without.items() if found[name] != expected} == {
        field["name"]: field for field in schema["fields"] if found[field["name"]] != expected
    }


def test_hinted_columns_that_were_not_seen_come_last_and_are_not_left_out() -> None:
    inference = infer_schema([{"n": None, "a": 1}], parse_hints("z INT, n INT"))
    assert to_ddl(inference.schema) == "n INT, a BIGINT, z INT"
    assert inference.left_out == ()


def test_no_hints_are_no_hints() -> None:
    assert parse_hints(None) == NO_HINTS


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ("id BIGINT, user.age INTT", r"hints: column user\.age: INTT is not .* \(character 21 of the DDL\)"),
        ("id BIGINT, , x INT", r"hints: schema: a column is missing before ',' \(character 12 of the DDL\)"),
        ("id", r"hints: column id: a type is missing before the end \(character 3 of the DDL\)"),
        ("user. INT", r"hints: column user\.INT: a type is missing before the end"),
        ("user.age", r"hints: column user\.age: a type is missing"),
        ("user.5 INT", "hints: column user: '5' is not a plain column name"),
        ("user..age INT", "hints: column user: '.' is not a plain column name"),
        ("id INT) x", r"hints: column id: '\)' cannot follow here \(character 7 of the DDL\)"),
        ("a 'x", "hints: schema: a quote"),
        (" ", "hints: schema: it is empty"),
        ("id INT, id BIGINT", "hints: id and id speak of the same column"),
        ("user.age INT, id INT, user STRING", r"hints: user\.age and user speak of the same column"),
        ("a.b INT, a.b.c INT", r"hints: a\.b and a\.b\.c speak of the same column"),
    ],
)
def test_a_hint_that_cannot_be_read_is_refused_with_its_place(hints: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_hints(hints)


@pytest.mark.parametrize(
    ("hints", "record", "reason"),
    [
        ("id.x INT", {"id": 7}, r"column id: id\.x is hinted, but id held number \(7\); hint the whole column"),
        (
            "tags.x INT",
            {"tags": [7]},
            r"column tags: tags\.x is hinted, but tags held array \(\[7\]\).* as tags\.element",
        ),
        ("tags.element.x INT", {"tags": [7]}, r"column tags\.element: tags\.element\.x is hinted, but .* held number"),
        ("tags.element INT NOT NULL", {"tags": [7]}, r"column tags\.element: a hint for what an array holds is a type"),
    ],
)
def test_a_hint_that_the_records_leave_no_place_for_is_refused(hints: str, record: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        infer_schema([record], parse_hints(hints))


@pytest.mark.parametrize(
    ("hints", "record", "ddl"),
    [("ID INT", {"id": 7}, "ID INT"), ("u.A INT", {"u": {"a": 7}}, "u STRUCT<A: INT>")],
)
def test_a_hint_decides_how_a_name_is_spelled(hints: str, record: dict[str, Any], ddl: str) -> None:
    """Keys that differ only by case go into one column."""
    assert to_ddl(infer_schema([record], parse_hints(hints)).schema) == ddl
