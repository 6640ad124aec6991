"""Reads files of the quarantine table a few records at a time, and counts records without opening files if possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.core.kinds import Kind
from blizzard.core.names import is_below
from blizzard.core.overflow import batch_name
from blizzard.core.types import QuarantinedBatch
from blizzard.delta import log
from blizzard.errors import Refused, Temporary
from blizzard.store.files import Store
from blizzard.store.uri import join
from blizzard.tasks.quarantine import ARROW_SCHEMA, Selection, batch_names
from blizzard.text.plain import plain

Read = Callable[[str, Sequence[str]], Iterator[pa.Table]]  # the records of a file, by its path in the log

_READ_BYTES = 8 * 1024 * 1024
_READ_ROWS = 10_000


def rows_of(store: Store, path: str, columns: Sequence[str], *, is_named: Callable[[str], bool]) -> Iterator[pa.Table]:
    """The records of one file, by its path in the log, a few at a time. `is_named` says whether the newest version of
    the table still names the file."""
    name = unquote(path)
    check_below(store, name)
    try:
        yield from read_rows(store, name, columns)
    except FileNotFoundError as e:
        if is_named(path):
            raise damaged(store, name, "it is gone") from e
        raise Temporary(
            f"{join(store.root, name)}: a file of the quarantine table is gone: compacted and vacuumed meanwhile? Run"
            f" again.",
            kind=Kind.QUARANTINE_CHANGED,
        ) from e
    except (pa.ArrowException, KeyError, OSError) as e:
        # For a damaged page pyarrow raises a plain OSError, without an errno.
        if isinstance(e, OSError) and (e.errno is not None or type(e) is not OSError):
            raise
        raise damaged(store, name, plain(e)) from e


def check_below(store: Store, name: str) -> None:
    """Whoever can write to the table can name any file. Only files below the table are opened."""
    if not is_below(name):
        raise Refused(
            f"the quarantine table at {store.root} names {name!r}, which is not below it: blizzard did not write that."
            f" Nothing was changed. Find out who did, and take that file out of the table again.",
            kind=Kind.UNSUPPORTED_TABLE,
        )


def damaged(store: Store, name: str, why: str) -> Refused:
    return Refused(
        f"{join(store.root, name)} holds records in quarantine and is damaged ({why}). Restore it from a backup, then"
        f" run again.",
        kind=Kind.QUARANTINE_DAMAGED,
    )


def read_rows(store: Store, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """A column that an older version did not write is null."""
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


def batch_by_stats(add: Mapping[str, Any]) -> QuarantinedBatch | None:
    """The batch that all records of a file are from. None: they are from several, or the statistics do not say."""
    rows, sequence, batch_id = add.get("num_records"), _one_value(add, "sequence"), _one_value(add, "batch_id")
    if rows is None or sequence is None or (batch_id is None and add.get("null_count.batch_id") != rows):
        return None
    return QuarantinedBatch(name=batch_name(batch_id, sequence), sequence=sequence, rows=rows)


def _one_value(add: Mapping[str, Any], name: str) -> Any:
    low, high, nulls = add.get(f"min.{name}"), add.get(f"max.{name}"), add.get(f"null_count.{name}")
    return low if low == high and nulls == 0 else None


def batches_of(add: Mapping[str, Any], chosen: Selection, read: Read) -> Iterator[QuarantinedBatch]:
    """The batches that the selected records of a file are from. The file is opened only if it must be."""
    rows = count_by_stats(add, chosen)
    if rows == 0:
        return
    known = batch_by_stats(add) if rows is not None else None
    if known is not None:
        yield known
        return
    columns = [name for name in ARROW_SCHEMA.names if name in {"batch_id", *chosen.columns, "sequence"}]
    for some in read(add["path"], columns):
        found = some.filter(chosen.mask(some))
        named = pa.table({"name": batch_names(found), "sequence": found["sequence"]})
        for group in named.group_by(["name", "sequence"]).aggregate([([], "count_all")]).to_pylist():
            yield QuarantinedBatch(name=group["name"], sequence=group["sequence"], rows=group["count_all"])


def merge_batches(parts: Iterable[QuarantinedBatch]) -> tuple[QuarantinedBatch, ...]:
    """Each batch once, oldest first."""
    rows: Counter[tuple[int, str]] = Counter()
    for part in parts:
        rows[part.sequence, part.name] += part.rows
    return tuple(QuarantinedBatch(name=name, sequence=n, rows=rows[n, name]) for n, name in sorted(rows))


def is_of_table(path: str, table_id: str) -> bool:
    """Whether the records of a file on local disk are of this table. A file that is not whole is of none."""
    try:
        ids = pq.read_table(path, columns=["table_id"], partitioning=None)["table_id"]
    except (pa.ArrowException, OSError):
        return False
    return bool(ids.unique().to_pylist() == [table_id])


def _rows_at_once(footer: pq.FileMetaData) -> int:
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    row_bytes = max((g.total_byte_size / max(1, g.num_rows) for g in groups), default=1.0)
    return int(min(_READ_ROWS, max(1, _READ_BYTES / max(1.0, row_bytes))))


def added_by(store: Store, version: int) -> list[str]:
    lines = (store.read(log.commit_name(version)) or b"").splitlines()
    return [orjson.loads(line)["add"]["path"] for line in lines if line.startswith(b'{"add"')]
