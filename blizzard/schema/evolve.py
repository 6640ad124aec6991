"""Lets a schema grow: finds what undeclared fields held, and decides which columns to add for them.

The order of lines and observations must never change the result: tasks read in any order, and a retry must propose the
same table. Declared fields are never changed, and every new one takes null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core import observed
from blizzard.core.observed import Observations, smallest
from blizzard.schema import MAX_DEPTH, ColumnPath, DeltaSchema, DeltaType, fold_name, name_problems, show_path
from blizzard.schema.value_kinds import MANY_KEYS, UNUSABLE_IN_NAME, kind_of, scalar_type

# The parser fills it. A source field of this name never becomes a column.
RESCUED_COLUMN = "_rescued_data"

MAX_NAME_CHARACTERS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """`added` and `refused` are paths of columns. Fields inside a new column are not listed again."""

    schema: DeltaSchema
    added: tuple[str, ...]
    refused: tuple[str, ...]


class Declared:
    """Finds fields of parsed records that a schema does not declare. Made once per schema, because lines are many."""

    def __init__(self, schema: DeltaSchema) -> None:
        self._names = _names_of(schema)

    def others(self, record: dict[str, Any]) -> list[tuple[ColumnPath, Any]]:
        """Each undeclared field and its value."""
        found: list[tuple[ColumnPath, Any]] = []
        _find_others(record, self._names, (), found)
        return found


def observe(found: Iterable[tuple[ColumnPath, Any]]) -> Observations:
    """What these undeclared fields held. Integers must be exact. Memory grows with the fields, up to a limit."""
    kinds: dict[ColumnPath, frozenset[str]] = {}
    for path, value in found:
        _observe(kinds, path, value)
        if len(kinds) > 2 * observed.MAX_PATHS:
            kinds = smallest(kinds)
    return Observations(kinds=smallest(kinds))


def evolve_schema(schema: DeltaSchema, observations: Iterable[Observations]) -> Evolution:
    """The schema with a new nullable column, at the end of its struct, for every undeclared field with a value."""
    merged = Observations(kinds={})
    for one in observations:
        merged = merged.merge(one)
    growth = _Growth(kinds=merged.kinds, names=_children(merged.kinds))
    evolved = growth.of_struct(schema, ())
    return Evolution(schema=evolved, added=tuple(sorted(growth.added)), refused=tuple(sorted(growth.refused)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The declared names inside a type: fields of a struct, or those of every array element or map value."""

    fields: Mapping[str, _Names | None] | None = None
    element: _Names | None = None
    value: _Names | None = None


def _names_of(data_type: DeltaType) -> _Names | None:
    match data_type:
        case {"type": "struct", "fields": fields}:
            return _Names(fields={field["name"]: _names_of(field["type"]) for field in fields})
        case {"type": "array", "elementType": element} if inner := _names_of(element):
            return _Names(element=inner)
        case {"type": "map", "valueType": value} if inner := _names_of(value):
            return _Names(value=inner)
        case _:
            return None


def _find_others(value: Any, names: _Names | None, path: ColumnPath, found: list[tuple[ColumnPath, Any]]) -> None:
    if names is None or not value:
        return
    if names.element is not None and isinstance(value, list):
        for item in value:
            _find_others(item, names.element, (*path, "element"), found)
    elif names.value is not None and isinstance(value, dict):
        for item in value.values():
            _find_others(item, names.value, (*path, "value"), found)
    elif names.fields is not None and isinstance(value, dict):
        for name, item in value.items():
            if name not in names.fields:
                found.append(((*path, name), item))
            elif (inner := names.fields[name]) is not None:
                _find_others(item, inner, (*path, name), found)


def _observe(kinds: dict[ColumnPath, frozenset[str]], path: ColumnPath, value: Any) -> None:
    path = (*path[:-1], short_name(path[-1]))
    kind = kind_of(value)
    if len(path) == MAX_DEPTH and kind in ("object", "array"):
        kind = "text"  # no column can be deeper
    kinds[path] = kinds.get(path, frozenset()) | {kind}
    if kind == "object":
        for name, item in value.items():
            _observe(kinds, (*path, name), item)
    elif kind == "array":
        for item in value:
            _observe(kinds, (*path, "element"), item)


def short_name(name: str) -> str:
    """How a name is observed. One that is too long for a column need not be kept whole."""
    return name if len(name) <= MAX_NAME_CHARACTERS else name[:MAX_NAME_CHARACTERS] + "…"


def _children(paths: Iterable[ColumnPath]) -> dict[ColumnPath, set[str]]:
    children: dict[ColumnPath, set[str]] = {}
    for path in paths:
        for depth, name in enumerate(path):
            children.setdefault(path[:depth], set()).add(name)
    return children


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    kinds: Mapping[ColumnPath, frozenset[str]]
    names: Mapping[ColumnPath, set[str]]
    added: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def of_struct(self, struct: DeltaSchema, path: ColumnPath) -> DeltaSchema:
        if path not in self.names:
            return struct
        declared = [{**old, "type": self._of_declared(old["type"], (*path, old["name"]))} for old in struct["fields"]]
        new = self._new_fields(path, taken=[old["name"] for old in declared])
        self.added.extend(show_path((*path, column["name"])) for column in new)
        return {**struct, "fields": [*declared, *new]}

    def _of_declared(self, data_type: DeltaType, path: ColumnPath) -> DeltaType:
        # The observation may be older than the column. Then it is about the whole field, and if the field held another
        # kind of value than the column takes, it says nothing about the inside.
        held = self.kinds.get(path, frozenset()) - {"null"}
        match data_type:
            case {"type": "struct"} if held <= {"object"}:
                return self.of_struct(data_type, path)
            case {"type": "array", "elementType": element} if held <= {"array"}:
                return {**data_type, "elementType": self._of_declared(element, (*path, "element"))}
            case {"type": "map", "valueType": value} if not held:
                return {**data_type, "valueType": self._of_declared(value, (*path, "value"))}
            case _:
                return data_type

    def _new_fields(self, path: ColumnPath, taken: list[str]) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = []
        used = {fold_name(name) for name in taken}
        for name in sorted(self.names.get(path, set()) - set(taken)):
            refused_before = len(self.refused)
            data_type = self._new_type((*path, name))
            if data_type is None:
                continue
            if fold_name(name) in used or not _is_usable(name) or (not path and fold_name(name) == RESCUED_COLUMN):
                del self.refused[refused_before:]
                self.refused.append(show_path((*path, name)))
                continue
            used.add(fold_name(name))
            fields.append({"name": name, "type": data_type, "nullable": True, "metadata": {}})
        return fields

    def _new_type(self, path: ColumnPath) -> DeltaType | None:
        """The one type that takes every value seen. None: no value was seen."""
        kinds = self.kinds.get(path, frozenset()) - {"null"}
        if kinds == {"object"}:
            return self._new_struct(path)
        if kinds == {"array"}:
            element = self._new_type((*path, "element"))
            return element and {"type": "array", "elementType": element, "containsNull": True}
        return scalar_type(kinds) if kinds else None

    def _new_struct(self, path: ColumnPath) -> DeltaType | None:
        if len(self.names.get(path, ())) > MANY_KEYS:
            return "string"  # a map that is used as one: its JSON is kept
        fields = self._new_fields(path, taken=[])
        return {"type": "struct", "fields": fields} if fields else None


def _is_usable(name: str) -> bool:
    return len(name) <= MAX_NAME_CHARACTERS and not UNUSABLE_IN_NAME.search(name) and not name_problems([name], ())
