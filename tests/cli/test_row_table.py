"""The table of rows fits the terminal and is one line a row, whatever the values hold."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from blizzard.cli.row_table import cell_text, row_table

cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=60),
    st.lists(st.text(max_size=5), max_size=3),
)


@given(
    st.lists(st.text(min_size=1, max_size=50), min_size=1, max_size=12, unique=True),
    st.integers(20, 200),
    st.data(),
)
def test_no_line_is_longer_than_the_terminal_or_holds_a_control_character(
    columns: list[str], width: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, cells)), max_size=4))
    lines = row_table(columns, rows, width=width)
    assert all(len(line) <= width and line.isprintable() for line in lines)
    assert len(lines) in (len(rows) + 1, len(rows) + 2)


def test_it_is_aligned_and_long_values_are_cut() -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "text": "a" * 50, "漢字": "漢"},
        {"id": None, "text": "b\x1b[31m", "漢字": True},
    ]
    assert row_table(["id", "text", "漢字"], rows, width=40) == [
        "id    text                          漢字",
        "1     aaaaaaaaaaaaaaaaaaaaaaaaaaa…  漢",
        "null  b\\x1b[31m                     true",
    ]


def test_columns_without_room_are_named_below() -> None:
    columns = [f"column{i}" for i in range(9)]
    lines = row_table(columns, [dict.fromkeys(columns, 123456789)], width=30)
    assert lines[0] == "colum…  colum…  colum…  colum…"
    assert lines[2].startswith("… and 5 more columns: column4")
    assert len(lines[2]) <= 30


def test_every_kind_of_value_has_a_text() -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 600, dt.timezone.utc)
    assert [
        cell_text(value)
        for value in (
            at,
            at.replace(tzinfo=None),
            at.date(),
            Decimal("1.50"),
            b"\x00\xff",
            1.5,
            [("k", at)],
            {"a": [1]},
        )
    ] == [
        "2026-01-02 03:04:05.000600Z",
        "2026-01-02 03:04:05.000600",
        "2026-01-02",
        "1.50",
        "AP8=",
        "1.5",
        '[["k","2026-01-02 03:04:05.000600Z"]]',
        '{"a":[1]}',
    ]
