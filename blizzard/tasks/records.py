"""The reference: what one line of NDJSON means, or why it is not a record. Everything faster must give the same answer.

Never wraps or guesses. FLOAT and DOUBLE are rounded to the nearest, and times are cut to microseconds, which is said. A
value that its type cannot hold makes the line bad, or is rescued, as the policy says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from typing import Any, TypeAlias

from blizzard.core.kinds import LineKind
from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, quote_name, show_column
from blizzard.schema.derived import whole_record_column
from blizzard.schema.formats import ISO, TIME_TYPES, parse_formats
from blizzard.schema.names import FieldNames
from blizzard.tasks.misfits import why_not
from blizzard.tasks.policy import RESCUED_COLUMN, Coercion, ParsePolicy, Unknown
from blizzard.tasks.syntax import JsonObject, LineError, compact_json, json_in_text, json_text, parse_json
from blizzard.tasks.values import (
    INTEGER_BITS,
    boolean_of,
    date_of,
    double_of,
    float_of,
    integer_of,
    time_of,
    to_binary,
    to_decimal,
    to_string,
    to_text,
)
from blizzard.tasks.variant import NotHeld, encode_variant

# The value of the column; None: its type cannot hold this.
Convert: TypeAlias = Callable[[Any], Any]
Record: TypeAlias = dict[str, Any]
# Paths and values that no column takes. While a value is being read, the path is relative to it.
Rescued: TypeAlias = list[tuple[str, Any]]

# Keys of one struct whose meaning is remembered.
_MAX_KEYS = 1024


class RecordReader:
    """Reads one line at a time. The values are ready for `pyarrow.array` with the Arrow schema.

    After a line that was good, `undeclared` has its fields without a column and their values, and `cut` the columns
    whose time was cut. The next line replaces both.
    """

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None) -> None:
        self._policy = policy or ParsePolicy()
        self._rescues = self._policy.rescues
        self.undeclared: list[tuple[ColumnPath, Any]] = []
        self.cut: list[ColumnPath] = []
        self._rescued: Rescued = []
        found = _Found(undeclared=self.undeclared, cut=self.cut, rescued=self._rescued)
        self._convert = _Converters(policy=self._policy, found=found).of_struct(schema, ())
        self._whole = whole_record_column(schema["fields"])

    def read(self, line: bytes) -> Record:
        """The record on this line, which is not blank and has no newline. Raises `LineError`."""
        value = parse_json(line)
        if type(value) is not JsonObject:
            raise LineError(LineKind.NOT_OBJECT, f"not an object: {json_text(value)}")
        self.undeclared.clear()
        self.cut.clear()
        self._rescued.clear()
        record: Record = self._convert(value if self._whole is None else JsonObject([(self._whole, value)]))
        if self._rescues:
            record[RESCUED_COLUMN] = compact_json(JsonObject(self._rescued)) if self._rescued else None
        return record


class _Misfit(LineError):
    """A value that its type cannot hold. The field around it is rescued whole. If that field may not be null, the line
    is bad, even if a field further out may be null."""

    def __init__(self, value: Any, type_name: str, path: ColumnPath) -> None:
        self.may_be_rescued = True
        reason, why = why_not(value, type_name, path)
        said = f"{json_text(value)} is not a valid {type_name}{why}"
        super().__init__(LineKind.BAD_VALUE, said, path=path, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was met on the line beside the values of columns."""

    undeclared: list[tuple[ColumnPath, Any]]
    cut: list[ColumnPath]
    rescued: Rescued

    def count(self) -> tuple[int, int, int]:
        return len(self.undeclared), len(self.cut), len(self.rescued)

    def forget_after(self, count: tuple[int, int, int]) -> None:
        undeclared, cut, rescued = count
        del self.undeclared[undeclared:], self.cut[cut:], self.rescued[rescued:]


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
    type_name: str
    empty_is_null: bool

    def without_value(self, item: Any) -> Any:
        """None, if the field may be null here. It has null, or what its type cannot hold."""
        if item is not None and not (self.empty_is_null and item == "" and type(item) is str):
            raise _Misfit(item, self.type_name, self.path)
        if not self.nullable:
            message = "null or missing, but the column is NOT NULL"
            raise LineError(LineKind.MISSING_VALUE, message, path=self.path)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Converters:
    """Builds, once for a schema, the functions that turn parsed JSON into the values of its types."""

    policy: ParsePolicy
    found: _Found

    def of_type(self, data_type: DeltaType, path: ColumnPath) -> Convert:
        coercions = self.policy.coercions(path, data_type)
        match data_type:
            case "string":
                convert: Convert = to_text if self.policy.json_in_strings else to_string
            case str():
                convert = self._of_scalar(data_type, path, coercions)
            case {"type": "struct"}:
                convert = self.of_struct(data_type, path)
            case {"type": "array", "elementType": element, "containsNull": nullable}:
                convert = self._of_array(self._field(element, nullable, (*path, "element")))
            case {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}:
                convert = self._of_map(self._field(value, nullable, (*path, "value")), path)
            case {"type": "map"}:
                raise SchemaError(f"{show_column(path)}: the keys of a JSON object are strings; use MAP<STRING, …>")
            case _:
                raise _unreadable(data_type, path)
        if Coercion.PARSE_JSON_TEXT in coercions and not isinstance(data_type, str):
            convert = partial(_unwrap, convert)
        return partial(_null_if_empty, convert) if Coercion.EMPTY_IS_NULL in coercions else convert

    def _of_scalar(self, data_type: str, path: ColumnPath, coercions: frozenset[Coercion]) -> Convert:
        if data_type in INTEGER_BITS:
            return integer_of(1 << (INTEGER_BITS[data_type] - 1), coercions)
        if digits := decimal_digits(data_type):
            return partial(to_decimal, precision=digits[0], scale=digits[1])
        if data_type in TIME_TYPES:
            formats = parse_formats(self.policy.formats.get(path, (ISO,)), data_type)
            if data_type == "date":
                return date_of(formats)
            note_cut = partial(self.found.cut.append, path)
            return time_of(formats, exact=self.policy.exact_timestamps, note_cut=note_cut)
        match data_type:
            case "boolean":
                return boolean_of(coercions)
            case "float":
                return float_of(coercions)
            case "double":
                return double_of(coercions)
            case "binary":
                return to_binary
            case "variant":
                return partial(_to_variant, path)
            case _:
                raise _unreadable(data_type, path)

    def _field(self, data_type: DeltaType, nullable: bool, path: ColumnPath) -> _Field:
        return _Field(
            convert=self.of_type(data_type, path),
            nullable=nullable,
            path=path,
            type_name=data_type if isinstance(data_type, str) else data_type["type"],
            empty_is_null=Coercion.EMPTY_IS_NULL in self.policy.coercions(path, data_type),
        )

    def of_struct(self, struct: DeltaSchema, path: ColumnPath) -> Convert:
        columns = {f["name"]: self._field(f["type"], f["nullable"], (*path, f["name"])) for f in struct["fields"]}
        names = FieldNames(columns, path, self.policy.rename)
        sort_out = self._sorting_out(names, columns, path)
        # Keys that mean the column of this name, whatever else is in the object.
        plain = frozenset(name for name in columns if names.exact[name] == name)
        finish = self._rescuing(columns) if self.policy.rescues else _finish(columns)

        def convert(value: Any) -> Record | None:
            if type(value) is not JsonObject:
                return None
            found = dict(value)
            if len(found) == len(value) and found.keys() <= plain:
                return finish(found, _AS_SPELLED)
            return finish(*sort_out(value))

        return convert

    def _sorting_out(
        self, names: FieldNames, columns: dict[str, _Field], path: ColumnPath
    ) -> Callable[[JsonObject], tuple[dict[str, Any], dict[str, str]]]:
        find = lru_cache(_MAX_KEYS)(names.find)

        def sort_out(value: JsonObject) -> tuple[dict[str, Any], dict[str, str]]:
            """The values by column, and the keys that are not the names of their columns."""
            found: dict[str, Any] = {}
            spelled: dict[str, str] = {}
            undeclared = []
            for key, item in value:
                name = find(key)
                if name is None:
                    undeclared.append((key, item))
                elif name in found:
                    raise LineError(LineKind.DUPLICATE_KEY, "given twice", path=columns[name].path)
                else:
                    found[name] = item
                    if name != key:
                        spelled[name] = key
            for key, item in undeclared:
                self._meet(key, item, (*path, key))
            return found, spelled

        return sort_out

    def _meet(self, key: str, item: Any, path: ColumnPath) -> None:
        match self.policy.unknown:
            case Unknown.BAD:
                raise LineError(LineKind.UNKNOWN_FIELD, "the schema does not declare this field", path=path)
            case Unknown.RESCUE:
                self.found.rescued.append((quote_name(key), item))
            case Unknown.REPORT if self.policy.keeps_rest and item is not None:
                self.found.rescued.append((quote_name(key), item))
        self.found.undeclared.append((path, item))

    def _rescuing(self, columns: dict[str, _Field]) -> Callable[[dict[str, Any], dict[str, str]], Record]:
        met, rescue_values = self.found, self.policy.rescue_values

        def finish(found: dict[str, Any], spelled: dict[str, str]) -> Record:
            record = {}
            for name, field in columns.items():
                item = found.get(name)
                before = met.count()
                try:
                    value = None if item is None else field.convert(item)
                    record[name] = field.without_value(item) if value is None else value
                except _Misfit as misfit:
                    misfit.may_be_rescued &= field.nullable
                    if not (misfit.may_be_rescued and rescue_values):
                        raise
                    met.forget_after(before)  # the whole item is rescued, and contains these
                    met.rescued.append((quote_name(spelled.get(name, name)), item))
                    record[name] = None
                else:
                    if len(met.rescued) > before[-1]:
                        _put_below(quote_name(spelled.get(name, name)), met.rescued, before[-1])
            return record

        return finish

    def _of_array(self, element: _Field) -> Convert:
        rescued, convert_element = self.found.rescued, element.convert

        def convert(value: Any) -> list[Any] | None:
            if type(value) is not list:
                return None
            items = []
            for position, item in enumerate(value):
                before = len(rescued)
                converted = None if item is None else convert_element(item)
                items.append(element.without_value(item) if converted is None else converted)
                if len(rescued) > before:
                    _put_below(f"[{position}]", rescued, before)
            return items

        return convert

    def _of_map(self, field: _Field, path: ColumnPath) -> Convert:
        rescued, convert_value = self.found.rescued, field.convert

        def convert(value: Any) -> list[tuple[str, Any]] | None:
            if type(value) is not JsonObject:
                return None
            entries: dict[str, Any] = {}
            for name, item in value:
                if name in entries:
                    raise LineError(LineKind.DUPLICATE_KEY, f"the key {json_text(name)} is given twice", path=path)
                before = len(rescued)
                converted = None if item is None else convert_value(item)
                entries[name] = field.without_value(item) if converted is None else converted
                if len(rescued) > before:
                    _put_below(quote_name(name), rescued, before)
            return list(entries.items())

        return convert


