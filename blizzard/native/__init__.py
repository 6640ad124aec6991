"""The native parser: a small extension in Rust, there if it could be built when blizzard was installed.

This is only its face. What it must do with a line is in docs/record-contract.md, and the reference has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

try:
    from blizzard.native import _native
except ImportError as error:
    _native = None  # type: ignore[assignment]
    _why_not: str | None = str(error)
else:
    _why_not = None

# What an undeclared field held, in the order of the bits that the parser sets.
KINDS = (
    "null",
    "boolean",
    "long",
    "large",
    "decimal",
    "double",
    "huge",
    "date",
    "timestamp",
    "text",
    "object",
    "array",
    "timestamp_ns",
    "local",
    "local_ns",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A column, or what an array or a map holds, as the parser wants it described."""

    kind: str
    path: list[str]
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    coerce: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    # Of a struct: which column (by its index) a key means as it is written (-1: none), and which in small letters.
    exact: list[tuple[str, int]] = field(default_factory=list)
    folded: list[tuple[str, int]] = field(default_factory=list)
    # Whether a key is also turned into snake case to find its column.
    snake: bool = False
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    json_in_strings: bool
    unknown: str
    rescue_values: bool
    keeps_rest: bool
    exact_timestamps: bool
    # The index of the column that takes the record itself.
    whole_record: int | None = None


def is_available() -> bool:
    return _native is not None


def why_not() -> str | None:
    """Why it cannot be used; None if it can."""
    return _why_not


def make_parser(root: Node, settings: Settings, deepest: int) -> Any:
    """A parser of blocks. Raises ValueError if the schema has a type or a format that it does not know."""
    return _native.Parser(root, settings, deepest)


def count_newlines(data: bytes) -> int:
    return _native.count_newlines(data)


def newline_positions(data: bytes) -> bytes:
    """As 64-bit integers."""
    return _native.newline_positions(data)


def has_frame_scanner() -> bool:
    """Whether it can find the records of files that are not one record a line. An extension built before has not."""
    return hasattr(_native, "FrameScanner")


def make_frame_scanner(framing: str, key: bytes | None, first_byte: int) -> Any:
    """A scanner of the chunks of one file whose records are not one a line."""
    return _native.FrameScanner(framing, key, first_byte)


def join_records(raw: bytes, starts: bytes, ends: bytes, string_newlines: bytes) -> bytes:
    """Each record as one line. The places are 64-bit integers."""
    return _native.join_records(raw, starts, ends, string_newlines)
