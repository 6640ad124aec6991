"""Blocks of lines: exact counts at every block size, bounded memory, skips that land on the line."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.source.lines import KEPT_OF_A_LONG_LINE, Block, ShorterThanBefore, read_blocks

contents = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b'{"x":1}\n']), max_size=40).map(b"".join)


def blocks_of(content: bytes, block_bytes: int, *, skip: int = 0, max_line_bytes: int = 10**6) -> list[Block]:
    stream = io.BytesIO(content)
    return list(read_blocks(stream, block_bytes=block_bytes, max_line_bytes=max_line_bytes, skip=skip))


@given(contents, st.integers(1, 9))
def test_blocks_hold_every_byte_and_count_every_line(content: bytes, block_bytes: int) -> None:
    blocks = blocks_of(content, block_bytes)
    assert b"".join(b.data for b in blocks) == content
    unended = bool(content) and not content.endswith(b"\n")
    assert sum(b.lines for b in blocks) == content.count(b"\n") + unended


@given(contents, st.integers(1, 9))
def test_only_the_last_block_says_so_and_may_lack_a_newline(content: bytes, block_bytes: int) -> None:
    blocks = blocks_of(content, block_bytes)
    assert [b.last for b in blocks] == [False] * (len(blocks) - 1) + [True] * bool(blocks)
    assert all(b.data.endswith(b"\n") for b in blocks[:-1])
    assert [b.first_line for b in blocks] == [sum(x.lines for x in blocks[:i]) for i in range(len(blocks))]


@given(contents, st.integers(1, 9), st.data())
def test_a_skip_leaves_exactly_the_lines_after_it(content: bytes, block_bytes: int, data: st.DataObject) -> None:
    lines = content.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    skip = data.draw(st.integers(0, len(lines)))
    rest = blocks_of(content, block_bytes, skip=skip)
    assert b"".join(b.data for b in rest) == b"".join(lines[skip:])
    assert not rest or rest[0].first_line == skip
    assert all(content[b.first_byte :].startswith(b.data) for b in rest)
    assert all(b.lines == len(b.data.splitlines(keepends=True)) for b in rest if b"\r" not in b.data)


def test_a_skip_past_the_end_is_an_error() -> None:
    with pytest.raises(ShorterThanBefore):
        blocks_of(b"a\nb\n", 100, skip=3)
    with pytest.raises(ShorterThanBefore):
        blocks_of(b"", 100, skip=1)


def test_a_block_can_be_cut_after_some_lines() -> None:
    (block,) = blocks_of(b"a\nb\nc", 100)
    front = block.head(2)
    assert (front.data, front.lines, front.first_line, front.last) == (b"a\nb\n", 2, 0, False)


@given(
    st.lists(st.sampled_from([0, 1, 4, 5, 6, 7, 20]), max_size=12), st.booleans(), st.integers(1, 40), st.integers(0, 3)
)
def test_a_line_over_the_limit_is_counted_and_named_at_any_block_size(
    sizes: list[int], is_ended: bool, block_bytes: int, skip: int
) -> None:
    lines = [bytes([ord("a") + i]) * size for i, size in enumerate(sizes)]
    content = b"\n".join(lines) + (b"\n" if is_ended and lines else b"")
    lines = content.split(b"\n")[: -1 if content.endswith(b"\n") or not content else None]
    skip = min(skip, len(lines))
    blocks = blocks_of(content, block_bytes, skip=skip, max_line_bytes=5)
    found: list[bytes] = []
    for block in blocks:
        assert block.first_line == skip + len(found)
        assert content[: block.first_byte].count(b"\n") == block.first_line or not block.lines
        if block.too_long is None:
            found += block.data.split(b"\n")[: block.lines]
        else:
            line = lines[block.first_line]
            assert (block.too_long.size_bytes, block.too_long.head) == (len(line), line[: len(block.too_long.head)])
            assert len(block.too_long.head) > 5
            found.append(line)
    assert found == lines[skip:]
    assert all(len(line) <= 5 for block in blocks for line in block.data.split(b"\n"))
    assert [b.last for b in blocks] == [False] * (len(blocks) - 1) + [True] * bool(blocks)


def test_a_line_far_too_long_is_not_read_into_memory() -> None:
    class Long(io.RawIOBase):
        """60 MB of one line, then another."""

        served = 0

        def read(self, size: int = -1) -> bytes:
            self.served += size
            return b"x" * size if self.served <= 60_000_000 else b"\n{}\n" if self.served <= 60_000_000 + size else b""

    tracemalloc.start()
    first, second = read_blocks(Long(), block_bytes=100_000, max_line_bytes=500_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first.too_long is not None
    assert (len(first.too_long.head), first.too_long.size_bytes) == (KEPT_OF_A_LONG_LINE, 60_000_000)
    assert (second.data, second.first_line, second.first_byte) == (b"{}\n", 1, 60_000_001)
    assert peak < 3_000_000
