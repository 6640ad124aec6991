"""What parse_ddl reads, what it refuses and how it says so."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH
from blizzard.schema.ddl import parse_ddl, to_ddl


def column(name: str, data_type: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": metadata}


def test_a_schema_with_every_shape_is_read_as_spark_reads_it() -> None:
    schema = parse_ddl(
        "id BIGINT NOT NULL COMMENT 'x', `we ird` STRING, "
        "s STRUCT<a: INT NOT NULL COMMENT 'in', b: ARRAY<STRING>, `c d`: MAP<STRING, DECIMAL(10,2)>>"
    )
    inner = [
        column("a", "integer", nullable=False, comment="in"),
        column("b", {"type": "array", "elementType": "string", "containsNull": True}),
        column(
            "c d",
            {"type": "map", "keyType": "string", "valueType": "decimal(10,2)", "valueContainsNull": True},
        ),
    ]
    assert schema == {
        "type": "struct",
        "fields": [
            column("id", "long", nullable=False, comment="x"),
            column("we ird", "string"),
            column("s", {"type": "struct", "fields": inner}),
        ],
    }


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("tinyint", "byte"),
        ("BYTE", "byte"),
        ("SMALLINT", "short"),
        ("SHORT", "short"),
        ("Int", "integer"),
        ("INTEGER", "integer"),
        ("BIGINT", "long"),
        ("LONG", "long"),
        ("FLOAT", "float"),
        ("REAL", "float"),
        ("DOUBLE", "double"),
        ("BOOLEAN", "boolean"),
        ("STRING", "string"),
        ("BINARY", "binary"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("VARIANT", "variant"),
        ("DECIMAL", "decimal(10,0)"),
        ("DEC(5)", "decimal(5,0)"),
        ("NUMERIC( 38 , 38 )", "decimal(38,38)"),
    ],
)
def test_each_spark_word_for_a_type_is_known(word: str, name: str) -> None:
    assert parse_ddl(f"c {word}") == {"type": "struct", "fields": [column("c", name)]}


_KEYWORDS = [
    "show",
    "rename",
    "like",
    "key",
    "index",
    "primary",
    "values",
    "comment",
    "check",
    "period",
    "constraint",
    "from",
    "array",
    "map",
    "struct",
    "order",
    "select",
    "not",
    "null",
    "table",
    "timestamp",
    "date",
    "interval",
    "1a",
    "_x",
    "begin",
    "end",
    "exists",
    "with",
    "partition",
    "add",
    "current",
]


@pytest.mark.parametrize(
    "name",
    _KEYWORDS,
)
def test_a_keyword_may_be_the_name_of_a_column_as_in_spark(name: str) -> None:
    schema = parse_ddl(f"{name} STRING NOT NULL COMMENT 'c', s STRUCT<{name}: INT>")
    assert schema["fields"][0] == column(name, "string", nullable=False, comment="c")
    assert schema["fields"][1]["type"]["fields"] == [column(name, "integer")]


@pytest.mark.parametrize(
    ("literal", "comment"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        ('"say ""so"" "', 'say "so" '),
        ("'two \"\" quotes'", 'two "" quotes'),
        (r"'a\\b\n\t\0\%\_\q'", "a\\b\n\t\0\\%\\_q"),
        (r"'\u0041\101\U00000041'", "AAA"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        (r"r'a\n'", r"a\n"),
        ("''", ""),
        ("'-- no /* comment'", "-- no /* comment"),
    ],
)
def test_a_comment_means_what_spark_takes_it_to_mean(literal: str, comment: str) -> None:
    assert parse_ddl(f"a INT COMMENT {literal}, b INT")["fields"][0] == column("a", "integer", comment=comment)


def test_sql_comments_and_line_ends_are_passed_over() -> None:
    assert parse_ddl("-- the key\nid BIGINT, /* then\nthe rest */\r\n\tname STRING -- done") == parse_ddl(
        "id BIGINT, name STRING"
    )


@pytest.mark.parametrize(
    ("ddl", "column_named", "instead"),
    [
        ("", "schema", "write columns"),
        ("  -- nothing", "schema", "write columns"),
        ("id INT, , x INT", "schema", "remove the comma"),
        ("id INT,", "schema", "remove the comma"),
        ("s STRUCT<a: INT,>", "column s:", "remove the comma"),
        ("id", "column id:", "write id STRING"),
        ("id INT, x", "column x:", "write x STRING"),
        ("id VARCHAR(10)", "column id:", "write STRING"),
        ("id CHAR(10)", "column id:", "write STRING"),
        ("id CHARACTER VARYING (3)", "column id:", "write STRING"),
        ("s STRUCT<a: ARRAY<TEXT>>", "column s.a.element:", "write STRING"),
        ("id BOOL", "column id:", "write BOOLEAN"),
        ("id DATETIME", "column id:", "write TIMESTAMP"),
        ("id DOUBLE PRECISION", "column id:", "write DOUBLE"),
        ("id JSON", "column id:", "write VARIANT"),
        ("id INTERVAL DAY", "column id:", "write STRING"),
        ("id NOSUCH", "column id:", "BOOLEAN, TINYINT"),
        ("id `INT`", "column id:", "write id STRING"),
        ("id 'INT'", "column id:", "write id STRING"),
        ("id NULLABLE(INT)", "column id:", "BOOLEAN, TINYINT"),
        ("id INT PRIMARY KEY", "column id:", "remove it"),
        ("id INT DEFAULT 3", "column id:", "remove it"),
        ("id INT GENERATED ALWAYS AS (1)", "column id:", "remove it"),
        ("id INT UNIQUE", "column id:", "remove it"),
        ("id STRING COLLATE UNICODE", "column id:", "remove it"),
        ("id INT NULL", "column id:", "remove it"),
        ("id INT NOT NULL NOT NULL", "column id:", "NOT NULL"),
        ("id INT COMMENT 'x' NOT NULL", "column id:", "NOT NULL before COMMENT"),
        ("id INT NOT", "column id:", "write NOT NULL"),
        ("id INT COMMENT x", "column id:", "COMMENT 'some text'"),
        (r"id INT COMMENT '\ud800'", "schema", "not a character"),
        (r"id INT COMMENT '\UFFFFFFFF'", "schema", "not a character"),
        ("id TIMESTAMP(3)", "column id:", "remove it"),
        ("id INT[]", "column id:", "remove it"),
        ("id INT UNSIGNED", "column id:", "remove it"),
        ("a INT, PRIMARY KEY (a)", "schema", "backticks"),
        ("id INT); DROP TABLE t; CREATE TABLE u (a INT", "column id:", "remove it"),
        ("id INT; x INT", "column id:", "remove it"),
        ("id INT) USING delta", "column id:", "remove it"),
        ("SELECT 1", "column SELECT:", "write SELECT STRING"),
        ("a INT, A STRING", "column a:", "keep only one"),
        ("a INT, a INT", "column a:", "keep only one"),
        ("s STRUCT<x: INT, `X`: INT>", "column s.x:", "keep only one"),
        ("m MAP<INT, STRING>", "column m:", "MAP<STRING, type>"),
        ("m MAP<STRING>", "column m:", "MAP<STRING, type>"),
        ("m ARRAY<MAP<DATE, INT>>", "column m.element:", "MAP<STRING, type>"),
        ("a ARRAY", "column a:", "ARRAY<type>"),
        ("a ARRAY<INT", "column a:", "ARRAY<type>"),
        ("a ARRAY<INT NOT NULL>", "column a:", "ARRAY<type>"),
        ("a ARRAY<>", "column a:", "ARRAY<type>"),
        ("s STRUCT<>", "column s:", "STRUCT<name: type"),
        ("s STRUCT<a: INT", "column s:", "missing >"),
        ("s STRUCT<a: INT>>", "column s:", "remove it"),
        ("s STRUCT<INT>", "column s.INT:", "write INT STRING"),
        ("d DECIMAL(39, 1)", "column d:", "precision <= 38"),
        ("d DECIMAL(2, 5)", "column d:", "scale <= precision"),
        ("d DECIMAL(0, 0)", "column d:", "1 <= precision"),
        ("d DECIMAL(3, -1)", "column d:", "0 <= scale"),
        ("d DECIMAL()", "column d:", "DECIMAL(precision, scale)"),
        ("d DECIMAL(1, 1, 1)", "column d:", "DECIMAL(precision, scale)"),
        ("d DECIMAL(1e1)", "column d:", "DECIMAL(precision, scale)"),
        ("a.b INT", "column a:", "backticks"),
        ("a-b INT", "column a:", "backticks"),
        ("a$ INT", "column a:", "backticks"),
        ("é INT", "schema", "backticks"),
        ("1L INT", "schema", "backticks"),
        ("'a' INT", "schema", "backticks"),
        ("x'ab' INT", "schema", "backticks"),
        ("{{a}} INT", "schema", "backticks"),
        ("`` INT", "schema", "rename"),
        ("`a\nb` INT", "schema", "rename"),
        ("`a\x1b[4m` NOSUCH", "column `a\ufffd[4m`:", "BOOLEAN"),
        ("a INT COMMENT 'open", "schema", "not closed"),
        ("`a INT", "schema", "not closed"),
        ("a INT /* open", "schema", "not closed"),
        ("c " + "ARRAY<" * 5000 + "INT" + ">" * 5000, "column c.element.element...:", "flatten"),
    ],
)
def test_a_refusal_names_the_column_and_says_what_to_write(ddl: str, column_named: str, instead: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_ddl(ddl)
    message = str(refused.value)
    assert message.startswith(column_named)
    assert instead in message
    assert "\x1b" not in message
    assert refused.value.__cause__ is None


_PIECES = "a INT STRUCT<a: ARRAY< MAP<STRING, DECIMAL(10,2) > , ; ( ) ' \" ` COMMENT 'x' NOT NULL -- /* */ \\ $ 1L"


@given(st.one_of(st.text(), st.lists(st.sampled_from(_PIECES.split(" "))).map(" ".join)))
def test_any_text_is_either_a_schema_or_a_schema_error(text: str) -> None:
    try:
        schema = parse_ddl(text)
    except SchemaError:
        return
    assert parse_ddl(to_ddl(schema)) == schema


def test_ddl_is_written_on_one_line_with_backticks_only_where_needed() -> None:
    schema = parse_ddl("`id` long not null comment 'it''s\na\\\\b', `a b` struct<`x.y`:dec, z map<string,real>>")
    assert to_ddl(schema) == (
        r"id BIGINT NOT NULL COMMENT 'it\'s\u000aa\\b', "
        "`a b` STRUCT<`x.y`: DECIMAL(10,0), z: MAP<STRING, FLOAT>>"
    )


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (column("a", {"type": "array", "elementType": "long", "containsNull": False}), "NOT NULL"),
        (column("a", "long") | {"metadata": {"delta.columnMapping.id": 1}}, "delta.columnMapping.id"),
        (column("a", "interval"), "INTERVAL"),
        (column("a", {"type": "udt"}), "UDT"),
    ],
)
def test_what_ddl_cannot_say_is_refused_and_never_left_out(field: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=f"column a: .*{reason}.*JSON"):
        to_ddl({"type": "struct", "fields": [field]})


def test_a_schema_may_be_nested_exactly_as_deep_as_the_limit() -> None:
    def nested(depth: int) -> str:
        return "c " + "ARRAY<" * (depth - 1) + "INT" + ">" * (depth - 1)

    assert to_ddl(parse_ddl(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(SchemaError, match=f"more than {MAX_DEPTH} deep"):
        parse_ddl(nested(MAX_DEPTH + 1))


def test_reading_and_checking_a_json_schema_imports_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from blizzard.schema.load import load_schema\n"
        "import blizzard.schema.fit, blizzard.schema.infer\n"
        "from blizzard.schema.ddl import to_ddl\n"
        'to_ddl(load_schema(\'{"type":"struct","fields":[{"name":"a","type":"long","nullable":true}]}\'))\n'
        "heavy = {'pyspark', 'pyarrow', 'deltalake', 'sqlglot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
