"""Turns errors of delta-rs into our own errors, in plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from blizzard.core.kinds import Kind
from blizzard.delta.log_trouble import find_log_trouble
from blizzard.errors import BlizzardError, Refused, Temporary
from blizzard.store.files import Store
from blizzard.store.uri import is_local
from blizzard.text.plain import plain

if TYPE_CHECKING:
    from deltalake import DeltaTable


def cannot_open(what: str, store: Store, error: Exception) -> BlizzardError:
    """The store was listed just before, so an OSError from a remote store is a fault of the network."""
    if isinstance(error, OSError) and not is_local(store.root):
        return Temporary(f"{what} cannot be opened: {plain(error)}. Run again.", kind=Kind.STORE_UNAVAILABLE)
    return find_log_trouble(store) or Refused(
        f"{what} cannot be opened: {plain(error)}. Nothing was changed. Restore what is wrong in its _delta_log from a"
        f" backup.",
        kind=Kind.TABLE_UNREADABLE,
    )


def txn_version(handle: DeltaTable, app_id: str, store: Store | None = None) -> int | None:
    """The version of a Txn in the snapshot. Refused if the log holds a Txn that no reader can take."""
    try:
        version = handle.transaction_version(app_id)
    except DeltaError as e:
        trouble = None if store is None else find_log_trouble(store)
        raise trouble or Refused(
            f"the transactions of {handle.table_uri} cannot be read: {plain(e)}. Nothing was changed. Restore what is"
            f" wrong in its _delta_log from a backup.",
            kind=Kind.TABLE_UNREADABLE,
        ) from e
    return None if version is None else int(version)
