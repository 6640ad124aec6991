"""Converts one JSON scalar into each type, or says that the type cannot hold it.

Never wraps or guesses. Floating point rounds, to the nearest; times are cut to microseconds, and it is said that they
were.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa

from blizzard.schema.formats import EPOCHS, MONTHS, TimeFormat
from blizzard.tasks.policy import Coercion
from blizzard.tasks.syntax import JsonInteger, JsonReal, compact_json

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
FIRST_US = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_US
LAST_US = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_US - 1

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_DECIMAL = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
# As JSON writes a number.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_SMALL_EXPONENT = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?")
# No time that can be stored has more digits of microseconds.
_TIME_DIGITS = 18

# Microseconds since 1970, and whether digits were cut off. None: not such a time.
Instant: TypeAlias = tuple[int, bool] | None


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


def integer_of(limit: int, coercions: frozenset[Coercion]) -> Callable[[Any], int | None]:
    """Integers from -limit up to but not including limit."""
    in_strings, integral = Coercion.NUMBERS_IN_STRINGS in coercions, Coercion.INTEGRAL_FLOATS in coercions

    def convert(value: Any) -> int | None:
        kind = type(value)
        if in_strings and kind is str:
            value = number_in(value)
            kind = type(value)
        # 20 characters hold every long; int() of a longer text would take quadratic time, or refuse.
        if kind is JsonInteger and len(value) <= 20:
            number = int(value)
            return number if -limit <= number < limit else None
        if integral and kind is JsonReal and _SMALL_EXPONENT.fullmatch(value):
            exact = to_decimal(value, 19, 0)
            return int(exact) if exact is not None and -limit <= exact < limit else None
        return None

    return convert


def number_in(text: str) -> Any:
    """The number that the text is, as JSON would write it; else None."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else JsonReal(text) if match[1] else JsonInteger(text)


def double_of(coercions: frozenset[Coercion]) -> Callable[[Any], float | None]:
    in_strings = Coercion.NUMBERS_IN_STRINGS in coercions

    def convert(value: Any) -> float | None:
        kind = type(value)
        if in_strings and kind is str:
            value = number_in(value)
            kind = type(value)
        if kind is not JsonReal and kind is not JsonInteger:
            return None
        number = float(value)
        return number if isfinite(number) else None

    return convert


def float_of(coercions: frozenset[Coercion]) -> Callable[[Any], float | None]:
    in_strings = Coercion.NUMBERS_IN_STRINGS in coercions

    def convert(value: Any) -> float | None:
        if in_strings and type(value) is str:
            value = number_in(value)
        if type(value) is not JsonInteger and type(value) is not JsonReal:
            return None
        # Going through a double would round twice: 1.000000059604644775390626 must be 1.0000001, not 1.0.
        number: float = pa.scalar(str(value)).cast(pa.float32()).as_py()
        return number if isfinite(number) else None

    return convert


def boolean_of(coercions: frozenset[Coercion]) -> Callable[[Any], bool | None]:
    takes_numbers = Coercion.BOOLEANS_0_1 in coercions
    in_strings = takes_numbers and Coercion.NUMBERS_IN_STRINGS in coercions

    def convert(value: Any) -> bool | None:
        if type(value) is bool:
            return value
        if in_strings and type(value) is str:
            value = number_in(value)
        if takes_numbers and type(value) is JsonInteger and value in ("0", "-0", "1"):
            return str(value) == "1"
        return None

    return convert


def to_string(value: Any) -> str | None:
    return value if type(value) is str else None


def to_text(value: Any) -> str:
    """A string as it is, anything else as its JSON text."""
    return value if type(value) is str else compact_json(value)


def to_binary(value: Any) -> bytes | None:
    return from_base64(value) if type(value) is str else None


def from_base64(text: str) -> bytes | None:
    """The bytes, if the text is their one canonical base64 form. Decoders skip unknown characters; this does not."""
    try:
        content = binascii.a2b_base64(text)
    except ValueError:
        return None
    return content if base64.b64encode(content).decode("ascii") == text else None


