"""Removes a table that a run made and never filled. Only on local disk, where a log can be taken away in one step.

In an object store its files would be deleted one by one, and a commit that lands between two of them would be lost with
them. There the table stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson

from blizzard.core.codec import fence_app_id
from blizzard.core.kinds import Kind
from blizzard.delta import log
from blizzard.errors import Refused

# The log has this name, and then some digits, while it is looked at.
ASIDE = "_blizzard-unused-"


def remove_unused_table(root: str, pipeline: str, run_id: str) -> bool:
    """Remove the log, and the files that this run wrote. False: the log holds more than what making the table wrote, or
    cannot be taken away; then everything stays."""
    kept, aside = os.path.join(root, log.LOG_FOLDER), os.path.join(root, f"{ASIDE}{os.urandom(6).hex()}")
    try:
        if not _is_unused(kept, pipeline):
            return False  # a log that others use is not away for a moment, or for good if this process is killed
        os.rename(kept, aside)
    except OSError:
        return False
    # Looked at again: now nobody can commit into it any more.
    if not _is_unused(aside, pipeline):
        _put_back(aside, kept)
        return False
    # The log goes last: files without one look as if somebody had deleted it.
    remove_files_of(root, run_id)
    shutil.rmtree(aside)
    with suppress(OSError):  # it holds files of others
        os.rmdir(root)
    return True


def remove_files_of(root: str, run_id: str, is_meant: Callable[[str], bool] = lambda _: True) -> None:
    """Files that a run wrote and no commit names, and the folders that are empty then. A log stays: somebody may be
    about to write its first commit. Where several targets of the run write to one folder, `is_meant` says by the path
    whether a file is of the one that is meant."""
    for folder, _, names in os.walk(root, topdown=False):
        if folder.startswith(os.path.join(root, log.LOG_FOLDER)):
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith(f"blizzard-{run_id}-") and is_meant(path):
                os.unlink(path)
        with suppress(OSError):  # it holds files of others
            os.rmdir(folder)


def _put_back(aside: str, kept: str) -> None:
    try:
        os.rename(aside, kept)
    except OSError as e:
        raise Refused(
            f"the log of the table could not be put back, because there is another one: {e}. Its commits are in"
            f" {aside}; compare the two before anything is written.",
            kind=Kind.LOG_REWRITTEN,
        ) from e


def _is_unused(folder: str, pipeline: str) -> bool:
    ours = {fence_app_id(pipeline), f"blizzard-schema:{pipeline}"}
    names = os.listdir(folder)
    if any(name.endswith(".parquet") for name in names):
        return False  # a Delta checkpoint
    for action in _actions(folder, names):
        txn = action.get("txn")
        if not action.keys() <= {"commitInfo", "protocol", "metaData", "txn"}:
            return False
        if txn is not None and (
            txn["appId"] not in ours or (txn["appId"] == fence_app_id(pipeline) and txn["version"])
        ):
            return False
    return True


def _actions(folder: str, names: list[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                yield from map(orjson.loads, file.read().splitlines())
