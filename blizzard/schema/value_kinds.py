"""Which kind of value a parsed JSON value is, and the one type that takes several kinds.

Pure. Inference from a sample and columns that are added later both decide by it, so they propose the same types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from datetime import date, datetime, timedelta
from math import isfinite
from typing import Any

from blizzard.schema.json_values import JsonInteger, JsonObject, JsonReal

# Spark 3.5 and 4.1 read a table with one of these in a column's name, append to it, OPTIMIZE it and DELETE from it
# (tests/spark/test_column_names.py). But they make no such table and change no such schema, unless it maps columns,
# which blizzard does not.
UNUSABLE_BY_SPARK = re.compile(r"[ ,;{}()=]")
# An object with more different keys than this is used as a map.
MANY_KEYS = 200

_NUMBERS = frozenset({"long", "large", "decimal", "double"})
# Integers beyond these are not all doubles: 9007199254740993 would become ...992.
_EXACT_DOUBLES = range(-(2**53), 2**53 + 1)
_INT64 = range(-(2**63), 2**63)
_DECIMAL38 = range(-(10**38) + 1, 10**38)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Capital T and Z and at most microseconds: what TIMESTAMP keeps exactly. Anything else stays a STRING.
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6}0*)?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)


def kind_of(value: Any) -> str:
    """null, boolean, long, large, decimal, double, huge, date, timestamp, text, object or array; else TypeError.

    `large` is a 64-bit integer that a double may not hold exactly, `huge` a number that no type holds.
    """
    match value:
        case None:
            return "null"
        case JsonInteger():
            # No type holds 40 digits, and int() refuses 4,301.
            return kind_of(int(value)) if len(value) <= 40 else "huge"
        case JsonReal():
            return kind_of(float(value))
        case bool():
            return "boolean"
        case int():
            if value in _EXACT_DOUBLES:
                return "long"
            return "large" if value in _INT64 else "decimal" if value in _DECIMAL38 else "huge"
        case float():
            return "double" if isfinite(value) else "huge"
        case str():
            return _kind_of_text(value)
        case Mapping() | JsonObject():
            return "object"
        case list():
            return "array"
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")


def scalar_type(kinds: Set[str]) -> str:
    """The type that takes values of all these kinds. STRING, which keeps their JSON text, where no other does."""
    if kinds <= _NUMBERS:
        if "double" in kinds:
            return "string" if kinds & {"large", "decimal"} else "double"
        return "decimal(38,0)" if "decimal" in kinds else "long"
    if len(kinds) == 1 and kinds <= {"boolean", "date", "timestamp"}:
        return next(iter(kinds))
    return "string"


def _kind_of_text(value: str) -> str:
    try:
        if _DATE.fullmatch(value):
            date.fromisoformat(value)
            return "date"
        if match := _DATE_TIME.fullmatch(value):
            local, sign, hours, minutes = match.groups()
            moment = datetime.fromisoformat(local)
            ahead = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
            # In UTC it must still be in the years 1 to 9999.
            moment = moment + ahead if sign == "-" else moment - ahead
            return "timestamp"
    except (ValueError, OverflowError):
        pass
    return "text"
