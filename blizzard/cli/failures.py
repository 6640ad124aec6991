"""The end of a command that failed: a known error, one line of text, and a traceback only if asked for."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence

from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, known_failure
from blizzard.text.shown import shown

_TRACEBACK_VARIABLE = "BLIZZARD_TRACEBACK"
_SHOWN_CHARS = 300


def failure_of(error: BaseException) -> BlizzardError:
    return known_failure(error) or BlizzardError(_describe_unknown(error), kind=Kind.INTERNAL)


def failure_text(error: BlizzardError) -> str:
    first, *further = str(error).split("\n")
    return "\n".join([f"blizzard: {first} [{error.kind}]", *further])


def trace_of(error: BaseException) -> Sequence[str]:
    return trace_lines(error) if _is_traced() else ()


def _describe_unknown(error: BaseException) -> str:
    """One line about a bug in blizzard, with the place where it was raised."""
    try:
        said = " ".join(repr(error).split())
    except Exception:  # its own repr may fail
        said = type(error).__name__
    ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}blizzard{os.sep}" in f.filename]
    where = f" at {os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else ""
    return f"unexpected: {said[:_SHOWN_CHARS]}{where}. Please report it; {_TRACEBACK_VARIABLE}=1 shows the traceback."


def _is_traced() -> bool:
    """Whether tracebacks were asked for."""
    return os.environ.get(_TRACEBACK_VARIABLE, "") not in ("", "0")


def trace_lines(error: BaseException) -> list[str]:
    """A traceback. Line ends in the text of an error are escaped: they must not look like lines of the traceback."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    lines: list[str] = []
    for one in reversed(chain):
        lines += ["", "which led to:", ""] if lines else []
        lines.append("Traceback (most recent call last):")
        lines += [line for frame in traceback.format_tb(one.__traceback__) for line in frame.rstrip("\n").split("\n")]
        lines.append(f"{type(one).__qualname__}: {one}")
    return list(map(shown, lines))
