"""The oracle itself: it says what the contract says, and it notices every way of losing a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from tests.producers.accounting import Landed, differences
from tests.producers.oracle import Bad, Oracle
from tests.producers.stored import json_text, parse, records_of


def column(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
UTC = timezone.utc


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "7", 7),
        ("long", "-9223372036854775808", -(2**63)),
        ("long", "9223372036854775808", None),
        ("long", "1.0", None),
        ("long", '"1"', None),
        ("long", "true", None),
        ("double", "1", 1.0),
        ("double", "1e999", None),
        ("boolean", "0", None),
        ("string", "1.50", "1.50"),
        ("string", '{"b": [1, "\\u00e9"], "a": null}', '{"b":[1,"é"],"a":null}'),
        ("string", '"x"', "x"),
        ("decimal(38,0)", "18446744073709551615", Decimal(2**64 - 1)),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(38,0)", "9" * 39, None),
        ("decimal(10,2)", '"-.5"', Decimal("-0.5")),
        ("decimal(10,2)", "1.555", None),
        ("date", '"2026-02-28"', date(2026, 2, 28)),
        ("date", '"2026-02-30"', None),
        ("timestamp", '"2026-02-28T23:00:00.1234569-0130"', datetime(2026, 3, 1, 0, 30, 0, 123456, tzinfo=UTC)),
        ("timestamp", '"2026-02-28 23:00"', datetime(2026, 2, 28, 23, tzinfo=UTC)),
        ("timestamp", '"2026-02-28T23:00:60Z"', None),
        ("timestamp", "5", None),
        ("timestamp_ntz", '"2026-02-28T23:00:00"', datetime(2026, 2, 28, 23)),
        ("timestamp_ntz", '"2026-02-28T23:00:00Z"', None),
        (array("long"), "[1,null]", [1, None]),
        (array("long"), '{"a":1}', None),
        (MAP, '{"b":1,"a":null}', [("b", 1), ("a", None)]),
        (MAP, "[]", None),
        (struct(column("a", "long")), "{}", {"a": None}),
        (struct(column("a", "long")), '"{}"', None),
    ],
)
def test_values(kind: Any, text: str, value: Any) -> None:
    oracle, record = Oracle(schema=struct(column("x", kind))), parse(f'{{"x": {text}}}')
    if value is not None:
        assert oracle.row(record).columns == {"x": value}
        return
    with pytest.raises(Bad) as bad:
        oracle.row(record)
    assert (bad.value.kind, bad.value.column) == ("bad_value", "x")


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        ("epoch_s", "1591367999.3059889", datetime(2020, 6, 5, 14, 39, 59, 305988, tzinfo=UTC)),
        ("epoch_ms", "-1", datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("epoch_ns", '"1591367999305988999"', datetime(2020, 6, 5, 14, 39, 59, 305988, tzinfo=UTC)),
        ("clf", '"06/Nov/1994:08:49:37 -0130"', datetime(1994, 11, 6, 10, 19, 37, tzinfo=UTC)),
    ],
)
def test_times_in_other_forms(form: str, text: str, value: datetime) -> None:
    oracle = Oracle(schema=struct(column("x", "timestamp")), formats={"x": form})
    assert oracle.row(parse(f'{{"x": {text}}}')).columns == {"x": value}


def test_names_and_what_has_no_column() -> None:
    oracle = Oracle(schema=struct(column("Id", "long"), column("s", array(struct(column("k", "long"))))))
    row = oracle.row(parse('{"ID":1,"s":[{"K":2,"a b":[]}],"n":null,"é":{"x": 1.0}}'))
    assert row.columns == {"Id": 1, "s": [{"k": 2}]}
    assert set(row.rescued) == {("s[0].`a b`", "[]"), ("`é`", '{"x":1.0}')}
    for text, kind, where in [
        ('{"id":1,"ID":1}', "duplicate_key", "Id"),
        ('{"s":[{"k":1,"K":null}]}', "duplicate_key", "s.element.k"),
        ("[1]", "not_object", None),
    ]:
        with pytest.raises(Bad) as bad:
            oracle.row(parse(text))
        assert (bad.value.kind, bad.value.column) == (kind, where)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":1}\n{"a":2.50}\n',
        b'\xef\xbb\xbf\r\n{"a":1}\r\n\r\n{"a":2.50}',
        b'{"a":1}{"a":2.50}',
        b'[{"a":1},\n{"a":2.50}\n]\n',
        b'{"Records":[{"a":1}]}{"Records":[{"a":2.50}]}',
        b'\x1e{"a":\n1}\n\x1e{"a":2.50}\n',
        '{"a":1}\n{"a":2.50}'.encode("utf-16"),
    ],
)
def test_every_framing_holds_the_same_records(content: bytes) -> None:
    assert [json_text(record) for record in records_of(content, "Records")] == ['{"a":1}', '{"a":2.50}']


SCHEMA = struct(column("id", "long"), column("s", struct(column("x", "double"))), column("_rescued_data", "string"))
RECORDS = [parse('{"id":1,"s":{"x":0.5},"y":[]}'), parse('{"id":2,"s":{}}'), parse('{"id":"no"}')]
GOOD = Landed(
    schema=SCHEMA,
    rows=[
        {"id": 2, "s": {"x": None}, "_rescued_data": None},
        {"id": 1, "s": {"x": 0.5}, "_rescued_data": '{"y":[]}'},
    ],
    quarantined=[{"error_kind": "bad_value", "column": "id", "raw": b'{"id": "no"}'}],
)


def test_what_is_right_differs_in_nothing() -> None:
    assert differences(RECORDS, GOOD) == []


def changed(number: int, **values: Any) -> Callable[[Landed], Landed]:
    def change(landed: Landed) -> Landed:
        rows = [row | values if i == number else row for i, row in enumerate(landed.rows)]
        return replace(landed, rows=rows)

    return change


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda good: replace(good, rows=good.rows[:1]), 'no row for {"id":1,"s":{"x":0.5},"y":[]}'),
        (lambda good: replace(good, rows=[*good.rows, good.rows[0]]), "a row that no record explains"),
        (changed(0, s=None), "s: expected {'x': None}, got None"),
        (changed(1, s={"x": 0.25}), "s.x: expected 0.5, got 0.25"),
        (changed(1, s={"x": None}), "s.x: expected 0.5, got None"),
        (changed(1, _rescued_data=None), "_rescued_data: expected Counter({('y', '[]'): 1}), got None"),
        (changed(1, _rescued_data='{"y":{}}'), "_rescued_data: expected Counter({('y', '[]'): 1})"),
        (changed(0, _rescued_data='{"y":1}'), "_rescued_data: expected None"),
        (lambda good: replace(good, quarantined=[]), 'not in quarantine: bad_value id: {"id":"no"}'),
        (
            lambda good: replace(good, quarantined=[*good.quarantined, good.quarantined[0]]),
            'in quarantine, but good: bad_value id: {"id":"no"}',
        ),
        (
            lambda good: replace(good, quarantined=[good.quarantined[0] | {"error_kind": "not_json"}]),
            'in quarantine, but good: not_json id: {"id":"no"}',
        ),
    ],
)
def test_whatever_is_lost_doubled_or_changed_is_named(break_it: Callable[[Landed], Landed], said: str) -> None:
    assert said in "\n".join(differences(RECORDS, break_it(GOOD)))
