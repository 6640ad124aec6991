"""How a given schema is compared with the table's."""

from __future__ import annotations

import copy
import re

import pytest

from blizzard.schema.ddl import parse_ddl
from blizzard.schema.fit import fingerprint, schema_differences


@pytest.mark.parametrize(
    ("given", "table", "differences"),
    [
        ("a INT, b STRING", "b STRING COMMENT 'x', a INT", ()),
        ("a INT", "a INT NOT NULL", ()),
        ("a INT NOT NULL", "a INT", ("a: given NOT NULL, table nullable",)),
        ("user STRUCT<id: BIGINT>", "user STRUCT<id: STRING>", ("user.id: given BIGINT, table STRING",)),
        ("a INT, b ARRAY<INT>", "a INT", ("b: given ARRAY<INT>, missing in the table",)),
        ("a INT", "a INT, b INT", ("b: table INT, missing in the given schema",)),
        ("s STRUCT<a: INT>", "s STRUCT<b: INT>",
         ("s.a: given INT, missing in the table", "s.b: table INT, missing in the given schema")),
        ("userId INT", "userid INT", ("userId: given with this case, the table has userid",)),
        ("userId INT", "userid BIGINT",
         ("userId: given with this case, the table has userid", "userId: given INT, table BIGINT")),
        ("t ARRAY<STRUCT<x: INT>>", "t ARRAY<STRUCT<x: DATE>>", ("t.element.x: given INT, table DATE",)),
        ("m MAP<STRING, INT>", "m MAP<STRING, DATE>", ("m.value: given INT, table DATE",)),
        ("s STRUCT<x: INT NOT NULL COMMENT 'c'>", "s ARRAY<INT>",
         ("s: given STRUCT<x: INT NOT NULL>, table ARRAY<INT>",)),
        ("d DECIMAL(10,2)", "d DECIMAL(12,2)", ("d: given DECIMAL(10,2), table DECIMAL(12,2)",)),
        ("`a.b` STRUCT<c: INT>", "`a.b` STRUCT<c: DATE>", ("`a.b`.c: given INT, table DATE",)),
    ],
)  # fmt: skip
def test_differences_are_sentences_with_the_path(given: str, table: str, differences: tuple[str, ...]) -> None:
    assert schema_differences(parse_ddl(given), parse_ddl(table)) == differences


def test_not_null_inside_arrays_and_maps_counts_only_if_the_table_is_wider() -> None:
    nullable = parse_ddl("a ARRAY<INT>, m MAP<STRING, INT>")
    required = copy.deepcopy(nullable)
    required["fields"][0]["type"]["containsNull"] = False
    required["fields"][1]["type"]["valueContainsNull"] = False
    assert schema_differences(nullable, required) == ()
    assert schema_differences(required, nullable) == (
        "a.element: given NOT NULL, table nullable",
        "m.value: given NOT NULL, table nullable",
    )


def test_a_table_type_blizzard_does_not_know_is_still_named() -> None:
    table = {"type": "struct", "fields": [{"name": "a", "type": "variant", "nullable": True, "metadata": {}}]}
    assert schema_differences(parse_ddl("a STRING"), table) == ("a: given STRING, table VARIANT",)


def test_the_fingerprint_is_16_hex_digits_and_stays_the_same_for_ever() -> None:
    print_of = fingerprint(parse_ddl("id BIGINT NOT NULL, `né` STRUCT<metadata: ARRAY<STRING>, m: MAP<STRING, INT>>"))
    assert re.fullmatch("[0-9a-f]{16}", print_of)
    # It is stored with each checkpoint: a change here would read as a changed schema in every pipeline.
    assert print_of == "60458d01463c22f6"


@pytest.mark.parametrize(
    "other",
    [
        "b STRUCT<x: INT>, a INT",
        "a BIGINT, b STRUCT<x: INT>",
        "a INT NOT NULL, b STRUCT<x: INT>",
        "A INT, b STRUCT<x: INT>",
        "a INT, b STRUCT<x: INT NOT NULL>",
        "a INT, b STRUCT<metadata: INT>",
        "a INT, b STRUCT<x: INT>, c INT",
    ],
)
def test_the_fingerprint_sees_names_types_nullability_and_order(other: str) -> None:
    assert fingerprint(parse_ddl("a INT, b STRUCT<x: INT>")) != fingerprint(parse_ddl(other))


def test_the_fingerprint_does_not_see_comments() -> None:
    bare = parse_ddl("a INT, b ARRAY<STRUCT<x: INT>>")
    commented = parse_ddl("a INT COMMENT 'one', b ARRAY<STRUCT<x: INT COMMENT 'two'>> COMMENT 'three'")
    assert fingerprint(bare) == fingerprint(commented)
