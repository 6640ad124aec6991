"""The three standard streams of a command, even if the caller has closed them.

A stream that is closed or full never changes what is done, only what can be printed. `put_out` returns the error, so
that a command whose whole work is its output does not end as if it had been read.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO


def hold_standard_streams() -> None:
    """Take the file numbers of closed streams. Otherwise the next file that is opened, perhaps a data file, gets one of
    them, and text for stderr is written into it."""
    # stdout is opened for reading only: writing to it fails, as it does on a closed stream.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, mode)
            if taken != number:
                os.dup2(taken, number)
                os.close(taken)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = _text_to(1)
    if sys.stderr is None:
        sys.stderr = _text_to(2)


def _text_to(number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "wb", closefd=False)), encoding="utf-8")


def as_lines(out: TextIO, lines: Iterable[str]) -> str:
    """Characters that the stream's encoding lacks are shown as escapes."""
    text = "".join(f"{line}\n" for line in lines)
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


_CLEAR = "\r\x1b[K"


class _Status:
    """The line at the bottom of the terminal that stderr is; empty: none."""

    lock = threading.RLock()
    line = ""


def put_status(line: str) -> None:
    """Show this line at the bottom of the terminal that stderr is, instead of the one before it. Empty: none. What
    `put_err` writes goes above it."""
    with _Status.lock:
        if line != _Status.line:
            _Status.line = line
            _put_err(_CLEAR + line)


def put_err(text: str) -> None:
    """Write whole lines to stderr. An error is ignored."""
    with _Status.lock:
        _put_err(f"{_CLEAR}{text}{_Status.line}" if _Status.line else text)


def _put_err(text: str) -> None:
    if sys.stderr is None:
        return
    printable = text.encode("utf-8", "backslashreplace").decode()
    try:
        sys.stderr.write(printable)
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.stderr = _nowhere(sys.stderr)


def put_out(text: str = "") -> Exception | None:
    """Write to stdout and flush. Returns the error if not all of it was written, also of earlier text."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as e:
        sys.stdout = _nowhere(sys.stdout)
        return e
    return None


def _nowhere(stream: TextIO) -> TextIO:
    """Replaces a stream that failed. What it still holds must not be written when the process ends."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), stream.fileno())
    return nowhere
