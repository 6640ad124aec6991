"""Rows as a table that fits the terminal: long values are cut, and columns without room are named below it."""

from __future__ import annotations

import base64
import datetime as dt
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from blizzard.core.lists import some
from blizzard.text.shown import printable

_GAP = "  "
_WIDEST = 40
_NARROWEST = 6
_CUT = "…"
_NAMES_BELOW = 12


def row_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, width: int) -> list[str]:
    """Lines of at most `width` columns of the terminal. They hold no control character."""
    cells = [[printable(name) for name in columns], *([cell_text(row[name]) for name in columns] for row in rows)]
    widths = _fitting([max(_width_of(row[i]) for row in cells) for i in range(len(columns))], width)
    lines = [_GAP.join(_padded(cell, size) for cell, size in zip(row, widths, strict=False)).rstrip() for row in cells]
    left_out = [printable(name) for name in columns[len(widths) :]]
    if left_out:
        lines.append(_cut(f"{_CUT} and {len(left_out):,} more columns: {some(left_out, _NAMES_BELOW)}", width))
    return lines


def cell_text(value: Any) -> str:
    """A value on one line. Objects and arrays are shown as JSON."""
    match value:
        case None:
            return "null"
        case str():
            return printable(value)
        case bool():
            return str(value).lower()
        case list() | tuple() | dict():
            return printable(orjson.dumps(plain_value(value)).decode())
        case _:
            return printable(str(plain_value(value)))


def plain_value(value: Any) -> Any:
    """The value as JSON can hold it. A map is a list of its entries: their order is data."""
    match value:
        case dt.datetime():
            return value.isoformat(sep=" ").replace("+00:00", "Z")
        case dt.date() | Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [plain_value(item) for item in value]
        case tuple() if len(value) == 2:  # an entry of a map
            return [plain_value(item) for item in value]
        case dict():
            return {name: plain_value(item) for name, item in value.items()}
        case _:
            return value


def _fitting(wanted: Sequence[int], width: int) -> list[int]:
    """The widths of as many columns as fit. The widest give way first."""
    widths = [min(size, _WIDEST) for size in wanted]
    while widths and _total(widths) > width:
        widest = max(widths)
        if widest <= _NARROWEST and len(widths) > 1:
            widths.pop()
        elif widest <= _NARROWEST:
            return [max(1, width)]
        else:
            widths[widths.index(widest)] -= min(widest - _NARROWEST, _total(widths) - width)
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _padded(text: str, size: int) -> str:
    text = _cut(text, size)
    return text + " " * (size - _width_of(text))


def _cut(text: str, size: int) -> str:
    if _width_of(text) <= size:
        return text
    kept, used = [], len(_CUT)
    for character in text:
        used += _width_of(character)
        if used > size:
            break
        kept.append(character)
    return "".join(kept) + _CUT


def _width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
