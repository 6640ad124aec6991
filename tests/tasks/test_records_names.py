"""The record contract: which column a key goes to, and what becomes of keys that have none."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError

RESCUE = ParsePolicy(unknown=Unknown.RESCUE, rescue_values=True)
KEEPS_REST = ParsePolicy(unknown=Unknown.REPORT, keeps_rest=True)
SNAKE = ParsePolicy(rename="snake")
MAP = ParsePolicy(rename={("userId",): "id", ("s", "B C"): "b"})

ROWS: list[tuple[str, ParsePolicy, str, dict[str, Any]]] = [
    ("id BIGINT, name STRING", ParsePolicy(), '{"ID":1,"Name":"a"}', {"id": 1, "name": "a"}),
    ("s STRUCT<Ab: INT>", ParsePolicy(), '{"S":{"aB":1}}', {"s": {"Ab": 1}}),
    ("a ARRAY<STRUCT<b: INT>>", ParsePolicy(), '{"A":[{"B":1}]}', {"a": [{"b": 1}]}),
    ("m MAP<STRING, INT>", ParsePolicy(), '{"M":{"x":1,"X":2}}', {"m": [("x", 1), ("X", 2)]}),
    ("`ä` INT", ParsePolicy(), '{"Ä":1}', {"ä": None}),
    ("user_id INT", SNAKE, '{"userID":1}', {"user_id": 1}),
    ("user_id INT", ParsePolicy(), '{"userID":1}', {"user_id": None}),
    ("s STRUCT<b_c: INT>", SNAKE, '{"s":{"b c":1}}', {"s": {"b_c": 1}}),
    ("m MAP<STRING, INT>", SNAKE, '{"m":{"userID":1}}', {"m": [("userID", 1)]}),
    ("id INT, s STRUCT<b: INT>", MAP, '{"userId":1,"s":{"B C":2}}', {"id": 1, "s": {"b": 2}}),
    ("id INT, s STRUCT<b: INT>", MAP, '{"USERID":1,"S":{"b c":2}}', {"id": 1, "s": {"b": 2}}),
    ("a INT", RESCUE, '{"A":"x"}', {"a": None, "_rescued_data": '{"A":"x"}'}),
    ("s STRUCT<b: INT>", RESCUE, '{"S":{"B":"x","c":1}}', {"s": {"b": None}, "_rescued_data": '{"S.c":1,"S.B":"x"}'}),
    ("id INT", KEEPS_REST, '{"x":1,"y":null,"id":2}', {"id": 2, "_rescued_data": '{"x":1}'}),
    ("id INT", KEEPS_REST, '{"x":null,"id":2}', {"id": 2, "_rescued_data": None}),
    ("id INT", RESCUE, '{"x":null,"id":2}', {"id": 2, "_rescued_data": '{"x":null}'}),
]


@pytest.mark.parametrize(("ddl", "policy", "line", "row"), ROWS)
def test_a_key_goes_to_the_one_column_it_can_mean(
    ddl: str, policy: ParsePolicy, line: str, row: dict[str, Any]
) -> None:
    assert RecordReader(parse_ddl(ddl), policy).read(line.encode()) == row


@pytest.mark.parametrize(
    ("ddl", "policy", "line", "column"),
    [
        ("id INT", ParsePolicy(), '{"id":1,"ID":1}', "id"),
        ("id INT", ParsePolicy(), '{"Id":1,"ID":1}', "id"),
        ("s STRUCT<a: INT>", ParsePolicy(), '{"s":{"a":1,"A":null}}', "s.a"),
        ("user_id INT", SNAKE, '{"userId":1,"user_id":1}', "user_id"),
        ("id INT", MAP, '{"userId":1,"id":1}', "id"),
        ("id INT", RESCUE, '{"id":"x","ID":1}', "id"),
    ],
)
def test_two_keys_for_one_column_make_the_line_bad(ddl: str, policy: ParsePolicy, line: str, column: str) -> None:
    with pytest.raises(LineError) as caught:
        RecordReader(parse_ddl(ddl), policy).read(line.encode())
    assert (caught.value.kind, caught.value.column) == ("duplicate_key", column)


def test_a_key_that_could_mean_two_columns_means_none() -> None:
    reader = RecordReader(parse_ddl("a INT, b INT"), ParsePolicy(rename={("a",): "b"}))
    assert reader.read(b'{"A":1}') == {"a": None, "b": None}
    assert reader.undeclared == [(("A",), "1")]


def test_undeclared_fields_are_told_struct_by_struct_each_time_they_are_met() -> None:
    reader = RecordReader(parse_ddl("s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"))
    reader.read(b'{"m":{"k":{"u":1}},"l":[{"t":1},{"t":null}],"s":{"v":2},"x":1,"x":2,"S2":{"y":1}}')
    assert reader.undeclared == [
        (("x",), "1"),
        (("x",), "2"),
        (("S2",), [("y", "1")]),
        (("s", "v"), "2"),
        (("l", "element", "t"), "1"),
        (("l", "element", "t"), None),
        (("m", "value", "u"), "1"),
    ]
    reader.read(b"{}")
    assert reader.undeclared == []


def test_what_is_inside_a_rescued_value_is_not_told() -> None:
    schema = parse_ddl("l ARRAY<STRUCT<a: INT, t: TIMESTAMP>>, t TIMESTAMP")
    reader = RecordReader(schema, RESCUE)
    nine = "2024-01-01T00:00:00.123456789Z"
    record = reader.read(f'{{"l":[{{"u":1,"t":"{nine}"}},"x"],"t":"{nine}"}}'.encode())
    assert record["l"] is None
    assert (reader.undeclared, reader.cut) == ([], [("t",)])


def test_under_bad_an_undeclared_field_is_named_as_it_is_written() -> None:
    with pytest.raises(LineError) as caught:
        RecordReader(parse_ddl("s STRUCT<a: INT>"), ParsePolicy(unknown=Unknown.BAD)).read(b'{"S":{"A":1,"Bc":2}}')
    assert (caught.value.kind, caught.value.column) == ("unknown_field", "s.Bc")
