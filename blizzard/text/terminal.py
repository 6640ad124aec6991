"""What a stream can show: whether it is a terminal, how wide it is, whether it may have colour."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TextIO

_DEFAULT_COLUMNS = 80


class Colour(Enum):
    """As terminals number them."""

    RED = 31
    GREEN = 32
    YELLOW = 33


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a line on it can be redrawn. A terminal that calls itself dumb cannot do that."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False


def has_colour(stream: TextIO | None) -> bool:
    """NO_COLOR, with any value, means none: see no-color.org."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def painted(text: str, colour: Colour, stream: TextIO | None = None) -> str:
    """In colour, where the stream (stderr, if none is named) may have it."""
    if not has_colour(stream or sys.stderr):
        return text
    return f"\x1b[{colour.value}m{text}\x1b[0m"


def columns_of(stream: TextIO | None) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_COLUMNS if stream else _DEFAULT_COLUMNS
    except (OSError, ValueError):
        return _DEFAULT_COLUMNS


def can_show(stream: TextIO | None, text: str) -> bool:
    """Whether the encoding of the stream has these characters."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeError:
        return False
    return True
