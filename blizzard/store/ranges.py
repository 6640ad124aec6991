"""Reads a file in a store as a stream, range by range. Never fetches more than one range ahead of the reader."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeAlias

RANGE_BYTES = 8 * 1024 * 1024

Fetch: TypeAlias = Callable[[int, int], bytes]  # [start, end) of the file


class RangeStream(io.RawIOBase):
    """`first` is the first range, if it was already requested."""

    def __init__(self, fetch: Fetch, size_bytes: int, pool: Executor, first: Future[bytes] | None = None) -> None:
        self._fetch, self._size, self._pool = fetch, size_bytes, pool
        self._current: memoryview = memoryview(b"")
        self._ahead: Future[bytes] | None = first
        self._asked = first_range_end(size_bytes) if first is not None else 0
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._current:
            self._current = memoryview(self._next_range())
        count = min(len(buffer), len(self._current))
        buffer[:count] = self._current[:count]
        self._current = self._current[count:]
        self._position += count
        return count

    def tell(self) -> int:
        return self._position

    def _next_range(self) -> bytes:
        ahead = self._ahead or self._ask()
        if ahead is None:
            return b""
        content = ahead.result()
        self._ahead = self._ask()
        return content

    def _ask(self) -> Future[bytes] | None:
        if self._asked >= self._size:
            return None
        start, self._asked = self._asked, min(self._size, self._asked + RANGE_BYTES)
        return self._pool.submit(self._fetch, start, self._asked)

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
        super().close()


def first_range_end(size_bytes: int) -> int:
    return min(size_bytes, RANGE_BYTES)
