"""Which kind of value a parsed JSON value is, and the one type that takes several kinds.

Pure. Inference from a sample and columns that are added later both decide by it, so they propose the same types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from math import isfinite
from typing import Any

from blizzard.schema.json_values import JsonInteger, JsonObject, JsonReal
from blizzard.schema.time_forms import iso_time

# Spark 3.5 and 4.1 read a table with one of these in a column's name, append to it, OPTIMIZE it and DELETE from it
# (tests/spark/test_column_names.py). But they make no such table and change no such schema, unless it maps columns,
# which blizzard does not.
UNUSABLE_BY_SPARK = re.compile(r"[ ,;{}()=]")
# An object with more different keys than this is used as a map.
MANY_KEYS = 200
# Delta writes all columns into every checkpoint, and Spark cannot open a table with a schema of about 20 MB.
MAX_COLUMNS = 5_000

_NUMBERS = frozenset({"long", "large", "decimal", "double"})
# Integers beyond these are not all doubles: 9007199254740993 would become ...992.
_EXACT_DOUBLES = range(-(2**53), 2**53 + 1)
_INT64 = range(-(2**63), 2**63)
_DECIMAL38 = range(-(10**38) + 1, 10**38)
_ZONED = frozenset({"timestamp", "timestamp_ns"})
_LOCAL = frozenset({"local", "local_ns"})
_NANOSECONDS = frozenset({"timestamp_ns", "local_ns"})


def kind_of(value: Any) -> str:
    """null, boolean, long, large, decimal, double, huge, date, timestamp, local, text, object or array; else TypeError.

    `large` is a 64-bit integer that a double may not hold exactly, `huge` a number that no type holds. `local` is a
    time without a zone. A time with a digit beyond a microsecond is `timestamp_ns` or `local_ns`.
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


def scalar_type(kinds: Set[str], *, exact_timestamps: bool = False) -> str:
    """The type that takes values of all these kinds. STRING, which keeps their JSON text, where no other does.

    A TIMESTAMP takes a time without a zone for UTC, and a date for its midnight. Times with and without a zone are not
    put together: nothing would tell them apart afterwards."""
    if kinds <= _NUMBERS:
        if "double" in kinds:
            return "string" if kinds & {"large", "decimal"} else "double"
        return "decimal(38,0)" if "decimal" in kinds else "long"
    if len(kinds) == 1 and kinds <= {"boolean", "date"}:
        return next(iter(kinds))
    if kinds <= _ZONED | {"date"} or kinds <= _LOCAL | {"date"}:
        return "string" if exact_timestamps and kinds & _NANOSECONDS else "timestamp"
    return "string"


def _kind_of_text(value: str) -> str:
    found = iso_time(value) if value[:1].isdigit() else None
    if found is None:
        return "text"
    if found.is_date:
        return "date"
    kind = "timestamp" if found.has_zone else "local"
    return f"{kind}_ns" if found.is_cut else kind
