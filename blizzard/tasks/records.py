"""The reference: what one line of NDJSON means, or why it is not a record.

Everything faster is judged against this module. It never rounds, cuts, wraps or guesses: a value that the
declared type cannot hold exactly makes the line bad (floating point alone rounds, to the nearest).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa

from blizzard.errors import BadRecord, SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, show_column, show_path

# The stdlib parser takes one C frame per level out of Python's 1,000: it gave up at 996 levels from an empty
# stack. Half of that leaves room for whatever called us.
MAX_NESTING = 500

WHITESPACE = b" \t\r"

Convert: TypeAlias = Callable[[Any], Any]
Record: TypeAlias = dict[str, Any]

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
FIRST_US = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_US
LAST_US = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_US - 1

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_DAY, _ZONE = r"(\d{4})-(\d\d)-(\d\d)", r"(Z|[+-]\d\d(?::?\d\d)?)?"
_CLOCK = r"[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
# How the text of a value looks; whether such a day exists is another question. The syntax is RE2's too.
PATTERNS = {"date": _DAY, "timestamp": f"{_DAY}(?:{_CLOCK}{_ZONE})?", "timestamp_ntz": f"{_DAY}(?:{_CLOCK})?"}

_DATE, _TIMESTAMP, _TIMESTAMP_NTZ = (re.compile(pattern, re.ASCII) for pattern in PATTERNS.values())
_DECIMAL = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# One escape after the other, so that in \\ud800 the second backslash is not taken for the start of one.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


class LineError(BadRecord):
    """Why a line is not a record; `column` is the path of the value to blame, if one is."""

    def __init__(self, kind: str, message: str, *, path: ColumnPath = ()) -> None:
        self.column = show_path(path) if path else None
        super().__init__(f"{self.column}: {message}" if path else message, kind=kind)


class _Integer(str):
    """The text of a JSON number without fraction and exponent."""

    __slots__ = ()


class _Real(str):
    """The text of any other JSON number."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The members of a JSON object in order, repeated names included."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise LineError("not_json", f"not JSON: {name} is not a JSON value")


# Numbers stay text: int() refuses 4,301 digits, float() would lose what a decimal column can hold.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_Integer, parse_float=_Real, parse_constant=_refuse_constant
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    convert: Convert
    nullable: bool
    path: ColumnPath


class RecordReader:
    """Reads one line at a time; values come out as `pyarrow.array` takes them for the Arrow schema."""

    def __init__(self, schema: DeltaSchema) -> None:
        self._convert = _struct_converter(schema["fields"], ())

    def read(self, line: bytes) -> Record:
        """The record on this line, which is not blank and has no newline. Raises `LineError`."""
        value = parse_json(line)
        if type(value) is not _Object:
            raise LineError("not_object", f"not an object: {json_text(value)}")
        record: Record = self._convert(value)
        return record


