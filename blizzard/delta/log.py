"""Reading `_delta_log` commit by commit. Reads facts and decides nothing.

Goes from the newest commit backwards, so that the cost is the scan window and not the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from blizzard.core.log import CommitFacts, Txn
from blizzard.core.rollback import FileActions
from blizzard.errors import Refused
from blizzard.store.files import Store
from blizzard.store.uri import join

LOG_FOLDER = "_delta_log"


def commit_name(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def read_commit(store: Store, version: int) -> CommitFacts | None:
    """One commit, or None where its JSON is not there (cleaned up)."""
    content = store.read(commit_name(version))
    if content is None:
        return None
    lines = content.splitlines()
    info: dict[str, Any] = {}
    txns, removes = [], False
    try:
        for line in lines:
            # Adds are most of a large commit and of no interest here.
            if not line or line.startswith(b'{"add"'):
                continue
            if line.startswith(b'{"remove"'):
                removes = True
                continue
            action = orjson.loads(line)
            if "txn" in action:
                txn = action["txn"]
                txns.append(Txn(app_id=txn["appId"], version=txn["version"], last_updated_ms=txn.get("lastUpdated")))
            elif "commitInfo" in action:
                info = action["commitInfo"]
        return CommitFacts(
            version=version,
            timestamp_ms=int(info.get("inCommitTimestamp") or info.get("timestamp") or 0),
            operation=str(info.get("operation") or ""),
            mode=_mode(info),
            txns=tuple(txns),
            user_metadata=_text(info.get("userMetadata")),
            removes=removes,
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise _damaged(store, version, e) from e


def read_file_actions(store: Store, version: int) -> FileActions | None:
    """What one commit did to the files and the metadata; None where its JSON is not there."""
    content = store.read(commit_name(version))
    if content is None:
        return None
    adds: dict[str, dict[str, Any]] = {}
    removes: set[str] = set()
    metadata: dict[str, Any] | None = None
    try:
        for line in content.splitlines():
            action = orjson.loads(line) if line else {}
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                removes.add(action["remove"]["path"])
            elif "metaData" in action:
                metadata = action["metaData"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as e:
        raise _damaged(store, version, e) from e
    return FileActions(version=version, adds=adds, removes=frozenset(removes), metadata=metadata)


def _damaged(store: Store, version: int, error: Exception) -> Refused:
    where = join(store.root, commit_name(version))
    return Refused(f"{where} is damaged ({error}). Nothing was changed. Restore it from a backup.", kind="log_damaged")


def commit_identity(store: Store, version: int) -> tuple[Any, ...] | None:
    """What tells a commit file from another of the same name; None where it has been cleaned up."""
    return store.identity(commit_name(version))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mode(info: dict[str, Any]) -> str | None:
    parameters = info.get("operationParameters") or {}
    mode = parameters.get("mode") or parameters.get("outputMode")
    return str(mode) if mode is not None else None


def scan_back(store: Store, newest: int) -> Iterator[CommitFacts]:
    """Commits from `newest` down to the first gap."""
    for version in range(newest, -1, -1):
        commit = read_commit(store, version)
        if commit is None:
            return
        yield commit


def commits_between(store: Store, after: int, up_to: int) -> tuple[CommitFacts, ...]:
    """Every commit in (after, up_to], newest first; a gap is refused, since what it hides may matter."""
    commits = []
    for version in range(up_to, after, -1):
        commit = read_commit(store, version)
        if commit is None:
            raise Refused(
                f"version {version} of the table is missing from _delta_log, though blizzard has seen version {after}."
                f" Restore {commit_name(version)} from a backup.",
                kind="log_gap",
            )
        commits.append(commit)
    return tuple(commits)


def newest_commit(store: Store, at_least: int) -> int:
    """The newest version whose JSON exists, starting from one that is known. Costs one probe per new commit."""
    version = at_least
    while store.stat(commit_name(version + 1)) is not None:
        version += 1
    return version


def sync_commit(store: Store, version: int) -> None:
    """Put a commit on the disk, entry and folder: delta-rs leaves that to the operating system."""
    store.sync(commit_name(version), LOG_FOLDER)
