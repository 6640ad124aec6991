"""Writes rows into one set of Parquet files per partition, with few open files and little memory.

With any number of partitions, at most `max_open` files are open at once, and the buffers of all partitions together
stay near two row groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from blizzard.core.types import DataFile
from blizzard.schema.arrow import to_arrow
from blizzard.schema.layout import TableLayout
from blizzard.store.files import Folder
from blizzard.tasks.partitions import PartitionValues, split_rows
from blizzard.tasks.stats import indexed_leaves
from blizzard.tasks.write import ParquetRoller, about_parquet_bytes, row_group_bytes, sync_folders

MAX_OPEN_FILES = 64
# Memory of a small table besides its values, per column.
_COLUMN_BYTES = 1024


class RowWriter(Protocol):
    """Where the rows of a task go."""

    @property
    def written_bytes(self) -> int: ...
    def write(self, table: pa.Table) -> None: ...
    def close(self) -> tuple[DataFile, ...]: ...
    def abandon(self) -> None: ...


def open_writer(
    layout: TableLayout,
    *,
    store: Folder,
    name_prefix: str,
    indexed_columns: int,
    target_bytes: int,
    codec: str,
    max_open: int = MAX_OPEN_FILES,
) -> RowWriter:
    """A writer of rows with all columns of the layout."""
    make_roller = partial(
        ParquetRoller,
        store=store,
        schema=to_arrow(layout.data_schema),
        # Delta counts only data columns here: partition columns do not use up the limit.
        leaves=indexed_leaves(layout.data_schema, indexed_columns),
        target_bytes=target_bytes,
        codec=codec,
    )
    if not layout.partition_by:
        return make_roller(name_prefix=name_prefix)
    return PartitionedWriter(
        make_roller,
        partition_by=layout.partition_by,
        store=store,
        name_prefix=name_prefix,
        group_bytes=row_group_bytes(target_bytes),
        max_open=max_open,
    )


class PartitionedWriter:
    def __init__(
        self,
        make_roller: Callable[..., ParquetRoller],
        *,
        partition_by: tuple[str, ...],
        store: Folder,
        name_prefix: str,
        group_bytes: int,
        max_open: int,
    ) -> None:
        self._make_roller, self._partition_by, self._max_open = make_roller, partition_by, max_open
        self._store, self._name_prefix, self._group_bytes = store, name_prefix, group_bytes
        # Rows wait here unsplit: to take the rows of a partition costs as much for few rows as for many.
        self._unsplit: list[pa.Table] = []
        self._unsplit_bytes = 0
        self._rollers: dict[PartitionValues, ParquetRoller] = {}
        self._buffered: dict[PartitionValues, int] = {}  # only partitions with rows not yet written
        self._buffered_bytes = 0
        self._opened: dict[PartitionValues, ParquetRoller] = {}  # the least recently written first

    @property
    def files(self) -> list[DataFile]:
        return [file for roller in self._rollers.values() for file in roller.files]

    @property
    def written_bytes(self) -> int:
        rollers = sum(roller.written_bytes for roller in self._rollers.values())
        return rollers + about_parquet_bytes(self._unsplit_bytes)

    def write(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        self._unsplit.append(table)
        self._unsplit_bytes += table.nbytes
        if self._unsplit_bytes >= self._group_bytes:
            self._split()

    def close(self) -> tuple[DataFile, ...]:
        self._split()
        for values in [*self._opened, *self._rollers]:  # open files first, to make room for the others
            self._rollers[values].flush()
            self._rollers[values].finish_file()
        files = self.files
        if files:
            sync_folders(self._store, files)
        return tuple(files)

    def abandon(self) -> None:
        """No commit will name these files."""
        for roller in self._rollers.values():
            roller.abandon()

    def _split(self) -> None:
        if not self._unsplit:
            return
        table = pa.concat_tables(self._unsplit)
        self._unsplit, self._unsplit_bytes = [], 0
        for values, rows in split_rows(table, self._partition_by):
            self._write_partition(values, rows)

    def _write_partition(self, values: PartitionValues, rows: Any) -> None:
        roller = self._rollers.get(values)
        if roller is None:
            prefix = f"{self._name_prefix}-p{len(self._rollers):05d}"
            make_room = partial(self._make_room, values)
            roller = self._make_roller(name_prefix=prefix, partition=values, before_open=make_room)
            self._rollers[values] = roller
        if values in self._opened:
            self._opened[values] = self._opened.pop(values)
        room = rows.nbytes + _COLUMN_BYTES * rows.num_columns
        self._buffered[values] = self._buffered.get(values, 0) + room
        self._buffered_bytes += room
        roller.write(rows)
        if not roller.has_buffered:
            self._forget_buffered(values)
        if self._buffered_bytes > self._group_bytes:
            self._flush_largest()

    def _flush_largest(self) -> None:
        """Down to half, so that one search for the largest serves many flushes."""
        for values in sorted(self._buffered, key=self._buffered.__getitem__, reverse=True):
            if self._buffered_bytes <= self._group_bytes // 2:
                break
            self._rollers[values].flush()
            self._forget_buffered(values)

    def _forget_buffered(self, values: PartitionValues) -> None:
        self._buffered_bytes -= self._buffered.pop(values)

    def _make_room(self, values: PartitionValues) -> None:
        """Called when a file of this partition is about to be opened."""
        self._opened = {key: roller for key, roller in self._opened.items() if roller.is_open}
        while len(self._opened) >= self._max_open:
            oldest = next(iter(self._opened))
            self._opened.pop(oldest).finish_file()
        self._opened[values] = self._rollers[values]
