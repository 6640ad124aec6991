"""Fits the rows of a transform into the columns of the table. A row with a value that does not fit is named.

Values are kept exactly or refused, as the record contract says for records: no rounding, no time outside of the years 1
to 9999, no number that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blizzard.schema import DeltaSchema, DeltaType, decimal_digits, fold_name, show_column
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import show_type
from blizzard.schema.results import fields_by_name
from blizzard.tasks.transform_step import Made
from blizzard.tasks.values import FIRST_US, LAST_US

_DAY_US = 86_400_000_000
_LONGEST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a record gives no row."""

    message: str
    column: str | None = None


class _DoesNotFit(Exception):
    """At least one of these values. Which one is found by looking at fewer."""


class RowFit:
    """From rows of one schema into those of the table. `result_problems` must have found nothing."""

    def __init__(self, made: DeltaSchema, table: DeltaSchema) -> None:
        own = fields_by_name(made)
        self._schema = to_arrow(table)
        self._columns = [
            (field, own.get(fold_name(field["name"])), arrow.type)
            for field, arrow in zip(table["fields"], self._schema, strict=True)
        ]

    def take(self, made: Made) -> tuple[pa.Table, dict[int, Misfit]]:
        """The rows that fit, and what is wrong with the others."""
        misfits: dict[int, Misfit] = {}
        columns = [self._column(made, field, own, arrow, misfits) for field, own, arrow in self._columns]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        if not misfits:
            return table, misfits
        return table.take(pa.array(np.delete(np.arange(table.num_rows), sorted(misfits)))), misfits

    def _column(
        self, made: Made, field: dict[str, Any], own: dict[str, Any] | None, arrow: Any, misfits: dict[int, Misfit]
    ) -> Any:
        if own is None:
            return pa.nulls(made.table.num_rows, arrow)
        name, data_type = field["name"], field["type"]
        values = made.table[own["name"]]
        is_same = own["type"] == data_type and (field["nullable"] or not own["nullable"])
        if is_same and own["name"] in made.passed:
            return values
        values = _whole(values)
        if not field["nullable"]:
            said = Misfit(f"{show_column((name,))}: null, but the column is NOT NULL", name)
            missing = np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False))
            misfits |= dict.fromkeys(missing.tolist(), said) | misfits
        try:
            return _fitted(values, data_type, arrow)
        except (_DoesNotFit, pa.ArrowInvalid):
            wrong = failing(len(values), lambda start, end: _try(values.slice(start, end - start), data_type, arrow))
        for row in wrong:
            message = f"{show_column((name,))}: {_shown(values[row])} does not fit {show_type(data_type)}"
            misfits.setdefault(row, Misfit(message, name))
        # Null in place of the wrong values, whose rows are left out.
        is_right = pa.array(np.isin(np.arange(len(values)), wrong, invert=True))
        rest = pc.if_else(is_right, values, pa.scalar(None, values.type))
        return _fitted(rest, data_type, arrow)


def failing(count: int, fits: Callable[[int, int], bool]) -> list[int]:
    """Which of so many do not fit. Asks for parts, and only for smaller parts of one that does not fit: at most two
    questions for each of them."""
    found, parts = [], [(0, count)]
    while parts:
        start, end = parts.pop()
        if fits(start, end):
            continue
        if end - start == 1:
            found.append(start)
            continue
        middle = (start + end) // 2
        parts += [(middle, end), (start, middle)]
    return found


def _try(values: Any, data_type: DeltaType, arrow: Any) -> bool:
    try:
        _fitted(values, data_type, arrow)
        return True
    except (_DoesNotFit, pa.ArrowInvalid):
        return False


def _whole(values: pa.ChunkedArray) -> Any:
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _shown(value: Any) -> str:
    try:
        text = str(value)
    except (OverflowError, ValueError):  # Python has no such time
        return "a time outside of the years 1 to 9999"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _fitted(values: Any, data_type: DeltaType, arrow: Any) -> Any:
    """The values as the table has them. Raises if one of them does not fit."""
    if values.type.equals(arrow, check_metadata=True):
        _check(values, data_type)
        return values
    match data_type:
        case {"type": "struct", "fields": fields}:
            return _fitted_struct(values, fields, arrow)
        case {"type": "array"}:
            return _fitted_list(values, data_type, arrow)
        case {"type": "map"}:
            return _fitted_map(values, data_type, arrow)
        case _:
            return _fitted_plain(values, data_type, arrow)


