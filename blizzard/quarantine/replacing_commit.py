"""Takes records out of the quarantine table and adds files to it, in one commit.

With two commits there would be a moment in which records are in neither table, and the head would not show it. A reader
would believe that the quarantine fits the position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard import __version__
from blizzard.core.types import DataFile
from blizzard.delta.by_hand import remove_action
from blizzard.quarantine.files import Read, batch_by_stats, count_by_stats
from blizzard.store.files import Store
from blizzard.tasks.quarantine import ARROW_SCHEMA, Selection, read_footer


def find_touched(table: DeltaTable, leaving: Selection, read: Read) -> list[Mapping[str, Any]]:
    """The Adds of the files that hold a selected record."""
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [add for add in adds if count_by_stats(add, leaving) != 0 and _has_any(add, leaving, read)]


def _has_any(add: Mapping[str, Any], leaving: Selection, read: Read) -> bool:
    known = batch_by_stats(add) if leaving.batches is not None else None
    if known is not None and known.name not in (leaving.batches or ()):
        return False
    if _leaves_whole(add, leaving):
        return True
    columns = [name for name in ARROW_SCHEMA.names if name in leaving.columns]
    return any(pc.any(pc.fill_null(leaving.mask(some), False)).as_py() for some in read(add["path"], columns))


def _leaves_whole(add: Mapping[str, Any], leaving: Selection) -> bool:
    """Whether the statistics say that every record of the file leaves, so that it need not be opened."""
    of_batches = Selection(pipeline=leaving.pipeline, table_id=leaving.table_id, batches=leaving.batches)
    if leaving != of_batches or leaving.batches is None or not count_by_stats(add, leaving):
        return False
    known = batch_by_stats(add)
    return known is not None and known.name in leaving.batches


def copy_others(store: Store, touched: Sequence[Mapping[str, Any]], leaving: Selection, read: Read) -> list[DataFile]:
    """Copy the records that stay to one new file. No file if none stay."""
    others = _others(touched, leaving, read)
    first = next(others, None)
    if first is None:
        return []
    name = f"blizzard-kept-{os.urandom(6).hex()}.parquet"
    sink = store.create(name)
    with pq.ParquetWriter(sink.target, ARROW_SCHEMA, compression="zstd") as writer:
        writer.write_table(first)
        for rows in others:
            writer.write_table(rows)
    sink.close()
    store.sync("")
    return [read_footer(store, name)]


def _others(touched: Sequence[Mapping[str, Any]], leaving: Selection, read: Read) -> Iterator[pa.Table]:
    for add in touched:
        if _leaves_whole(add, leaving):
            continue
        for rows in read(add["path"], ARROW_SCHEMA.names):
            stays = rows.filter(pc.invert(pc.fill_null(leaving.mask(rows), False)))
            if stays.num_rows:
                yield stays


def replacing_commit(
    table: DeltaTable,
    touched: Sequence[Mapping[str, Any]],
    files: Sequence[DataFile],
    txns: Sequence[tuple[str, int]],
    *,
    now_ms: int,
) -> bytes:
    """The next version of this handle's table: without the touched files, with these others."""
    return b"".join(orjson.dumps(action) + b"\n" for action in _actions(table, touched, files, txns, now_ms))


def _actions(
    table: DeltaTable,
    removed: Sequence[Mapping[str, Any]],
    added: Sequence[DataFile],
    txns: Sequence[tuple[str, int]],
    now_ms: int,
) -> Iterator[dict[str, Any]]:
    yield {
        "commitInfo": {
            "timestamp": now_ms,
            "operation": "DELETE",
            "operationParameters": {"predicate": "[]"},
            "readVersion": int(table.version()),
            "isBlindAppend": False,
            "engineInfo": f"blizzard/{__version__}",
        }
    }
    for add in removed:
        yield {"remove": remove_action({"path": add["path"], "partitionValues": {}, "size": add["size_bytes"]}, now_ms)}
    for file in added:
        yield {
            "add": {
                "path": file.path,
                "partitionValues": {},
                "size": file.size_bytes,
                "modificationTime": file.modified_ms,
                "dataChange": True,
                "stats": file.stats,
            }
        }
    for app_id, version in txns:
        yield {"txn": {"appId": app_id, "version": version, "lastUpdated": now_ms}}
