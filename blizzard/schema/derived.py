"""Columns that are not in the records: where a row comes from, a part of its path, a part of one of its times.

The field of such a column in the table's schema says how it is filled, so that every later run fills it the same way.
What an unknown version wrote there is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from blizzard.core.kinds import Kind
from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, quote_name, show_column, show_path
from blizzard.schema.ddl import parse_ddl, show_type

METADATA_KEY = "blizzard.from"
# In its place: the column takes the record itself, and so it is not a derived one.
WHOLE_RECORD = "record"

# Facts that are known about every row: the column of each, and its type.
PROVENANCE: dict[str, tuple[str, str]] = {
    "source_file": ("_source_file", "string"),
    "source_line": ("_source_line", "long"),
    "ingested_at": ("_ingested_at", "timestamp"),
    "sequence": ("_sequence", "long"),
    "record_key": ("_record_key", "string"),
    "raw": ("_raw", "string"),
}
# `all` is what it was before there was `raw`, which about doubles the size of a table.
_ALL = tuple(fact for fact in PROVENANCE if fact != "raw")
_TIME_PARTS = {"date": "date", "year": "integer", "month": "integer", "hour": "integer"}
_TIMES = ("timestamp", "timestamp_ntz", "date")
_PATH_TYPES = ("string", "byte", "short", "integer", "long", "date")

_CALL = re.compile(r"(\w+)\(((?:`[^`]*`|[^`)])*)\)\s*(.*)", re.DOTALL)
_NAMED = re.compile(r"(`(?:[^`]|``)+`|[^=`]+?)\s*(?:=\s*(.+))?", re.DOTALL)
_STEP = re.compile(r"(?:`((?:[^`]|``)+)`|([^.`]+))(?:\.(?=.)|$)")
_ITEM = re.compile(r"(?:`[^`]*`|\((?:`[^`]*`|[^)`])*\)|[^,`(])+")


@dataclass(frozen=True, slots=True)
class Provenance:
    """A fact about the row itself; `fact` is one of PROVENANCE."""

    fact: str


@dataclass(frozen=True, slots=True)
class PathPart:
    """The value of `key=value` in the folders of the source path."""

    key: str


@dataclass(frozen=True, slots=True)
class TimePart:
    """The date, year, month or hour of another column, in UTC."""

    part: str
    column: ColumnPath


Derivation: TypeAlias = Provenance | PathPart | TimePart


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    name: str
    type_name: str
    derivation: Derivation


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """One column of `table.partition_by`: an existing one, or a derived one."""

    name: str
    derivation: Derivation | None = None
    type_name: str | None = None  # only for path(), if it was given

    @property
    def shown(self) -> str:
        text = quote_name(self.name)
        if self.derivation is not None:
            text += f"={show_derivation(self.derivation)}"
        return text if self.type_name is None else f"{text} {show_type(self.type_name)}"


def show_derivation(derivation: Derivation) -> str:
    """The text that is kept in the table and that `parse_derivation` reads back."""
    match derivation:
        case Provenance(fact=fact):
            return fact
        case PathPart(key=key):
            return f"path({quote_name(key)})"
        case TimePart(part=part, column=column):
            return f"{part}({show_path(column)})"


def parse_derivation(text: str) -> Derivation:
    if text in PROVENANCE:
        return Provenance(text)
    derivation, rest = _parse_call(text)
    if rest:
        raise SchemaError(f"{text!r}: {rest!r} cannot follow here; remove it")
    return derivation


def _parse_call(text: str) -> tuple[Derivation, str]:
    """The function call at the start of a text, and what follows it."""
    match = _CALL.fullmatch(text.strip())
    if match is None or match[1].lower() not in (*_TIME_PARTS, "path"):
        functions = ", ".join(f"{part}(column)" for part in _TIME_PARTS)
        raise SchemaError(f"{text!r} is not a way to fill a column; write {functions} or path(key)")
    function, names = match[1].lower(), _parse_column(match[2].strip(), text)
    if function != "path":
        return TimePart(function, names), match[3].strip()
    if len(names) != 1:
        raise SchemaError(f"{text!r}: path() takes the key of one folder; put one with dots in backticks")
    return PathPart(names[0]), match[3].strip()


def _parse_column(text: str, within: str) -> ColumnPath:
    """`user.ts`, with backticks around a name that has a dot in it."""
    names: list[str] = []
    at = 0
    while at < len(text) or not names:
        match = _STEP.match(text, at)
        if match is None:
            raise SchemaError(f"{within!r}: {text!r} is not the name of a column; write it as in user.ts")
        names.append(match[1].replace("``", "`") if match[1] else match[2].strip())
        at = match.end()
    return tuple(names)


def parse_partition_by(value: str | Sequence[str]) -> tuple[PartitionSpec, ...]:
    """`country, day=date(ts), region=path(region) INTEGER`, or a list of such items."""
    return tuple(_parse_spec(item) for item in _items(value, "table.partition_by"))


def _parse_spec(item: str) -> PartitionSpec:
    match = _NAMED.fullmatch(item)
    if match is None:
        raise SchemaError(f"table.partition_by: {item!r} is not a column; write country, or day=date(ts)")
    (name, *others) = _parse_column(match[1], item)
    if others:
        raise SchemaError(f"table.partition_by: {item!r} is inside a struct; only a top-level column can partition")
    if match[2] is None:
        return PartitionSpec(name=name)
    derivation, type_text = _parse_call(match[2])
    if not type_text:
        return PartitionSpec(name=name, derivation=derivation)
    if not isinstance(derivation, PathPart):
        raise SchemaError(f"table.partition_by: {item!r}: only path(key) takes a type; remove {type_text!r}")
    (field,) = parse_ddl(f"{quote_name(name)} {type_text}")["fields"]
    return PartitionSpec(name=name, derivation=derivation, type_name=_path_type(field["type"], name))


def parse_provenance(value: str | Sequence[str]) -> tuple[str, ...]:
    """`source_file, source_line`, or `all`, which is all but `raw`, or `none`. Each once, in the order of their
    columns."""
    chosen = [item.lower() for item in _items(value, "table.provenance")]
    if chosen == ["none"]:
        return ()
    chosen = [fact for item in chosen for fact in (_ALL if item == "all" else (item,))]
    if unknown := [item for item in chosen if item not in PROVENANCE]:
        every = ", ".join(PROVENANCE)
        raise SchemaError(
            f"table.provenance: {unknown[0]!r} is not one of {every}; or write all (without raw), or none alone"
        )
    return tuple(fact for fact in PROVENANCE if fact in chosen)


def _items(value: str | Sequence[str], key: str) -> list[str]:
    """The items of a list, or of a text that is split at commas outside brackets and backticks."""
    items: Any = [value] if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise SchemaError(f"{key} must be text or a list of texts, not {value!r}")
    parts: list[str] = []
    for item in items:
        at = 0
        while at <= len(item):
            match = _ITEM.match(item, at)
            part, at = (match[0], match.end()) if match is not None else ("", at)
            if not part.strip() or (at < len(item) and item[at] != ","):
                raise SchemaError(f"{key}: {item!r} is not a list; check its commas, brackets and backticks")
            parts.append(part.strip())
            at += 1
    return parts


def derived_columns(fields: Sequence[dict[str, Any]]) -> tuple[DerivedColumn, ...]:
    """The derived columns of a schema. Each is checked against what it is filled from."""
    found = []
    for field in fields:
        text = (field.get("metadata") or {}).get(METADATA_KEY)
        if text is None or text == WHOLE_RECORD:
            continue
        try:
            derivation = parse_derivation(text)
        except SchemaError as e:
            where = show_column((field["name"],))
            raise SchemaError(
                f"{where}: its {METADATA_KEY} says {text!r}, which this version of blizzard does not know; use the"
                f" version that made the table",
                kind=Kind.LAYOUT_UNKNOWN,
            ) from e
        found.append(DerivedColumn(name=field["name"], type_name=field["type"], derivation=derivation))
    times = {column.name for column in found if isinstance(column.derivation, TimePart)}
    others = [field for field in fields if field["name"] not in times]
    for column in found:
        _check_type(column, others)
    return tuple(found)


def whole_record_column(fields: Sequence[dict[str, Any]]) -> str | None:
    """The VARIANT column that takes each record as a whole, if the table was made so."""
    found = [field for field in fields if (field.get("metadata") or {}).get(METADATA_KEY) == WHOLE_RECORD]
    if len(found) > 1 or any(field["type"] != "variant" for field in found):
        where = show_column((found[-1]["name"],))
        raise SchemaError(
            f"{where}: its {METADATA_KEY} says {WHOLE_RECORD!r}, which only one column can be, of the type VARIANT;"
            f" take it out of the schema",
            kind=Kind.LAYOUT_UNKNOWN,
        )
    return found[0]["name"] if found else None


def whole_record_schema() -> DeltaSchema:
    """Of a new table that takes each record as a whole."""
    metadata = {METADATA_KEY: WHOLE_RECORD}
    return {
        "type": "struct",
        "fields": [{"name": "record", "type": "variant", "nullable": True, "metadata": metadata}],
    }


def type_of(derivation: Derivation) -> str:
    """The default type of a derived column."""
    match derivation:
        case Provenance(fact=fact):
            return PROVENANCE[fact][1]
        case PathPart():
            return "string"
        case TimePart(part=part):
            return _TIME_PARTS[part]


def _check_type(column: DerivedColumn, others: Sequence[dict[str, Any]]) -> None:
    if isinstance(column.derivation, PathPart):
        _path_type(column.type_name, column.name)
    elif column.type_name != type_of(column.derivation):
        wanted, found = show_type(type_of(column.derivation)), show_type(column.type_name)
        how = show_derivation(column.derivation)
        raise SchemaError(f"{show_column((column.name,))}: {how} is {wanted}, but the column is {found}")
    if isinstance(column.derivation, TimePart):
        _check_time(column, others)


def _check_time(column: DerivedColumn, others: Sequence[dict[str, Any]]) -> None:
    derivation = column.derivation
    assert isinstance(derivation, TimePart)
    how, here = show_derivation(derivation), show_column((column.name,))
    kind: DeltaType = {"type": "struct", "fields": others}
    for depth, name in enumerate(derivation.column):
        inside = kind["fields"] if isinstance(kind, dict) and kind.get("type") == "struct" else []
        kind = next((field["type"] for field in inside if field["name"] == name), None)
        if kind is None:
            missing = show_path(derivation.column[: depth + 1])
            raise SchemaError(f"{here}: {how} needs {missing}, which is no column of the records; declare it")
    if kind not in _TIMES or (derivation.part == "hour" and kind == "date"):
        wanted = "TIMESTAMP" if derivation.part == "hour" else "TIMESTAMP or DATE"
        raise SchemaError(
            f"{here}: {how} needs a {wanted} column, but {show_path(derivation.column)} is {show_type(kind)}"
        )


def _path_type(data_type: DeltaType, name: str) -> str:
    if data_type not in _PATH_TYPES:
        wanted = ", ".join(map(show_type, _PATH_TYPES))
        raise SchemaError(f"{show_column((name,))}: path() cannot fill {show_type(data_type)}; write one of {wanted}")
    return str(data_type)
