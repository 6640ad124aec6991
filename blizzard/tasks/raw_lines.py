"""The bytes of several blocks as one, and the text of each line as one column, without a step for each line."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from blizzard.source.lines import Block, Positions, newline_positions

# Offsets of a STRING column are 32 bits. A record is never longer than this (`limits.max_record_bytes`).
_MOST_BYTES = 2**31 - 1


def join_blocks(blocks: Iterable[Block]) -> bytes:
    """Blocks of different files as one block of whole lines."""
    parts = []
    for block in blocks:
        parts.append(_without_bom(block))
        if not block.data.endswith(b"\n"):
            parts.append(b"\n")
    return b"".join(parts)


def _without_bom(block: Block) -> bytes:
    return block.data.removeprefix(BOM_UTF8) if block.first_line == 0 else block.data


def line_texts(data: bytes, lines: Positions | None, *, most_bytes: int = _MOST_BYTES) -> Any:
    """The texts of these lines of the block (None: of all), without their newlines. The lines must be UTF-8; what the
    others hold does not matter. The column has more than one chunk if its texts have more than `most_bytes`."""
    ends = newline_positions(data)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    chunks, first = [], 0
    while first < len(ends):
        start = 0 if first == 0 else int(ends[first - 1]) + 1
        # As many lines as fit, newlines included; at least one.
        last = max(first + 1, int(np.searchsorted(ends, start + most_bytes, side="right")))
        texts = _all_texts(data[start : int(ends[last - 1])], ends[first:last] - start)
        if lines is not None:
            low, high = np.searchsorted(lines, (first, last))
            texts = texts.take(pa.array(lines[low:high] - first))
        chunks.append(texts)
        first = last
    return pa.chunked_array(chunks, pa.string())


def _all_texts(data: bytes, ends: Positions) -> Any:
    """Without the newlines the lines follow each other, as the texts of an Arrow column do."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    content = pa.py_buffer(data.replace(b"\n", b""))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), content)
