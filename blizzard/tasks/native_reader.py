"""Blocks through the native parser: describes a schema and a policy to it, and takes its rows over without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from blizzard import native
from blizzard.core.observed import FieldPath, Observations, smallest
from blizzard.core.tally import Tally, tally
from blizzard.schema import MAX_DEPTH, ColumnPath, DeltaSchema, DeltaType, decimal_digits
from blizzard.schema.derived import whole_record_column
from blizzard.schema.evolve import short_name
from blizzard.schema.names import SNAKE, FieldNames
from blizzard.tasks.parsed import FastBlock
from blizzard.tasks.policy import ParsePolicy, Unknown

# Where a column has no formats of its own.
_DEFAULT_FORMATS = ("iso",)
_TIMES = ("date", "timestamp", "timestamp_ntz")


class NativeReader:
    """For one thread at a time."""

    name = "native"

    def __init__(self, schema: DeltaSchema, policy: ParsePolicy, arrow_schema: pa.Schema) -> None:
        whole = whole_record_column(schema["fields"])
        settings = native.Settings(
            json_in_strings=policy.json_in_strings,
            unknown=policy.unknown.value,
            rescue_values=policy.rescue_values,
            keeps_rest=policy.keeps_rest,
            exact_timestamps=policy.exact_timestamps,
            whole_record=None if whole is None else arrow_schema.names.index(whole),
        )
        root = _describe(schema, True, (), policy)
        self._parser = native.make_parser(root, settings, MAX_DEPTH)
        self._schema = arrow_schema
        self._observes = policy.unknown is Unknown.REPORT

    def read(self, data: bytes) -> FastBlock:
        parsed = self._parser.parse(data)
        row_lines = parsed.row_lines()
        return FastBlock(
            table=self._table(parsed),
            lines=parsed.lines,
            blank=parsed.blank,
            doubtful=parsed.doubtful,
            row_lines=None if row_lines is None else np.frombuffer(row_lines, np.int64),
            undeclared=_undeclared(parsed),
            cut_times=tally((tuple(path), count) for path, count in parsed.cut),
            observed=_observed(parsed) if self._observes else None,
            has_all_observed=not parsed.is_incomplete,
            witnessed=parsed.witnessed,
        )

    def _table(self, parsed: Any) -> pa.Table:
        capsule = parsed.take_array()
        if capsule is None:
            return self._schema.empty_table()
        batch = pa.record_batch(_ArrowArray(self._schema, capsule))
        return pa.Table.from_batches([batch])


class _ArrowArray:
    """Rows in Arrow's C data interface, with a schema of our own making: names and nullability are known here."""

    def __init__(self, schema: pa.Schema, capsule: Any) -> None:
        self._schema, self._capsule = schema, capsule

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._capsule


def _undeclared(parsed: Any) -> Tally:
    return tally(((*place, *names), count) for place, names, count, _ in parsed.undeclared if count)


def _observed(parsed: Any) -> Observations | None:
    kinds: dict[FieldPath, frozenset[str]] = {}
    for place, names, _, bits in parsed.undeclared:
        if bits:
            path = (*place, *map(short_name, names))
            held = frozenset(kind for bit, kind in enumerate(native.KINDS) if bits >> bit & 1)
            kinds[path] = kinds.get(path, frozenset()) | held
    return Observations(kinds=smallest(kinds)) if kinds else None


def _describe(data_type: DeltaType, nullable: bool, path: ColumnPath, policy: ParsePolicy) -> native.Node:
    kind, children, precision, scale = data_type, [], 0, 0
    exact: list[tuple[str, int]] = []
    folded: list[tuple[str, int]] = []
    match data_type:
        case {"type": "struct", "fields": fields}:
            kind = "struct"
            children = [_describe(f["type"], f["nullable"], (*path, f["name"]), policy) for f in fields]
            columns: dict[str | None, int] = {field["name"]: index for index, field in enumerate(fields)}
            names = FieldNames([field["name"] for field in fields], path, policy.rename)
            exact = [(key, columns.get(name, -1)) for key, name in names.exact.items()]
            folded = [(key, columns[name]) for key, name in names.folded.items()]
        case {"type": "array", "elementType": element, "containsNull": may_be_null}:
            kind, children = "array", [_describe(element, may_be_null, (*path, "element"), policy)]
        case {"type": "map", "valueType": value, "valueContainsNull": may_be_null}:
            kind, children = "map", [_describe(value, may_be_null, (*path, "value"), policy)]
        case str() if digits := decimal_digits(data_type):
            kind, (precision, scale) = "decimal", digits
    formats = policy.formats.get(path, _DEFAULT_FORMATS) if kind in _TIMES else ()
    return native.Node(
        kind=kind,
        path=list(path),
        nullable=nullable,
        precision=precision,
        scale=scale,
        coerce=[coercion.value for coercion in policy.coercions(path, data_type)],
        formats=list(formats),
        exact=exact,
        folded=folded,
        snake=policy.rename == SNAKE,
        children=children,
    )
