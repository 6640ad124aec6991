"""Shows text that others wrote: on one line, without secrets, with every character visible.

Needs no other package: a scheduler that only uses the errors imports it too.
"""

from __future__ import annotations

from blizzard.text.redaction import redact


def printable(text: str) -> str:
    """The text with escapes for invisible characters: controls, line ends, direction marks, half characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def shown(text: str) -> str:
    """The text on one line, without secrets."""
    return printable(redact(text))