def parse_json(line: bytes) -> Any:
    """The value on a line of strict JSON: numbers as text, objects as pairs. Raises `LineError`."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError("not_utf8", f"not UTF-8: {error.reason} at byte {error.start}") from None
    if is_too_deep(line):
        raise LineError("too_deep", f"nested more than {MAX_NESTING} levels deep")
    # The stdlib alone judges the syntax. orjson would refuse a valid number beyond a double's range, such as
    # one of 400 digits in a field that is not declared; lone surrogates are all that the stdlib lets through.
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise LineError("not_json", f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise LineError("too_deep", "nested too deep for this call stack") from None
    if "\\u" in text and any(match[1] for match in _ESCAPE.finditer(text)):
        raise LineError("not_json", "not JSON: a lone surrogate is not a character")
    return value


def is_too_deep(line: bytes) -> bool:
    """Whether arrays and objects are nested deeper than allowed, the record itself being level 1."""
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    # Latin-1 keeps every byte apart. Where the line is not JSON this may see the strings wrong, but only
    # after the point where a parser has given up.
    bare = _JSON_STRING.sub("", line.decode("latin-1")).encode("latin-1")
    depth = 0
    for bracket in bare.translate(None, _NOT_A_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_NESTING:
            return True
    return False


def json_text(value: Any, limit: int = 80) -> str:
    """The value as JSON for a message, cut at `limit` characters."""
    text = _render(value, limit)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _render(value: Any, room: int) -> str:
    """JSON text, whole up to `room` characters. Each level writes one at least, so it never goes deep."""
    if room < 0:
        return ""
    match value:
        case _Integer() | _Real():
            return str(value)
        case str():
            return json.dumps(value[: room + 1], ensure_ascii=False)
        case list():
            opening, closing = "{}" if isinstance(value, _Object) else "[]"
            text = opening
            for item in value:
                if len(text) > room:
                    break
                text += "," if len(text) > 1 else ""
                if isinstance(value, _Object):
                    text += json.dumps(item[0], ensure_ascii=False) + ":"
                    item = item[1]  # noqa: PLW2901
                text += _render(item, room - len(text))
            return text + closing
        case _:
            return json.dumps(value)


def _converter(data_type: DeltaType, path: ColumnPath) -> Convert:
    match data_type:
        case str() if data_type in INTEGER_BITS:
            return _integer_converter(data_type, path)
        case str() if digits := decimal_digits(data_type):
            return _scalar(data_type, path, lambda value: to_decimal(value, *digits))
        case str() if data_type in SCALARS:
            return _scalar(data_type, path, SCALARS[data_type])
        case {"type": "struct", "fields": fields}:
            return _struct_converter(fields, path)
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return _array_converter(_field(element, nullable, (*path, "element")), path)
        case {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}:
            return _map_converter(_field(value, nullable, (*path, "value")), path)
        case {"type": "map"}:
            raise SchemaError(f"{show_column(path)}: the keys of a JSON object are strings; use MAP<STRING, …>")
        case _:
            raise SchemaError(f"{show_column(path)}: {data_type} cannot be read from JSON; change its type")


def _field(data_type: DeltaType, nullable: bool, path: ColumnPath) -> _Field:
    return _Field(convert=_converter(data_type, path), nullable=nullable, path=path)


def _value_of(item: Any, field: _Field) -> Any:
    if item is not None:
        return field.convert(item)
    if field.nullable:
        return None
    raise LineError("missing_value", "null or missing, but the column is NOT NULL", path=field.path)


def _struct_converter(fields: list[dict[str, Any]], path: ColumnPath) -> Convert:
    declared = {f["name"]: _field(f["type"], f["nullable"], (*path, f["name"])) for f in fields}

    def convert(value: Any) -> Record:
        if type(value) is not _Object:
            raise _bad(value, "struct", path)
        found: dict[str, Any] = {}
        for name, item in value:
            if name in declared:
                if name in found:
                    raise LineError("duplicate_key", "given twice", path=declared[name].path)
                found[name] = item
        return {name: _value_of(found.get(name), field) for name, field in declared.items()}

    return convert


def _array_converter(element: _Field, path: ColumnPath) -> Convert:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _bad(value, "array", path)
        return [_value_of(item, element) for item in value]

    return convert


def _map_converter(field: _Field, path: ColumnPath) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not _Object:
            raise _bad(value, "map", path)
        entries: dict[str, Any] = {}
        for name, item in value:
            if name in entries:
                raise LineError("duplicate_key", f"the key {json_text(name)} is given twice", path=path)
            entries[name] = _value_of(item, field)
        return list(entries.items())

    return convert


def _bad(value: Any, type_name: str, path: ColumnPath) -> LineError:
    return LineError("bad_value", f"{json_text(value)} is not a valid {type_name}", path=path)


def _scalar(type_name: str, path: ColumnPath, parse: Callable[[Any], Any]) -> Convert:
    """A converter from a function that answers None, or raises ValueError, for what the type cannot hold."""

    def convert(value: Any) -> Any:
        try:
            converted = parse(value)
        except ValueError:
            converted = None
        if converted is None:
            raise _bad(value, type_name, path)
        return converted

    return convert


def _integer_converter(type_name: str, path: ColumnPath) -> Convert:
    limit = 1 << (INTEGER_BITS[type_name] - 1)

    def parse(value: Any) -> int | None:
        # 20 characters hold every long; int() of a longer text would take quadratic time, or refuse.
        if type(value) is not _Integer or len(value) > 20:
            return None
        number = int(value)
        return number if -limit <= number < limit else None

    return _scalar(type_name, path, parse)


def _to_double(value: Any) -> float | None:
    if type(value) is not _Integer and type(value) is not _Real:
        return None
    number = float(value)
    return number if isfinite(number) else None


def _to_float(value: Any) -> float | None:
    if type(value) is not _Integer and type(value) is not _Real:
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
    # A billion digits do not fit in a line, so an exponent of ten digits can never be made good.
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


def _to_binary(value: Any) -> bytes | None:
    if type(value) is not str:
        return None
    return from_base64(value)


def from_base64(text: str) -> bytes | None:
    """The bytes whose one canonical base64 form this is. Decoders skip what they do not know; we do not."""
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
