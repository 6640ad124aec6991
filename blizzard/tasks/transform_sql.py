"""A SELECT that DuckDB runs on each block of records.

DuckDB gets the statement as the user wrote it, with the number of the record as one more column, and only the columns
that an expression looks at. A column that is passed on as it is does not go through DuckDB: that costs nothing, and its
values stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import Kind
from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema, fold_name, holds_variant, quote_name
from blizzard.schema.arrow import to_arrow
from blizzard.schema.from_arrow import from_arrow
from blizzard.schema.results import VOID
from blizzard.source.lines import Positions
from blizzard.tasks.duck import CannotBind, DuckFailed, ValueRefused, this_duck
from blizzard.tasks.sql_rules import NotRowWise, Select, Star, read_select
from blizzard.tasks.transform_step import LINE_COLUMN, Made, RecordsRefused, TransformStopped

_COMMENTS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_SELECT = re.compile(rf"{_COMMENTS}SELECT\b", re.IGNORECASE | re.DOTALL)
# Types of DuckDB that become a type of Delta without a change of any value.
_NESTED = frozenset(("struct", "list", "array", "map"))
_EXACT = _NESTED.union(
    ("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double", "decimal", "varchar", "blob", "date"),
    ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone", "enum", "null"),
)
_INSTEAD = {
    "utinyint": "SMALLINT",
    "usmallint": "INTEGER",
    "uinteger": "BIGINT",
    "ubigint": "DECIMAL(20,0)",
    "hugeint": "DECIMAL(38,0)",
    "uhugeint": "DECIMAL(38,0)",
}
# In place of a column that is only passed on, and that no expression looks at.
_PLACEHOLDER = pa.struct([("only_passed_on", pa.bool_())])

_Found: TypeAlias = list[tuple[str, Any]]  # the columns of DuckDB's result: name and type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """A column of the rows: one of the records (`source`), or one of DuckDB's result (`position`)."""

    name: str
    source: str | None = None
    position: int = 0


class SqlStep:
    def __init__(self, sql: str, reads: DeltaSchema) -> None:
        """Raises `NotRowWise` if the statement cannot be used, `DuckMissing` if there is no DuckDB."""
        self.version = this_duck().version
        try:
            sql.encode()
        except UnicodeEncodeError:
            raise NotRowWise("it holds half of a surrogate pair, which is no character") from None
        self.tree = this_duck().parse(sql)
        self._fields = {field["name"]: field for field in reads["fields"]}
        select = read_select(self.tree, list(self._fields), this_duck().functions)
        self._used = select.used
        self._named = [name for name in self._fields if name in select.used or _names(select, name)]
        self._sql = self._with_line(sql)
        self._outputs, self.result = self._bind(select, to_arrow(reads).empty_table())
        self._passed = frozenset(output.name for output in self._outputs if output.source is not None)
        # If each record gives a row and nothing is computed, there is nothing to do for DuckDB.
        self._is_needed = select.has_filter or len(self._passed) < len(self._outputs)

    def run(self, records: pa.Table) -> Made:
        rows: Positions = np.arange(records.num_rows)
        computed: Any = None
        if self._is_needed:
            computed = self._compute(records)
            rows = computed.column(0).to_numpy()
            _check_order(rows, records.num_rows)
        kept = records if len(rows) == records.num_rows else records.take(pa.array(rows))
        columns = [
            computed.column(output.position) if output.source is None else kept[output.source]
            for output in self._outputs
        ]
        table = pa.Table.from_arrays(columns, names=[output.name for output in self._outputs])
        return Made(table=table, schema=self.result, records=rows, passed=self._passed)

    def _compute(self, records: pa.Table) -> pa.Table:
        try:
            return this_duck().run(self._sql, _given(records, self._named, self._used))
        except ValueRefused as e:
            raise RecordsRefused(str(e)) from None
        except DuckFailed as e:
            raise TransformStopped(Kind.TRANSFORM_FAILED, f"DuckDB failed: {e}") from None

    def _with_line(self, sql: str) -> str:
        """The statement with the number of the record as its first column. Its tree must show that and no other
        change."""
        found = _SELECT.match(sql)
        if found is None:
            raise NotRowWise("it must begin with SELECT")
        changed = f'{sql[: found.end()]} "{LINE_COLUMN}", {sql[found.end() :]}'
        tree = this_duck().parse(changed)
        if not tree.get("error"):
            first = tree["statements"][0]["node"]["select_list"].pop(0)
            if tree == self.tree and first.get("column_names") == [LINE_COLUMN]:
                return changed
        raise NotRowWise("after SELECT a column must follow; remove ALL and the like")

    def _bind(self, select: Select, empty: pa.Table) -> tuple[list[_Output], DeltaSchema]:
        """The columns of the rows, and their schema. Raises `NotRowWise` unless DuckDB takes the statement."""
        variants = {name for name, field in self._fields.items() if holds_variant(field["type"])}
        for name in sorted(variants & self._used):
            raise NotRowWise(f"{quote_name(name)} holds a VARIANT, which DuckDB cannot read: only pass the column on")
        given = _given(empty, self._named, self._used)
        try:
            # First with every column as it is: then what DuckDB says of a mistake is about the user's records.
            whole = this_duck().bind(self._sql, _given(empty, list(self._fields), self._fields.keys() - variants))
            found = this_duck().bind(self._sql, given)
            steps = this_duck().unexpected_steps(self._sql, given)
            arrow = this_duck().run(self._sql, given).schema
        except (CannotBind, ValueRefused, DuckFailed) as e:
            raise NotRowWise(f"DuckDB refuses it: {e}") from None
        if steps:
            raise NotRowWise(f"DuckDB would do {', '.join(sorted(steps))} for it, not take one record after the other")
        outputs = self._outputs_of(select, self._named, found)
        if _computed(outputs, found) != _computed(self._outputs_of(select, list(self._fields), whole), whole):
            raise RuntimeError("an expression looks at a column that was not seen in its tree")
        return outputs, self._schema_of(outputs, found, arrow)

    def _outputs_of(self, select: Select, given: Sequence[str], found: _Found) -> list[_Output]:
        """If DuckDB is given these columns, and its result has those that it found."""
        outputs: list[_Output] = []
        position = 1  # after the number of the record
        for item in select.items:
            if item.star is None:
                name = item.alias or item.column or found[position][0]
                outputs.append(_Output(name=name, source=item.column, position=position))
                position += 1
            else:
                shown = [name for name in given if fold_name(name) not in item.star.excluded]
                outputs += self._outputs_of_star(item.star, shown, position)
                position += len(shown) + 1  # with the number of the record
        if position != len(found):
            raise RuntimeError(f"DuckDB's result has {len(found)} columns, not {position}")
        return outputs

    def _outputs_of_star(self, star: Star, shown: list[str], first: int) -> list[_Output]:
        """Also of the columns that DuckDB is not given."""
        outputs = []
        for name in self._fields:
            folded = fold_name(name)
            new = star.renamed.get(folded, name)
            if folded in star.replaced:
                outputs.append(_Output(name=new, position=first + shown.index(name)))
            elif folded not in star.excluded:
                outputs.append(_Output(name=new, source=name))
        return outputs

    def _schema_of(self, outputs: Sequence[_Output], found: _Found, arrow: pa.Schema) -> DeltaSchema:
        fields = []
        for output in outputs:
            if output.source is not None:
                fields.append({**self._fields[output.source], "name": output.name})
            else:
                fields.append(_field(output.name, found[output.position][1], arrow.field(output.position).type))
        return {"type": "struct", "fields": fields}


