"""Finds where the records of a file begin and end, chunk by chunk, if they are not one a line.

Only brackets, quotes, backslashes, and at the level of the frame commas and keys, decide. So the native scanner finds
the same places in any bytes. A quote counts unless an odd number of backslashes stands before it. Nothing is kept of a
chunk but a few counters.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

import numpy as np

from blizzard import native
from blizzard.core.framing import CONCATENATED, key_of
from blizzard.source.lines import Positions
from blizzard.source.structure import Structure

# What was expected where something else stood, by the number that the native scanner gives for it.
EXPECTED = (
    "a record ({ or [)",
    "an array ([)",
    "an object ({)",
    "a comma or the end of the array",
    "a key or the end of the object",
    "a colon",
    "a value",
    "a comma or the end of the object",
    "the key before the end of the object",
)
_RECORD, _ARRAY, _OBJECT, _COMMA, _KEY, _COLON, _VALUE, _MEMBER, _NO_KEY = range(len(EXPECTED))
# How much is kept of a key: as much as the longest key that can be asked for, and some more to show.
_KEPT_OF_A_KEY = 200
_MAX_SIBLING_NAMES = 1_000  # that are kept apart in one chunk
# So many bytes are looked at together: their places take eight times as much memory, or more.
_PIECE_BYTES = 1 << 18
OTHER_NAMES = b'"'  # stands for all others: no key is one bare quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a chunk holds. All places are bytes of the file."""

    starts: Positions  # of the records that end in this chunk
    ends: Positions
    string_newlines: Positions
    open_at: int | None  # where the record begins that has not ended yet
    error: tuple[int, int] | None  # where the frame is broken, and what was expected there
    siblings: Sequence[tuple[int, bytes, int]]  # how many records came before it, its key, how often


class Scanner(Protocol):
    def scan(self, chunk: bytes) -> Scan: ...

    @property
    def is_between(self) -> bool:
        """Whether the file may end here."""


def make_scanner(framing: str, first_byte: int, *, natively: bool | None = None) -> Scanner:
    natively = native.has_frame_scanner() if natively is None else natively
    return _NativeScanner(framing, first_byte) if natively else PythonScanner(framing, first_byte)


class _NativeScanner:
    def __init__(self, framing: str, first_byte: int) -> None:
        key = key_of(framing)
        self._scanner = native.make_frame_scanner(framing, None if key is None else key.encode(), first_byte)

    def scan(self, chunk: bytes) -> Scan:
        found = self._scanner.scan(chunk)
        return Scan(
            starts=np.frombuffer(found.starts, np.int64),
            ends=np.frombuffer(found.ends, np.int64),
            string_newlines=np.frombuffer(found.string_newlines, np.int64),
            open_at=found.open_at,
            error=found.error,
            siblings=found.siblings,
        )

    @property
    def is_between(self) -> bool:
        return bool(self._scanner.is_between)


class _State(Enum):
    BETWEEN = auto()  # documents; in `concatenated` records
    ELEMENT = auto()  # in an array, before an element or after one
    BRACKETS = auto()  # in a value that begins with a bracket
    SCALAR = auto()  # in another value
    KEY_BEGINS = auto()
    KEY = auto()
    COLON = auto()
    VALUE_BEGINS = auto()
    MEMBER_ENDS = auto()


_QUOTE = ord('"')
_OPENING, _CLOSING = b"{[", b"}]"
_SPACE = b" \t\r\n"
_BLANK = re.compile(rb"[ \t\r\n]*")
_BLANK_OR_SEPARATOR = re.compile(rb"[ \t\r\n\x1e]*")
_BLANK_OR_COMMA = re.compile(rb"[ \t\r\n,]*")
_END_OF_SCALAR = re.compile(rb'[,\[\]{}"]')


