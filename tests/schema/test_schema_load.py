"""Where a schema comes from, and what of Spark's JSON is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import SchemaError
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.load import load_schema, validate_schema

_DDL = "id BIGINT NOT NULL, tags ARRAY<STRING>, m MAP<STRING, STRUCT<x: DECIMAL(5,2)>>"


def field(data_type: Any, **changes: Any) -> dict[str, Any]:
    return {"name": "a", "type": data_type, "nullable": True, "metadata": {}} | changes


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize("name", ["s.ddl", "s.sql", "s.txt", "s.json", "s", "with space.ddl"])
@pytest.mark.parametrize("content", [_DDL, json.dumps(parse_ddl(_DDL))])
def test_a_file_is_read_as_json_or_ddl_by_what_it_holds(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text("\n  " + content + "\n", encoding="utf-8-sig")
    assert load_schema(str(tmp_path / name)) == parse_ddl(_DDL)


def test_text_that_is_no_file_is_the_schema_itself() -> None:
    assert load_schema(_DDL) == parse_ddl(_DDL)
    assert load_schema(json.dumps(parse_ddl(_DDL))) == parse_ddl(_DDL)
    assert load_schema("a:int") == parse_ddl("a INT")


def test_json_with_a_slash_and_no_space_is_not_taken_for_a_path() -> None:
    schema = struct(field("long", metadata={"comment": "a/b"}))
    assert load_schema(json.dumps(schema, separators=(",", ":"))) == schema


def test_ddl_with_a_slash_in_a_comment_is_not_taken_for_a_path() -> None:
    assert load_schema("a INT COMMENT 'x/y'")["fields"][0]["metadata"] == {"comment": "x/y"}


@pytest.mark.parametrize("path", ["nosuch.json", "no such.ddl", "conf/nosuch", "s3://b/s.SQL", "/nosuch", "x.txt "])
def test_a_path_that_does_not_exist_is_said_to_be_missing(path: str) -> None:
    with pytest.raises(SchemaError, match=r"was not found.*local file"):
        load_schema(path)


def test_a_folder_is_not_a_schema(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="was not found"):
        load_schema(str(tmp_path))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.ddl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="UTF-8"):
        load_schema(str(tmp_path / "s.ddl"))


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "s.ddl").write_text(_DDL)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(SchemaError, match="cannot be read: Permission denied"):
        load_schema(str(tmp_path / "s.ddl"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type": "struct",', r"not valid JSON at line 1, column \d+"),
        ('{"type": "struct", "fields": [], "fields": []}', "'fields' twice"),
        ('{"type": "struct", "fields": ' + "[" * 100_000, "nested too deep|not valid JSON"),
        ("{}", "outermost"),
    ],
)
def test_broken_json_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_schema(text)


def test_validation_fills_in_metadata_and_changes_nothing_it_was_given() -> None:
    given = struct({"name": "a", "type": "decimal( 5, 2 )", "nullable": False}, field("decimal", name="b"))
    before = json.dumps(given)
    assert validate_schema(given) == struct(field("decimal(5,2)", nullable=False), field("decimal(10,0)", name="b"))
    assert json.dumps(given) == before


def test_validation_keeps_foreign_metadata_and_not_null_elements() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": False}
    given = struct(field(array, metadata={"delta.columnMapping.id": 1, "x": {"y": [1]}}))
    canonical = validate_schema(given)
    assert canonical == given
    assert canonical["fields"][0]["metadata"] is not given["fields"][0]["metadata"]


_ARRAY = {"type": "array", "elementType": "long", "containsNull": True}
_MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (struct(), "schema: it has no columns"),
        ({"type": "array"}, "outermost"),
        ([], "outermost"),
        ({"type": "struct"}, "schema: fields is missing"),
        ({"type": "struct", "fields": {}}, "schema: fields must be a list"),
        (struct() | {"extra": 1}, "schema: unknown key extra"),
        (struct("a"), "schema: each of its fields"),
        (struct({"type": "long"}), "schema: each of its fields"),
        (struct({"name": "a", "type": "long"}), "column a: nullable is missing"),
        (struct(field("long", nullable="yes")), "column a: nullable must be true or false"),
        (struct(field("long", metadata=[])), "column a: metadata must be an object"),
        (struct(field("long", comment="x")), "column a: unknown key comment"),
        (struct(field("int")), "column a: 'int' .* write integer"),
        (struct(field("object")), "column a: 'object' .* boolean, byte"),
        (struct(field("decimal(39,0)")), r"column a: 'decimal\(39,0\)' .* 38"),
        (struct(field(None)), "column a: its type must be"),
        (struct(field({"type": ["array"]})), "column a: its type must be"),
        (struct(field(struct())), "column a: it has no columns"),
        (struct(field(struct(field("nosuch")))), "column a.a: 'nosuch'"),
        (struct(field(_ARRAY | {"elementType": "nosuch"})), "column a.element: 'nosuch'"),
        (struct(field({"type": "array", "elementType": "long"})), "column a: containsNull is missing"),
        (struct(field(_MAP | {"keyType": "long"})), "column a: the map has BIGINT keys"),
        (struct(field(_MAP | {"valueContainsNull": None})), "column a: valueContainsNull must be"),
        (struct(field("long"), field("long", name="A")), "column a: named more than once"),
        (struct(field(struct(field("long"), field("string")))), "column a.a: named more than once"),
        (struct(field("long", name="")), "schema: the column name '' is empty"),
        (struct(field("long", name="a\nb")), "control character"),
    ],
)
def test_a_wrong_json_schema_is_refused_by_column_and_reason(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        validate_schema(schema)
