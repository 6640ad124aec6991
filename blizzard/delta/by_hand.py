"""A commit written by hand: removes given files in one atomic commit, which delta-rs does not offer.

Only for tables whose features ask nothing of such a commit (see `features`), and only with an atomic create of the next
version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from blizzard import __version__
from blizzard.core.commit import CommitRequest

# Fields of an Add that the Remove repeats: a reader of the change feed needs them.
_KEPT = ("partitionValues", "size", "stats", "deletionVector", "tags", "baseRowId", "defaultRowCommitVersion")


def removing_commit(request: CommitRequest, *, read_version: int) -> bytes:
    return b"".join(orjson.dumps(action) + b"\n" for action in _actions(request, read_version))


def _actions(request: CommitRequest, read_version: int) -> Iterator[dict[str, Any]]:
    yield {
        "commitInfo": {
            "timestamp": request.last_updated_ms,
            "operation": "DELETE",
            "operationParameters": {"predicate": "[]"},
            "readVersion": read_version,
            "isBlindAppend": False,
            "operationMetrics": {"numRemovedFiles": str(len(request.removes)), "numAddedFiles": "0"},
            "engineInfo": f"blizzard/{__version__}",
            "userMetadata": request.ledger,
        }
    }
    if request.metadata is not None:
        yield {"metaData": dict(request.metadata)}
    for add in request.removes:
        yield {"remove": remove_action(add, request.last_updated_ms)}
    for app_id in (request.app_id, request.fence_app_id):
        yield {"txn": {"appId": app_id, "version": request.sequence, "lastUpdated": request.last_updated_ms}}


def remove_action(add: Mapping[str, Any], deleted_ms: int) -> dict[str, Any]:
    return {
        "path": add["path"],
        "deletionTimestamp": deleted_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        **{name: add[name] for name in _KEPT if add.get(name) is not None},
    }
