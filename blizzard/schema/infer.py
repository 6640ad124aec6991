"""Makes a schema from records: each column gets a type that takes every value it held, and is nullable.

A column with values of more than one kind becomes a STRING, which keeps their JSON text. An object whose keys are data
becomes a MAP. A column without any value is left out, because nothing says what it is. All of this is reported.
Spellings of a name that differ only by the case of ASCII letters are one column.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.errors import BadData, SchemaError
from blizzard.schema import MAX_DEPTH, ColumnPath, DeltaSchema, DeltaType, name_problems, show_column, show_path
from blizzard.schema.ddl import show_type
from blizzard.schema.evolve import is_rescued_name
from blizzard.schema.formats import ISO, parse_formats
from blizzard.schema.hints import NO_HINTS, Hints
from blizzard.schema.maps import are_data, is_data, why_a_map
from blizzard.schema.names import Rename, fold_ascii, new_name
from blizzard.schema.proposals import ProposedFormat, propose_format
from blizzard.schema.seen import Seen
from blizzard.schema.value_kinds import MAX_COLUMNS, UNUSABLE_BY_SPARK, scalar_type

# Fewer keys than this may be names, whatever they look like.
_FEW_RECORDS_OF_A_FRAME = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSettings:
    """What decides about new columns, beside the records."""

    rename: Rename = None
    by_spark: bool = False  # Spark makes the table
    exact_timestamps: bool = False  # a TIMESTAMP takes no digit beyond a microsecond
    formats: Mapping[ColumnPath, tuple[str, ...]] = field(default_factory=dict)  # columns with one are times


NO_SETTINGS = InferenceSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    schema: DeltaSchema
    left_out: tuple[str, ...]  # the paths of columns that never held a value
    remarks: tuple[str, ...]  # decisions that a person may want to change
    formats: tuple[ProposedFormat, ...] = ()  # columns that a setting would make times
    has_maps: bool = False


def infer_schema(
    records: Iterable[Mapping[str, Any]], hints: Hints = NO_HINTS, settings: InferenceSettings = NO_SETTINGS
) -> Inference:
    """The schema that takes all of these parsed JSON objects. Columns are in the order in which they were first seen;
    hinted ones that were not seen come last. SchemaError with all reasons if there is none."""
    root = Seen()
    for record in records:
        root.values += 1
        root.observe_object(record, ())
        _refuse_too_many(len(root.fields), root)
    _refuse_records_in_a_frame(root, hints)
    builder = _Builder(settings=settings)
    schema = builder.struct(root, hints, ())
    if builder.problems:
        raise SchemaError(
            "no schema fits these records; write one, fix the source, or give fields new names (schema.rename):",
            further=[f"  {problem}" for problem in builder.problems],
        )
    if schema is None:
        raise SchemaError("schema: no column of the records holds a value; give it records that do, or hints")
    return Inference(
        schema=schema,
        left_out=tuple(map(show_path, builder.left_out)),
        remarks=tuple(builder.remarks),
        formats=tuple(builder.formats),
        has_maps=builder.has_maps,
    )


def _refuse_too_many(columns: int, root: Seen) -> None:
    if columns > MAX_COLUMNS:
        raise BadData(
            f"the records have more than {MAX_COLUMNS:,} different fields ({some(list(root.fields), 3)}, …): are the"
            f" names of these fields data? No table was made. Give a schema with the columns that you want"
            f" (--schema), and keep the rest as JSON with schema.evolution=rescue.",
            kind=Kind.TOO_MANY_COLUMNS,
        )


def _refuse_records_in_a_frame(root: Seen, hints: Hints) -> None:
    """An object that holds the records under their numbers or ids would become one row with a column for each."""
    types = {json_name for seen in root.fields.values() for json_name in seen.examples}
    if hints.inside or types != {"object"} or not are_data(root.fields, at_least=_FEW_RECORDS_OF_A_FRAME, share=0.9):
        return
    key = next(filter(is_data, root.fields))
    raise SchemaError(
        f"a line holds an object of objects under keys that are data ({json.dumps(key)} and {len(root.fields) - 1:,}"
        f" more): those objects are the records, and no framing reads them. Make a line of each, with its key:"
        f" jq -c 'to_entries[] | {{key, value}}' FILE. To keep the line as one row, give a schema or hints."
    )


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Makes types from what was seen and hinted, and collects remarks and problems. A type None: no value was seen."""

    settings: InferenceSettings
    problems: list[str] = field(default_factory=list)
    left_out: list[ColumnPath] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    formats: list[ProposedFormat] = field(default_factory=list)
    has_maps: bool = False

    def struct(self, seen: Seen, hints: Hints, path: ColumnPath) -> DeltaSchema | None:
        fields, before = [], len(self.left_out)
        self._remark_on_clashes(seen, path)
        columns = self._by_column(seen.fields, hints, path)
        self._leave_out_impossible(columns, path)
        if not path:
            self._leave_to_rescue(columns)
        for name in dict.fromkeys([*columns, *hints.inside]):
            column = self._column(name, columns.get(name) or Seen(), hints.inside.get(name, NO_HINTS), path)
            if column is None:
                self.left_out.append((*path, name))
            else:
                fields.append(column)
        if not fields:
            del self.left_out[before:]  # the whole object is left out and listed instead
            return None
        self.problems += name_problems([f["name"] for f in fields], path)
        return {"type": "struct", "fields": fields}

    def _leave_out_impossible(self, columns: dict[str, Seen], path: ColumnPath) -> None:
        """Such names become no columns after the sample either. One of them in one record must not stop a first run."""
        for name in [name for name in columns if name_problems([name], path)]:
            del columns[name]
            self.remarks.append(
                f"{show_column(path)}: {name!r} cannot be the name of a column; its values go the way of fields without"
                f" one (schema.evolution)"
            )

    def _leave_to_rescue(self, columns: dict[str, Seen]) -> None:
        """blizzard fills the column of this name itself. What a field of this name holds is kept there."""
        for name in [name for name in columns if is_rescued_name(name)]:
            del columns[name]
            self.remarks.append(f"{name} is no column of its own: its values are kept in the one that blizzard fills")

    def _by_column(self, seen: Mapping[str, Seen], hints: Hints, path: ColumnPath) -> dict[str, Seen]:
        """What each column held, under all names that fields of it have. A hint decides the spelling."""
        spellings: dict[str, list[str]] = {}
        rename = self.settings.rename
        for name in seen:
            spellings.setdefault(fold_ascii(new_name(name, path, rename)), []).append(name)
        hinted = {fold_ascii(name): name for name in hints.inside}
        columns: dict[str, Seen] = {}
        for folded, names in spellings.items():
            column = columns[hinted.get(folded) or min(new_name(name, path, rename) for name in names)] = Seen()
            for name in names:
                column.add(seen[name])
        return columns

    def _remark_on_clashes(self, seen: Seen, path: ColumnPath) -> None:
        for spellings, records in seen.clashes.items():
            names = {new_name(name, path, self.settings.rename) for name in spellings}
            if len({fold_ascii(name) for name in names}) == len(spellings):
                continue  # the settings have given them different names
            keys = [show_path((*path, name)) for name in spellings]
            renamed = [f"schema.rename.{key}={name}" for key, name in zip(keys, _apart(spellings), strict=True)]
            settings = " ".join(f"--set {shlex.quote(setting)}" for setting in renamed)
            self.remarks.append(
                f"{' and '.join(keys)} are one column; {count(records, 'record')} of the sample with more than one of"
                f" them will be bad. To keep both: {settings}"
            )

    def _column(self, name: str, seen: Seen, hints: Hints, parent: ColumnPath) -> dict[str, Any] | None:
        if hints.column is not None:
            return dict(hints.column)
        path = (*parent, name)
        data_type = self._type(seen, hints, path)
        if data_type is None:
            return None
        if self.settings.by_spark and UNUSABLE_BY_SPARK.search(name):
            taken = "Spark makes no table with one of ' ,;{}()=' in the name of a column"
            self.problems.append(f"{show_column(path)}: {taken}; give it a new name (schema.rename)")
        return {"name": name, "type": data_type, "nullable": True, "metadata": {}}

    def _type(self, seen: Seen, hints: Hints, path: ColumnPath) -> DeltaType | None:
        if path in self.settings.formats:
            return _type_of_formats(self.settings.formats[path], seen)
        if seen.too_deep:
            place = show_column(path[:3])
            self.problems.append(f"{place}...: nested more than {MAX_DEPTH} deep; flatten it, or hint it as a STRING")
            return None
        if hints.inside and not self._can_be_entered(seen, hints, path):
            return None
        if (proposed := propose_format(seen, path)) is not None:
            self.formats.append(proposed)
        kinds = tuple(seen.examples)
        if len(kinds) > 1:
            held = " and ".join(f"{kind} ({_show(value)})" for kind, value in seen.examples.items())
            self.remarks.append(f"{show_path(path)} is a STRING, for it held {held}")
            return "string"
        match kinds:
            case ("array",):
                return self._array(seen.element or Seen(), hints, path)
            case ("object",) | ():
                why = None if hints.inside else why_a_map(path[-1], seen)
                return self.struct(seen, hints, path) if why is None else self._map(seen, path, why)
        data_type = scalar_type(seen.kinds, exact_timestamps=self.settings.exact_timestamps)
        if (remark := self._remark_on(seen.kinds, data_type, show_path(path))) is not None:
            self.remarks.append(remark)
        return data_type

    def _remark_on(self, kinds: set[str], data_type: str, column: str) -> str | None:
        """What a person may not expect of this type."""
        local, cut = kinds & {"local", "local_ns"}, kinds & {"timestamp_ns", "local_ns"}
        if data_type == "timestamp":
            said = ["times without a zone are taken for UTC"] if local else []
            said += ["a date is taken for its midnight in UTC"] if "date" in kinds else []
            said += ["digits beyond a microsecond are cut (schema.timestamps)"] if cut else []
            return f"{column} is a TIMESTAMP: {', '.join(said)}" if said else None
        if data_type != "string" or "text" in kinds:
            return None
        if "long" in kinds or "double" in kinds or "huge" in kinds:
            return f"{column} is a STRING, for no other type holds all of its numbers exactly"
        if local and kinds & {"timestamp", "timestamp_ns"}:
            return (
                f"{column} is a STRING, for it held times with and without a zone; a hint takes those without one for"
                f" UTC: {column} TIMESTAMP"
            )
        return f"{column} is a STRING, for schema.timestamps=exact keeps digits beyond a microsecond" if cut else None

    def _array(self, element: Seen, hints: Hints, path: ColumnPath) -> DeltaType | None:
        column = self._column("element", element, hints.inside.get("element", NO_HINTS), path)
        if column is None:
            return None
        if not column["nullable"] or column["metadata"]:
            self.problems.append(f"{show_column((*path, 'element'))}: a hint for what an array holds is a type alone")
        return {"type": "array", "elementType": column["type"], "containsNull": True}

    def _map(self, seen: Seen, path: ColumnPath, why: str) -> DeltaType | None:
        value = self._type(seen.all_entries(), NO_HINTS, (*path, "value"))
        if value is None:
            return None
        self.has_maps = True
        data_type = {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        column = show_path(path)
        self.remarks.append(
            f"{column} is a {_cut(show_type(data_type), 80)}, for {why}. To have columns instead, hint one of them:"
            f" {column}.NAME TYPE"
        )
        return data_type

    def _can_be_entered(self, seen: Seen, hints: Hints, path: ColumnPath) -> bool:
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


def _type_of_formats(names: tuple[str, ...], seen: Seen) -> str:
    """A column that the settings give a format is a time; a day, if no time of day can be written so."""
    try:
        parse_formats(names, "date")
    except SchemaError:
        return "timestamp"
    return "date" if names != (ISO,) or scalar_type(seen.kinds) == "date" else "timestamp"


def _apart(spellings: tuple[str, ...]) -> list[str]:
    """Names that are different columns for Delta, which ignores case."""
    return [name if i == 0 else f"{name}_{i + 1}" for i, name in enumerate(spellings)]


def _show(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), 40)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
