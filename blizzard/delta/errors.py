"""What delta-rs says when it cannot, as our own errors and in plain text."""

from __future__ import annotations

from blizzard.core.kinds import Kind
from blizzard.delta.log_trouble import find_log_trouble
from blizzard.errors import BlizzardError, Refused, Temporary
from blizzard.store.files import Store
from blizzard.store.uri import is_local
from blizzard.text.plain import plain


def cannot_open(what: str, store: Store, error: Exception) -> BlizzardError:
    """The store has let itself be listed just before: what is an OSError then is the network's."""
    if isinstance(error, OSError) and not is_local(store.root):
        return Temporary(f"{what} cannot be opened: {plain(error)}. Run again.", kind=Kind.STORE_UNAVAILABLE)
    return find_log_trouble(store) or Refused(
        f"{what} cannot be opened: {plain(error)}. Nothing was changed. Restore what is wrong in its _delta_log from a"
        f" backup.",
        kind=Kind.TABLE_UNREADABLE,
    )
