"""The fences of a table's pipelines, each asked of delta-rs once. Later the commits since then say what changed.

delta-rs reads every commit since the last Delta checkpoint for an answer: up to 99 requests on S3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blizzard.core.codec import fence_app_id
from blizzard.core.log import fence_version
from blizzard.delta import log
from blizzard.delta.errors import txn_version
from blizzard.store.files import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable


class Fences:
    """For one handle, which only moves to newer versions of the same log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, int]] = {}  # by pipeline: a version, and the fence there

    def at(self, handle: DeltaTable, pipeline: str) -> int | None:
        """The fence at the version of the handle. None: there is none, or it has expired."""
        version = int(handle.version())
        fence = self._followed(pipeline, version)
        if fence is None:
            fence = txn_version(handle, fence_app_id(pipeline), self._store)
        if fence is not None:
            self._known[pipeline] = (version, fence)
        return fence

    def _followed(self, pipeline: str, version: int) -> int | None:
        """None: it was not known before, or a commit since then was cleaned up."""
        if pipeline not in self._known:
            return None
        known, fence = self._known[pipeline]
        for newer in range(known + 1, version + 1):
            commit = log.read_commit(self._store, newer)
            if commit is None:
                return None
            taken = fence_version(commit, pipeline)
            fence = fence if taken is None else taken
        return fence
