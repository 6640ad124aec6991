"""The reference: what one line of NDJSON means, or why it is not a record.

Everything faster is judged against this module. It never rounds, cuts, wraps or guesses: a value that the
declared type cannot hold exactly makes the line bad, or is rescued, as the policy says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, quote_name, show_column
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.syntax import JsonObject, LineError, compact_json, json_text, parse_json
from blizzard.tasks.values import INTEGER_BITS, SCALARS, to_decimal, to_integer, to_text

Convert: TypeAlias = Callable[[Any], Any]
Record: TypeAlias = dict[str, Any]
Notice: TypeAlias = Callable[[ColumnPath], None]


class RecordReader:
    """Reads one line at a time; values come out as `pyarrow.array` takes them for the Arrow schema.

    `notice` hears of every undeclared field, on lines that turn out bad too.
    """

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy | None = None, notice: Notice | None = None) -> None:
        self._policy = policy or ParsePolicy()
        self._rescued = _Rescued()
        self._convert = _Converters(policy=self._policy, notice=notice, rescued=self._rescued).of_struct(schema, ())

    def read(self, line: bytes) -> Record:
        """The record on this line, which is not blank and has no newline. Raises `LineError`."""
        value = parse_json(line)
        if type(value) is not JsonObject:
            raise LineError("not_object", f"not an object: {json_text(value)}")
        self._rescued.clear()
        record: Record = self._convert(value)
        if self._policy.rescues:
            record[RESCUED_COLUMN] = self._rescued.to_json()
        return record


class _Misfit(LineError):
    """A value that its type cannot hold. The field around it is rescued whole, unless it may not be null: then the
    line is bad, whatever is further out."""

    def __init__(self, value: Any, type_name: str, path: ColumnPath) -> None:
        self.may_be_rescued = True
        super().__init__("bad_value", f"{json_text(value)} is not a valid {type_name}", path=path)


class _Rescued:
    """What one line holds that no column takes: paths within the value being read, innermost first."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Any]] = []

    def clear(self) -> None:
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)

    def add(self, name: str, value: Any) -> None:
        self._found.append((quote_name(name), value))

    def drop(self, start: int) -> None:
        """Forget what was found since: the whole value is being rescued."""
        del self._found[start:]

    def put_below(self, step: str, start: int) -> None:
        """What was found since then is inside of this field, element or entry."""
        for position in range(start, len(self._found)):
            path, value = self._found[position]
            self._found[position] = (step + ("" if path.startswith("[") else ".") + path, value)

    def to_json(self) -> str | None:
        return compact_json(JsonObject(self._found)) if self._found else None


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
    rescued: _Rescued

    def of_type(self, data_type: DeltaType, path: ColumnPath) -> Convert:
        match data_type:
            case "string" if self.policy.json_in_strings:
                return to_text
            case str() if data_type in INTEGER_BITS:
                bits = INTEGER_BITS[data_type]
                return _scalar(data_type, path, lambda value: to_integer(value, bits))
            case str() if digits := decimal_digits(data_type):
                return _scalar(data_type, path, lambda value: to_decimal(value, *digits))
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
                    raise LineError("duplicate_key", "given twice", path=declared[name].path)
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
                raise LineError("unknown_field", "the schema does not declare this field", path=(*path, name))
            if self.policy.unknown is Unknown.RESCUE:
                self.rescued.add(name, item)

    def _rescuing(self, item: Any, name: str, field: _Field) -> Any:
        before = len(self.rescued)
        try:
            value = _value_of(item, field)
        except _Misfit as misfit:
            misfit.may_be_rescued &= field.nullable
            if not (misfit.may_be_rescued and self.policy.rescue_values):
                raise
            self.rescued.drop(before)
            self.rescued.add(name, item)
            return None
        if len(self.rescued) > before:
            self.rescued.put_below(quote_name(name), before)
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
                rescued.put_below(f"[{position}]", before)
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
                    raise LineError("duplicate_key", f"the key {json_text(name)} is given twice", path=path)
                before = len(rescued)
                entries[name] = _value_of(item, field)
                rescued.put_below(quote_name(name), before)
            return list(entries.items())

        return convert


def _value_of(item: Any, field: _Field) -> Any:
    if item is not None:
        return field.convert(item)
    if field.nullable:
        return None
    raise LineError("missing_value", "null or missing, but the column is NOT NULL", path=field.path)


def _scalar(type_name: str, path: ColumnPath, parse: Callable[[Any], Any]) -> Convert:
    """A converter from a function that answers None, or raises ValueError, for what the type cannot hold."""

    def convert(value: Any) -> Any:
        try:
            converted = parse(value)
        except ValueError:
            converted = None
        if converted is None:
            raise _Misfit(value, type_name, path)
        return converted

    return convert