def _to_variant(path: ColumnPath, value: Any) -> dict[str, bytes]:
    try:
        return encode_variant(value, path)
    except NotHeld as error:
        raise _Misfit(error.value, f"variant: {error.why}", error.path) from None


_AS_SPELLED: dict[str, str] = {}


def _finish(columns: dict[str, _Field]) -> Callable[[dict[str, Any], dict[str, str]], Record]:
    plan = [(name, field.convert, field.without_value) for name, field in columns.items()]

    def finish(found: dict[str, Any], _: dict[str, str]) -> Record:
        record = {}
        for name, convert, without_value in plan:
            item = found.get(name)
            if convert is to_text and type(item) is str:  # the most common case, without a call
                record[name] = item
                continue
            value = None if item is None else convert(item)
            record[name] = without_value(item) if value is None else value
        return record

    return finish


def _null_if_empty(convert: Convert, value: Any) -> Any:
    return None if type(value) is str and not value else convert(value)


def _unwrap(convert: Convert, value: Any) -> Any:
    """What the text holds, if the value is a text."""
    return convert(json_in_text(value) if type(value) is str else value)


def _unreadable(data_type: DeltaType, path: ColumnPath) -> SchemaError:
    return SchemaError(f"{show_column(path)}: {data_type} cannot be read from JSON; change its type")


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