def _names(select: Select, column: str) -> bool:
    """Whether the statement names the column, as it is or in a star."""
    folded = fold_name(column)
    stars = [item.star for item in select.items if item.star is not None]
    return any(item.column == column for item in select.items) or any(
        folded in star.excluded or folded in star.replaced or folded in star.renamed for star in stars
    )


def _given(records: pa.Table, names: Sequence[str], real: Collection[str]) -> pa.Table:
    """What DuckDB gets of the records: these columns, and the values of some of them."""
    count = records.num_rows
    columns = [records[name] if name in real else pa.nulls(count, _PLACEHOLDER) for name in names]
    return pa.Table.from_arrays([*columns, pa.array(np.arange(count))], names=[*names, LINE_COLUMN])


def _computed(outputs: Sequence[_Output], found: _Found) -> list[tuple[str, str]]:
    return [(output.name, str(found[output.position][1])) for output in outputs if output.source is None]


def _field(name: str, duck_type: Any, arrow_type: Any) -> dict[str, Any]:
    """Of a column that DuckDB computes."""
    foreign = _foreign_type(duck_type)
    if foreign is not None:
        instead = _INSTEAD.get(foreign.id, "VARCHAR")
        raise NotRowWise(f"{quote_name(name)} is {duck_type}, and a table has no {foreign}; cast it, to {instead}")
    if pa.types.is_null(arrow_type):
        return {"name": name, "type": VOID, "nullable": True, "metadata": {}}
    try:
        (field,) = from_arrow(pa.schema([pa.field(name, arrow_type)]))["fields"]
    except SchemaError as e:
        raise NotRowWise(str(e)) from None
    return dict(field)


def _foreign_type(duck_type: Any) -> Any:
    """The first type in it that a table does not have."""
    if duck_type.id not in _EXACT:
        return duck_type
    if duck_type.id not in _NESTED:
        return None
    inner = (_foreign_type(child) for _, child in duck_type.children if hasattr(child, "id"))
    return next((found for found in inner if found is not None), None)


def _check_order(rows: Positions, count: int) -> None:
    if len(rows) and (rows[0] < 0 or rows[-1] >= count or np.any(rows[:-1] >= rows[1:])):
        raise RuntimeError("DuckDB's result is not in the order of the records")
