"""Decides the layout of a table: which columns are derived, and which ones partition it.

It is chosen once, when the table is made. Afterwards the table's layout holds, and other options are refused.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema, fold_name, quote_name, show_column
from blizzard.schema.ddl import show_type
from blizzard.schema.derived import (
    METADATA_KEY,
    PROVENANCE,
    Derivation,
    DerivedColumn,
    PartitionSpec,
    Provenance,
    derived_columns,
    show_derivation,
    type_of,
)
from blizzard.schema.evolve import RESCUED_COLUMN

_CANNOT_PARTITION = ("binary", "variant")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The full schema of a table, and which of its columns do not come from the records."""

    schema: DeltaSchema
    partition_by: tuple[str, ...] = ()
    derived: tuple[DerivedColumn, ...] = ()

    @property
    def record_schema(self) -> DeltaSchema:
        """What is read from the JSON records."""
        return _without(self.schema, {RESCUED_COLUMN, *(column.name for column in self.derived)})

    def with_schema(self, schema: DeltaSchema) -> TableLayout:
        """The same layout after columns were added."""
        return _checked(schema, self.partition_by)

    @property
    def keeps_raw(self) -> bool:
        """Whether a column has the text of each record."""
        return Provenance("raw") in [column.derivation for column in self.derived]

    @property
    def data_schema(self) -> DeltaSchema:
        """What is in the Parquet files. The values of partition columns are in the log."""
        return _without(self.schema, set(self.partition_by))


def apply_layout(
    schema: DeltaSchema, *, partition_by: Sequence[PartitionSpec] = (), provenance: Sequence[str] = ()
) -> TableLayout:
    """The layout of a new table. `schema` is what the records hold; derived columns are added at its end."""
    full = copy.deepcopy(schema)
    for spec in partition_by:
        if spec.derivation is not None:
            _add_derived(full, spec.name, spec.type_name or type_of(spec.derivation), spec.derivation)
    for fact in provenance:
        name, type_name = PROVENANCE[fact]
        _add_derived(full, name, type_name, Provenance(fact))
    return _checked(full, tuple(spec.name for spec in partition_by))


def layout_of(
    schema: DeltaSchema,
    partition_columns: Sequence[str],
    *,
    partition_by: Sequence[PartitionSpec] | None = None,
    provenance: Sequence[str] | None = None,
) -> TableLayout:
    """The layout of an existing table. An option is None if it was left out: then the table's layout holds."""
    layout = _checked(schema, tuple(partition_columns))
    how = {column.name: column for column in layout.derived}
    if partition_by is not None:
        _check_partitioning(layout, how, partition_by)
    if provenance is not None:
        present = {c.derivation.fact for c in layout.derived if isinstance(c.derivation, Provenance)}
        if present != set(provenance):
            shown = ", ".join(fact for fact in PROVENANCE if fact in present) or "none"
            asked = ", ".join(provenance) or "none"
            raise _mismatch(f"table.provenance asks for {asked}, but the table has {shown}")
    return layout


def _check_partitioning(
    layout: TableLayout, how: dict[str, DerivedColumn], partition_by: Sequence[PartitionSpec]
) -> None:
    if tuple(spec.name for spec in partition_by) != layout.partition_by:
        asked = ", ".join(spec.shown for spec in partition_by) or "nothing"
        found = ", ".join(map(quote_name, layout.partition_by)) or "nothing"
        raise _mismatch(f"table.partition_by asks for {asked}, but the table is partitioned by {found}")
    for spec in partition_by:
        if spec.derivation is None:
            continue
        column = how.get(spec.name)
        if column is None:
            raise _mismatch(f"table.partition_by asks for {spec.shown}, but this column is read from the records")
        if column.derivation != spec.derivation or spec.type_name not in (None, column.type_name):
            found = f"{show_derivation(column.derivation)} {show_type(column.type_name)}"
            raise _mismatch(f"table.partition_by asks for {spec.shown}, but the table fills it from {found}")


def _mismatch(problem: str) -> SchemaError:
    return SchemaError(
        f"{problem}. The layout is chosen when a table is made: leave the option out, or make another table",
        kind=Kind.LAYOUT_MISMATCH,
    )


def _add_derived(schema: DeltaSchema, name: str, type_name: str, derivation: Derivation) -> None:
    metadata = {METADATA_KEY: show_derivation(derivation)}
    for field in schema["fields"]:
        if fold_name(field["name"]) == fold_name(name):
            same = field["name"] == name and field["type"] == type_name
            if same and field["metadata"].get(METADATA_KEY) == metadata[METADATA_KEY]:
                return  # the schema was taken from a table with this column
            raise SchemaError(
                f"{show_column((name,))}: it is filled from {metadata[METADATA_KEY]}, but the schema has"
                f" {quote_name(field['name'])} already; choose another name, or take it out of the schema"
            )
    schema["fields"].append({"name": name, "type": type_name, "nullable": True, "metadata": metadata})


def _checked(schema: DeltaSchema, partition_by: tuple[str, ...]) -> TableLayout:
    fields: dict[str, Any] = {field["name"]: field["type"] for field in schema["fields"]}
    for name in partition_by:
        if name not in fields:
            near = next(
                (f"; the schema spells it {quote_name(f)}" for f in fields if fold_name(f) == fold_name(name)), ""
            )
            instead = near or f"; declare it, or write {quote_name(name)}=date(column) or {quote_name(name)}=path(key)"
            raise SchemaError(f"{show_column((name,))}: partitioned by it, but it is no column of the table{instead}")
        kind = fields[name]
        if not isinstance(kind, str) or kind in _CANNOT_PARTITION:
            raise SchemaError(f"{show_column((name,))}: a table cannot be partitioned by {show_type(kind)}")
    if len(set(partition_by)) < len(partition_by):
        raise SchemaError(f"table.partition_by names a column twice: {', '.join(partition_by)}")
    if len(partition_by) == len(fields):
        raise SchemaError("table.partition_by names every column of the table; leave at least one for the files")
    derived = derived_columns(schema["fields"])
    if len(derived) == len(fields):
        raise SchemaError("schema: no column of the table is read from the records; declare at least one")
    return TableLayout(schema=schema, partition_by=partition_by, derived=derived)


def _without(schema: DeltaSchema, names: set[str]) -> DeltaSchema:
    return {"type": "struct", "fields": [field for field in schema["fields"] if field["name"] not in names]}
