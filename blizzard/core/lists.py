"""Lists of names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 5


def some(names: Sequence[str], at_most: int = _SHOWN) -> str:
    return ", ".join(names[:at_most]) + (", …" if len(names) > at_most else "")


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `2 batches`."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def first_of(number: int, noun: str) -> str:
    """`first line`, `first 2 lines`."""
    return f"first {noun if number == 1 else count(number, noun)}"


def count_are(number: int, noun: str) -> str:
    """`1 file is`, `2 files are`."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


_COLUMNS_SHOWN = 40
_COLUMN_CHARS = 160


def cut_columns(columns: Sequence[str]) -> list[str]:
    """Definitions of columns for a person: a line for each, cut where it is long, and only the first of many."""
    lines = [
        column if len(column) <= _COLUMN_CHARS else f"{column[:_COLUMN_CHARS]}… ({len(column):,} characters)"
        for column in columns[:_COLUMNS_SHOWN]
    ]
    more = len(columns) - len(lines)
    return [*lines, f"… and {count(more, 'more column')}"] if more else lines
