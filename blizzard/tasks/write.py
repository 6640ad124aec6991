"""Writes rows into Parquet files of about the target size, each with its Delta statistics.

Small sources share a file. On local disk a file is finished only when its bytes are on the disk: a power cut must not
keep a commit and lose the file it names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.core.types import DataFile
from blizzard.faults import reach
from blizzard.store.files import Folder, Sink
from blizzard.tasks.partitions import PartitionValues, partition_folder
from blizzard.tasks.required import fill_required
from blizzard.tasks.stats import FOOTER_TEXT_BYTES, Leaf, LongTexts, file_stats

# Arrow bytes per row group: large enough to compress well, small enough for a worker's memory and for its caches.
# Measured on nested events: 32 MiB and 8 MiB cost 4% more CPU and make no smaller files. With two threads 32 MiB take a
# quarter longer: while one row group is encoded, the other thread has read all that it may read ahead.
_ROW_GROUP_BYTES = 16 * 1024 * 1024
_SAMPLE_ROWS = 4096
# Rows that are encoded at once. pyarrow's 1,024 cost 3% more.
_BATCH_ROWS = 65_536
# Arrow data takes about this many times the space of its Parquet.
_SHRINKS = 4


def row_group_bytes(target_bytes: int) -> int:
    """Arrow bytes that become one row group. To meet a small target, row groups must be even smaller."""
    return min(_ROW_GROUP_BYTES, max(1, target_bytes * _SHRINKS // 2))


def about_parquet_bytes(arrow_bytes: int) -> int:
    return arrow_bytes // _SHRINKS


class ParquetRoller:
    """Writes tables in order and starts a new file when the current one has reached the target size."""

    def __init__(
        self,
        *,
        store: Folder,
        name_prefix: str,
        schema: pa.Schema,
        leaves: Sequence[Leaf],
        target_bytes: int,
        codec: str,
        partition: PartitionValues = (),
        before_open: Callable[[], None] | None = None,
    ) -> None:
        """`before_open` is called before a file is opened, so that other files can be finished first."""
        self._store, self._folder = store, partition_folder(partition)
        self._name_prefix, self._codec, self._partition = name_prefix, codec, partition
        self._schema, self._leaves, self._target_bytes = schema, leaves, target_bytes
        self._before_open = before_open
        self._row_group_bytes = row_group_bytes(target_bytes)
        self._buffer: list[pa.Table] = []
        self._buffer_bytes = 0
        self._open: _OpenFile | None = None
        self._count = 0
        self._finished_bytes = 0
        self.files: list[DataFile] = []

    @property
    def written_bytes(self) -> int:
        """Parquet bytes so far, with an estimate for what is buffered."""
        current = self._open.size_bytes if self._open is not None else 0
        return self._finished_bytes + current + about_parquet_bytes(self._buffer_bytes)

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def has_buffered(self) -> bool:
        return bool(self._buffer)

    def write(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        self._buffer.append(table)
        self._buffer_bytes += table.nbytes
        if self._buffer_bytes >= self._row_group_bytes:
            self.flush()

    def close(self) -> tuple[DataFile, ...]:
        self.flush()
        self.finish_file()
        if self.files:
            sync_folders(self._store, self.files)
        return tuple(self.files)

    def abandon(self) -> None:
        """No commit will name these files."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def flush(self) -> None:
        """Write what is buffered, as a row group of its own."""
        if not self._buffer:
            return
        table = pa.concat_tables(self._buffer)
        self._buffer, self._buffer_bytes = [], 0
        if self._open is None:
            self._open = self._open_file(columns_worth_a_dictionary(table))
        self._open.write(table, self._leaves)
        if self._open.size_bytes >= self._target_bytes:
            self.finish_file()

    def _open_file(self, dictionary: list[str]) -> _OpenFile:
        if self._before_open is not None:
            self._before_open()
        name = os.path.join(self._folder, f"{self._name_prefix}-{self._count:04d}.{self._codec}.parquet")
        self._count += 1
        return _OpenFile(self._store, name, self._schema, self._codec, dictionary)

    def finish_file(self) -> None:
        """Finish the open file; what is buffered goes into the next one."""
        if self._open is None:
            return
        reach("task.before_parquet_close")
        self.files.append(replace(self._open.close(self._leaves), partition_values=self._partition))
        self._finished_bytes += self.files[-1].size_bytes
        self._open = None


