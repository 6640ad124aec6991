"""Transforms parsed blocks: each record becomes at most one row, and keeps its line.

A record of which no row can be made is bad, and the others go on. DuckDB and Python fail for a whole block, so smaller
and smaller parts are tried until such a record is alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import Kind, LineKind
from blizzard.core.reasons import Reason
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.schema.results import result_problems
from blizzard.source.lines import Positions
from blizzard.tasks.fit_rows import Misfit, RowFit
from blizzard.tasks.parsed import BadLine, ParsedBlock
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.transform_code import Transform
from blizzard.tasks.transform_step import RecordsRefused, TransformStopped

# So many records, each alone, before a first batch is given up of which the transform has taken no record.
_TRIED_ALONE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of some records: which records they are made of, and what is wrong with others."""

    table: pa.Table
    records: Positions
    misfits: Mapping[int, Misfit]


class Transforming:
    """A transform, and the table that takes its rows. For one thread.

    `gives_up`: stops if the transform fails for record after record and has taken none. Then it does not fit the
    source, and nothing of the source should be used up."""

    def __init__(self, transform: Transform, table: DeltaSchema, *, gives_up: bool = False) -> None:
        self._name, self._step = transform.name, transform.load()
        self._table, self._empty = table, to_arrow(table).empty_table()
        self._fit: tuple[DeltaSchema, RowFit] | None = None
        self._gives_up, self._has_passed, self._alone = gives_up, False, 0

    def apply(self, parsed: ParsedBlock) -> ParsedBlock:
        """The block with rows of the table. What no row is made of is bad or filtered."""
        rescued = parsed.table[RESCUED_COLUMN] if RESCUED_COLUMN in parsed.table.column_names else None
        given = parsed.table if rescued is None else parsed.table.drop_columns([RESCUED_COLUMN])
        made = self._make(given)
        is_whole = len(made.records) == given.num_rows
        table = made.table
        if rescued is not None:
            table = table.append_column(RESCUED_COLUMN, rescued if is_whole else rescued.take(pa.array(made.records)))
        if is_whole:
            return replace(parsed, table=table)
        lines = parsed.lines_of_rows
        left_out = np.setdiff1d(np.arange(given.num_rows), made.records, assume_unique=True)
        is_bad = np.isin(left_out, list(made.misfits))
        bad = [_bad_line(int(lines[record]), misfit) for record, misfit in made.misfits.items()]
        return replace(
            parsed,
            table=table,
            row_lines=lines[made.records],
            bad=tuple(sorted((*parsed.bad, *bad), key=lambda line: line.number)),
            filtered=np.sort(np.concatenate([parsed.filtered, lines[left_out[~is_bad]]])),
        )

    def _make(self, records: pa.Table) -> _Rows:
        parts, misfits, left = [], dict[int, Misfit](), [(0, records.num_rows)] if records.num_rows else []
        while left:
            start, end = left.pop()
            try:
                part = self._make_part(records.slice(start, end - start))
            except RecordsRefused as e:
                if end - start == 1:
                    misfits[start] = Misfit(f"{self._name}: {e}")
                    self._count_alone(str(e))
                else:
                    middle = (start + end) // 2
                    left += [(middle, end), (start, middle)]
                continue
            self._has_passed |= len(part.misfits) < end - start
            parts.append((part.table, part.records + start))
            misfits |= {start + record: misfit for record, misfit in part.misfits.items()}
        return _Rows(
            table=pa.concat_tables([self._empty, *(table for table, _ in parts)]) if len(parts) != 1 else parts[0][0],
            records=np.concatenate([np.empty(0, np.int64), *(made for _, made in parts)]),
            misfits=misfits,
        )

    def _make_part(self, records: pa.Table) -> _Rows:
        made = self._step.run(records)
        table, misfits = self._fit_for(made.schema).take(made)
        kept = np.delete(made.records, sorted(misfits)) if misfits else made.records
        return _Rows(table=table, records=kept, misfits={int(made.records[row]): why for row, why in misfits.items()})

    def _fit_for(self, made: DeltaSchema) -> RowFit:
        """A function may return other types for other records. Each must fit the table."""
        if self._fit is None or self._fit[0] is not made:
            problems = result_problems(made, self._table)
            if problems:
                said = f"{self._name} made rows that do not fit the table: {'; '.join(problems)}"
                raise TransformStopped(Kind.TRANSFORM_FAILED, said)
            self._fit = made, RowFit(made, self._table)
        return self._fit[1]

    def _count_alone(self, why: str) -> None:
        self._alone += 1
        if self._gives_up and not self._has_passed and self._alone >= _TRIED_ALONE:
            said = f"{self._name} has failed for each of the first {self._alone:,} records: {why}"
            raise TransformStopped(Kind.TRANSFORM_FAILED, said)


def _bad_line(number: int, misfit: Misfit) -> BadLine:
    # The bytes of the line, and where they are, are found by its number.
    return BadLine(number, LineKind.TRANSFORM, misfit.message, misfit.column, b"", 0, _reason(misfit.column))


@lru_cache(maxsize=1024)
def _reason(column: str | None) -> Reason:
    """The same object for the same reason: they are counted by it."""
    return Reason(kind=LineKind.TRANSFORM, column=column)


def transforming_of(spec: TaskSpec, *, gives_up: bool) -> Transforming:
    """For the table of this task, which has a transform."""
    assert spec.transform is not None
    return Transforming(spec.transform, spec.layout.record_schema, gives_up=gives_up)