@lru_cache(maxsize=4096)
def _days(year: str, month: str, day: str) -> int:
    number = int(month) if month.isdigit() else _MONTH_NUMBERS[month[:3].lower()]
    return date(int(year), number, int(day)).toordinal() - _EPOCH_ORDINAL


_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_AFTERNOON = ("PM", "pm", "Pm", "pM")


def read_day(match: re.Match[str]) -> int | None:
    """Days since 1970."""
    try:
        return _days(match["year"], match["month"], match["day"])
    except ValueError:  # there is no such day
        return None


@lru_cache(maxsize=4096)
def _seconds_of_day(hour: str, minute: str, second: str) -> int | None:
    """None if the clock does not show this."""
    hours, minutes, seconds = int(hour), int(minute), int(second)
    return (hours * 60 + minutes) * 60 + seconds if hours <= 23 and minutes <= 59 and seconds <= 59 else None


def _hour_of_day(hour12: str, half: str) -> str:
    """24, which is no hour, if the clock does not show it."""
    number = int(hour12)
    return str(number % 12 + (12 if half in _AFTERNOON else 0)) if 1 <= number <= 12 else "24"


def read_time(match: re.Match[str]) -> Instant:
    """Without a zone the text is taken for UTC."""
    part = match.groupdict("0").get
    half, fraction, zone = part("half"), part("fraction", "0"), part("zone", "0")
    hour = part("hour", "0") if half is None else _hour_of_day(match["hour12"], half)
    day_seconds = _seconds_of_day(hour, part("minute", "0"), part("second", "0"))
    days = read_day(match)
    if days is None or day_seconds is None:
        return None
    seconds = days * 86_400 + day_seconds
    if zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
        if hours > 23 or minutes > 59:
            return None
        ahead = hours * 3600 + minutes * 60
        seconds += ahead if zone[0] == "-" else -ahead
    instant = seconds * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    if not FIRST_US <= instant <= LAST_US:
        return None
    return instant, len(fraction) > 6 and bool(fraction[6:].strip("0"))


def read_epoch(text: str, power: int) -> Instant:
    """The number times ten to `power`, as microseconds, rounded down. Exact, whatever its length."""
    match = _SMALL_EXPONENT.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0, False
    power += int(exponent) - len(fraction) + len(digits) - len(significant)
    length = len(significant) + power  # of the microseconds before the point
    if length > _TIME_DIGITS:
        return None
    number = int(significant) * 10**power if power >= 0 else int(significant[: max(length, 0)] or "0")
    is_cut = power < 0
    instant = -number - is_cut if sign else number
    return (instant, is_cut) if FIRST_US <= instant <= LAST_US else None


def time_of(
    formats: tuple[TimeFormat, ...], *, exact: bool, note_cut: Callable[[], None]
) -> Callable[[Any], int | None]:
    """Reads a time in one of these forms; no text is taken by two. `note_cut` is called if digits were cut off."""
    readers = [(f.regex.fullmatch if f.regex is not None else None, EPOCHS.get(f.name, 0)) for f in formats]

    def convert(value: Any) -> int | None:
        kind = type(value)
        found: Instant = None
        for matches, power in readers:
            if matches is None:
                number = number_in(value) if kind is str else value
                found = read_epoch(number, power) if type(number) in (JsonInteger, JsonReal) else None
            elif kind is str and (match := matches(value)) is not None:
                found = read_time(match)
            if found is not None:
                break
        else:
            return None
        if found[1]:
            if exact:
                return None
            note_cut()
        return found[0]

    return convert


def date_of(formats: tuple[TimeFormat, ...]) -> Callable[[Any], int | None]:
    readers = [f.regex.fullmatch for f in formats if f.regex is not None]

    def convert(value: Any) -> int | None:
        if type(value) is str:
            for matches in readers:
                if (match := matches(value)) is not None and (days := read_day(match)) is not None:
                    return days
        return None

    return convert
