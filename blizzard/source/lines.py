"""Cuts a byte stream into blocks of whole lines, with bounded memory and exact line counts.

Lines are physical: blank and bad ones count too, so a position never depends on what the parser accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from blizzard import native
from blizzard.source.decode import ByteStream

Positions: TypeAlias = npt.NDArray[np.int64]

_NEWLINE = ord("\n")
# Compared in pieces that stay in the cache.
_SCAN_BYTES = 1 << 18
# How much of a too long line is kept, to show what it was.
KEPT_OF_A_LONG_LINE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLine:
    """A line over the limit. Only its beginning and its length are kept."""

    head: bytes
    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return f"the line has {self.size_bytes} bytes, more than limits.max_record_bytes ({self.limit_bytes})"


@dataclass(frozen=True, kw_only=True)  # without slots, for what is found out only when asked
class Block:
    """Whole lines of the file, from line `first_line` (0-based) on. Only the last block may lack a final newline. With
    `too_long`: one line, without its bytes."""

    data: bytes
    lines: int
    first_line: int
    first_byte: int
    last: bool
    too_long: LongLine | None = None

    @cached_property
    def newlines(self) -> Positions:
        """Where they are. Only for blocks with bad lines: this costs more than counting them."""
        return newline_positions(self.data)

    @property
    def held_bytes(self) -> int:
        """How much memory it takes, about."""
        return len(self.data)

    def head(self, count: int) -> Block:
        """The first `count` lines of a block that has more."""
        end = int(self.newlines[count - 1]) + 1 if count else 0
        return replace(self, data=self.data[:end], lines=count, last=False)

    def tail(self, count: int) -> Block:
        """All but the first `count` lines of a block that has more."""
        start = int(self.newlines[count - 1]) + 1 if count else 0
        return replace(
            self,
            data=self.data[start:],
            lines=self.lines - count,
            first_line=self.first_line + count,
            first_byte=self.first_byte + start,
        )

    def originals(self, indexes: Positions) -> tuple[list[int], list[bytes]]:
        """Where these lines are in the file, and their bytes as they are there."""
        edges = np.concatenate(([-1], self.newlines, [len(self.data)]))
        starts, ends = edges[indexes] + 1, edges[indexes + 1]
        raws = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return (starts + self.first_byte).tolist(), raws


def split_at(blocks: Iterable[Block], lines: Iterable[int]) -> Iterator[Block]:
    """The same lines in the same order. None of `lines` is in the middle of a block: it begins one."""
    edges = sorted(lines)
    for block in blocks:
        rest = block
        for edge in edges:
            if rest.first_line < edge < rest.first_line + rest.lines:
                yield rest.head(edge - rest.first_line)
                rest = rest.tail(edge - rest.first_line)
        yield rest


def count_lines(data: bytes) -> int:
    """A last line without its newline counts too."""
    return _count_newlines(data) + bool(data and not data.endswith(b"\n"))


def _count_newlines(data: bytes) -> int:
    if native.is_available():
        return native.count_newlines(data)
    # Twice as fast as bytes.count on long lines, and six times on blank ones (measured).
    content = np.frombuffer(data, np.uint8)
    return sum(
        int(np.count_nonzero(content[start : start + _SCAN_BYTES] == _NEWLINE))
        for start in range(0, len(data), _SCAN_BYTES)
    )


def newline_positions(data: bytes) -> Positions:
    if native.is_available():
        return np.frombuffer(native.newline_positions(data), np.int64)
    content = np.frombuffer(data, np.uint8)
    parts = [
        np.flatnonzero(content[start : start + _SCAN_BYTES] == _NEWLINE) + start
        for start in range(0, len(data), _SCAN_BYTES)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def read_blocks(stream: ByteStream, *, block_bytes: int, max_line_bytes: int, skip: int = 0) -> Iterator[Block]:
    """Blocks of about `block_bytes`, from line `skip` on. One chunk is read ahead, so that the last block knows that it
    is the last. In the skipped part only newlines are counted."""
    chunk, skipped_bytes = _skip_lines(stream, skip, block_bytes)
    cutter = _Cutter(line=skip, byte=skipped_bytes, max_line_bytes=max_line_bytes)
    chunk = chunk or stream.read(block_bytes)
    while chunk:
        ahead = stream.read(block_bytes)
        yield from cutter.cut(chunk, last=not ahead)
        chunk = ahead


def _skip_lines(stream: ByteStream, count: int, block_bytes: int) -> tuple[bytes, int]:
    """The bytes read beyond the first `count` lines, and how many bytes those lines have."""
    lines, size_bytes, in_a_line = 0, 0, False
    while lines < count:
        chunk = stream.read(block_bytes)
        if not chunk:
            if lines + in_a_line == count:
                break  # the last line had no newline
            raise ShorterThanBefore(lines + in_a_line, count)
        here = _count_newlines(chunk)
        if lines + here >= count:
            end = int(newline_positions(chunk)[count - lines - 1]) + 1
            return chunk[end:], size_bytes + end
        lines, size_bytes, in_a_line = lines + here, size_bytes + len(chunk), not chunk.endswith(b"\n")
    return b"", size_bytes


@dataclass(slots=True, kw_only=True)
class _Cutter:
    """Cuts chunks at the last newline; the rest begins the next block. A line over the limit is counted to its end, but
    not kept."""

    line: int
    byte: int
    max_line_bytes: int
    _carry: bytes = b""
    _long: LongLine | None = None

    def cut(self, chunk: bytes, *, last: bool) -> Iterator[Block]:
        if self._long is not None:
            end = chunk.find(b"\n")
            size = self._long.size_bytes + (len(chunk) if end < 0 else end)
            self._long = replace(self._long, size_bytes=size)
            if end < 0 and not last:
                return
            chunk = b"" if end < 0 else chunk[end + 1 :]
            yield self._long_block(self._long, ended=end >= 0, last=last and not chunk)
            self._long = None
        end = len(chunk) if last else chunk.rfind(b"\n") + 1
        if end:
            data = chunk if end == len(chunk) and not self._carry else b"".join((self._carry, memoryview(chunk)[:end]))
            self._carry = chunk[end:]
            # Only a block longer than the limit can hold a line that is too long.
            yield from self._split(data, last) if len(data) > self.max_line_bytes else [self._block(data, last)]
        else:
            self._carry += chunk
        if len(self._carry) > self.max_line_bytes:
            self._long, self._carry = self._too_long(self._carry), b""

    def _split(self, data: bytes, last: bool) -> Iterator[Block]:
        ends = newline_positions(data) + 1
        ends = ends if data.endswith(b"\n") else np.append(ends, len(data))
        sizes = np.diff(ends, prepend=0)
        long = np.flatnonzero(sizes > self.max_line_bytes)
        edges = np.unique(np.concatenate([[0, len(data)], ends[long] - sizes[long], ends[long]])).tolist()
        for start, end in pairwise(edges):
            is_last = last and end == len(data)
            line = data[start:end]
            content = line.removesuffix(b"\n")
            if len(content) > self.max_line_bytes and b"\n" not in content:
                yield self._long_block(self._too_long(content), ended=content != line, last=is_last)
            else:
                yield self._block(line, is_last)

    def _too_long(self, content: bytes) -> LongLine:
        return LongLine(head=content[:KEPT_OF_A_LONG_LINE], size_bytes=len(content), limit_bytes=self.max_line_bytes)

    def _block(self, data: bytes, last: bool) -> Block:
        block = Block(data=data, lines=count_lines(data), first_line=self.line, first_byte=self.byte, last=last)
        self.line, self.byte = self.line + block.lines, self.byte + len(data)
        return block

    def _long_block(self, long: LongLine, *, ended: bool, last: bool) -> Block:
        block = Block(data=b"", lines=1, first_line=self.line, first_byte=self.byte, last=last, too_long=long)
        self.line, self.byte = self.line + 1, self.byte + long.size_bytes + ended
        return block


class ShorterThanBefore(Exception):
    """The file has fewer lines than are already committed of it."""

    def __init__(self, lines: int, committed: int, what: str = "lines") -> None:
        super().__init__(f"the file has {lines} {what}, but the position says that {committed} are committed")
        self.lines = lines
