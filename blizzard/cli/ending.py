"""The end of a command that failed: a known error, one line of text, and a traceback only if asked for."""

from __future__ import annotations

from collections.abc import Sequence

from blizzard.cli.unforeseen import describe_unknown, is_traced, trace_lines
from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, known_failure


def failure_of(error: BaseException) -> BlizzardError:
    return known_failure(error) or BlizzardError(describe_unknown(error), kind=Kind.INTERNAL)


def failure_text(error: BlizzardError) -> str:
    first, *further = str(error).split("\n")
    return "\n".join([f"blizzard: {first} [{error.kind}]", *further])


def trace_of(error: BaseException) -> Sequence[str]:
    return trace_lines(error) if is_traced() else ()
