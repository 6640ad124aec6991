"""Takes records out of the quarantine table and adds files to it, in one commit.

With two commits there would be a moment in which records are in neither table, and the head would not show it. A reader
would believe that the quarantine fits the position.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard import __version__
from blizzard.core.types import DataFile
from blizzard.delta.by_hand import remove_action
from blizzard.delta.features import check_features
from blizzard.quarantine.files import count_by_stats, read_rows
from blizzard.store.files import Store
from blizzard.tasks.quarantine import ARROW_SCHEMA, Selection, read_footer


def replacing_commit(
    store: Store,
    table: DeltaTable,
    leaving: Selection,
    files: Sequence[DataFile],
    txns: Sequence[tuple[str, int]],
    *,
    now_ms: int,
) -> bytes:
    """The next version of this handle's table: without the selected records, with these files. If a file loses some
    records, the others are copied to a new file first."""
    check_features(orjson.loads(table.schema().to_json()), table.protocol(), table.metadata())
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    touched = [add for add in adds if count_by_stats(add, leaving) != 0 and _has_any(store, add, leaving)]
    kept = _copy_others(store, [add["path"] for add in touched], leaving)
    actions = _actions(table, touched, [*kept, *files], txns, now_ms)
    return b"".join(orjson.dumps(action) + b"\n" for action in actions)


def _has_any(store: Store, add: Mapping[str, Any], leaving: Selection) -> bool:
    columns = [name for name in ARROW_SCHEMA.names if name in leaving.columns]
    rows = read_rows(store, unquote(add["path"]), columns)
    return any(pc.any(pc.fill_null(leaving.mask(some), False)).as_py() for some in rows)


def _copy_others(store: Store, names: Iterable[str], leaving: Selection) -> list[DataFile]:
    """Copy the records that stay to one new file. No file if none stay."""
    others = _others(store, names, leaving)
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


def _others(store: Store, names: Iterable[str], leaving: Selection) -> Iterator[pa.Table]:
    for name in names:
        for rows in read_rows(store, unquote(name), ARROW_SCHEMA.names):
            stays = rows.filter(pc.invert(pc.fill_null(leaving.mask(rows), False)))
            if stays.num_rows:
                yield stays


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
