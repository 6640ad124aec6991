"""The three standard streams of a command, whatever state its caller has left them in.

A stream that is closed or full never changes what is done, only what can be said about it. What could not be said is
known afterwards, so that a command whose whole work is its output does not end as if it had been read.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import Any, TextIO, cast

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError


def hold_standard_streams() -> None:
    """Take the numbers of closed streams. Otherwise the next file that is opened, a data file perhaps, gets one of
    them, and whoever writes to stderr writes into it."""
    # To read only: whatever is written to a stdout that was closed fails, as it would have.
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


def put_err(text: str) -> None:
    """To stderr, if anybody listens."""
    if sys.stderr is None:
        return
    printable = text.encode("utf-8", "backslashreplace").decode()
    try:
        sys.stderr.write(printable)
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.stderr = _nowhere(sys.stderr)


def put_out(text: str = "") -> Exception | None:
    """To stdout, with everything that was written before; the error if not all of it got there."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as e:
        sys.stdout = _nowhere(sys.stdout)
        return e
    return None


def carry_out(work: Callable[[], int], *, prints_at_the_end: bool) -> tuple[int, BaseException | None]:
    """The exit code of a command, or what ended it.

    What a command prints is its work, and lost output an error. One that changes something prints at the end: a stdout
    that takes nothing must not stop it half way, and does not undo it.
    """
    told, error, code = io.StringIO(), None, 0
    watched = _Watched(sys.stdout)
    try:
        with redirect_stdout(told if prints_at_the_end else cast("TextIO", watched)):
            code = work()
    except KeyboardInterrupt:
        return 130, None
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as e:  # a panic in Rust is no Exception
        error = e
    unsaid = put_out(told.getvalue())
    lost = watched.lost or unsaid
    if lost is None:
        return code, error
    if prints_at_the_end:
        put_err(f"blizzard: what was done could not be printed: {lost}\n")
        return code, error
    if error is not None and error is not lost:
        return code, error
    if isinstance(lost, BrokenPipeError):  # a reader that has seen enough
        return 0, None
    return code, stdout_is_lost(lost)


class _Watched:
    """A stdout that remembers what went wrong with it: a broken pipe may as well be that of a connection."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._buffer: _Watched | None = None
        self._lost: Exception | None = None

    @property
    def lost(self) -> Exception | None:
        return self._lost or (self._buffer.lost if self._buffer is not None else None)

    @property
    def buffer(self) -> _Watched:
        self._buffer = self._buffer or _Watched(self._stream.buffer)
        return self._buffer

    def write(self, content: Any) -> Any:
        return self._try(lambda: self._stream.write(content))

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (OSError, ValueError) as e:
            self._lost = e
            raise


def stdout_is_lost(error: Exception) -> ConfigError:
    return ConfigError(f"nothing can be written to stdout: {error}", kind=Kind.OUTPUT)


def _nowhere(stream: TextIO) -> TextIO:
    """In place of a stream that is of no use. What it still holds must not be tried once more when the process ends."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), stream.fileno())
    return nowhere
