"""A schema from records, as a proposal to look at: each column gets a type that takes every value it held.

Pure, and strict: a column that holds two kinds of values is an error with an example of each, never a STRING,
because a number does not fit a STRING column. Memory grows with the columns seen, not with the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, check_depth, name_problems, show_column

_INT64 = range(-(2**63), 2**63)
_DECIMAL38 = range(-(10**38) + 1, 10**38)
# Capital T and Z and at most microseconds: what TIMESTAMP keeps exactly. Anything else stays a STRING.
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6}0*)?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What one column has held so far; the only mutable value here, and it never leaves this module."""

    examples: dict[str, Any] = field(default_factory=dict)  # the first value of each kind
    number_type: str | None = None
    string_type: str | None = None
    fields: dict[str, _Seen] = field(default_factory=dict)
    element: _Seen | None = None


def infer_schema(records: Iterable[Mapping[str, Any]]) -> DeltaSchema:
    """The schema that takes every one of these parsed JSON objects; columns in the order of first sight."""
    root: dict[str, _Seen] = {}
    for record in records:
        _observe_fields(root, record, ())
    if not root:
        raise SchemaError("schema: no columns in the records to infer from; give it input with records")
    if problems := list(_problems(root, ())):
        listed = "\n  ".join(problems)
        raise SchemaError(f"no schema fits these records; write one, or mend the source:\n  {listed}")
    return _struct(root)


def _observe_fields(fields: dict[str, _Seen], record: Mapping[str, Any], path: ColumnPath) -> None:
    for name, value in record.items():
        seen = fields.get(name)
        if seen is None:
            seen = fields[name] = _Seen()
        _observe(seen, value, (*path, name))


def _observe(seen: _Seen, value: Any, path: ColumnPath) -> None:
    check_depth(path)
    match value:
        case None:
            return
        case bool():
            kind = "boolean"
        case int() | float():
            kind = "number"
            seen.number_type = _widen_number(seen.number_type, value)
        case str():
            kind = "string"
            # Once a column is plain text, nothing makes it a date again: no need to look.
            if seen.string_type != "string":
                found = _string_type(value)
                seen.string_type = found if seen.string_type in (None, found) else "string"
        case Mapping():
            kind = "object"
            _observe_fields(seen.fields, value, path)
        case list():
            kind = "array"
            seen.element = seen.element or _Seen()
            for item in value:
                _observe(seen.element, item, (*path, "element"))
        case _:
            raise SchemaError(f"{show_column(path)}: {type(value).__name__} is not a JSON value")
    seen.examples.setdefault(kind, value)


def _widen_number(so_far: str | None, value: int | float) -> str:
    if isinstance(value, float) or so_far == "double" or value not in _DECIMAL38:
        return "double"
    return "long" if value in _INT64 and so_far in (None, "long") else "decimal(38,0)"


def _string_type(value: str) -> str:
    if _DATE.fullmatch(value):
        return "date" if _is_date(value) else "string"
    return "timestamp" if _is_date_time(value) else "string"


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_date_time(value: str) -> bool:
    if (match := _DATE_TIME.fullmatch(value)) is None:
        return False
    local, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(local)
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            # In UTC it must still be in the years 1 to 9999.
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return False
    return True


def _problems(fields: Mapping[str, _Seen], path: ColumnPath) -> Iterator[str]:
    yield from name_problems(list(fields), path)
    for name, seen in fields.items():
        yield from _column_problems(seen, (*path, name))


def _column_problems(seen: _Seen, path: ColumnPath) -> Iterator[str]:
    if len(seen.examples) > 1:
        kinds = " and ".join(f"{kind} ({_show(value)})" for kind, value in seen.examples.items())
        yield f"{show_column(path)}: holds {kinds}"
    yield from _problems(seen.fields, path)
    if seen.element is not None:
        yield from _column_problems(seen.element, (*path, "element"))


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


def _struct(fields: Mapping[str, _Seen]) -> DeltaSchema:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": _type(seen), "nullable": True, "metadata": {}} for name, seen in fields.items()
        ],
    }


def _type(seen: _Seen) -> DeltaType:
    match next(iter(seen.examples), None):
        case "boolean":
            return "boolean"
        case "object" if seen.fields:
            return _struct(seen.fields)
        case "object":
            return {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
        case "array":
            element = _type(seen.element) if seen.element else "string"
            return {"type": "array", "elementType": element, "containsNull": True}
        case _:
            return seen.number_type or seen.string_type or "string"
