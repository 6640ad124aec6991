"""What a command prints: text for people, or JSON for scripts. Results on stdout, everything else on stderr.

All output passes through here: it shows no secret, and no character that controls a terminal or starts a new line.
Names of files and fields, and error texts of other libraries, may hold anything: an ESC, a newline, a mark that
reverses the text. So one line stays one line, and such characters are shown as escapes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from blizzard.errors import BlizzardError
from blizzard.text.json import json_text, printable_json
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err


class Output(Protocol):
    """How the result of a command is shown. `lines` are made only for text."""

    def result(self, value: Any, lines: Iterable[str]) -> None: ...
    def note(self, *lines: str) -> None:
        """For people only."""

    def failure(self, value: Any, error: BlizzardError) -> int:
        """A failure that is the result of a command: its object and its exit code, or else it is raised."""

    def rows(
        self,
        objects: Iterable[Mapping[str, Any]],
        header: Sequence[str],
        cells: Callable[[Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        """One object per line, or a table."""


class TextOutput:
    def result(self, value: Any, lines: Iterable[str]) -> None:
        del value
        for line in lines:
            print_line(line)

    def note(self, *lines: str) -> None:
        print_line(*lines)

    def failure(self, value: Any, error: BlizzardError) -> int:
        del value
        raise error

    def rows(
        self,
        objects: Iterable[Mapping[str, Any]],
        header: Sequence[str],
        cells: Callable[[Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        for line in table_lines(header, [cells(row) for row in objects]):
            print_line(line)


class JsonOutput:
    """`indented` is for people; fields in `verbatim` hold the user's own data, and are not redacted."""

    def __init__(self, *, indented: bool = True, verbatim: Sequence[str] = ()) -> None:
        self._indented, self._verbatim = indented, verbatim

    def result(self, value: Any, lines: Iterable[str]) -> None:
        del lines
        _write_lines(sys.stdout, [json_text(value, indented=self._indented, verbatim=self._verbatim)])

    def note(self, *lines: str) -> None:
        del lines

    def failure(self, value: Any, error: BlizzardError) -> int:
        self.result(value, ())
        return error.exit_code

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
    """A JSON file that was asked for on stdout. It will be read back, so nothing in it is hidden."""
    _write_lines(sys.stdout, [printable_json(text.rstrip("\n"))])


def print_script(text: str) -> None:
    """A program text of our own, exactly as it is: there is no name and no secret of anybody in it."""
    sys.stdout.write(text)


def say(*lines: str) -> None:
    """Anything but a result, on stderr. A closed stderr is no error."""
    put_err(as_lines(sys.stderr, map(shown, lines)))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [list(header), *([shown(str(c)) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _write_lines(out: TextIO, lines: Iterable[str]) -> None:
    """The lines must be safe to show already."""
    out.write(as_lines(out, lines))
