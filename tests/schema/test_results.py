"""Which columns of a transform fit which table."""

from __future__ import annotations

import pytest

from blizzard.schema.load import load_schema
from blizzard.schema.results import VOID, result_problems, untyped


@pytest.mark.parametrize(
    ("made", "table"),
    [
        ("a INT", "a INT"),
        ("A INT", "a INT"),
        ("b INT, a INT", "a INT, b INT"),
        ("a INT NOT NULL", "a INT"),
        ("a INT", "a INT NOT NULL"),
        ("a INT", "a INT, b STRING"),
        ("a INT", "a BIGINT"),
        ("a BIGINT", "a TINYINT"),
        ("a BIGINT", "a DECIMAL(5,0)"),
        ("a BIGINT", "a DOUBLE"),
        ("a INT", "a FLOAT"),
        ("a DECIMAL(38,0)", "a BIGINT"),
        ("a DECIMAL(38,10)", "a DECIMAL(5,2)"),
        ("a DOUBLE", "a BIGINT"),
        ("a FLOAT", "a DOUBLE"),
        ("a ARRAY<BIGINT>", "a ARRAY<INT>"),
        ("a MAP<STRING, BIGINT>", "a MAP<STRING, INT>"),
        ("a STRUCT<y: INT>", "a STRUCT<x: INT, y: BIGINT>"),
        ("v VARIANT", "v VARIANT"),
    ],
)
def test_what_can_be_kept_exactly_or_told_apart_fits(made: str, table: str) -> None:
    assert result_problems(load_schema(made), load_schema(table)) == []


@pytest.mark.parametrize(
    ("made", "table", "said"),
    [
        ("a INT, b INT", "a INT", "b is no column of the table"),
        ("a INT", "a INT, b INT NOT NULL", "b is NOT NULL in the table, and the transform does not make it"),
        ("a STRING", "a INT", "a is INT in the table, and the transform makes STRING"),
        ("a INT", "a STRING", "a is STRING in the table, and the transform makes INT"),
        ("a DOUBLE", "a FLOAT", "a is FLOAT in the table, and the transform makes DOUBLE"),
        ("a DOUBLE", "a DECIMAL(10,2)", "a is DECIMAL(10,2) in the table, and the transform makes DOUBLE"),
        ("a DECIMAL(10,2)", "a DOUBLE", "a is DOUBLE in the table, and the transform makes DECIMAL(10,2)"),
        ("a TIMESTAMP", "a TIMESTAMP_NTZ", "a is TIMESTAMP_NTZ in the table, and the transform makes TIMESTAMP"),
        ("a DATE", "a TIMESTAMP", "a is TIMESTAMP in the table, and the transform makes DATE"),
        ("a BOOLEAN", "a INT", "a is INT in the table, and the transform makes BOOLEAN"),
        ("a BINARY", "a STRING", "a is STRING in the table, and the transform makes BINARY"),
        ("a ARRAY<STRING>", "a ARRAY<INT>", "a.element is INT in the table, and the transform makes STRING"),
        ("a STRUCT<x: INT, y: INT>", "a STRUCT<x: INT>", "a.y is no column of the table"),
        ("a STRUCT<x: INT>", "a VARIANT", "a is VARIANT in the table, and the transform makes STRUCT<x: INT>"),
    ],
)
def test_what_would_be_changed_is_named(made: str, table: str, said: str) -> None:
    assert result_problems(load_schema(made), load_schema(table)) == [said]


def test_a_column_that_holds_only_null_fits_every_type_and_makes_none() -> None:
    made = {"type": "struct", "fields": [{"name": "a", "type": VOID, "nullable": True, "metadata": {}}]}
    assert result_problems(made, load_schema("a ARRAY<INT>")) == []
    assert untyped(made) == ["a"]
    assert untyped(load_schema("a INT")) == []


def test_a_column_that_is_made_twice_is_named() -> None:
    """Delta ignores case: one of the two would be lost."""
    int_field = load_schema("a INT")["fields"][0]
    made = {"type": "struct", "fields": [int_field, {**int_field, "name": "A"}]}
    assert result_problems(made, load_schema("a INT")) == ["a is made 2 times"]
    inside = {"type": "struct", "fields": [{**int_field, "name": "s", "type": made}]}
    assert result_problems(inside, load_schema("s STRUCT<a: INT>")) == ["s.a is made 2 times"]
