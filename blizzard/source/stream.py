"""What every step of reading a source file takes and gives: a stream of bytes; and the error that ends it."""

from __future__ import annotations

from typing import Protocol

from blizzard.core.kinds import Kind


class ByteStream(Protocol):
    def read(self, size: int, /) -> bytes:
        """At most `size` bytes. Empty only at the end."""


class UnreadableSource(Exception):
    """A source file that cannot be used. `kind` is stable."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Peekable:
    """A stream whose beginning can be looked at before it is read."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._head = stream, b""

    def peek(self, size: int) -> bytes:
        """The next `size` bytes; fewer only if the stream ends before."""
        while len(self._head) < size:
            more = self._stream.read(size - len(self._head))
            if not more:
                break
            self._head += more
        return self._head[:size]

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        # A short first piece would become a block of its own.
        return head + self._stream.read(size - len(head)) if len(head) < size else head
