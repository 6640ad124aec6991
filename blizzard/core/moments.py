"""Moments in time as people write them: `2026-01-31`, `2026-01-31T08:00`, `2026-01-31T08:00:00+02:00`. Without a zone
they are UTC. Milliseconds are the finest: stores keep no finer times."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,3})0*)?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


def parse_moment(text: str) -> int | None:
    """Milliseconds since 1970. None: it is no moment, or one before 1970."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    day, clock, seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    try:
        moment = datetime.fromisoformat(
            f"{day}T{clock or '00:00'}:{seconds or '00'}.{(fraction or '').ljust(3, '0')}{zone}"
        )
        ms = (moment - _EPOCH) // _MS
    except (ValueError, OverflowError):
        return None
    return ms if ms >= 0 else None


def moment_text(ms: int) -> str:
    """As `parse_moment` reads it."""
    try:
        moment = _EPOCH + ms * _MS
    except OverflowError:  # a number that somebody wrote into the log
        return f"{ms} ms after 1970"
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")
