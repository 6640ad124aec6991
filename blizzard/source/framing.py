"""Decides how the records of a file lie, from its beginning, and reads them.

`auto` looks at no more than the first bytes. In doubt it is `lines`: a bad line costs one record, a wrong frame the
file. docs/record-contract.md has the rules.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.core.framing import ARRAY, AUTO, CONCATENATED, LINES, with_key
from blizzard.source.decode import ByteStream
from blizzard.source.frames import count_records, read_frames
from blizzard.source.lines import Block, read_blocks

LOOK_BYTES = 64 * 1024
# Keys that producers put around the records of a file: AWS (CloudTrail, S3 events), Azure (diagnostic logs).
WRAPPERS = ("Records", "records")

_SPACE = b" \t\r\n"
_SEPARATOR = b"\x1e"  # RFC 7464
_WRAPPED = re.compile(rb'\{[ \t\r\n]*"([^"\\]{1,100})"[ \t\r\n]*:[ \t\r\n]*(\[)[ \t\r\n]*(?:\{|\][ \t\r\n]*\})')
# How much of an object is looked at, to see whether it begins with the same wrapper.
_WRAPPER_BYTES = 200
# A string, a bracket, a comma, a colon, or a number or word. Not: a string with a newline, or one that is cut off.
_TOKEN = re.compile(rb'[ \t\r\n]*(?:("(?:[^"\\\n]|\\[^\n])*")|([{}\[\],:])|([^\s"{}\[\],:\\]+))')


class Opened(ByteStream):
    """A stream whose beginning was looked at."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._seen = stream, b""

    def look(self, size: int, block_bytes: int) -> bytes:
        """At least `size` bytes, or all there are. What is read by one call is not copied."""
        while len(self._seen) < size and (chunk := self._stream.read(block_bytes)):
            self._seen = self._seen + chunk if self._seen else chunk
        return self._seen

    def read(self, size: int, /) -> bytes:
        if not self._seen:
            return self._stream.read(size)
        chunk, self._seen = self._seen[:size], self._seen[size:]
        return chunk

    def drop(self, prefix: bytes) -> int:
        """Leave this beginning out, if it is there. Returns its length."""
        if not self._seen.startswith(prefix):
            return 0
        self._seen = self._seen[len(prefix) :]
        return len(prefix)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a file that is open. It can be read once."""

    framing: str
    _stream: ByteStream
    _block_bytes: int
    _first_byte: int

    def blocks(self, *, max_record_bytes: int, skip: int = 0) -> Iterator[Block]:
        if self.framing == LINES:
            return read_blocks(self._stream, block_bytes=self._block_bytes, max_line_bytes=max_record_bytes, skip=skip)
        return read_frames(
            self._stream,
            self.framing,
            block_bytes=self._block_bytes,
            max_record_bytes=max_record_bytes,
            skip=skip,
            first_byte=self._first_byte,
        )

    def count(self) -> Iterator[int]:
        """How many records end in what was read so far, chunk by chunk. Keeps nothing."""
        if self.framing != LINES:
            yield from count_records(
                self._stream, self.framing, block_bytes=self._block_bytes, first_byte=self._first_byte
            )
            return
        lines = 0
        while chunk := self._stream.read(self._block_bytes):
            lines += chunk.count(b"\n")
            yield lines


def open_records(stream: ByteStream, framing: str, *, block_bytes: int, columns: Collection[str] = ()) -> Records:
    """`framing` may be `auto`. `columns` are those of `wrapper_columns`: a key that is one of them is not unwrapped by
    `auto`."""
    if framing == LINES:
        return Records(LINES, stream, block_bytes, 0)
    opened = Opened(stream)
    if framing == AUTO:
        framing = decide_framing(opened.look(LOOK_BYTES, block_bytes)[:LOOK_BYTES], columns)
    if framing == LINES:
        return Records(LINES, opened, block_bytes, 0)
    opened.look(len(BOM_UTF8), block_bytes)
    return Records(framing, opened, block_bytes, opened.drop(BOM_UTF8))


def wrapper_columns(schema: Mapping[str, Any]) -> list[str]:
    """Columns that the array of a wrapper could go into. Others may have such a name because a record has the field."""
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    return [name for name, kind in kinds.items() if kind in ("string", "variant") or _is_array(kind)]


def _is_array(kind: Any) -> bool:
    return isinstance(kind, Mapping) and kind["type"] == "array"


def decide_framing(beginning: bytes, columns: Collection[str] = ()) -> str:
    """How the records lie in a file that begins like this. `beginning` is the whole file, or LOOK_BYTES of it."""
    start = len(BOM_UTF8) if beginning.startswith(BOM_UTF8) else 0
    start = _next(beginning, start)
    match beginning[start : start + 1]:
        case b"\x1e":
            return CONCATENATED
        case b"{":
            return _unwrapped(beginning, start, columns) or _of_object(beginning, start)
        case b"[":
            return _of_array(beginning, start)
        case _:
            return LINES  # also for an empty file, which has no record in any framing


def _unwrapped(text: bytes, start: int, columns: Collection[str]) -> str | None:
    found = _WRAPPED.match(text, start)
    key = found.group(1).decode(errors="replace") if found is not None else ""
    if found is None or key not in WRAPPERS or key.lower() in map(str.lower, columns):
        return None
    end = _end_of_value(text, start)
    following = len(text) if end is None else _next(text, end, _SPACE + _SEPARATOR)
    if end is None or following == len(text):
        return with_key(key)
    # More objects. If they are events with such an array, to unwrap them would drop the rest, or break the file.
    after_array = _end_of_value(text, found.start(2))
    is_alone = after_array is not None and _next(text, after_array) == end - 1
    wrapper = b'{"%b":[' % found.group(1)
    next_one = text[following : following + _WRAPPER_BYTES].translate(None, _SPACE)[: len(wrapper)]
    return with_key(key) if is_alone and wrapper.startswith(next_one) else None


def _of_object(text: bytes, start: int) -> str:
    """Concatenated if the first object spans lines, or if another follows it in its line."""
    end = _end_of_value(text, start)
    if end is None:
        return LINES
    if b"\n" in text[start:end].rstrip(_SPACE):
        return CONCATENATED
    after = text[end:].lstrip(b" \t\r")[:1]
    return CONCATENATED if after in (b"{", _SEPARATOR) else LINES


def _of_array(text: bytes, start: int) -> str:
    """An array if it is empty or its first element is an object, and if nothing but another array follows it."""
    inside = _next(text, start + 1)
    if text[inside : inside + 1] == b"{":
        element = _end_of_value(text, inside)
        if element is None or _byte_after(text, element) not in (b",", b"]", b""):
            return LINES
    elif text[inside : inside + 1] not in (b"]", b""):
        return LINES
    end = _end_of_value(text, start)  # None: a later element is not sound, which does not make it lines
    is_alone = end is None or _byte_after(text, end) in (b"", b"[", _SEPARATOR)
    return ARRAY if is_alone else LINES


def _byte_after(text: bytes, at: int) -> bytes:
    after = _next(text, at)
    return text[after : after + 1]


def _next(text: bytes, at: int, passed: bytes = _SPACE) -> int:
    """Where the next byte stands that is no white space."""
    return len(text) - len(text[at:].lstrip(passed))


def _end_of_value(text: bytes, start: int) -> int | None:
    """Where the object or array that begins here ends, or the end of `text` if it ends later. None: it is not put
    together like one. What its numbers and words are does not matter."""
    open_brackets: list[bytes] = []
    at, before = start, b""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip(_SPACE)
            is_cut_off = not rest or (rest[:1] == b'"' and b"\n" not in rest)
            return len(text) if is_cut_off else None
        token = found.group(2) or (b'"' if found.group(1) else b"0")
        if not _may_follow(token, before, open_brackets):
            return None
        at, before = found.end(), token
        if token in (b"{", b"["):
            open_brackets.append(token)
        elif token in (b"}", b"]"):
            open_brackets.pop()
            if not open_brackets:
                return at
            before = b"0"
    return len(text)


def _may_follow(token: bytes, before: bytes, open_brackets: list[bytes]) -> bool:
    inside = open_brackets[-1] if open_brackets else b""
    match token:
        case b"{" | b"[" | b"0" | b'"':
            is_value = before in (b"", b":") or (inside == b"[" and before in (b"[", b","))
            return is_value or (token == b'"' and inside == b"{" and before in (b"{", b","))
        case b":":
            return before == b'"' and inside == b"{"
        case b",":
            return before in (b"0", b'"')
        case _:  # a closing bracket; a comma too many before it is no reason to read lines
            return inside == {b"}": b"{", b"]": b"["}[token] and before not in (b"", b":")
