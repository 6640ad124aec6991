"""Finds the undeclared fields of lines, faster than the reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from blizzard.schema import ColumnPath
from blizzard.schema.evolve import Declared
from blizzard.tasks.syntax import is_too_deep

_SAMPLE_LINES = 100
# orjson turns an integer beyond 64 bits into a double.
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def undeclared_in(line: bytes, declared: Declared) -> list[tuple[ColumnPath, Any]]:
    """The undeclared fields on a line and their values; none if it is not a JSON object."""
    record = _read(line)
    return declared.others(record) if type(record) is dict else []


def sample_lines(data: bytes) -> Iterator[bytes]:
    """Some lines, spread over the block."""
    end = -1
    for place in range(_SAMPLE_LINES):
        position = place * len(data) // _SAMPLE_LINES
        if position <= end:
            continue  # still on the line before
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        yield data[start:end]


def _read(line: bytes) -> Any:
    try:
        if not _LONG_NUMBER.search(line):
            return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return None if is_too_deep(line) else _EXACT.decode(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _exact_integer(text: str) -> int | float:
    # int() refuses 4,301 digits, and no column holds more than 38 exactly.
    return int(text) if len(text) < 100 else float(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_EXACT = json.JSONDecoder(parse_int=_exact_integer, parse_constant=_refuse_constant)