def sync_folders(store: Folder, files: Sequence[DataFile]) -> None:
    """Force the names of these files, and of every folder on the way to them, onto the disk."""
    folders = {""}
    for folder in {os.path.dirname(file.path) for file in files}:
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901
    store.sync(*folders)


class _OpenFile:
    def __init__(self, store: Folder, name: str, schema: pa.Schema, codec: str, dictionary: list[str]) -> None:
        self._name = name
        self._footers: list[pq.FileMetaData] = []
        self._nulls: dict[tuple[str, ...], int] = {}
        self._long_texts: LongTexts = {}
        self._row_groups = 0
        self._sink = store.create(name)
        try:
            self._writer = pq.ParquetWriter(
                self._sink.target,
                schema,
                compression=codec,
                use_dictionary=dictionary,
                metadata_collector=self._footers,
                write_page_checksum=True,
                write_batch_size=_BATCH_ROWS,
            )
        except BaseException:
            self._sink.abort()
            raise

    @property
    def size_bytes(self) -> int:
        return self._sink.tell()

    def write(self, table: pa.Table, leaves: Sequence[Leaf]) -> None:
        self._writer.write_table(fill_required(table), row_group_size=table.num_rows)
        for leaf in leaves:
            if leaf.parquet_column is None:
                self._nulls[leaf.path] = self._nulls.get(leaf.path, 0) + _column(table, leaf.path).null_count
            elif leaf.type_name == "string":
                column = _column(table, leaf.path)
                # Looking at the lengths costs a tenth of comparing the texts, which the footer has done.
                if (pc.max(pc.binary_length(column)).as_py() or 0) > FOOTER_TEXT_BYTES:
                    ends = pc.min_max(column)
                    self._long_texts[leaf.path, self._row_groups] = ends["min"].as_py(), ends["max"].as_py()
        self._row_groups += 1

    def close(self, leaves: Sequence[Leaf]) -> DataFile:
        self._writer.close()
        size_bytes = self._sink.tell()
        self._sink.close()
        footer = self._footers[0]
        return DataFile(
            path=self._name,
            size_bytes=size_bytes,
            rows=footer.num_rows,
            stats=file_stats(footer, leaves, self._nulls, self._long_texts),
            modified_ms=time.time_ns() // 1_000_000,
        )

    def abandon(self) -> None:
        give_up(self._writer, self._sink)


def give_up(writer: Any, sink: Sink) -> None:
    """Abort a file that no commit will name. If the disk is full its end cannot be written, and need not be."""
    if writer is not None:
        with suppress(Exception):
            writer.close()
        writer.is_open = False  # otherwise it tries again when it is garbage-collected, and prints a traceback
    sink.abort()


def _column(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    """A column, or a field of a struct; null where one of its parents is null."""
    column = table[path[0]]
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def columns_worth_a_dictionary(table: pa.Table) -> list[str]:
    """The Parquet columns whose values repeat, judged by the first rows of the file.

    Measured on nested events, per 65 MB of JSON: a dictionary for every column took 0.24 s; for none 0.20 s and a fifth
    more bytes; for these 0.15 s and the fewest bytes.
    """
    return [
        path for column in table.schema for path in _repeating(table[column.name].slice(0, _SAMPLE_ROWS), column.name)
    ]


def _repeating(values: Any, path: str) -> Iterator[str]:
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_struct(kind):
        for i, field in enumerate(kind):
            yield from _repeating(values.field(i), f"{path}.{field.name}")
    elif pa.types.is_map(kind):
        yield from _repeating(values.keys[:_SAMPLE_ROWS], f"{path}.key_value.key")
        yield from _repeating(values.items[:_SAMPLE_ROWS], f"{path}.key_value.value")
    elif pa.types.is_list(kind):
        yield from _repeating(values.flatten()[:_SAMPLE_ROWS], f"{path}.list.element")
    elif not pa.types.is_boolean(kind) and len(values):
        # A string costs more to write than its index. A number hardly does, so numbers must repeat a lot.
        share = 0.5 if pa.types.is_string(kind) or pa.types.is_binary(kind) else 0.02
        if _has_at_most(values, int(share * len(values))):
            yield path


def _has_at_most(values: Any, count: int) -> bool:
    """Whether there are no more different values than this. A few of them tell of most numbers that there are."""
    few = values.slice(0, 4 * count + 1)
    return all(pc.count_distinct(part, mode="all").as_py() <= count for part in (few, values))
