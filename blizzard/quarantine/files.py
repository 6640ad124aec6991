"""Reads files of the quarantine table a few records at a time, and counts records without opening files if possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.delta import log
from blizzard.store.files import Store
from blizzard.tasks.quarantine import ARROW_SCHEMA, Selection

_READ_BYTES = 8 * 1024 * 1024
_READ_ROWS = 10_000


def read_rows(store: Store, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The records of one file, a few at a time. A column that an older version did not write is null."""
    schema = pa.schema([ARROW_SCHEMA.field(column) for column in columns])
    with store.open_seekable(name) as content, pq.ParquetFile(content) as file:
        there = [column for column in columns if column in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=_rows_at_once(file.metadata), columns=there):
            rows = pa.Table.from_batches([batch])
            for column in columns:
                if column not in there:
                    rows = rows.append_column(schema.field(column), pa.nulls(batch.num_rows, schema.field(column).type))
            yield rows.select(list(columns)).cast(schema)


def count_by_stats(add: Mapping[str, Any], chosen: Selection) -> int | None:
    """The number of selected records of a file, from its statistics. None: they do not say."""
    rows = add.get("num_records")
    if rows is None or add.get("null_count.orphaned") != rows:
        return None
    for name, value in (("pipeline", chosen.pipeline), ("table_id", chosen.table_id)):
        low, high, nulls = add.get(f"min.{name}"), add.get(f"max.{name}"), add.get(f"null_count.{name}")
        if value is None:
            continue
        if low is None or low != high or nulls != 0:
            return None
        if low != value:
            return None if value.startswith(low) else 0  # long values may have been cut
    return int(rows)


def _rows_at_once(footer: pq.FileMetaData) -> int:
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    row_bytes = max((g.total_byte_size / max(1, g.num_rows) for g in groups), default=1.0)
    return int(min(_READ_ROWS, max(1, _READ_BYTES / max(1.0, row_bytes))))


def added_by(store: Store, version: int) -> list[str]:
    lines = (store.read(log.commit_name(version)) or b"").splitlines()
    return [orjson.loads(line)["add"]["path"] for line in lines if line.startswith(b'{"add"')]
