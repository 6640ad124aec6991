"""Says why a value is not one of its column's type. Only called for values that the type has refused.

It decides nothing: a wrong answer here is a worse message, never another row. Bad lines may be many, so it is cheap.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from blizzard.core.kinds import LineKind
from blizzard.core.reasons import Cause, Reason, advice_for, phrase
from blizzard.schema import ColumnPath, show_path
from blizzard.schema.formats import TIME_TYPES
from blizzard.schema.time_forms import likely_form, looks_iso
from blizzard.tasks.syntax import JsonInteger, JsonObject, JsonReal

_INTEGERS = frozenset(("byte", "short", "integer", "long"))
_REALS = frozenset(("float", "double"))
_CONTAINERS = frozenset(("struct", "array", "map"))
_TIMES = frozenset(TIME_TYPES)

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_FRACTION = re.compile(r"\.([0-9]+)")
# By the digits before the point: the years 2001 to 2286, read as seconds or as parts of one.
_EPOCH_DIGITS = {10: "epoch_s", 13: "epoch_ms", 16: "epoch_us", 19: "epoch_ns"}
_MOST_DIGITS = 99
_LONGEST_EXPONENT = 4  # with its sign
_LONGEST_NUMBER = 400

_Found = tuple[Cause, str]


def why_not(value: Any, expected: str, path: ColumnPath) -> tuple[Reason, str]:
    """The reason, and what a message says of it: nothing, if the value itself says enough."""
    cause, detail = _cause(value, expected)
    return _reason(cause, detail, expected, path)


@lru_cache(maxsize=1024)
def _reason(cause: Cause, detail: str, expected: str, path: ColumnPath) -> tuple[Reason, str]:
    column = show_path(path) if path else None
    reason = Reason(kind=LineKind.BAD_VALUE, column=column, expected=expected, cause=cause, detail=detail)
    best = advice_for(reason)[0]
    if best.for_new_table and cause in (Cause.TEXT, Cause.NUMBER, Cause.BOOLEAN, Cause.OBJECT, Cause.ARRAY):
        return reason, ""
    return reason, f" ({phrase(reason)}; {best})"


def _cause(value: Any, expected: str) -> _Found:
    kind = type(value)
    if kind is str:
        return _cause_of_text(value, expected)
    if kind is JsonInteger or kind is JsonReal:
        return _cause_of_number(value, expected)
    if kind is bool:
        return Cause.BOOLEAN, ""
    return (Cause.OBJECT if kind is JsonObject else Cause.ARRAY), ""


def _cause_of_number(value: str, expected: str) -> _Found:
    if expected in _INTEGERS:
        if type(value) is JsonInteger:
            return Cause.OUT_OF_RANGE, ""
        return (Cause.INTEGRAL_FLOAT if _is_integral(value) else Cause.FRACTION), ""
    if expected in _REALS:
        return Cause.OUT_OF_RANGE, ""
    if expected in _TIMES:
        return Cause.EPOCH, _epoch_unit(value)
    if expected == "boolean" and value in ("0", "1"):
        return Cause.ZERO_OR_ONE, ""
    return (Cause.TOO_MANY_DIGITS if expected.startswith("decimal") else Cause.NUMBER), ""


def _cause_of_text(text: str, expected: str) -> _Found:
    if not text:
        return Cause.EMPTY_TEXT, ""
    if expected in _TIMES:
        return _cause_of_time(text, expected)
    if expected in _CONTAINERS:
        is_json = text[0] in "{[" and text[-1] in "}]" and (text[0] == "[") == (expected == "array")
        return (Cause.JSON_TEXT if is_json else Cause.TEXT), ""
    if expected == "binary":
        return Cause.NOT_BASE64, ""
    if len(text) > _LONGEST_NUMBER or _NUMBER.fullmatch(text) is None:
        return Cause.TEXT, ""
    if expected == "boolean":
        return (Cause.ZERO_OR_ONE, Cause.NUMBER_IN_TEXT.value) if text in ("0", "1") else (Cause.TEXT, "")
    if expected.startswith("decimal"):
        return Cause.TOO_MANY_DIGITS, ""
    if expected in _REALS or text.removeprefix("-").isdigit():
        return Cause.NUMBER_IN_TEXT, ""
    return Cause.NUMBER_IN_TEXT, (Cause.INTEGRAL_FLOAT if _is_integral(text) else Cause.FRACTION).value


def _cause_of_time(text: str, expected: str) -> _Found:
    if looks_iso(text):
        if expected == "date":
            return Cause.TIME_OF_DAY, ""
        if expected == "timestamp_ntz" and (text[-1] == "Z" or "+" in text or text.count("-") > 2):
            return Cause.ZONE, ""
        digits = _FRACTION.search(text)
        if digits is not None and digits[1][6:].strip("0"):
            return Cause.FRACTION_DIGITS, str(min(len(digits[1]), _MOST_DIGITS))
        return Cause.NO_SUCH_TIME, ""
    if _NUMBER.fullmatch(text) is not None:
        return Cause.EPOCH, _epoch_unit(text)
    form = likely_form(text)
    is_usable = form is not None and form.is_date == (expected == "date")
    return Cause.OTHER_TIME, form.name if form is not None and is_usable else ""


def _epoch_unit(number: str) -> str:
    return _EPOCH_DIGITS.get(len(number.partition(".")[0]), "")


def _is_integral(number: str) -> bool:
    """Whether its value is an integer: 1.0, 1e2, 12.50e1."""
    mantissa, _, exponent = number.lower().partition("e")
    fraction = mantissa.partition(".")[2].rstrip("0")
    return len(exponent) <= _LONGEST_EXPONENT and int(exponent or 0) >= len(fraction)
