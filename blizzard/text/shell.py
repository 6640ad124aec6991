"""Commands to be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def shell_words(words: Sequence[str]) -> str:
    """A command to be pasted. What is not printable is written as an escape that a shell reads back."""
    return " ".join(shlex.quote(word) if word.isprintable() else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    visible = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(c if c.isprintable() else _shell_escape(c) for c in visible)}'"


def _shell_escape(character: str) -> str:
    """Its bytes in octal: whatever the shell's locale is, they are those that were given."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
