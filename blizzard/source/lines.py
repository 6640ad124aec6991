"""A byte stream as blocks of whole lines, with bounded memory and exact line counts.

Lines are physical: blank and bad ones count, so that a position never depends on what a parser accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blizzard.source.decode import ByteStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole lines from `first_line` (0-based) of the file on. Only the last block may lack a final newline."""

    data: bytes
    lines: int
    first_line: int
    last: bool


class LineTooLong(Exception):
    """A line longer than the limit; reading on would hold it in memory."""

    def __init__(self, line: int, limit_bytes: int) -> None:
        super().__init__(f"the line is longer than limits.max_record_bytes ({limit_bytes})")
        self.line = line  # 0-based


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)


def read_blocks(stream: ByteStream, *, block_bytes: int, max_line_bytes: int) -> Iterator[Block]:
    """Blocks of about `block_bytes`. One chunk is read ahead, so that the last block knows that it is the last."""
    carry, line = b"", 0
    chunk = stream.read(block_bytes)
    while chunk:
        ahead = stream.read(block_bytes)
        data = carry + chunk
        end = len(data) if not ahead else data.rfind(b"\n") + 1
        carry = data[end:]
        if end:
            # A long line may hide in a long block: only then is it worth looking at each.
            if end > max_line_bytes:
                _check_lengths(data[:end], line, max_line_bytes)
            block = data if end == len(data) else data[:end]
            lines = count_lines(block)
            yield Block(data=block, lines=lines, first_line=line, last=not ahead)
            line += lines
        if len(carry) > max_line_bytes:
            raise LineTooLong(line, max_line_bytes)
        chunk = ahead


def _check_lengths(data: bytes, first_line: int, max_line_bytes: int) -> None:
    start, line = 0, first_line
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if end - start > max_line_bytes:
            raise LineTooLong(line, max_line_bytes)
        start, line = end + 1, line + 1


def skip_lines(blocks: Iterator[Block], count: int) -> Iterator[Block]:
    """The blocks after the first `count` lines. Nothing is parsed on the way there."""
    seen = 0
    for block in blocks:
        seen = block.first_line + block.lines
        if seen > count:
            yield block if block.first_line >= count else _tail(block, count - block.first_line)
    if seen < count:
        raise ShorterThanBefore(seen, count)


class ShorterThanBefore(Exception):
    """The file has fewer lines than are already committed of it."""

    def __init__(self, lines: int, committed: int) -> None:
        super().__init__(f"the file has {lines} lines, but {committed} are already committed")


def head(block: Block, count: int) -> Block:
    """The first `count` lines of a block that has more."""
    cut = _offset_of_line(block.data, count)
    return Block(data=block.data[:cut], lines=count, first_line=block.first_line, last=False)


def _tail(block: Block, count: int) -> Block:
    cut = _offset_of_line(block.data, count)
    return Block(data=block.data[cut:], lines=block.lines - count, first_line=block.first_line + count, last=block.last)


def _offset_of_line(data: bytes, line: int) -> int:
    offset = 0
    for _ in range(line):
        offset = data.index(b"\n", offset) + 1
    return offset
