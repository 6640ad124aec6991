"""A pause as positions and ledgers write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blizzard.core.fields import integer, text_or_none
from blizzard.core.position import Paused

PAUSE_FIELDS = frozenset(["at_ms", "reason"])


def pause_to_json(paused: Paused) -> dict[str, Any]:
    return {"at_ms": paused.at_ms, "reason": paused.reason}


def pause_of(fields: Mapping[str, Any]) -> Paused:
    """Raises a CodecError where a field is not as blizzard writes it."""
    return Paused(at_ms=integer(fields, "at_ms"), reason=text_or_none(fields, "reason"))
