"""What must be true of the bytes of a block before pyarrow's rows can be taken for the records of its lines."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from blizzard.source.lines import Positions, newline_positions
from blizzard.tasks.convert import DoubtError
from blizzard.tasks.syntax import MAX_NESTING, is_too_deep

_RETURN, _OPEN, _CLOSE = b"\r{}"
_SCAN_BYTES = 1 << 18

# Two characters and how far apart they stand, to find candidates quickly.
_CONSTANTS = ((b"N", 2, b"N"), (b"I", 2, b"f"))
_EXPONENTS = ((b"+", 1, b"-"), (b"0", 1, b"x"), (b"0", 1, b"X"), (b"\\", 3, b"0"), (b"e", 1, b"-"), (b"E", 1, b"-"))
# NaN and Inf, which pyarrow takes for numbers: bare, what follows is a comma or a bracket, unlike in "Info".
# For decimals it also takes "1e+-1" and "1e0x2" (0.1 and 100), also in escapes, and for an exponent such as -100
# it reads past its 76 powers of ten (apache/arrow#50965). With 38 digits of fraction at most, -29 is safe.
_HAZARD = re.compile(
    rb"(?:NaN|Inf(?:inity)?)[ \t\r\n]*[,\]}]"
    rb"|\+-|(?<=[eE+])0[xX]|\\u00(?:2[bBdDeE]|3[0-9]|[46]5|[57]8)|(?<=[0-9.])[eE]-0*(?:[3-9][0-9]|[0-9]{3})"
)


def check_bytes(data: bytes, *, holds_decimal: bool) -> int:
    """How many lines there are, once it is sure that pyarrow's rows, if as many, are the lines' records.

    Every newline stands in `}\\n{` or `}\\r\\n{`. Inside JSON no `{` can follow the `}` of a value, and no raw
    newline can stand in a string: so no value spans lines, and each line holds one object or more.
    The first line starts with `{` too: a null there would crash pyarrow 26 (SIGSEGV).
    """
    if not data or data[0] != _OPEN:
        raise DoubtError
    content = np.frombuffer(data, np.uint8)
    newlines = newline_positions(data)
    ends = newlines if newlines.size and newlines[-1] == len(data) - 1 else np.append(newlines, len(data))
    closing = ends - 1 - (content[ends - 1] == _RETURN)
    if np.any(content[closing] != _CLOSE) or np.any(content[ends[:-1] + 1] != _OPEN):
        raise DoubtError
    if b"\0" in data or not is_utf8(data):
        raise DoubtError
    candidates = _find_pairs(data, (*_CONSTANTS, *_EXPONENTS) if holds_decimal else _CONSTANTS)
    for position in candidates.tolist():
        if _HAZARD.match(data, position):
            raise DoubtError
    _refuse_deep_lines(data, ends)
    return len(ends)


def _find_pairs(data: bytes, pairs: tuple[tuple[bytes, int, bytes], ...]) -> Positions:
    """Where two characters stand at their distance."""
    content = np.frombuffer(data, np.uint8)
    found: list[Positions] = [np.empty(0, np.int64)]
    first, second = np.empty(_SCAN_BYTES, bool), np.empty(_SCAN_BYTES, bool)
    for start in range(0, len(data), _SCAN_BYTES):
        for letter, distance, other in pairs:
            size = min(_SCAN_BYTES, len(data) - start - distance)
            # Most chunks lack one of the letters, and to see that costs next to nothing.
            if size > 0 and data.find(letter, start, start + size) >= 0:
                here = np.equal(content[start : start + size], letter[0], out=first[:size])
                there = content[start + distance : start + distance + size]
                here &= np.equal(there, other[0], out=second[:size])
                if here.any():
                    found.append(np.flatnonzero(here) + start)
    return np.sort(np.concatenate(found))


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        # No copy is made: decoding 4 MiB to str took 10 to 15 ms where this takes 1.
        offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _refuse_deep_lines(data: bytes, ends: Positions) -> None:
    """pyarrow reads any depth; a line must be long to be deep, so nearly all pass by their length."""
    starts = np.append(0, ends[:-1] + 1)
    for row in np.flatnonzero(ends - starts > 2 * MAX_NESTING).tolist():
        if is_too_deep(data[starts[row] : ends[row]]):
            raise DoubtError
