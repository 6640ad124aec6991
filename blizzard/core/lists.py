"""Lists of names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 5


def some(names: Sequence[str], at_most: int = _SHOWN) -> str:
    return ", ".join(names[:at_most]) + (", …" if len(names) > at_most else "")


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
