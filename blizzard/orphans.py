"""Parquet written by attempts that never committed: found, and deleted only when told.

A file is an orphan only if its name is one that blizzard gives, it is older than any batch may be by far, and no file
of the log names it: no commit, no compacted log, no Delta checkpoint, no pending quarantine.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.core.log import states_in
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused

# A batch older than 24 hours is never committed; a week leaves room for clocks and for people.
SHORTEST_AGE = timedelta(days=7)
_OURS = re.compile(r"blizzard-[0-9a-f]{12}-\d{8}-\d{4}-[0-9a-f]{12}(?:-p\d+)?(?:-\d{4})?(?:\.\w+)?\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    path: str
    size_bytes: int
    age_s: float


def find_orphans(table: DeltaRsTable, quarantine_root: str | None, older_than: timedelta) -> list[Orphan]:
    """In the table's folder, and in that of its quarantine table."""
    if older_than < SHORTEST_AGE:
        raise ConfigError(
            f"--older-than must be at least {SHORTEST_AGE.days}d: a younger file may belong to a run", kind="usage"
        )
    pending = {
        name for commit in table.scan_back() for state in states_in(commit.txns) for name in state.pending_quarantine
    }
    found = list(_orphans_in(table.root, set(), older_than))
    if quarantine_root is not None and os.path.isdir(quarantine_root):
        found += _orphans_in(quarantine_root, pending, older_than)
    return sorted(found, key=lambda orphan: orphan.path)


def delete_orphans(orphans: list[Orphan]) -> int:
    """How many were deleted; one that is gone already is none."""
    deleted = 0
    for orphan in orphans:
        try:
            os.unlink(orphan.path)
            deleted += 1
        except FileNotFoundError:
            continue
    return deleted


def _orphans_in(root: str, pending: set[str], older_than: timedelta) -> Iterator[Orphan]:
    candidates = [orphan for orphan in _old_files(root, older_than) if os.path.basename(orphan.path) not in pending]
    if not candidates:
        return
    # After the candidates: what is committed meanwhile is seen.
    named = set(_names_in_log(os.path.join(root, "_delta_log")))
    for orphan in candidates:
        if os.path.basename(orphan.path) not in named:
            yield orphan


def _old_files(root: str, older_than: timedelta) -> Iterator[Orphan]:
    now = time.time()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "_delta_log"]
        for name in filter(_OURS.fullmatch, names):
            path = os.path.join(folder, name)
            try:
                info = os.stat(path)
            except FileNotFoundError:
                continue
            age_s = now - max(info.st_mtime, info.st_ctime)
            if age_s >= older_than.total_seconds():
                yield Orphan(path=path, size_bytes=info.st_size, age_s=age_s)


def _names_in_log(folder: str) -> Iterator[str]:
    """The base name of every data file that any file of the log mentions. Names are random, so that is enough."""
    if not os.path.isdir(folder):
        return
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            try:
                if name.endswith(".json"):
                    yield from _names_in_json(path)
                elif name.endswith(".parquet"):
                    yield from _names_in_parquet(path)
            except FileNotFoundError:
                continue  # cleaned up meanwhile; the Delta checkpoint that replaced it is read as well
            except (orjson.JSONDecodeError, pa.ArrowException, OSError, KeyError, TypeError) as e:
                raise Refused(
                    f"{path} cannot be read ({e}), so that what it names is not known. Nothing was deleted.",
                    kind="log_damaged",
                ) from e


def _names_in_json(path: str) -> Iterator[str]:
    with open(path, "rb") as file:
        for line in file:
            if b".parquet" not in line:
                continue
            for action in orjson.loads(line).values():
                if isinstance(action, dict) and isinstance(action.get("path"), str):
                    yield os.path.basename(unquote(action["path"]))


def _names_in_parquet(path: str) -> Iterator[str]:
    with pq.ParquetFile(path) as file:
        columns = [name for name in ("add", "remove") if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=[f"{name}.path" for name in columns]):
            for name in columns:
                for action in batch.column(name).drop_null().to_pylist():
                    yield os.path.basename(unquote(action["path"]))
