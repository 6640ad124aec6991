"""Reading `_delta_log` commit by commit. Reads facts and decides nothing.

Goes from the newest commit backwards, so that the cost is the scan window and not the history.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import orjson

from blizzard.core.log import CommitFacts, Txn
from blizzard.durable import sync
from blizzard.errors import Refused


def commit_path(table_root: str, version: int) -> str:
    return os.path.join(table_root, "_delta_log", f"{version:020d}.json")


def read_commit(table_root: str, version: int) -> CommitFacts | None:
    """One commit, or None where its JSON is not there (cleaned up)."""
    path = commit_path(table_root, version)
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
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
        raise Refused(
            f"{path} is damaged ({e}). Nothing was changed. Restore it from a backup.", kind="log_damaged"
        ) from e


def commit_identity(table_root: str, version: int) -> tuple[int, int, int] | None:
    """What tells a commit file from another of the same name; None where it has been cleaned up."""
    try:
        info = os.stat(commit_path(table_root, version))
    except FileNotFoundError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mode(info: dict[str, Any]) -> str | None:
    parameters = info.get("operationParameters") or {}
    mode = parameters.get("mode") or parameters.get("outputMode")
    return str(mode) if mode is not None else None


def scan_back(table_root: str, newest: int) -> Iterator[CommitFacts]:
    """Commits from `newest` down to the first gap."""
    for version in range(newest, -1, -1):
        commit = read_commit(table_root, version)
        if commit is None:
            return
        yield commit


def commits_between(table_root: str, after: int, up_to: int) -> tuple[CommitFacts, ...]:
    """Every commit in (after, up_to], newest first; a gap is refused, since what it hides may matter."""
    commits = []
    for version in range(up_to, after, -1):
        commit = read_commit(table_root, version)
        if commit is None:
            raise Refused(
                f"version {version} of the table is missing from _delta_log, though blizzard has seen version {after}."
                f" Restore {os.path.basename(commit_path(table_root, version))} from a backup.",
                kind="log_gap",
            )
        commits.append(commit)
    return tuple(commits)


def newest_commit(table_root: str, at_least: int) -> int:
    """The newest version whose JSON exists, starting from one that is known. Costs one probe per new commit."""
    version = at_least
    while os.path.exists(commit_path(table_root, version + 1)):
        version += 1
    return version


def sync_commit(table_root: str, version: int) -> None:
    """Put a commit on the disk, entry and folder: delta-rs leaves that to the operating system."""
    for path in (commit_path(table_root, version), os.path.join(table_root, "_delta_log")):
        sync(path)
