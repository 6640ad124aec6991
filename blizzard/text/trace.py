"""Tracebacks, for those who ask for them: safe to show, and only if an environment variable says so."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence

from blizzard.text.shown import shown

TRACEBACK_VARIABLE = "BLIZZARD_TRACEBACK"


def trace_of(error: BaseException) -> Sequence[str]:
    return trace_lines(error) if _is_traced() else ()


def _is_traced() -> bool:
    """Whether tracebacks were asked for."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


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
