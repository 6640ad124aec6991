"""The end of a command that failed: a known error, one line of text, and a traceback only if asked for."""

from __future__ import annotations

from blizzard.errors import BlizzardError, failure_of
from blizzard.text.trace import trace_lines, trace_of

__all__ = ["failure_of", "failure_text", "trace_lines", "trace_of"]


def failure_text(error: BlizzardError) -> str:
    first, *further = str(error).split("\n")
    return "\n".join([f"blizzard: {first} [{error.kind}]", *further])
