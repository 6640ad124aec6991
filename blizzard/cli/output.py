"""What a command prints: text for people, or JSON for scripts. Results on stdout, everything else on stderr.

Everything that is said leaves through here: no secret, and no character that steers a terminal or begins a line. Names
of files and fields, and what others' errors say, may hold anything: an ESC, a newline, a mark that turns the text
around. So a line is one line, and every line that is printed shows such characters.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from blizzard.text.json import json_text, printable_json
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err


class Output(Protocol):
    """How the result of a command is shown. `lines` are asked for only where text is wanted."""

    def result(self, value: Any, lines: Iterable[str]) -> None: ...
    def rows(
        self,
        objects: Iterable[Mapping[str, Any]],
        header: Sequence[str],
        cells: Callable[[Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        """One object a line, or a table."""


class TextOutput:
    def result(self, value: Any, lines: Iterable[str]) -> None:
        del value
        for line in lines:
            print_line(line)

    def rows(
        self,
        objects: Iterable[Mapping[str, Any]],
        header: Sequence[str],
        cells: Callable[[Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        for line in table_lines(header, [cells(row) for row in objects]):
            print_line(line)


class JsonOutput:
    """`indented` objects are laid out for people too; fields in `verbatim` are data of the user's."""

    def __init__(self, *, indented: bool = True, verbatim: Sequence[str] = ()) -> None:
        self._indented, self._verbatim = indented, verbatim

    def result(self, value: Any, lines: Iterable[str]) -> None:
        del lines
        _write_lines(sys.stdout, [json_text(value, indented=self._indented, verbatim=self._verbatim)])

    def rows(
        self,
        objects: Iterable[Mapping[str, Any]],
        header: Sequence[str],
        cells: Callable[[Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        del header, cells
        for row in objects:
            _write_lines(sys.stdout, [json_text(row, verbatim=self._verbatim)])


def output_of(options: argparse.Namespace, *, indented: bool = True, verbatim: Sequence[str] = ()) -> Output:
    return JsonOutput(indented=indented, verbatim=verbatim) if options.json else TextOutput()


def print_line(*lines: str) -> None:
    """A result, on stdout."""
    _write_lines(sys.stdout, map(shown, lines))


def print_file(text: str) -> None:
    """A JSON file that was asked for on stdout. It is to be read back: nothing is hidden."""
    _write_lines(sys.stdout, [printable_json(text.rstrip("\n"))])


def say(*lines: str) -> None:
    """Anything but a result, on stderr, if anybody listens there."""
    put_err(as_lines(sys.stderr, map(shown, lines)))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [list(header), *([shown(str(c)) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """Lines that are fit to be shown."""
    out.write(as_lines(out, lines))
