"""Compares a table and its quarantine with the records of the source: each record is in one of them, once, whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable

from tests.ingesting import is_table
from tests.producers.oracle import RESCUED, Bad, Oracle, Row, quoted
from tests.producers.stored import Members, json_text, parse

Values: TypeAlias = dict[str, Any]

_SHOWN = 5
_EXACT = Context(prec=100)  # the default one rounds to 28 digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What a run left behind."""

    schema: Mapping[str, Any]
    rows: Sequence[Values]
    quarantined: Sequence[Values]

    @staticmethod
    def read(table: Path) -> Landed:
        """As delta-rs reads it."""
        opened = DeltaTable(str(table))
        return Landed(
            schema=json.loads(opened.schema().to_json()),
            rows=rows_of(opened.to_pyarrow_table()),
            quarantined=quarantine_of(table),
        )


def quarantine_of(table: Path) -> list[Values]:
    """The rows of the quarantine table beside this one."""
    folder = table.with_name(table.name + "_quarantine")
    if not is_table(folder):
        return []
    rows: list[Values] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return rows


def rows_of(table: pa.Table) -> list[Values]:
    rows: list[Values] = table.to_pylist()
    return rows


def differences(records: Iterable[Any], landed: Landed, formats: Mapping[str, str] | None = None) -> list[str]:
    """What is not as the contract says; empty if every value of every record is accounted for."""
    oracle = Oracle(schema=landed.schema, formats=formats or {})
    expected: list[tuple[Any, Row]] = []
    bad: Counter[tuple[str, str | None, str]] = Counter()
    for record in records:
        try:
            expected.append((record, oracle.row(record)))
        except Bad as e:
            bad[e.kind, e.column, json_text(record)] += 1
    return [*_differing_rows(expected, landed.rows), *_differing_quarantine(bad, landed.quarantined)]


def _differing_rows(expected: Sequence[tuple[Any, Row]], rows: Sequence[Values]) -> list[str]:
    """Rows have no order: they are compared as a bag, and what is left over is shown beside what comes nearest."""
    there: Counter[Any] = Counter(_plain_row(row) for row in rows)
    missing: list[tuple[Any, dict[str, Any]]] = []
    for record, good in expected:
        whole = _with_rescued(good)
        if there[_plain_row(whole)]:
            there[_plain_row(whole)] -= 1
        else:
            missing.append((record, whole))
    extra: list[Values] = []
    for row in rows:
        if there[_plain_row(row)]:
            there[_plain_row(row)] -= 1
            extra.append(row)
    found = [f"{len(expected)} records, {len(rows)} rows"] if len(expected) != len(rows) else []
    for record, whole in missing[:_SHOWN]:
        found += _beside_the_nearest(record, whole, extra)
    if not missing:
        found += [f"a row that no record explains: {row}" for row in extra[:_SHOWN]]
    return found


def _with_rescued(row: Row) -> dict[str, Any]:
    return row.columns | ({RESCUED: row.rescued} if row.rescued else {})


def _beside_the_nearest(record: Any, row: dict[str, Any], extra: Sequence[Values]) -> list[str]:
    shown = json_text(record)[:300]
    if not extra:
        return [f"no row for {shown}"]
    nearest = min(extra, key=lambda other: len(list(_paths_that_differ(row, other))))
    return [f"{path}: expected {a!r}, got {b!r}, in {shown}" for path, a, b in _paths_that_differ(row, nearest)]


def _paths_that_differ(a: Any, b: Any, path: str = "") -> Iterable[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict) and path != RESCUED:
        for name in dict.fromkeys([*a, *b]):
            yield from _paths_that_differ(a.get(name), b.get(name), f"{path}.{quoted(name)}".removeprefix("."))
    elif _plain_row({path: a}) != _plain_row({path: b}):
        yield path, a, b


def _differing_quarantine(expected: Counter[tuple[str, str | None, str]], rows: Sequence[Values]) -> list[str]:
    there = Counter(
        (row["error_kind"], row["column"], json_text(parse((row["raw"] or b"null").decode()))) for row in rows
    )
    return [
        *(f"not in quarantine: {kind} {column}: {text[:300]}" for kind, column, text in (expected - there)),
        *(f"in quarantine, but good: {kind} {column}: {text[:300]}" for kind, column, text in (there - expected)),
    ]


def _plain_row(row: Mapping[str, Any]) -> Any:
    """The row as something that can be hashed."""
    return tuple(
        (name, frozenset(_rescued(item).items()) if name == RESCUED else _plain(item))
        for name, item in row.items()
        if item is not None
    )


def _rescued(value: Any) -> Counter[tuple[str, str]]:
    """What the rescued column holds, by path. The order of its members says nothing."""
    if isinstance(value, Counter):
        return value
    members = parse(value)
    assert isinstance(members, Members)
    return Counter((name, json_text(item)) for name, item in members)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return tuple((name, _plain(item)) for name, item in value.items() if item is not None)
        case list() | tuple():
            return (len(value), *map(_plain, value))
        case bool():
            return ("boolean", value)
        case float():
            return ("double", repr(value))
        case int() | Decimal():
            return ("number", Decimal(value).normalize(_EXACT))
        case datetime() if value.tzinfo is not None:
            return ("instant", value.astimezone(timezone.utc))
        case _:
            return value
