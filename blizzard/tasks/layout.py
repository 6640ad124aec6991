"""Turns the rows of the records into the rows of the table: fills the derived columns, one column at a time.

A path without the value gives null. A value that is there but cannot be used is an error that names the file, never a
null.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blizzard.core.kinds import Kind, LineKind
from blizzard.schema import DeltaSchema, show_column
from blizzard.schema.arrow import to_arrow
from blizzard.schema.derived import DerivedColumn, PathPart, Provenance, TimePart, show_derivation
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.schema.layout import TableLayout
from blizzard.tasks.values import INTEGER_BITS

# Hive and Spark use this folder name for rows without a value.
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class RowOrigin:
    """Consecutive rows from one file."""

    path: str  # relative to the source root
    etag: str
    line_numbers: npt.NDArray[np.int64]  # the physical line of each row, counted from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStamp:
    """What all rows of a batch have in common."""

    pipeline: str
    sequence: int
    ingested_at_us: int


class UnusableOrigin(Exception):
    """A column cannot be filled for a file, or for some rows. `line` (1-based) is that of the first such row."""

    def __init__(
        self,
        message: str,
        *,
        kind: Kind | LineKind,
        path: str,
        line: int | None = None,
        column: str | None = None,
        rows: Any = (),
    ) -> None:
        super().__init__(message)
        self.kind, self.path, self.line, self.column, self.rows = kind, path, line, column, rows


def complete_table(
    table: pa.Table, layout: TableLayout, origins: Sequence[RowOrigin], stamp: BatchStamp, texts: Any = None
) -> pa.Table:
    """The rows with every column of the layout, in its order. `origins` say where the rows come from, in row order.
    `texts` are the lines of the rows; only a layout that keeps them needs them."""
    filled: dict[str, Any] = {}
    if layout.derived:
        rows = _Rows(origins, stamp, texts)
        if rows.count != table.num_rows:
            raise RuntimeError(f"{rows.count} lines were counted for {table.num_rows} rows")
        filled = _fill(table, layout, rows)
    names = [field["name"] for field in layout.schema["fields"]]
    if RESCUED_COLUMN in names and RESCUED_COLUMN not in table.column_names:
        filled[RESCUED_COLUMN] = pa.nulls(table.num_rows, pa.string())  # another run rescued; this one does not
    if layout.derived or table.column_names != names:
        table = _in_order(table, layout.schema, filled)
    _check_values(table, layout, origins)
    return table


def _in_order(table: pa.Table, schema: DeltaSchema, filled: dict[str, Any]) -> pa.Table:
    given = set(table.column_names) | filled.keys()
    expected = {field["name"] for field in schema["fields"]}
    if given != expected or len(table.column_names) + len(filled) != len(expected):
        raise RuntimeError(f"the rows have the columns {sorted(given)}, the table has {sorted(expected)}")
    columns = [filled[name] if name in filled else table[name] for name in to_arrow(schema).names]
    return pa.Table.from_arrays(columns, schema=to_arrow(schema))


class _Rows:
    """The origins of all rows of a table, as columns."""

    def __init__(self, origins: Sequence[RowOrigin], stamp: BatchStamp, texts: Any) -> None:
        self.origins, self.stamp, self._texts = origins, stamp, texts
        self._counts = [len(origin.line_numbers) for origin in origins]
        self.count = sum(self._counts)

    def spread(self, values: Sequence[Any], data_type: pa.DataType) -> Any:
        """One value per origin, repeated for each of its rows."""
        if len(values) == 1:
            return pa.repeat(pa.scalar(values[0], data_type), self.count)
        return pa.array(values, data_type).take(pa.array(np.repeat(np.arange(len(values)), self._counts)))

    def lines(self) -> npt.NDArray[np.int64]:
        parts = [origin.line_numbers for origin in self.origins]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])

    def fact(self, fact: str) -> Any:
        match fact:
            case "source_file":
                return self.spread([origin.path for origin in self.origins], pa.string())
            case "source_line":
                return pa.array(self.lines() + 1, pa.int64())
            case "ingested_at":
                return pa.repeat(pa.scalar(self.stamp.ingested_at_us, pa.timestamp("us", tz="UTC")), self.count)
            case "sequence":
                return pa.repeat(pa.scalar(self.stamp.sequence, pa.int64()), self.count)
            case "raw":
                if self._texts is None or len(self._texts) != self.count:
                    raise RuntimeError(f"there are not {self.count} lines for the rows")
                return self._texts
            case _:
                return self._record_key()

    def _record_key(self) -> Any:
        """`pipeline|path|etag|record`: always the same for a record, even if another batch reads it again."""
        files = [f"{self.stamp.pipeline}|{origin.path}|{origin.etag}" for origin in self.origins]
        records = pa.array(self.lines(), pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(self.spread(files, pa.string()), records, "|")


def _fill(table: pa.Table, layout: TableLayout, rows: _Rows) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for column in layout.derived:
        match column.derivation:
            case Provenance(fact=fact):
                filled[column.name] = rows.fact(fact)
            case PathPart():
                values = [_path_value(origin.path, column) for origin in rows.origins]
                filled[column.name] = rows.spread(values, _arrow_type(column.type_name))
    for column in layout.derived:  # after the others: a time may come from a column that was filled above
        if isinstance(column.derivation, TimePart):
            top = column.derivation.column[0]
            source = filled[top] if top in filled else table[top]
            filled[column.name] = _time_part(source, column.derivation)
    return filled


def _time_part(values: Any, derivation: TimePart) -> Any:
    for name in derivation.column[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))  # without a zone: the time in UTC
    match derivation.part:
        case "date":
            return values.cast(pa.date32())
        case "year":
            return pc.year(values).cast(pa.int32())
        case "month":
            return pc.month(values).cast(pa.int32())
        case _:
            return pc.hour(values).cast(pa.int32())


def _path_value(path: str, column: DerivedColumn) -> Any:
    assert isinstance(column.derivation, PathPart)
    try:
        text = folder_value(path, column.derivation.key)
        return None if text is None else _convert(text, column.type_name)
    except ValueError as e:
        how = show_derivation(column.derivation)
        raise UnusableOrigin(f"{show_column((column.name,))}, {how}: {e}", kind=Kind.BAD_PATH, path=path) from None


def check_path(path: str, layout: TableLayout) -> None:
    """Raises `UnusableOrigin` if the rows of this file could not be completed."""
    for column in layout.derived:
        if isinstance(column.derivation, PathPart):
            _path_value(path, column)


def folder_value(path: str, key: str) -> str | None:
    """The value of `key=value` in the folders of a path; None if there is none. ValueError if it is ambiguous."""
    found = set()
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and unquote_to_bytes(name) == key.encode():
            found.add(value)
    if len(found) > 1:
        raise ValueError(f"its folders give {' and '.join(sorted(found))}; keep one of them")
    for value in found:
        try:
            return None if value == _NULL_FOLDER else unquote_to_bytes(value).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{value!r} is not UTF-8 after its %XX are decoded; rename the folder") from None
    return None


def _convert(text: str, type_name: str) -> Any:
    if type_name == "string":
        return text
    if type_name == "date" and _DATE.fullmatch(text):
        try:
            return dt.date.fromisoformat(text)
        except ValueError:
            pass  # there is no such day
    elif type_name in INTEGER_BITS and _INTEGER.fullmatch(text):
        limit = 1 << (INTEGER_BITS[type_name] - 1)
        if -limit <= int(text) < limit:
            return int(text)
    raise ValueError(f"{text!r} in its path is not a valid {type_name}; rename the folder")


def _arrow_type(type_name: str) -> pa.DataType:
    field = {"name": "c", "type": type_name, "nullable": True}
    return to_arrow({"type": "struct", "fields": [field]}).field(0).type


def _check_values(table: pa.Table, layout: TableLayout, origins: Sequence[RowOrigin]) -> None:
    """NOT NULL also holds for derived columns, and for empty text in a partition column, where it means null."""
    derived = {column.name for column in layout.derived}
    for field in layout.schema["fields"]:
        name = field["name"]
        if field["nullable"] or (name not in derived and name not in layout.partition_by):
            continue
        missing = pc.is_null(table[name])
        if name in layout.partition_by and field["type"] == "string":
            missing = pc.or_kleene(missing, pc.equal(table[name], ""))
        rows = np.flatnonzero(missing.to_numpy())
        if rows.size:
            path, line = _place_of(int(rows[0]), origins)
            message = f"{show_column((name,))}: null, missing or empty, but the column is NOT NULL"
            raise UnusableOrigin(message, kind=LineKind.MISSING_VALUE, path=path, line=line, column=name, rows=rows)


def _place_of(row: int, origins: Sequence[RowOrigin]) -> tuple[str, int]:
    for origin in origins:
        if row < len(origin.line_numbers):
            return origin.path, int(origin.line_numbers[row]) + 1
        row -= len(origin.line_numbers)
    raise RuntimeError(f"row {row} past the last line")
