"""Converts one JSON scalar into each type, or says that the type cannot hold it.

Never cuts, wraps or guesses. Only floating point rounds, to the nearest.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from blizzard.tasks.syntax import JsonInteger, JsonReal, compact_json

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
FIRST_US = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_US
LAST_US = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_US - 1

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_DAY, _ZONE = r"(\d{4})-(\d\d)-(\d\d)", r"(Z|[+-]\d\d(?::?\d\d)?)?"
_CLOCK = r"[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
# The form of the text only, not whether such a day exists. The syntax is valid in RE2 too.
PATTERNS = {"date": _DAY, "timestamp": f"{_DAY}(?:{_CLOCK}{_ZONE})?", "timestamp_ntz": f"{_DAY}(?:{_CLOCK})?"}

_DATE, _TIMESTAMP, _TIMESTAMP_NTZ = (re.compile(pattern, re.ASCII) for pattern in PATTERNS.values())
_DECIMAL = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)


def to_integer(value: Any, limit: int) -> int | None:
    """The integer, if it is from -limit up to but not including limit."""
    # 20 characters hold every long; int() of a longer text would take quadratic time, or refuse.
    if type(value) is not JsonInteger or len(value) > 20:
        return None
    number = int(value)
    return number if -limit <= number < limit else None


def _to_double(value: Any) -> float | None:
    if type(value) is not JsonInteger and type(value) is not JsonReal:
        return None
    number = float(value)
    return number if isfinite(number) else None


def _to_float(value: Any) -> float | None:
    if type(value) is not JsonInteger and type(value) is not JsonReal:
        return None
    # Going through a double would round twice: 1.000000059604644775390626 must be 1.0000001, not 1.0.
    number: float = pa.scalar(str(value)).cast(pa.float32()).as_py()
    return number if isfinite(number) else None


def to_decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """The number as an exact decimal(precision, scale), or None."""
    if not isinstance(value, str) or (match := _DECIMAL.fullmatch(value)) is None:
        return None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return Decimal(0)
    exponent_digits = exponent.lstrip("+-0")
    # A line cannot hold a billion digits, so an exponent of ten digits never fits.
    if len(significant) > precision or len(exponent_digits) > 9:
        return None
    power = int(exponent) - len(fraction) + len(digits) - len(significant)
    if power < -scale or len(significant) + power > precision - scale:
        return None
    return Decimal(f"{sign}{significant}E{power}")


def _to_boolean(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _to_string(value: Any) -> str | None:
    return value if type(value) is str else None


def to_text(value: Any) -> str:
    """A string as it is, anything else as its JSON text."""
    return value if type(value) is str else compact_json(value)


def _to_binary(value: Any) -> bytes | None:
    if type(value) is not str:
        return None
    return from_base64(value)


def from_base64(text: str) -> bytes | None:
    """The bytes, if the text is their one canonical base64 form. Decoders skip unknown characters; this does not."""
    try:
        content = binascii.a2b_base64(text)
    except ValueError:
        return None
    return content if base64.b64encode(content).decode("ascii") == text else None


def _days(year: str, month: str, day: str) -> int:
    return date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL


def _to_date(value: Any) -> int | None:
    if type(value) is not str or (match := _DATE.fullmatch(value)) is None:
        return None
    return _days(match[1], match[2], match[3])


def _to_timestamp(value: Any) -> int | None:
    """Microseconds since 1970 in UTC; without a zone the text is taken for UTC."""
    if type(value) is not str or (match := _TIMESTAMP.fullmatch(value)) is None:
        return None
    instant = _to_instant(match)
    zone = match[8] or "Z"
    if instant is not None and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
        if hours > 23 or minutes > 59:
            return None
        ahead = (hours * 60 + minutes) * 60_000_000
        instant += ahead if zone[0] == "-" else -ahead
    return instant if instant is not None and FIRST_US <= instant <= LAST_US else None


def _to_timestamp_ntz(value: Any) -> int | None:
    if type(value) is not str or (match := _TIMESTAMP_NTZ.fullmatch(value)) is None:
        return None
    return _to_instant(match)


def _to_instant(match: re.Match[str]) -> int | None:
    hour, minute, second = int(match[4] or 0), int(match[5] or 0), int(match[6] or 0)
    fraction = (match[7] or "").rstrip("0")
    if hour > 23 or minute > 59 or second > 59 or len(fraction) > 6:
        return None
    seconds = _days(match[1], match[2], match[3]) * 86_400 + (hour * 60 + minute) * 60 + second
    return seconds * 1_000_000 + int(fraction.ljust(6, "0"))


SCALARS: dict[str, Callable[[Any], Any]] = {
    "boolean": _to_boolean,
    "float": _to_float,
    "double": _to_double,
    "string": _to_string,
    "binary": _to_binary,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "timestamp_ntz": _to_timestamp_ntz,
}
