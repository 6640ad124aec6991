"""Writes numbers, sizes, times and names for people. Never shows a secret or an invisible character."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from markupsafe import Markup, escape

from blizzard.text.redaction import redact

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
# Characters that change how others are shown: controls, invisible ones, and those that change the text direction.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def count(number: float) -> str:
    """12,345, and from a million on 1.2 M."""
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if abs(number) >= limit:
            return f"{_short(number / limit)} {unit}"
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else _short(number)


def size(number: float) -> str:
    unit = 0
    while abs(number) >= 1000 and unit < len(_SIZES) - 1:
        number, unit = number / 1000, unit + 1
    return f"{_short(number)} {_SIZES[unit]}"


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"


def duration(seconds: float) -> str:
    """The two largest units: 3 min 20 s."""
    if seconds < 10:
        return f"{_short(max(0.0, round(seconds, 1)))} s"
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, whole = divmod(whole, length)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount)


def ago(seconds: float) -> str:
    """Seconds up to a minute, minutes up to a day, then hours."""
    least = 1 if seconds < 60 else 60 if seconds < 86_400 else 3_600
    return duration(seconds // least * least) + " ago"


def rate(per_second: float) -> str:
    """Per second; or per minute, hour or day, if it would be less than 1. Nothing at all is 0 per second."""
    if not per_second:
        return "0/s"
    for unit, length in (("s", 1), ("min", 60), ("h", 3_600)):
        if per_second * length >= 1:
            return f"{count(float(_short(per_second * length).replace(',', '')))}/{unit}"
    return f"{_short(per_second * 86_400)}/d"


def when(ms: float) -> str:
    """UTC. A commit may hold any number, also one that is no time."""
    try:
        return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{ms:.0f} ms"


def shown_name(name: str) -> Markup:
    """A name from outside. It cannot change the direction of other text, and its control characters are shown."""
    shown, start, name = Markup(""), 0, redact(name)
    for match in _CONTROLS.finditer(name):
        shown += escape(name[start : match.start()])
        shown += Markup('<i class="control">U+{:04X}</i>').format(ord(match[0]))
        start = match.end()
    return Markup('<bdi class="name">{}</bdi>').format(shown + escape(name[start:]))


def plain(value: Any) -> Any:
    """For every value in the template: text shows its control characters, except newlines, and no secret. Markup is our
    own and stays."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _CONTROLS.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", redact(value))
