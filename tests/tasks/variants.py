"""Reads the Parquet Variant encoding back, from its specification alone: what readers other than blizzard see."""

from __future__ import annotations

import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any


def decode(variant: dict[str, bytes]) -> Any:
    """Objects as dicts whose keys are in the order in which they are stored."""
    return _value(variant["value"], _names(variant["metadata"]))


def _names(metadata: bytes) -> list[str]:
    assert metadata[0] & 0x0F == 1, "the version"
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    ends = [_number(metadata, 1 + width * (1 + index), width) for index in range(count + 1)]
    text = metadata[1 + width * (count + 2) :]
    assert (ends[0], ends[-1]) == (0, len(text))
    return [text[start:end].decode() for start, end in pairwise(ends)]


def _value(data: bytes, names: list[str]) -> Any:
    kind, header = data[0] & 3, data[0] >> 2
    if kind == 0:
        return _primitive(header, data[1:])
    if kind == 1:
        assert len(data) == 1 + header
        return data[1:].decode()
    if kind == 2:
        width, id_width, is_large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
    else:
        width, id_width, is_large = (header & 3) + 1, 0, header >> 2 & 1
    at = 5 if is_large else 1 + 1
    count = _number(data, 1, at - 1)
    ids = [_number(data, at + id_width * index, id_width) for index in range(count)]
    at += id_width * count
    offsets = [_number(data, at + width * index, width) for index in range(count + 1)]
    items = data[at + width * (count + 1) :]
    assert offsets[-1] == len(items)
    ends = dict(pairwise(sorted(offsets)))
    values = [_value(items[start : ends[start]], names) for start in offsets[:-1]]
    if kind == 3:
        return values
    fields = [names[number] for number in ids]
    assert [name.encode() for name in fields] == sorted({name.encode() for name in fields})
    return dict(zip(fields, values, strict=True))


def _primitive(number: int, data: bytes) -> Any:
    match number:
        case 0 | 1 | 2:
            assert not data
            return (None, True, False)[number]
        case 3 | 4 | 5 | 6:
            assert len(data) == 1 << (number - 3)
            return int.from_bytes(data, "little", signed=True)
        case 7:
            return struct.unpack("<d", data)[0]
        case 8 | 9 | 10:
            assert len(data) == 1 + (4 << (number - 8))
            unscaled = int.from_bytes(data[1:], "little", signed=True)
            return Decimal(f"{unscaled}e-{data[0]}")  # scaleb() would round
        case 16:
            assert _number(data, 0, 4) == len(data) - 4
            return data[4:].decode()
        case _:
            raise AssertionError(f"JSON has no value of the type {number}")


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")
