"""Blocks of lines: exact counts at every block size, bounded memory, skips that land on the line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.source.lines import Block, LineTooLong, ShorterThanBefore, count_lines, head, read_blocks, skip_lines

contents = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b'{"x":1}\n']), max_size=40).map(b"".join)


def blocks_of(content: bytes, block_bytes: int) -> list[Block]:
    return list(read_blocks(io.BytesIO(content), block_bytes=block_bytes, max_line_bytes=10**6))


@given(contents, st.integers(1, 9))
def test_blocks_hold_every_byte_and_count_every_line(content: bytes, block_bytes: int) -> None:
    blocks = blocks_of(content, block_bytes)
    assert b"".join(b.data for b in blocks) == content
    unended = bool(content) and not content.endswith(b"\n")
    assert sum(b.lines for b in blocks) == count_lines(content) == content.count(b"\n") + unended


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
    rest = list(skip_lines(iter(blocks_of(content, block_bytes)), skip))
    assert b"".join(b.data for b in rest) == b"".join(lines[skip:])
    assert not rest or rest[0].first_line == skip


def test_a_skip_past_the_end_is_an_error() -> None:
    with pytest.raises(ShorterThanBefore):
        list(skip_lines(iter(blocks_of(b"a\nb\n", 100)), 3))
    with pytest.raises(ShorterThanBefore):
        list(skip_lines(iter(blocks_of(b"", 100)), 1))


def test_a_block_can_be_cut_after_some_lines() -> None:
    (block,) = blocks_of(b"a\nb\nc", 100)
    assert head(block, 2) == Block(data=b"a\nb\n", lines=2, first_line=0, last=False)


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 10_000])
def test_a_line_over_the_limit_is_found_at_any_block_size(block_bytes: int) -> None:
    content = b"a\nb\n" + b"x" * 101 + b"\nc\n"
    with pytest.raises(LineTooLong) as error:
        list(read_blocks(io.BytesIO(content), block_bytes=block_bytes, max_line_bytes=100))
    assert error.value.line == 2
    list(read_blocks(io.BytesIO(content), block_bytes=block_bytes, max_line_bytes=101))


def test_a_line_without_end_is_not_read_into_memory() -> None:
    class Endless(io.RawIOBase):
        served = 0

        def read(self, size: int = -1) -> bytes:
            self.served += size
            return b"x" * size

    stream = Endless()
    with pytest.raises(LineTooLong):
        list(read_blocks(stream, block_bytes=1000, max_line_bytes=5000))
    assert stream.served < 10_000