@dataclass(slots=True)
class PythonScanner:
    framing: str
    first_byte: int = 0
    _key: bytes | None = field(init=False)
    _state: _State = _State.BETWEEN
    _structure: Structure = field(init=False)
    _at_byte: int = field(init=False)  # of the file, where the chunk begins
    _in_array: bool = False
    _is_separated: bool = False
    _is_kept: bool = True
    _has_key: bool = False
    _name: bytes = b""
    _level: int = 0
    _open_at: int | None = None
    _scalar_end: int = 0
    _records: int = 0
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _siblings: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _error: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        key = key_of(self.framing)
        self._key = None if key is None else key.encode()
        self._structure = Structure(b"", in_string=False, is_odd=False, depth=0)
        self._at_byte = self.first_byte

    @property
    def is_between(self) -> bool:
        return self._state is _State.BETWEEN

    def scan(self, chunk: bytes) -> Scan:
        self._starts, self._ends, self._siblings = [], [], {}
        newlines = [np.empty(0, np.int64)]
        for start in range(0, len(chunk), _PIECE_BYTES):
            if self._error is None:
                newlines.append(self._scan_piece(chunk[start : start + _PIECE_BYTES]))
        return Scan(
            starts=np.array(self._starts, np.int64),
            ends=np.array(self._ends, np.int64),
            string_newlines=np.concatenate(newlines),
            open_at=self._open_at if self._is_kept else None,
            error=self._error,
            siblings=[(index, name, count) for (index, name), count in self._siblings.items()],
        )

    def _scan_piece(self, piece: bytes) -> Positions:
        """Returns the newlines in strings."""
        before, at = self._structure, 0
        self._structure = Structure(piece, in_string=before.in_string, is_odd=before.is_odd, depth=before.depth)
        while at < len(piece) and self._error is None:
            at = self._step(piece, at)
        newlines = self._structure.string_newlines
        passed: Positions = newlines[newlines < at] + self._at_byte
        self._at_byte += len(piece)
        return passed

    def _step(self, chunk: bytes, at: int) -> int:
        match self._state:
            case _State.BRACKETS:
                return self._pass_brackets(chunk, at)
            case _State.ELEMENT:
                return self._find_element(chunk, at)
            case _State.BETWEEN:
                return self._find_document(chunk, at)
            case _State.SCALAR:
                return self._pass_scalar(chunk, at)
            case _State.KEY:
                return self._pass_key(chunk, at)
            case _:
                return self._pass_member(chunk, at)

    def _fail(self, at: int, expected: int) -> int:
        self._error = (self._at_byte + at, expected)
        return at

    def _begin(self, at: int, *, level: int, is_kept: bool, is_scalar: bool) -> int:
        """A value begins here, inside of so many brackets."""
        self._state = _State.SCALAR if is_scalar else _State.BRACKETS
        self._open_at, self._level, self._is_kept = self._at_byte + at, level, is_kept
        self._scalar_end = self._at_byte + at
        return at if is_scalar else at + 1

    def _end(self, end: int) -> None:
        """The value ends before this byte of the file."""
        if self._is_kept:
            assert self._open_at is not None
            self._starts.append(self._open_at)
            self._ends.append(end)
            self._records += 1
        self._open_at, self._is_separated = None, False
        if self._in_array:
            self._state = _State.ELEMENT
        else:
            self._state = _State.BETWEEN if self._key is None else _State.MEMBER_ENDS

    def _find_document(self, chunk: bytes, at: int) -> int:
        at = _end_of(_BLANK_OR_SEPARATOR, chunk, at)
        if at == len(chunk):
            return at
        byte = chunk[at]
        if self.framing == CONCATENATED:
            if byte not in _OPENING:
                return self._fail(at, _RECORD)
            return self._begin(at, level=0, is_kept=True, is_scalar=False)
        if self._key is None:
            if byte != _OPENING[1]:
                return self._fail(at, _ARRAY)
            self._state, self._in_array, self._is_separated = _State.ELEMENT, True, True
            return at + 1
        if byte != _OPENING[0]:
            return self._fail(at, _OBJECT)
        self._state, self._has_key = _State.KEY_BEGINS, False
        return at + 1

    def _find_element(self, chunk: bytes, at: int) -> int:
        end = _end_of(_BLANK_OR_COMMA, chunk, at)
        self._is_separated = self._is_separated or chunk.find(b",", at, end) >= 0
        if end == len(chunk):
            return end
        byte = chunk[end]
        if byte == _CLOSING[1]:
            self._in_array = False
            self._state = _State.BETWEEN if self._key is None else _State.MEMBER_ENDS
            return end + 1
        if byte == _CLOSING[0] or not self._is_separated:
            return self._fail(end, _COMMA)
        level = 1 if self._key is None else 2
        return self._begin(end, level=level, is_kept=True, is_scalar=byte not in _OPENING)

    def _pass_brackets(self, chunk: bytes, at: int) -> int:
        closings = self._structure.where_depth_is(self._level)
        i = bisect_left(closings, at)
        if i == len(closings):
            return len(chunk)
        self._end(self._at_byte + closings[i] + 1)
        return closings[i] + 1

    def _pass_scalar(self, chunk: bytes, at: int) -> int:
        """To the comma or bracket that ends it. White space before that is no part of it."""
        in_string = self._structure.is_in_string(at)
        while at < len(chunk):
            if in_string:
                quote = self._structure.next_quote(at)
                at = len(chunk) if quote is None else quote + 1
                self._scalar_end, in_string = self._at_byte + at, False
                continue
            found = _END_OF_SCALAR.search(chunk, at)
            end = len(chunk) if found is None else found.start()
            text = chunk[at:end].rstrip(_SPACE)
            if text:
                self._scalar_end = self._at_byte + at + len(text)
            if found is None:
                return end
            if chunk[end] != _QUOTE:
                return self._end_scalar(chunk[end], end)
            in_string = self._structure.next_quote(end) == end
            at = end + 1
            self._scalar_end = self._at_byte + at
        return at

    def _end_scalar(self, byte: int, at: int) -> int:
        if byte in _OPENING or byte == _CLOSING[0 if self._in_array else 1]:
            return self._fail(at, _COMMA if self._in_array else _MEMBER)
        self._end(self._scalar_end)
        return at

    def _pass_key(self, chunk: bytes, at: int) -> int:
        quote = self._structure.next_quote(at)
        end = len(chunk) if quote is None else quote
        self._name += chunk[at : min(end, at + _KEPT_OF_A_KEY - len(self._name))]
        if quote is None:
            return end
        self._state = _State.COLON
        return end + 1

    def _pass_member(self, chunk: bytes, at: int) -> int:
        blank = _BLANK_OR_COMMA if self._state is _State.KEY_BEGINS else _BLANK
        at = _end_of(blank, chunk, at)
        if at == len(chunk):
            return at
        byte = chunk[at : at + 1]
        match self._state, byte:
            case _State.KEY_BEGINS, b'"':
                self._state, self._name = _State.KEY, b""
            case _State.COLON, b":":
                self._state = _State.VALUE_BEGINS
            case _State.MEMBER_ENDS, b",":
                self._state = _State.KEY_BEGINS
            case ((_State.KEY_BEGINS | _State.MEMBER_ENDS), b"}"):
                if not self._has_key:
                    return self._fail(at, _NO_KEY)
                self._state = _State.BETWEEN
            case _State.VALUE_BEGINS, _ if byte not in (b",", b"]", b"}"):
                return self._begin_value(byte, at)
            case state, _:
                return self._fail(at, _OF_STATE[state])
        return at + 1

    def _begin_value(self, byte: bytes, at: int) -> int:
        if self._name != self._key:
            place = (self._records, self._name)
            if place not in self._siblings and len(self._siblings) >= _MAX_SIBLING_NAMES:
                place = (self._records, OTHER_NAMES)
            self._siblings[place] = self._siblings.get(place, 0) + 1
            return self._begin(at, level=1, is_kept=False, is_scalar=byte not in (b"{", b"["))
        self._has_key = True
        if byte == b"[":
            self._state, self._in_array, self._is_separated = _State.ELEMENT, True, True
            return at + 1
        return self._begin(at, level=1, is_kept=True, is_scalar=byte != b"{")


_OF_STATE = {
    _State.KEY_BEGINS: _KEY,
    _State.COLON: _COLON,
    _State.VALUE_BEGINS: _VALUE,
    _State.MEMBER_ENDS: _MEMBER,
}


def _end_of(pattern: re.Pattern[bytes], chunk: bytes, at: int) -> int:
    found = pattern.match(chunk, at)
    assert found is not None
    return found.end()
