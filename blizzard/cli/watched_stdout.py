"""Runs a command, and notices output that could not be printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TextIO, cast

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.text.streams import put_err, put_out


def run_watched(work: Callable[[], int], *, prints_at_the_end: bool) -> tuple[int, BaseException | None]:
    """The exit code of a command, or the exception that ended it.

    A command that only shows something fails if its output is lost. A command that changes something prints at the end:
    a closed or full stdout must not stop it half way, and does not undo what was done.
    """
    printed, error, code = io.StringIO(), None, 0
    watched = _Watched(sys.stdout)
    try:
        with redirect_stdout(printed if prints_at_the_end else cast("TextIO", watched)):
            code = work()
    except KeyboardInterrupt:
        return 130, None
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as e:  # a panic in Rust is not an Exception
        error = e
    unsaid = put_out(printed.getvalue())
    lost = watched.lost or unsaid
    if lost is None:
        return code, error
    if prints_at_the_end:
        put_err(f"blizzard: what was done could not be printed: {lost}\n")
        return code, error
    if error is not None and error is not lost:
        return code, error
    if isinstance(lost, BrokenPipeError):  # the reader closed the pipe: it has seen enough
        return 0, None
    return code, stdout_is_lost(lost)


class _Watched:
    """A stdout that remembers its own error: a BrokenPipeError may also come from a network connection."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        below = getattr(stream, "buffer", None)
        self.buffer = None if below is None else _Watched(below)
        self._lost: Exception | None = None

    @property
    def lost(self) -> Exception | None:
        return self._lost or (self.buffer.lost if self.buffer is not None else None)

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
