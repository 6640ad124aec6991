"""Reads `_delta_log` commit by commit. It reads facts and decides nothing.

Reading goes from the newest commit backwards, so that it can stop early.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any

import orjson

from blizzard.core.kinds import Kind
from blizzard.core.log import CommitFacts, FileActions, Txn
from blizzard.errors import Refused
from blizzard.store.files import Store
from blizzard.store.uri import join

LOG_FOLDER = "_delta_log"
_MAX_TIMESTAMP_MS = 253_402_300_799_999  # the end of the year 9999


def commit_name(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def read_commit(store: Store, version: int) -> CommitFacts | None:
    """One commit. None: its JSON is not there (cleaned up)."""
    content = store.read(commit_name(version))
    if content is None:
        return None
    lines = content.splitlines()
    info: dict[str, Any] = {}
    txns, removes_rows = [], False
    try:
        for line in lines:
            # Adds are most of a large commit and are not needed here.
            if not line or line.startswith(b'{"add"'):
                continue
            # A compaction removes thousands of files but no rows.
            if line.startswith(b'{"remove"') and (removes_rows or b'"dataChange":false' in line):
                continue
            action = orjson.loads(line)
            if "remove" in action:
                removes_rows |= action["remove"].get("dataChange") is not False
            elif "txn" in action:
                txns.append(txn_of(action["txn"]))
            elif isinstance(action.get("commitInfo"), dict):  # it may be any JSON; other forms say nothing
                info = action["commitInfo"]
        operation, mode = _operation(info)
        return CommitFacts(
            version=version,
            timestamp_ms=_timestamp(info.get("inCommitTimestamp")) or _timestamp(info.get("timestamp")),
            operation=operation,
            mode=mode,
            txns=tuple(txns),
            user_metadata=_text(info.get("userMetadata")),
            removes_rows=removes_rows,
            predicate=_predicate(info),
            restored_to=_restored_to(info),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise _damaged(store, version, e) from e


def read_file_actions(store: Store, version: int) -> FileActions | None:
    """What one commit did to files and metadata. None: its JSON is not there."""
    content = store.read(commit_name(version))
    if content is None:
        return None
    adds: dict[str, dict[str, Any]] = {}
    removes: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] | None = None
    try:
        for line in content.splitlines():
            action = orjson.loads(line) if line else {}
            if "add" in action:
                adds[_path_of(action["add"])] = action["add"]
            elif "remove" in action:
                removes[_path_of(action["remove"])] = action["remove"]
            elif "metaData" in action:
                metadata = dict(action["metaData"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as e:
        raise _damaged(store, version, e) from e
    return FileActions(version=version, adds=adds, removes=removes, metadata=metadata)


def _damaged(store: Store, version: int, error: Exception) -> Refused:
    where = join(store.root, commit_name(version))
    return Refused(
        f"{where} is damaged ({error}). Nothing was changed. Restore it from a backup.", kind=Kind.LOG_DAMAGED
    )


def commit_identity(store: Store, version: int) -> tuple[Any, ...] | None:
    """Differs between two commit files of the same name. None: the file was cleaned up."""
    return store.identity(commit_name(version))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def txn_of(fields: Any) -> Txn:
    """Raises TypeError or KeyError for a Txn that no Delta reader can take."""
    app_id, version, last_updated_ms = fields["appId"], fields["version"], fields.get("lastUpdated")
    if type(app_id) is not str or type(version) is not int or type(last_updated_ms) not in (int, NoneType):
        raise TypeError("a txn with a field of the wrong type")
    return Txn(app_id=app_id, version=version, last_updated_ms=last_updated_ms)


def _path_of(action: Any) -> str:
    if type(action["path"]) is not str:
        raise TypeError("a path that is no text")
    return str(action["path"])


def _timestamp(value: Any) -> int:
    """Any writer may put anything there. 0: the time is not known."""
    return value if type(value) is int and 0 <= value <= _MAX_TIMESTAMP_MS else 0


def _operation(info: dict[str, Any]) -> tuple[str, str | None]:
    """Operation and mode. Empty if the parameters cannot be read: then nothing says what the operation did."""
    operation, parameters = info.get("operation"), info.get("operationParameters")
    if not isinstance(operation, str) or not isinstance(parameters, dict | NoneType):
        return "", None
    mode = (parameters or {}).get("mode") or (parameters or {}).get("outputMode")
    return operation, str(mode) if mode is not None else None


def _parameters(info: dict[str, Any]) -> dict[str, Any]:
    parameters = info.get("operationParameters")
    return parameters if isinstance(parameters, dict) else {}


def _predicate(info: dict[str, Any]) -> str | None:
    """Spark writes a list as text, and `[]` if there is no condition."""
    predicate = _parameters(info).get("predicate")
    return str(predicate) if predicate is not None and str(predicate).strip() not in ("", "[]") else None


def _restored_to(info: dict[str, Any]) -> int | None:
    version = str(_parameters(info).get("version"))
    return int(version) if version.isdecimal() and len(version) < 20 else None


def scan_back(store: Store, newest: int) -> Iterator[CommitFacts]:
    """Commits from `newest` down to the first gap."""
    for version in range(newest, -1, -1):
        commit = read_commit(store, version)
        if commit is None:
            return
        yield commit


def commits_between(store: Store, after: int, up_to: int) -> tuple[CommitFacts, ...]:
    """Every commit in (after, up_to], newest first. A gap is refused: the missing commit may matter."""
    commits = []
    for version in range(up_to, after, -1):
        commit = read_commit(store, version)
        if commit is None:
            raise Refused(
                f"version {version} of the table is missing from _delta_log, though blizzard has seen version {after}."
                f" Restore {commit_name(version)} from a backup.",
                kind=Kind.LOG_GAP,
            )
        commits.append(commit)
    return tuple(commits)


def newest_commit(store: Store, at_least: int) -> int:
    """The newest version whose JSON exists, counted up from a known one. Costs one probe per new commit."""
    version = at_least
    while store.stat(commit_name(version + 1)) is not None:
        version += 1
    return version


def sync_commit(store: Store, version: int) -> None:
    """Sync a commit file and its folder to disk: delta-rs leaves that to the operating system."""
    store.sync(commit_name(version), LOG_FOLDER)
