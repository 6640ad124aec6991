"""Everything that is said leaves through here: no secret, and no character that steers a terminal or begins a line.

A line is one line. Names of files and fields, and what others' errors say, may hold anything: an ESC, a newline, a mark
that turns the text around. So every line that is printed shows such characters, and who wants several lines gives
several.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import orjson

from blizzard.text.redaction import redact
from blizzard.text.shown import shown
from blizzard.text.streams import put_err


def print_line(*lines: str) -> None:
    """A result, on stdout."""
    write_lines(sys.stdout, map(shown, lines))


def say(*lines: str) -> None:
    """Anything but a result, on stderr, if anybody listens there."""
    put_err(as_lines(sys.stderr, map(shown, lines)))


def write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """Lines that are fit to be shown."""
    out.write(as_lines(out, lines))


def as_lines(out: TextIO, lines: Iterable[str]) -> str:
    """What the stream's encoding lacks is shown as an escape."""
    text = "".join(f"{line}\n" for line in lines)
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


class ShownHandler(logging.Handler):
    """For what other packages log: theirs too goes to the terminal, and repeats what they were given."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def others_shown() -> Iterator[None]:
    """Where nobody has said what becomes of log lines, Python writes warnings to stderr as they are."""
    before = logging.lastResort
    logging.lastResort = ShownHandler(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = before


def print_json(value: Any) -> None:
    """An object for scripts, laid out for people."""
    write_lines(sys.stdout, [json_text(value, indented=True)])


def print_json_line(value: Any, *, verbatim: Sequence[str] = ()) -> None:
    write_lines(sys.stdout, [json_text(value, verbatim=verbatim)])


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [list(header), *([shown(str(c)) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def json_text(value: Any, *, indented: bool = False, verbatim: Sequence[str] = ()) -> str:
    """The same value, without secrets. Fields in `verbatim` are data of the user's and stay as they are.

    JSON itself escapes only the first 32 characters; a terminal obeys more of them.
    """
    options = orjson.OPT_INDENT_2 if indented else 0
    text = orjson.dumps(_cleaned(value, frozenset(verbatim)), option=options).decode()
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    """Only a string can hold such characters, and in one an escape means the same."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def _cleaned(value: Any, verbatim: frozenset[str], *, is_data: bool = False) -> Any:
    match value:
        case str():
            return _whole(value if is_data else redact(value))
        case dict():
            return {
                _cleaned(name, verbatim): _cleaned(of_it, verbatim, is_data=is_data or name in verbatim)
                for name, of_it in value.items()
            }
        case list() | tuple():
            return [_cleaned(item, verbatim, is_data=is_data) for item in value]
        case _:
            return value


def _whole(text: str) -> str:
    """Names may hold bytes that are not UTF-8, and JSON must be written whatever is in it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shell_words(words: Sequence[str]) -> str:
    """A command to be pasted. What is not printable is written as an escape that a shell reads back."""
    return " ".join(shlex.quote(word) if word.isprintable() else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    visible = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(c if c.isprintable() else _shell_escape(c) for c in visible)}'"


def _shell_escape(character: str) -> str:
    """Its bytes in octal: whatever the shell's locale is, they are those that were given."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def trace_lines(error: BaseException) -> list[str]:
    """A traceback in which only the lines of code are lines: what an error says may hold line ends."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    lines: list[str] = []
    for one in reversed(chain):
        lines += ["", "which led to:", ""] if lines else []
        lines.append("Traceback (most recent call last):")
        lines += [line for frame in traceback.format_tb(one.__traceback__) for line in frame.rstrip("\n").split("\n")]
        lines.append(f"{type(one).__qualname__}: {one}")
    return list(map(shown, lines))
