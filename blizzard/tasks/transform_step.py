"""What every way to transform records has in common: a block of records in, at most one row of each out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from blizzard.core.kinds import Kind
from blizzard.core.types import TaskFailure
from blizzard.schema import DeltaSchema
from blizzard.source.lines import Positions

# The number of a record in its block. It goes with every row, so that the row keeps its line.
LINE_COLUMN = "_blizzard_line"


class RecordsRefused(Exception):
    """No row can be made of one of these records, or of several."""


class TransformStopped(Exception):
    """The transform cannot go on, and no record is at fault."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.failure = TaskFailure(kind=kind, path="", line=None, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The rows, in the order of their records; and of which record, counted from 0, each was made."""

    table: pa.Table
    schema: DeltaSchema  # of these rows
    records: Positions
    passed: frozenset[str] = frozenset()  # the columns whose values are those of the records


class Step(Protocol):
    @property
    def result(self) -> DeltaSchema:
        """The columns of the rows, as they are for no records at all."""

    def run(self, records: pa.Table) -> Made:
        """Raises `RecordsRefused` or `TransformStopped`."""
