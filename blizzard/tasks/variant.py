"""The reference for VARIANT: one parsed JSON value as the two binaries of the Parquet Variant encoding.

The same bytes as Spark's `parse_json`, but for what that would change unseen: a repeated key, and a number that loses
digits or becomes infinite, are never encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import isfinite
from typing import Any

from blizzard.core.kinds import LineKind
from blizzard.schema import MAX_DECIMAL_DIGITS, ColumnPath
from blizzard.tasks.syntax import JsonInteger, JsonObject, JsonReal, LineError, json_text

# Spark 4.1 reads no larger variant.
MAX_BYTES = 128 * 1024 * 1024

_VERSION = 1
# The kind of a value is in the low two bits of its first byte.
_SHORT_TEXT, _OBJECT, _ARRAY = 1, 2, 3
_LONGEST_SHORT_TEXT = 63
_LITERALS = {None: b"\x00", True: b"\x04", False: b"\x08"}
_DOUBLE, _TEXT = 7 << 2, 16 << 2
# The type's number, the format of its value, and how many bits or digits it holds.
_INTEGERS = ((3, "<Bb", 8), (4, "<Bh", 16), (5, "<Bi", 32), (6, "<Bq", 64))
_DECIMALS = ((8, 4, 9), (9, 8, 18), (10, 16, MAX_DECIMAL_DIGITS))


class NotHeld(Exception):
    """A VARIANT cannot hold this value, at this place in it."""

    def __init__(self, value: Any, path: ColumnPath, why: str) -> None:
        self.value, self.path, self.why = value, path, why
        super().__init__(why)


class _Open:
    """An object or array that is being encoded."""

    __slots__ = ("ids", "is_object", "left", "name", "parts")

    def __init__(self, value: Any) -> None:
        self.is_object = type(value) is JsonObject
        self.left: Iterator[Any] = iter(value)
        self.name = "element"  # of the value that is being encoded
        self.ids: dict[str, int] = {}  # in the record's dictionary
        self.parts: list[bytes] = []

    def close(self) -> bytes:
        offsets, end = [], 0
        for part in self.parts:
            offsets.append(end)
            end += len(part)
        width, count, is_large = _width(end), len(offsets), len(offsets) > 0xFF
        ids = b""
        if self.is_object:
            names = sorted(zip(self.ids, offsets, strict=True), key=lambda field: field[0].encode())
            offsets = [offset for _, offset in names]
            id_width = _width(max(self.ids.values(), default=0))
            ids = _integers([self.ids[name] for name, _ in names], id_width)
            header = (is_large << 4 | id_width - 1 << 2 | width - 1) << 2 | _OBJECT
        else:
            header = (is_large << 2 | width - 1) << 2 | _ARRAY
        size = _integers([count], 4 if is_large else 1)
        return b"".join((bytes([header]), size, ids, _integers([*offsets, end], width), *self.parts))


def encode_variant(value: Any, path: ColumnPath = ()) -> dict[str, bytes]:
    """Raises `NotHeld`, and `LineError` for a repeated key. `path` is that of the column.

    A loop and not a recursion: 500 levels would take half of Python's stack.
    """
    dictionary: dict[str, int] = {}
    opened: list[_Open] = []
    item = value
    while True:
        encoded = None
        if type(item) is JsonObject or type(item) is list:
            opened.append(_Open(item))
        else:
            encoded = _scalar(item, opened, path)
        while encoded is not None or (item := next(opened[-1].left, opened)) is opened:
            part = opened.pop().close() if encoded is None else encoded
            if not opened:
                return _checked(_metadata(dictionary), part, value, path)
            opened[-1].parts.append(part)
            encoded = None
        if opened[-1].is_object:
            name, item = item
            if name in opened[-1].ids:
                where = _place(path, opened[:-1])
                raise LineError(LineKind.DUPLICATE_KEY, f"the key {json_text(name)} is given twice", path=where)
            opened[-1].ids[name] = dictionary.setdefault(name, len(dictionary))
            opened[-1].name = name


def _place(path: ColumnPath, opened: list[_Open]) -> ColumnPath:
    return (*path, *(around.name for around in opened))


def _scalar(item: Any, opened: list[_Open], path: ColumnPath) -> bytes:
    if type(item) is str:
        text = item.encode()
        if len(text) <= _LONGEST_SHORT_TEXT:
            return bytes([len(text) << 2 | _SHORT_TEXT]) + text
        return struct.pack("<BI", _TEXT, len(text)) + text
    if type(item) is JsonInteger or type(item) is JsonReal:
        encoded = _exact(item)
        if encoded is not None:
            return encoded
        where = _place(path, opened)
        if type(item) is JsonInteger:
            raise NotHeld(item, where, f"it has more than {MAX_DECIMAL_DIGITS} digits")
        number = float(item)
        if not isfinite(number):
            raise NotHeld(item, where, "it is beyond the range of a double")
        return struct.pack("<Bd", _DOUBLE, number)
    return _LITERALS[item]


def _exact(text: str) -> bytes | None:
    """The number as an integer or a decimal, as it is written. None if neither holds it, or it has an exponent."""
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0") or "0"
    if not digits.isdecimal() or len(digits) > MAX_DECIMAL_DIGITS or len(fraction) > MAX_DECIMAL_DIGITS:
        return None
    number = -int(digits) if text.startswith("-") else int(digits)
    if not fraction:
        for type_number, packed, bits in _INTEGERS:
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                return struct.pack(packed, type_number << 2, number)
    for type_number, size, most in _DECIMALS:
        if len(digits) <= most and len(fraction) <= most:
            return bytes([type_number << 2, len(fraction)]) + number.to_bytes(size, "little", signed=True)
    return None


def _metadata(dictionary: dict[str, int]) -> bytes:
    """The names in the order in which the record has them, each once."""
    names = [name.encode() for name in dictionary]
    ends = [0]
    for name in names:
        ends.append(ends[-1] + len(name))
    width = _width(max(ends[-1], len(names)))
    header = bytes([_VERSION | width - 1 << 6])
    return b"".join((header, _integers([len(names), *ends], width), *names))


def _checked(metadata: bytes, encoded: bytes, value: Any, path: ColumnPath) -> dict[str, bytes]:
    if max(len(metadata), len(encoded)) > MAX_BYTES:
        raise NotHeld(value, path, f"it would take more than {MAX_BYTES} bytes")
    return {"metadata": metadata, "value": encoded}


def _width(number: int) -> int:
    """The bytes of an unsigned integer, at least one."""
    return max(1, (number.bit_length() + 7) // 8)


def _integers(numbers: list[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)
