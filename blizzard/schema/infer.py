"""Makes a schema from records: each column gets a type that takes every value it held, and is nullable.

A column with values of more than one kind becomes a STRING, which keeps their JSON text. A column without any value is
left out, because nothing says what it is. Both are reported. Spellings of a name that differ only by the case of ASCII
letters are one column. Memory grows with the columns seen, not with the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH, ColumnPath, DeltaSchema, DeltaType, name_problems, show_column, show_path
from blizzard.schema.hints import NO_HINTS, Hints
from blizzard.schema.names import Rename, fold_ascii, new_name
from blizzard.schema.value_kinds import MANY_KEYS, UNUSABLE_BY_SPARK, kind_of, scalar_type

# What a person calls the kinds of values that are one thing in JSON.
_JSON_NAMES = dict.fromkeys(("long", "large", "decimal", "double", "huge"), "number") | dict.fromkeys(
    ("date", "timestamp", "text"), "string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    schema: DeltaSchema
    left_out: tuple[str, ...]  # the paths of columns that never held a value
    remarks: tuple[str, ...]  # decisions that a person may want to change


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What one column has held so far."""

    values: int = 0
    kinds: set[str] = field(default_factory=set)
    examples: dict[str, Any] = field(default_factory=dict)  # the first value of each JSON type
    fields: dict[str, _Seen] = field(default_factory=dict)
    element: _Seen | None = None
    too_deep: bool = False

    def add(self, other: _Seen) -> None:
        """The same column under another spelling."""
        self.values += other.values
        self.kinds |= other.kinds
        self.examples |= {kind: value for kind, value in other.examples.items() if kind not in self.examples}
        self.too_deep |= other.too_deep
        for name, inner in other.fields.items():
            self.fields.setdefault(name, _Seen()).add(inner)
        if other.element is not None:
            self.element = self.element or _Seen()
            self.element.add(other.element)


def infer_schema(
    records: Iterable[Mapping[str, Any]], hints: Hints = NO_HINTS, rename: Rename = None, *, by_spark: bool = False
) -> Inference:
    """The schema that takes all of these parsed JSON objects. Columns are in the order in which they were first seen;
    hinted ones that were not seen come last. SchemaError with all reasons if there is none. `by_spark`: Spark makes the
    table."""
    root: dict[str, _Seen] = {}
    for record in records:
        _observe_fields(root, record, ())
    builder = _Builder(rename=rename, by_spark=by_spark)
    schema = builder.struct(root, hints, ())
    if builder.problems:
        raise SchemaError(
            "no schema fits these records; write one, fix the source, or give fields new names (schema.rename):",
            further=[f"  {problem}" for problem in builder.problems],
        )
    if schema is None:
        raise SchemaError("schema: no column of the records holds a value; give it records that do, or hints")
    return Inference(schema=schema, left_out=tuple(map(show_path, builder.left_out)), remarks=tuple(builder.remarks))


def _observe_fields(fields: dict[str, _Seen], record: Mapping[str, Any], path: ColumnPath) -> None:
    for name, value in record.items():
        seen = fields.get(name)
        if seen is None:
            seen = fields[name] = _Seen()
        _observe(seen, value, (*path, name))


