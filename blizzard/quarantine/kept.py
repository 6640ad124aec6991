"""The handle that a run keeps of its quarantine table.

Opening the table anew for every commit would read all commits since its last Delta checkpoint each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from blizzard.delta import log
from blizzard.delta.txns import Txns
from blizzard.store.files import Store


class KeptHandle:
    """Only for the commits of a run, one after another. Who reads the table at one version needs another handle."""

    def __init__(self) -> None:
        self._handle: DeltaTable | None = None
        self._newest_seen: tuple[Any, ...] | None = None
        self._txns: Txns | None = None

    def newest(self, store: Store, open_table: Callable[[], DeltaTable | None]) -> DeltaTable | None:
        """The table as it is now. Opened anew if it was dropped, replaced or restored from a copy."""
        handle = self._handle
        if handle is None or not self._is_same(store, handle) or not _updated(handle):
            handle = self._handle = open_table()
            self._txns = Txns(store)
        self._newest_seen = None if handle is None else log.commit_identity(store, int(handle.version()))
        return handle

    def txn_versions(self, handle: DeltaTable, *app_ids: str) -> tuple[int | None, ...]:
        assert self._txns is not None
        return self._txns.at(handle, *app_ids)

    def _is_same(self, store: Store, handle: DeltaTable) -> bool:
        identity = log.commit_identity(store, int(handle.version()))
        return identity is not None and identity == self._newest_seen


def _updated(handle: DeltaTable) -> bool:
    try:
        handle.update_incremental()
    except (DeltaError, OSError, ValueError):
        return False  # opening it anew says what is wrong
    return True