def _fitted_struct(values: Any, fields: Iterable[dict[str, Any]], arrow: Any) -> Any:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow)
    own = {fold_name(values.type.field(i).name): i for i in range(values.type.num_fields)}
    is_null = pc.is_null(values)
    children = []
    for field, target in zip(fields, arrow, strict=True):
        index = own.get(fold_name(field["name"]))
        child = pa.nulls(len(values), target.type) if index is None else pc.struct_field(values, [index])
        if not field["nullable"] and pc.any(pc.and_not(pc.is_null(child), is_null), min_count=0).as_py():
            raise _DoesNotFit
        children.append(_fitted(child, field["type"], target.type))
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=is_null)


def _fitted_list(values: Any, data_type: dict[str, Any], arrow: Any) -> Any:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow)
    inner = pc.list_flatten(values)
    if not data_type["containsNull"] and inner.null_count:
        raise _DoesNotFit
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = _offsets(np.concatenate(([0], np.cumsum(lengths))), values)
    return pa.ListArray.from_arrays(offsets, _fitted(inner, data_type["elementType"], arrow.value_type), type=arrow)


def _fitted_map(values: Any, data_type: dict[str, Any], arrow: Any) -> Any:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow)
    values = values.take(pa.array(np.arange(len(values))))  # so that it begins where its keys begin
    keys, items = values.keys, values.items
    if keys.null_count or (not data_type["valueContainsNull"] and items.null_count):
        raise _DoesNotFit
    fitted = [
        _fitted(keys, data_type["keyType"], arrow.key_type),
        _fitted(items, data_type["valueType"], arrow.item_type),
    ]
    return pa.MapArray.from_arrays(_offsets(values.offsets.to_numpy(), values), *fitted, type=arrow)


def _offsets(ends: Any, values: Any) -> Any:
    """Null where the value is null: that is how Arrow is told."""
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    return pa.array(ends.astype(np.int32), pa.int32(), mask=np.append(missing, False))


def _fitted_plain(values: Any, data_type: str, arrow: Any) -> Any:
    if decimal_digits(data_type) is not None and pa.types.is_integer(values.type):
        values = values.cast(pa.decimal128(19, 0))
    fitted = values.cast(arrow, safe=True)
    _check(fitted, data_type)
    return fitted


def _check(values: Any, data_type: DeltaType) -> None:
    """Raises if one of the values, which are of the right type, is none that a table takes."""
    match data_type:
        case {"type": "struct", "fields": fields}:
            is_null = pc.is_null(values)
            for index, field in enumerate(fields):
                _check_inner(pc.struct_field(values, [index]), field["type"], field["nullable"], is_null)
        case {"type": "array", "elementType": inner, "containsNull": nullable}:
            _check_inner(pc.list_flatten(values), inner, nullable)
        case {"type": "map", "valueType": inner, "valueContainsNull": nullable}:
            entries = values.take(pa.array(np.arange(len(values))))
            _check_inner(entries.items, inner, nullable)
        case "float" | "double":
            if not pc.all(pc.is_finite(values), min_count=0).as_py():
                raise _DoesNotFit
        case "date" | "timestamp" | "timestamp_ntz":
            _check_years(values, data_type)
        case _:
            return


def _check_inner(values: Any, data_type: DeltaType, nullable: bool, without: Any = None) -> None:
    """`without`: where null does not count, because what is around it is null."""
    if not nullable and values.null_count:
        is_null = pc.is_null(values)
        if without is None or pc.any(pc.and_not(is_null, without), min_count=0).as_py():
            raise _DoesNotFit
    _check(values, data_type)


def _check_years(values: Any, data_type: str) -> None:
    unit_us, kind = (_DAY_US, pa.int32()) if data_type == "date" else (1, pa.int64())
    ends = pc.min_max(values.view(kind)).as_py()
    if ends["min"] is not None and (ends["min"] * unit_us < FIRST_US or ends["max"] * unit_us > LAST_US):
        raise _DoesNotFit