def _observe(seen: _Seen, value: Any, path: ColumnPath) -> None:
    if value is None:
        return
    if len(path) > MAX_DEPTH:
        seen.too_deep = True
        return
    # Once a column is plain text, nothing makes it a date again: no need to look.
    is_text = isinstance(value, str) and "text" in seen.kinds
    try:
        kind = "text" if is_text else kind_of(value)
    except TypeError as e:
        raise SchemaError(f"{show_column(path)}: {e}") from None
    if kind == "object":
        _observe_fields(seen.fields, value, path)
    elif kind == "array":
        seen.element = seen.element or _Seen()
        for item in value:
            _observe(seen.element, item, (*path, "element"))
    seen.values += 1
    seen.kinds.add(kind)
    seen.examples.setdefault(_JSON_NAMES.get(kind, kind), value)


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Makes types from what was seen and hinted, and collects remarks and problems. A type None: no value was seen."""

    rename: Rename
    by_spark: bool
    problems: list[str] = field(default_factory=list)
    left_out: list[ColumnPath] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def struct(self, seen: Mapping[str, _Seen], hints: Hints, path: ColumnPath) -> DeltaSchema | None:
        fields, before = [], len(self.left_out)
        seen = self._by_column(seen, hints, path)
        for name in dict.fromkeys([*seen, *hints.inside]):
            column = self._column(name, seen.get(name) or _Seen(), hints.inside.get(name, NO_HINTS), path)
            if column is None:
                self.left_out.append((*path, name))
            else:
                fields.append(column)
        if not fields:
            del self.left_out[before:]  # the whole object is left out and listed instead
            return None
        self.problems += name_problems([f["name"] for f in fields], path)
        return {"type": "struct", "fields": fields}

    def _by_column(self, seen: Mapping[str, _Seen], hints: Hints, path: ColumnPath) -> dict[str, _Seen]:
        """What each column held, under all names that fields of it have. A hint decides the spelling."""
        spellings: dict[str, list[str]] = {}
        for name in seen:
            spellings.setdefault(fold_ascii(new_name(name, path, self.rename)), []).append(name)
        hinted = {fold_ascii(name): name for name in hints.inside}
        columns: dict[str, _Seen] = {}
        for folded, names in spellings.items():
            column = columns[hinted.get(folded) or min(new_name(name, path, self.rename) for name in names)] = _Seen()
            for name in names:
                column.add(seen[name])
        return columns

    def _column(self, name: str, seen: _Seen, hints: Hints, parent: ColumnPath) -> dict[str, Any] | None:
        if hints.column is not None:
            return dict(hints.column)
        path = (*parent, name)
        data_type = self._type(seen, hints, path)
        if data_type is None:
            return None
        if self.by_spark and UNUSABLE_BY_SPARK.search(name):
            taken = "Spark makes no table with one of ' ,;{}()=' in the name of a column"
            self.problems.append(f"{show_column(path)}: {taken}; give it a new name (schema.rename)")
        return {"name": name, "type": data_type, "nullable": True, "metadata": {}}

    def _type(self, seen: _Seen, hints: Hints, path: ColumnPath) -> DeltaType | None:
        if seen.too_deep:
            place = show_column(path[:3])
            self.problems.append(f"{place}...: nested more than {MAX_DEPTH} deep; flatten it, or hint it as a STRING")
            return None
        kinds = tuple(seen.examples)
        if hints.inside and not self._can_be_entered(seen, hints, path):
            return None
        if len(kinds) > 1:
            held = " and ".join(f"{kind} ({_show(value)})" for kind, value in seen.examples.items())
            self.remarks.append(f"{show_path(path)} is a STRING, for it held {held}")
            return "string"
        match kinds:
            case ("array",):
                return self._array(seen.element or _Seen(), hints, path)
            case ("object",) | ():
                self._look_for_a_map(seen, path)
                return self.struct(seen.fields, hints, path)
        data_type = scalar_type(seen.kinds)
        if kinds == ("number",) and data_type == "string":
            self.remarks.append(f"{show_path(path)} is a STRING, for no other type holds all of its numbers exactly")
        return data_type

    def _array(self, element: _Seen, hints: Hints, path: ColumnPath) -> DeltaType | None:
        column = self._column("element", element, hints.inside.get("element", NO_HINTS), path)
        if column is None:
            return None
        if not column["nullable"] or column["metadata"]:
            self.problems.append(f"{show_column((*path, 'element'))}: a hint for what an array holds is a type alone")
        return {"type": "array", "elementType": column["type"], "containsNull": True}

    def _can_be_entered(self, seen: _Seen, hints: Hints, path: ColumnPath) -> bool:
        """Whether this column has an inside, as the hints for columns inside it say."""
        for kind, example in seen.examples.items():
            if kind != "object" and not (kind == "array" and set(hints.inside) == {"element"}):
                hinted = show_path((*path, next(iter(hints.inside))))
                self.problems.append(
                    f"{show_column(path)}: {hinted} is hinted, but {show_path(path)} held {kind} ({_show(example)});"
                    f" hint the whole column, or what an array holds as {show_path((*path, 'element'))}"
                )
                return False
        return True

    def _look_for_a_map(self, seen: _Seen, path: ColumnPath) -> None:
        keys = len(seen.fields)
        if keys > MANY_KEYS and sum(f.values for f in seen.fields.values()) * 10 < keys * seen.values:
            hint = f"{show_path(path)} MAP<STRING, STRING>"
            self.remarks.append(
                f"{show_path(path)} has {keys:,} keys, most of them rare; a hint makes it a map: {hint}"
            )


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
