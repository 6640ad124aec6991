"""The error of another library, on one line."""

from __future__ import annotations

import re

from blizzard.text.redaction import redact

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"\d+: \S|at \S+:\d+")


def plain(error: BaseException) -> str:
    """One line, without the colours and arrows that delta-rs puts between causes, and without its stack."""
    text = redact(_COLOUR.sub("", str(error))) or type(error).__name__
    parts = (part.strip(" ↳\t") for part in text.splitlines())
    return ": ".join(part for part in parts if part and not _FRAME.match(part))
