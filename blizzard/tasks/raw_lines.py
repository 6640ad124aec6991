"""The text of each line of a block, as one column. Made from the block's own bytes, without a step for each line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from blizzard.source.lines import Positions, newline_positions

# Offsets of a STRING column are 32 bits. A record is never longer than this (`limits.max_record_bytes`).
_MOST_BYTES = 2**31 - 1


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
