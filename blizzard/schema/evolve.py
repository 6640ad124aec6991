"""Lets a schema grow: finds what undeclared fields held, and decides which columns to add for them.

The order of lines and observations must never change the result: tasks read in any order, and a retry must propose the
same table. Declared fields are never changed, and every new one takes null.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from blizzard.core import observed
from blizzard.core.observed import Observations, smallest
from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH, ColumnPath, DeltaSchema, DeltaType, fold_name, name_problems, show_path
from blizzard.schema.derived import derived_columns
from blizzard.schema.json_values import JsonObject
from blizzard.schema.names import FieldNames, Rename, fold_ascii, new_name
from blizzard.schema.value_kinds import MANY_KEYS, UNUSABLE_BY_SPARK, kind_of, scalar_type

# The parser fills it. A source field of this name never becomes a column.
RESCUED_COLUMN = "_rescued_data"

MAX_NAME_CHARACTERS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """`added` are paths of columns; fields inside a new column are not listed again. `refused` are paths of fields that
    have a name that no column may have: their values go to `_rescued_data`."""

    schema: DeltaSchema
    added: tuple[str, ...]
    refused: tuple[str, ...]


def observe(found: Iterable[tuple[ColumnPath, Any]]) -> Observations:
    """What these undeclared fields held. Integers must be exact. Memory grows with the fields, up to a limit."""
    kinds: dict[ColumnPath, frozenset[str]] = {}
    for path, value in found:
        _observe(kinds, path, value)
        if len(kinds) > 2 * observed.MAX_PATHS:
            kinds = smallest(kinds)
    return Observations(kinds=smallest(kinds))


def evolve_schema(
    schema: DeltaSchema,
    observations: Iterable[Observations],
    rename: Rename = None,
    *,
    by_spark: bool = False,
    exact_timestamps: bool = False,
) -> Evolution:
    """The schema with a new nullable column, at the end of its struct, for every undeclared field with a value; and
    with `_rescued_data`, if there was a value that none of the columns can take. `by_spark`: Spark adds the columns."""
    merged = Observations(kinds={})
    for one in observations:
        merged = merged.merge(one)
    growth = _Growth(
        kinds=merged.kinds,
        names=_children(merged.kinds),
        rename=rename,
        by_spark=by_spark,
        exact_timestamps=exact_timestamps,
    )
    evolved, added = growth.of_struct(schema, [()], ()), growth.added
    # Of more paths than one report holds, those beyond are seen again once these are columns.
    is_cut = len(merged.kinds) >= observed.MAX_PATHS and not added
    if (growth.refused or growth.valueless or is_cut) and not has_rescued_column(schema):
        evolved = with_rescued_column(evolved)
        added = [*added, RESCUED_COLUMN]
    return Evolution(schema=evolved, added=tuple(sorted(added)), refused=tuple(sorted(growth.refused)))


def _observe(kinds: dict[ColumnPath, frozenset[str]], path: ColumnPath, value: Any) -> None:
    path = (*path[:-1], short_name(path[-1]))
    kind = kind_of(value)
    if len(path) == MAX_DEPTH and kind in ("object", "array"):
        kind = "text"  # no column can be deeper
    kinds[path] = kinds.get(path, frozenset()) | {kind}
    if kind == "object":
        for name, item in value if isinstance(value, JsonObject) else value.items():
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
    """Finds the new fields of every struct. `sources` are the paths under which fields of one column were seen: records
    may spell it in several ways."""

    kinds: Mapping[ColumnPath, frozenset[str]]
    names: Mapping[ColumnPath, set[str]]
    rename: Rename
    by_spark: bool
    exact_timestamps: bool
    added: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    valueless: list[ColumnPath] = field(default_factory=list)  # only [] or {} so far: no type can be told

    def of_struct(self, struct: DeltaSchema, sources: Sequence[ColumnPath], path: ColumnPath) -> DeltaSchema:
        if not any(source in self.names for source in sources):
            return struct
        # Whatever a record calls so, these columns are not filled from it.
        filled = {RESCUED_COLUMN, *(column.name for column in derived_columns(struct["fields"]))} if not path else set()
        known = FieldNames((old["name"] for old in struct["fields"] if old["name"] not in filled), path, self.rename)
        inside: dict[str, list[ColumnPath]] = {}
        others: list[ColumnPath] = []
        for seen in self._inside(sources):
            column = known.find(seen[-1])
            others.append(seen) if column is None else inside.setdefault(column, []).append(seen)
        declared = [
            {**old, "type": self._of_declared(old["type"], inside.get(old["name"], []), (*path, old["name"]))}
            for old in struct["fields"]
        ]
        new = self._new_fields(others, path, taken=[old["name"] for old in declared], filled=filled)
        self.added.extend(show_path((*path, column["name"])) for column in new)
        return {**struct, "fields": [*declared, *new]}

    def _of_declared(self, data_type: DeltaType, sources: Sequence[ColumnPath], path: ColumnPath) -> DeltaType:
        # The observation may be older than the column. Then it is about the whole field, and if the field held another
        # kind of value than the column takes, it says nothing about the inside.
        held = self._held(sources)
        match data_type:
            case {"type": "struct"} if held <= {"object"}:
                return self.of_struct(data_type, sources, path)
            case {"type": "array", "elementType": element} if held <= {"array"}:
                return {
                    **data_type,
                    "elementType": self._of_declared(element, _below(sources, "element"), (*path, "element")),
                }
            case {"type": "map", "valueType": value} if not held:
                return {**data_type, "valueType": self._of_declared(value, _below(sources, "value"), (*path, "value"))}
            case _:
                return data_type

    def _inside(self, sources: Iterable[ColumnPath]) -> list[ColumnPath]:
        return [(*source, name) for source in sources for name in sorted(self.names.get(source, ()))]

    def _held(self, sources: Iterable[ColumnPath]) -> frozenset[str]:
        return frozenset().union(*(self.kinds.get(source, frozenset()) for source in sources)) - {"null"}

    def _new_fields(
        self, seen: Iterable[ColumnPath], path: ColumnPath, *, taken: list[str], filled: Set[str] = frozenset()
    ) -> list[dict[str, Any]]:
        groups: dict[str, list[ColumnPath]] = {}
        for source in seen:
            groups.setdefault(fold_ascii(new_name(source[-1], path, self.rename)), []).append(source)
        named = {min(new_name(s[-1], path, self.rename) for s in sources): sources for sources in groups.values()}
        fields: list[dict[str, Any]] = []
        used = {fold_name(name) for name in taken}
        # A column that the reader would then not find for such a field is of no use.
        readable = FieldNames({*taken, *named} - filled, path, self.rename)
        for name, sources in sorted(named.items()):
            if not self._held(sources):
                continue
            is_found = all(readable.find(source[-1]) == name for source in sources)
            if (
                not is_found
                or fold_name(name) in used
                or not self._is_usable(name)
                or (not path and is_rescued_name(name))
            ):
                self.refused.update(map(show_path, sources))
                continue
            data_type = self._new_type(sources, (*path, name))
            if data_type is None:
                self.valueless.extend(sources)
                continue
            used.add(fold_name(name))
            fields.append({"name": name, "type": data_type, "nullable": True, "metadata": {}})
        return fields

    def _new_type(self, sources: Sequence[ColumnPath], path: ColumnPath) -> DeltaType | None:
        """The one type that takes every value seen. None: no value was seen."""
        kinds = self._held(sources)
        if kinds == {"object"}:
            return self._new_struct(sources, path)
        if kinds == {"array"}:
            element = self._new_type(_below(sources, "element"), (*path, "element"))
            return element and {"type": "array", "elementType": element, "containsNull": True}
        return scalar_type(kinds, exact_timestamps=self.exact_timestamps) if kinds else None

    def _new_struct(self, sources: Sequence[ColumnPath], path: ColumnPath) -> DeltaType | None:
        seen = self._inside(sources)
        if len({source[-1] for source in seen}) > MANY_KEYS:
            return "string"  # a map that is used as one: its JSON is kept
        fields = self._new_fields(seen, path, taken=[])
        return {"type": "struct", "fields": fields} if fields else None

    def _is_usable(self, name: str) -> bool:
        if self.by_spark and UNUSABLE_BY_SPARK.search(name):
            return False
        return len(name) <= MAX_NAME_CHARACTERS and not name_problems([name], ())


def _below(sources: Iterable[ColumnPath], step: str) -> list[ColumnPath]:
    return [(*source, step) for source in sources]


def is_rescued_name(name: str) -> bool:
    return fold_name(name) == RESCUED_COLUMN


def with_rescued_column(schema: DeltaSchema) -> DeltaSchema:
    """The schema with the column for what no other column takes."""
    for column in schema["fields"]:
        if is_rescued_name(column["name"]):
            if not _takes_rescued(column):
                raise SchemaError(
                    f"the column {column['name']} must be a nullable STRING {RESCUED_COLUMN} to rescue into. Declare it"
                    f" so in a new table. An existing one cannot rename it (that needs column mapping, which blizzard"
                    f" refuses): use schema.evolution ignore, and a bad_records.policy other than rescue"
                )
            return schema
    rescued: Mapping[str, Any] = {"name": RESCUED_COLUMN, "type": "string", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [*copy.deepcopy(schema["fields"]), rescued]}


def has_rescued_column(schema: DeltaSchema) -> bool:
    return any(map(_takes_rescued, schema["fields"]))


def _takes_rescued(column: Mapping[str, Any]) -> bool:
    return bool((column["name"], column["type"], column["nullable"]) == (RESCUED_COLUMN, "string", True))
