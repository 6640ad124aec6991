"""Files of attempts that never committed, Parquet and end markers: finds them, and deletes them only when asked to.

A file is an orphan only if its name is one of ours, it is much older than any batch may be, and no commit, compacted
log, Delta checkpoint or pending quarantine names it. In the quarantine's folder all its records must be of this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.core.kinds import Kind
from blizzard.core.log import positions_in
from blizzard.delta.log import LOG_FOLDER
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import join

# A batch older than 24 hours is never committed. A week leaves room for wrong clocks and for people.
SHORTEST_AGE = timedelta(days=7)
_OURS = re.compile(
    r"blizzard-[0-9a-f]{12}-\d{8}-(?:\d{4}|replay)-[0-9a-f]{12}(?:-p\d+)?(?:-\d{4})?(?:\.\w+)?\.parquet"
    r"|blizzard-(?:kept|realign)-[0-9a-f]{12}\.parquet"
    r"|_blizzard-end-[0-9a-f]{12}-\d{8}"  # the end marker of a driver that died
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    path: str
    size_bytes: int
    age_s: float


def find_orphans(
    table: DeltaRsTable,
    quarantine_root: str | None,
    older_than: timedelta,
    access: Access = NO_ACCESS,
    *,
    quarantine_access: Access = NO_ACCESS,
) -> list[Orphan]:
    """In the table's folder, and in that of its quarantine table. Ages are by the store's clock."""
    if older_than < SHORTEST_AGE:
        raise ConfigError(
            f"--older-than must be at least {SHORTEST_AGE.days}d: a younger file may belong to a run", kind=Kind.USAGE
        )
    checkpoint = table.newest_checkpoint()  # of commits whose JSON may be gone
    txns = [txn for commit in table.scan_back() for txn in commit.txns]
    txns += checkpoint.txns if checkpoint is not None else ()
    pending = {name for position in positions_in(txns) for name in position.quarantine.pending}
    found = list(_orphans_in(open_store(table.root, access), set(), older_than))
    if quarantine_root is not None:
        store = open_store(quarantine_root, quarantine_access)
        found += (o for o in _orphans_in(store, pending, older_than) if _is_of(store, o, table.table_id))
    return sorted(found, key=lambda orphan: orphan.path)


def _is_of(store: Store, orphan: Orphan, table_id: str) -> bool:
    """Whether all records in a file of the quarantine's folder are of this table. Another table may share the folder,
    and have the file pending. A file that cannot be read does not count as ours."""
    name = orphan.path.removeprefix(f"{store.root}/")
    try:
        with store.open_seekable(name) as content, pq.ParquetFile(content) as file:
            batches = file.iter_batches(columns=["table_id"])
            return {value for batch in batches for value in batch.column(0).to_pylist()} == {table_id}
    except (FileNotFoundError, pa.ArrowException, KeyError, OSError):
        return False


def delete_orphans(orphans: list[Orphan], access: Callable[[str], Access]) -> int:
    """How many were deleted; files already gone do not count. `access` gives the access to a folder."""
    deleted = 0
    for orphan in orphans:
        folder, name = orphan.path.rsplit("/", 1)
        deleted += open_store(folder, access(folder)).delete(name)
    return deleted


def _orphans_in(store: Store, pending: set[str], older_than: timedelta) -> Iterator[Orphan]:
    candidates = [orphan for orphan in _old_files(store, older_than) if _base(orphan.path) not in pending]
    if not candidates:
        return
    # Read the log after the candidates were listed, so that a commit in between is seen.
    named = set(_names_in_log(store))
    for orphan in candidates:
        if _base(orphan.path) not in named:
            yield orphan


def _old_files(store: Store, older_than: timedelta) -> Iterator[Orphan]:
    for file in store.walk():
        if file.path.startswith(LOG_FOLDER + "/") or not _OURS.fullmatch(_base(file.path)):
            continue
        age_s = (store.now_ms() - file.seen_ms) / 1000
        if age_s >= older_than.total_seconds():
            yield Orphan(path=join(store.root, file.path), size_bytes=file.size_bytes, age_s=age_s)


def _names_in_log(store: Store) -> Iterator[str]:
    """The base name of every data file that the log mentions. Names are random, so the base name is enough."""
    for file in store.walk(LOG_FOLDER):
        try:
            if file.path.endswith(".json"):
                yield from _names_in_json(store, file.path)
            elif file.path.endswith(".parquet"):
                yield from _names_in_parquet(store, file.path)
        except FileNotFoundError:
            continue  # cleaned up meanwhile; the Delta checkpoint that replaced it is read as well
        except (orjson.JSONDecodeError, pa.ArrowException, OSError, KeyError, TypeError) as e:
            raise Refused(
                f"{join(store.root, file.path)} cannot be read ({e}), so it is not known which files it names. Nothing"
                f" was deleted.",
                kind=Kind.LOG_DAMAGED,
            ) from e


def _names_in_json(store: Store, name: str) -> Iterator[str]:
    for line in (store.read(name) or b"").splitlines():
        if b".parquet" not in line:
            continue
        for action in orjson.loads(line).values():
            if isinstance(action, dict) and isinstance(action.get("path"), str):
                yield _base(unquote(action["path"]))


def _names_in_parquet(store: Store, name: str) -> Iterator[str]:
    with store.open_seekable(name) as content, pq.ParquetFile(content) as file:
        columns = [column for column in ("add", "remove") if column in file.schema_arrow.names]
        for batch in file.iter_batches(columns=[f"{column}.path" for column in columns]):
            for column in columns:
                for action in batch.column(column).drop_null().to_pylist():
                    yield _base(unquote(action["path"]))


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
