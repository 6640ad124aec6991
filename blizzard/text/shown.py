"""How text that others wrote is shown: on one line, with no secret, and with every character visible.

Needs no package: a scheduler that only knows the errors imports it too.
"""

from __future__ import annotations

from blizzard.text.redaction import redact


def printable(text: str) -> str:
    """With every character visible that is not: controls, line ends, marks of direction, halves of characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def shown(text: str) -> str:
    """As it may be read by others, on one line."""
    return printable(redact(text))
