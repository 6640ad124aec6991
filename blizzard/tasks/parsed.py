"""What a parser makes of a block of lines: rows, bad lines, and the lines that it leaves to the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import LineKind
from blizzard.core.observed import Observations
from blizzard.core.reasons import Reason
from blizzard.core.tally import NOTHING, Tally
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.source.lines import Positions

# The number of a line in its block, where it starts and where it ends.
Span: TypeAlias = tuple[int, int, int]
NO_LINES: Positions = np.empty(0, np.int64)


class BadLine(NamedTuple):  # made in a quarter of the time of a frozen dataclass, and there may be very many
    """A line that is not a record. `number` counts the lines of the block from 0, `offset` its bytes, both with the
    byte order mark; `kind` is stable."""

    number: int
    kind: LineKind
    message: str
    column: str | None
    raw: bytes
    offset: int
    reason: Reason | None = None  # None: kind and column say all


@dataclass(frozen=True, slots=True, kw_only=True)
class FastBlock:
    """The rows that a fast parser is certain of. `row_lines` is the line of each row, or None where row i is line i.

    `witnessed` are rows for the reference to read as well: their number, where the line starts, where it ends.
    `has_all_observed` is False if there were more undeclared fields than the parser remembers."""

    table: pa.Table
    lines: int
    blank: int
    doubtful: Sequence[Span]
    row_lines: Positions | None = field(default=None, compare=False)
    undeclared: Tally = NOTHING
    cut_times: Tally = NOTHING
    observed: Observations | None = None
    has_all_observed: bool = True
    witnessed: Sequence[Span] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBlock:
    """The good records in line order, and what became of the other lines.

    `row_lines` is the line of each row, counted from 0, or None where row i is line i. `filtered` are the lines, in
    order, that the target does not want. `undeclared` counts the values of good records that have no column; `observed`
    is what they held, if the policy asks for it. `doubtful` lines were left to the reference."""

    table: pa.Table
    lines: int
    blank: int
    bad: tuple[BadLine, ...]
    row_lines: Positions | None = field(default=None, compare=False)
    undeclared: Tally = NOTHING
    cut_times: Tally = NOTHING
    doubtful: int = 0
    observed: Observations | None = None
    filtered: Positions = field(default_factory=lambda: NO_LINES, compare=False)

    @property
    def lines_of_rows(self) -> Positions:
        return np.arange(self.table.num_rows) if self.row_lines is None else self.row_lines


class Noticed:
    """What was met while the rows of an attempt were parsed, added up block by block."""

    def __init__(self) -> None:
        self.doubtful = self.rescued = 0
        self.undeclared = self.cut_times = NOTHING
        self.observed: Observations | None = None

    def add(self, parsed: ParsedBlock) -> None:
        self.doubtful += parsed.doubtful
        self.undeclared = self.undeclared.merge(parsed.undeclared)
        self.cut_times = self.cut_times.merge(parsed.cut_times)
        if parsed.observed is not None:
            self.observed = parsed.observed if self.observed is None else self.observed.merge(parsed.observed)
        if RESCUED_COLUMN in parsed.table.column_names:
            column: pa.ChunkedArray = parsed.table[RESCUED_COLUMN]
            self.rescued += len(column) - column.null_count
