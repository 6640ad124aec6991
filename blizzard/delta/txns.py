"""The Txns of a table, each asked of delta-rs once. Later the commits since then say what changed.

delta-rs reads every commit since the last Delta checkpoint for an answer: up to 99 requests on S3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blizzard.core.log import CommitFacts
from blizzard.delta import log
from blizzard.delta.errors import txn_version
from blizzard.store.files import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable


class Txns:
    """For one handle, which only moves to newer versions of the same log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, int | None]] = {}  # by appId: a version of the table, and the answer there

    def at(self, handle: DeltaTable, *app_ids: str) -> tuple[int | None, ...]:
        """The version of each Txn, at the version of the handle. None: there is none, or it has expired."""
        now = int(handle.version())
        asked_at = min((self._known[app_id][0] for app_id in app_ids if app_id in self._known), default=now)
        commits = self._commits_since(asked_at, now)
        for app_id in app_ids:
            self._known[app_id] = (now, self._answer(handle, app_id, commits))
        return tuple(self._known[app_id][1] for app_id in app_ids)

    def _answer(self, handle: DeltaTable, app_id: str, commits: list[CommitFacts] | None) -> int | None:
        if app_id not in self._known or commits is None:
            return txn_version(handle, app_id, self._store)
        version, known = self._known[app_id]
        newer = (txn for c in commits if c.version > version for txn in c.txns if txn.app_id == app_id)
        return next((txn.version for txn in newer), known)

    def _commits_since(self, version: int, now: int) -> list[CommitFacts] | None:
        """Newest first. None: one of them was cleaned up."""
        commits = [log.read_commit(self._store, newer) for newer in range(now, version, -1)]
        found = [commit for commit in commits if commit is not None]
        return found if len(found) == len(commits) else None
