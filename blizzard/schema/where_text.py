"""Values from texts, for a condition: `'2024-01-31'` as a date, `'12'` as a number. What is not one exactly is None."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any

from blizzard.schema.formats import ISO, parse_format

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?", re.ASCII)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_FIRST_US, _END_US = (date.min.toordinal() - _EPOCH_DAY) * _DAY_US, (date.max.toordinal() + 1 - _EPOCH_DAY) * _DAY_US


def value_of(text: str, type_name: str) -> Any:
    """As `Literal.value` has it. None: the text is no such value."""
    return reader_of(type_name)(text)


def reader_of(type_name: str) -> Callable[[str], Any]:
    """Reads texts into values of this type. Not for decimals."""
    match type_name:
        case "string":
            return str
        case "boolean":
            return lambda text: {"true": True, "false": False}.get(text.lower())
        case "float":
            return _single
        case "double":
            return _number
        case "date":
            return _day
        case "timestamp" | "timestamp_ntz":
            return lambda text: _microsecond(text, type_name)
        case _:
            return lambda text: _integer(text, INTEGER_BITS[type_name])


def in_range(value: int, type_name: str) -> bool:
    limit = 1 << (INTEGER_BITS[type_name] - 1)
    return -limit <= value < limit


def _integer(text: str, bits: int) -> int | None:
    limit = 1 << (bits - 1)
    return value if _INTEGER.fullmatch(text) and -limit <= (value := int(text)) < limit else None


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _single(text: str) -> float | None:
    """The FLOAT that is nearest, for it is compared as DOUBLE."""
    value = _number(text)
    try:
        return None if value is None else float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def _day_number(year: str, month: str, day: str) -> int | None:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:  # there is no such day
        return None


def _day(text: str) -> int | None:
    found = _pattern("date").fullmatch(text)
    return None if found is None else _day_number(found["year"], found["month"], found["day"])


def _microsecond(text: str, type_name: str) -> int | None:
    """Without a zone the text is taken for UTC. Further digits are cut, as in a record."""
    found = _pattern(type_name).fullmatch(text)
    if found is None:
        return None
    part = found.groupdict("0")
    day = _day_number(part["year"], part["month"], part["day"])
    hour, minute, second = (int(part[name]) for name in ("hour", "minute", "second"))
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    instant = day * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + int(part["fraction"][:6].ljust(6, "0"))
    ahead = _minutes_ahead(part.get("zone", "0"))
    if ahead is None:
        return None
    instant -= ahead * 60_000_000
    return instant if _FIRST_US <= instant < _END_US else None


def _minutes_ahead(zone: str) -> int | None:
    if zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)


@lru_cache(maxsize=8)
def _pattern(type_name: str) -> re.Pattern[str]:
    regex = parse_format(ISO, type_name).regex
    assert regex is not None
    return regex
