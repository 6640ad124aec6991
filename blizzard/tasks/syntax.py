"""Strict JSON, one value per line. Numbers stay as written, objects keep every member.

Decides what is JSON; nothing else does. Does not decide what a value means for a column.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from blizzard.core.bad import NotARecord
from blizzard.core.kinds import LineKind
from blizzard.core.reasons import Reason
from blizzard.schema import ColumnPath, show_path
from blizzard.schema.json_values import JsonInteger, JsonObject, JsonReal

__all__ = ["JsonInteger", "JsonObject", "JsonReal", "LineError", "compact_json", "json_in_text", "parse_json"]

# The stdlib parser uses one of Python's 1,000 stack frames per level. With an empty stack it gave up at 996 levels.
# Half of that leaves room for our callers.
MAX_NESTING = 500

WHITESPACE = b" \t\r"

_JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Matches escapes one by one, so that in \\ud800 the second backslash does not start an escape.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


@lru_cache(maxsize=1024)
def _reason(kind: LineKind, path: ColumnPath, detail: str = "") -> Reason:
    """The same few columns are bad again and again."""
    return Reason(kind=kind, column=show_path(path) if path else None, detail=detail)


class LineError(NotARecord):
    """Why a line is not a record. `column` is the path of the bad value, if there is one."""

    def __init__(self, kind: LineKind, message: str, *, path: ColumnPath = (), reason: Reason | None = None) -> None:
        self.kind, self.path = kind, path
        self.reason = reason or _reason(kind, path)
        self.column = self.reason.column
        super().__init__(f"{self.column}: {message}" if path else message)


class _Mark(str):
    """JSON text that is written as it is."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise LineError(LineKind.NOT_JSON, f"not JSON: {name} is not a JSON value")


# Numbers stay text: int() refuses 4,301 digits, float() would lose what a decimal column can hold.
_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject, parse_int=JsonInteger, parse_float=JsonReal, parse_constant=_refuse_constant
)

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_LITERALS = {None: "null", True: "true", False: "false"}


def _not_utf8(line: bytes, error: UnicodeDecodeError) -> str:
    try:
        line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return f"not UTF-8: {error.reason} at byte {error.start}; source.encoding=latin-1 would read Latin-1 text"
    return f"not UTF-8: half of a surrogate pair at byte {error.start}"


def parse_json(line: bytes) -> Any:
    """The value on a line of strict JSON: numbers as text, objects as pairs. Raises `LineError`."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError(LineKind.NOT_UTF8, _not_utf8(line, error)) from None
    if is_too_deep(line):
        raise LineError(LineKind.TOO_DEEP, f"nested more than {MAX_NESTING} levels deep")
    # Only the stdlib judges the syntax. orjson would refuse a valid number beyond a double's range, such as one of
    # 400 digits in an undeclared field. The stdlib accepts lone surrogates, which are not valid; see below.
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # of some errors the stdlib's text goes on with the place
        reason = _reason(LineKind.NOT_JSON, (), what)
        raise LineError(LineKind.NOT_JSON, f"not JSON: {what} at character {error.pos}", reason=reason) from None
    except RecursionError:
        raise LineError(LineKind.TOO_DEEP, "nested too deep for this call stack") from None
    if "\\u" in text and any(match[1] for match in _ESCAPE.finditer(text)):
        raise LineError(LineKind.NOT_JSON, "not JSON: a lone surrogate is not a character")
    return value


def _decode(text: str) -> Any:
    """As `decode`, which looks for white space around the value first: a fifth of its time."""
    if text.startswith("{"):
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def json_in_text(text: str) -> Any:
    """The object or array that a string of a record holds; None if it holds anything else."""
    try:
        value = parse_json(text.encode())
    except LineError:
        return None
    return value if type(value) in (JsonObject, list) else None


def is_too_deep(line: bytes) -> bool:
    """Whether arrays and objects are nested deeper than allowed, the record itself being level 1."""
    if len(line) <= MAX_NESTING or line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    # Latin-1 keeps every byte apart. If the line is not JSON, strings may be seen wrong, but only after the point
    # where a parser gives up.
    bare = _JSON_STRING.sub("", line.decode("latin-1")).encode("latin-1")
    depth = 0
    for bracket in bare.translate(None, _NOT_A_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_NESTING:
            return True
    return False


def compact_json(value: Any) -> str:
    """The value as JSON without whitespace: numbers as they were written, members in order, repeated ones too.

    A loop and not a recursion: 500 levels would take half of Python's stack.
    """
    parts: list[str] = []
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind is JsonInteger or kind is JsonReal or kind is _Mark:
            parts.append(item)
        elif kind is str:
            parts.append(_ENCODER.encode(item))
        elif kind is JsonObject:
            parts.append("{")
            pending.append(_Mark("}"))
            for position in range(len(item) - 1, -1, -1):
                name, member = item[position]
                pending += (member, _Mark(("," if position else "") + _ENCODER.encode(name) + ":"))
        elif kind is list:
            parts.append("[")
            pending.append(_Mark("]"))
            for position in range(len(item) - 1, -1, -1):
                pending += (item[position], _Mark(",")) if position else (item[position],)
        else:
            parts.append(_LITERALS[item])
    return "".join(parts)


def json_text(value: Any, limit: int = 80) -> str:
    """The value as JSON for a message, cut at `limit` characters."""
    kind = type(value)
    if kind is JsonInteger or kind is JsonReal:
        text = str(value[: limit + 1])
    else:
        text = _ENCODER.encode(value[: limit + 1]) if kind is str else _render(value, limit)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _render(value: Any, room: int) -> str:
    """JSON text, complete up to `room` characters. Each level writes at least one character, so it never goes deep."""
    if room < 0:
        return ""
    match value:
        case JsonInteger() | JsonReal():
            return str(value)
        case str():
            return _ENCODER.encode(value[: room + 1])
        case list():
            opening, closing = "{}" if isinstance(value, JsonObject) else "[]"
            text = opening
            for item in value:
                if len(text) > room:
                    break
                text += "," if len(text) > 1 else ""
                if isinstance(value, JsonObject):
                    text += _ENCODER.encode(item[0]) + ":"
                    item = item[1]  # noqa: PLW2901
                text += _render(item, room - len(text))
            return text + closing
        case _:
            return json.dumps(value)
