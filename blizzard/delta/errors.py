"""What delta-rs says when it cannot, as our own errors and in plain text."""

from __future__ import annotations

import re

from blizzard.errors import BlizzardError, Refused, Temporary
from blizzard.store.uri import is_local, without_secrets

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def plain(error: BaseException) -> str:
    """One line, without the colours and arrows that delta-rs puts between causes."""
    text = without_secrets(_COLOUR.sub("", str(error))) or type(error).__name__
    return ": ".join(part.strip(" ↳\t") for part in text.splitlines() if part.strip(" ↳\t"))


def cannot_open(what: str, root: str, error: Exception) -> BlizzardError:
    """The store has let itself be listed just before: what is an OSError then is the network's."""
    if isinstance(error, OSError) and not is_local(root):
        return Temporary(f"{what} cannot be opened: {plain(error)}. Run again.", kind="store_unavailable")
    return Refused(f"{what} cannot be opened: {plain(error)}", kind="table_unreadable")
