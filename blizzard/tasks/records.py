"""The reference: what one line of NDJSON means, or why it is not a record. Everything faster must give the same answer.

Never cuts, wraps or guesses, and rounds only FLOAT and DOUBLE, to the nearest. A value that its type cannot hold makes
the line bad, or is rescued, as the policy says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, TypeAlias

from blizzard.core.kinds import LineKind
from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, quote_name, show_column
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.syntax import JsonObject, LineError, compact_json, json_text, parse_json
from blizzard.tasks.values import INTEGER_BITS, SCALARS, to_decimal, to_integer, to_text

Convert: TypeAlias = Callable[[Any], Any]
Record: TypeAlias = dict[str, Any]
Notice: TypeAlias = Callable[[ColumnPath], None]
# Paths and values that no column takes. While a value is being read, the path is relative to it.
Rescued: TypeAlias = list[tuple[str, Any]]


class RecordReader:
    """Reads one line at a time. The values are ready for `pyarrow.array` with the Arrow schema.

    `notice` is called for every undeclared field that is met, on bad lines too.
    """

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None, notice: Notice | None = None) -> None:
        self._policy = policy or ParsePolicy()
        self._rescued: Rescued = []
        self._convert = _Converters(policy=self._policy, notice=notice, rescued=self._rescued).of_struct(schema, ())

    def read(self, line: bytes) -> Record:
        """The record on this line, which is not blank and has no newline. Raises `LineError`."""
        value = parse_json(line)
        if type(value) is not JsonObject:
            raise LineError(LineKind.NOT_OBJECT, f"not an object: {json_text(value)}")
        self._rescued.clear()
        record: Record = self._convert(value)
        if self._policy.rescues:
            record[RESCUED_COLUMN] = compact_json(JsonObject(self._rescued)) if self._rescued else None
        return record


class _Misfit(LineError):
    """A value that its type cannot hold. The field around it is rescued whole. If that field may not be null, the line
    is bad, even if a field further out may be null."""

    def __init__(self, value: Any, type_name: str, path: ColumnPath) -> None:
        self.may_be_rescued = True
        super().__init__(LineKind.BAD_VALUE, f"{json_text(value)} is not a valid {type_name}", path=path)


def _put_below(step: str, found: Rescued, start: int) -> None:
    """Put this step (a field, element or entry) before the paths of what was found from `start` on."""
    for position in range(start, len(found)):
        path, value = found[position]
        found[position] = (step + ("" if path.startswith("[") else ".") + path, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    convert: Convert
    nullable: bool
    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class _Converters:
    """Builds, once for a schema, the functions that turn parsed JSON into the values of its types."""

    policy: ParsePolicy
    notice: Notice | None
    rescued: Rescued

    def of_type(self, data_type: DeltaType, path: ColumnPath) -> Convert:
        match data_type:
            case "string" if self.policy.json_in_strings:
                return to_text
            case str() if data_type in INTEGER_BITS:
                return _scalar(data_type, path, partial(to_integer, limit=1 << (INTEGER_BITS[data_type] - 1)))
            case str() if digits := decimal_digits(data_type):
                return _scalar(data_type, path, partial(to_decimal, precision=digits[0], scale=digits[1]))
            case str() if data_type in SCALARS:
                return _scalar(data_type, path, SCALARS[data_type])
            case {"type": "struct"}:
                return self.of_struct(data_type, path)
            case {"type": "array", "elementType": element, "containsNull": nullable}:
                return self._of_array(self._field(element, nullable, (*path, "element")), path)
            case {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}:
                return self._of_map(self._field(value, nullable, (*path, "value")), path)
            case {"type": "map"}:
                raise SchemaError(f"{show_column(path)}: the keys of a JSON object are strings; use MAP<STRING, …>")
            case _:
                raise SchemaError(f"{show_column(path)}: {data_type} cannot be read from JSON; change its type")

    def _field(self, data_type: DeltaType, nullable: bool, path: ColumnPath) -> _Field:
        return _Field(convert=self.of_type(data_type, path), nullable=nullable, path=path)

    def of_struct(self, struct: DeltaSchema, path: ColumnPath) -> Convert:
        declared = {f["name"]: self._field(f["type"], f["nullable"], (*path, f["name"])) for f in struct["fields"]}

        def convert(value: Any) -> Record:
            if type(value) is not JsonObject:
                raise _Misfit(value, "struct", path)
            found: dict[str, Any] = {}
            undeclared: list[tuple[str, Any]] = []
            for name, item in value:
                if name not in declared:
                    undeclared.append((name, item))
                elif name in found:
                    raise LineError(LineKind.DUPLICATE_KEY, "given twice", path=declared[name].path)
                else:
                    found[name] = item
            if undeclared:
                self._meet(undeclared, path)
            if self.policy.rescues:
                return {name: self._rescuing(found.get(name), name, field) for name, field in declared.items()}
            return {name: _value_of(found.get(name), field) for name, field in declared.items()}

        return convert

    def _meet(self, undeclared: list[tuple[str, Any]], path: ColumnPath) -> None:
        for name, item in undeclared:
            if self.notice is not None:
                self.notice((*path, name))
            if self.policy.unknown is Unknown.BAD:
                raise LineError(LineKind.UNKNOWN_FIELD, "the schema does not declare this field", path=(*path, name))
            if self.policy.unknown is Unknown.RESCUE:
                self.rescued.append((quote_name(name), item))

    def _rescuing(self, item: Any, name: str, field: _Field) -> Any:
        before = len(self.rescued)
        try:
            value = _value_of(item, field)
        except _Misfit as misfit:
            misfit.may_be_rescued &= field.nullable
            if not (misfit.may_be_rescued and self.policy.rescue_values):
                raise
            del self.rescued[before:]  # the whole item is rescued, and contains these
            self.rescued.append((quote_name(name), item))
            return None
        if len(self.rescued) > before:
            _put_below(quote_name(name), self.rescued, before)
        return value

    def _of_array(self, element: _Field, path: ColumnPath) -> Convert:
        rescued = self.rescued

        def convert(value: Any) -> list[Any]:
            if type(value) is not list:
                raise _Misfit(value, "array", path)
            if not self.policy.rescues:
                return [_value_of(item, element) for item in value]
            items = []
            for position, item in enumerate(value):
                before = len(rescued)
                items.append(_value_of(item, element))
                if len(rescued) > before:
                    _put_below(f"[{position}]", rescued, before)
            return items

        return convert

    def _of_map(self, field: _Field, path: ColumnPath) -> Convert:
        rescued = self.rescued

        def convert(value: Any) -> list[tuple[str, Any]]:
            if type(value) is not JsonObject:
                raise _Misfit(value, "map", path)
            entries: dict[str, Any] = {}
            for name, item in value:
                if name in entries:
                    raise LineError(LineKind.DUPLICATE_KEY, f"the key {json_text(name)} is given twice", path=path)
                before = len(rescued)
                entries[name] = _value_of(item, field)
                if len(rescued) > before:
                    _put_below(quote_name(name), rescued, before)
            return list(entries.items())

        return convert


def _value_of(item: Any, field: _Field) -> Any:
    if item is not None:
        return field.convert(item)
    if field.nullable:
        return None
    raise LineError(LineKind.MISSING_VALUE, "null or missing, but the column is NOT NULL", path=field.path)


def _scalar(type_name: str, path: ColumnPath, parse: Callable[[Any], Any]) -> Convert:
    """Makes a converter from a function that returns None, or raises ValueError, if the type cannot hold the value."""

    def convert(value: Any) -> Any:
        try:
            converted = parse(value)
        except ValueError:
            converted = None
        if converted is None:
            raise _Misfit(value, type_name, path)
        return converted

    return convert


def _parse_integer(text: str) -> int | float:
    # int() refuses more than 4,300 digits. No number type holds a tenth of that.
    return int(text) if len(text) <= 4300 else inf


_UNDECLARED = RecordReader({"type": "struct", "fields": []})
_DECODER = json.JSONDecoder(parse_int=_parse_integer)  # orjson would round what has more than 64 bits


def read_undeclared(line: bytes) -> Record:
    """The object on a line of which no schema is known; raises `LineError` for whatever a run would call bad."""
    _UNDECLARED.read(line)
    record: Record = _DECODER.decode(line.decode())
    return record
