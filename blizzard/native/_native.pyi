from typing import Any

from blizzard.native import Node, Settings

class Parsed:
    rows: int
    lines: int
    blank: int
    doubtful: list[tuple[int, int, int]]
    witnessed: list[tuple[int, int, int]]
    undeclared: list[tuple[list[str], list[str], int, int]]
    is_incomplete: bool
    cut: list[tuple[list[str], int]]
    def take_array(self) -> Any: ...
    def row_lines(self) -> bytes | None: ...

class Parser:
    def __init__(self, root: Node, settings: Settings, deepest: int) -> None: ...
    def parse(self, data: bytes) -> Parsed: ...

class Frames:
    starts: bytes
    ends: bytes
    string_newlines: bytes
    open_at: int | None
    error: tuple[int, int] | None
    siblings: list[tuple[int, bytes, int]]

class FrameScanner:
    is_between: bool
    def __init__(self, framing: str, key: bytes | None, first_byte: int) -> None: ...
    def scan(self, chunk: bytes) -> Frames: ...

def join_records(raw: bytes, starts: bytes, ends: bytes, string_newlines: bytes) -> bytes: ...
def count_newlines(data: bytes) -> int: ...
def newline_positions(data: bytes) -> bytes: ...
