"""Commands that a person can paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def shell_words(words: Sequence[str]) -> str:
    """A command to paste. A word that is not printable is written with escapes that a shell reads back."""
    return " ".join(shlex.quote(word) if word.isprintable() else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    visible = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(c if c.isprintable() else _shell_escape(c) for c in visible)}'"


def _shell_escape(character: str) -> str:
    """Its bytes in octal: the same bytes in every locale of the shell."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
