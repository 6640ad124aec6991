"""Reads Txns whose JSON commits are gone, from Delta checkpoints and compacted logs.

Log cleanup deletes JSON commits once a Delta checkpoint covers them. The checkpoint keeps their Txns, and so the
position. Classic, multipart and v2 checkpoints are read, but only complete ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.core.kinds import Kind
from blizzard.core.log import CheckpointFacts, Txn
from blizzard.delta.log import LOG_FOLDER, txn_of
from blizzard.errors import Refused
from blizzard.store.files import Store
from blizzard.store.uri import join

_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")


def read_newest_checkpoint(store: Store, at_most: int) -> CheckpointFacts | None:
    """The Txns of the newest complete checkpoint up to this version, and of compacted logs after it."""
    names = store.names(LOG_FOLDER)
    complete = _complete_checkpoints(names)
    version = max((v for v in complete if v <= at_most), default=None)
    found: dict[str, Txn] = {}
    if version is not None:
        for name in complete[version]:
            found |= {txn.app_id: txn for txn in _txns_of(store, f"{LOG_FOLDER}/{name}")}
    for start, end, name in sorted(_compacted(names)):
        if end <= at_most and (version is None or start > version):
            found |= {txn.app_id: txn for txn in _txns_of(store, f"{LOG_FOLDER}/{name}")}
            version = end
    return None if version is None else CheckpointFacts(version=version, txns=tuple(found.values()))


def checkpoint_versions(store: Store) -> set[int]:
    """The versions of all complete checkpoints."""
    return set(_complete_checkpoints(store.names(LOG_FOLDER)))


def _complete_checkpoints(names: list[str]) -> dict[int, list[str]]:
    """The files of each complete checkpoint, by version."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CLASSIC.fullmatch(name) or _V2.fullmatch(name):
            whole.setdefault(int(match[1]), [name])
        elif match := _PART.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), []).append(name)
    for (version, count), files in parts.items():
        if len(files) == count:
            whole.setdefault(version, files)
    return whole


def _compacted(names: list[str]) -> Iterator[tuple[int, int, str]]:
    for name in names:
        if match := _COMPACTED.fullmatch(name):
            yield int(match[1]), int(match[2]), name


def _txns_of(store: Store, name: str) -> Iterator[Txn]:
    try:
        for txn in _json_rows(store, name) if name.endswith(".json") else _parquet_rows(store, name):
            yield txn_of(txn)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as e:
        raise Refused(
            f"{join(store.root, name)} is damaged ({e}), and the JSON commits before it are gone. Restore them from a"
            f" backup.",
            kind=Kind.LOG_DAMAGED,
        ) from e


def _json_rows(store: Store, name: str) -> Iterator[dict[str, Any]]:
    for line in (store.read(name) or b"").splitlines():
        if b'"txn"' in line and (txn := orjson.loads(line).get("txn")):
            yield txn


def _parquet_rows(store: Store, name: str) -> Iterator[dict[str, Any]]:
    with store.open_seekable(name) as content, pq.ParquetFile(content) as file:
        if "txn" not in file.schema_arrow.names:
            return
        for batch in file.iter_batches(columns=["txn"]):
            yield from batch.column("txn").drop_null().to_pylist()
