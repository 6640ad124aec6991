"""How a command describes itself: one line of usage, a description, its options and an example to paste."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeAlias

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.text.terminal import has_colour

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[Any]

_SHOWN_OF_A_WORD = 300  # characters of an argument that is not understood

EXIT_CODES = """exit codes:
  0 done, nothing new, paused  2 usage or configuration    3 refused: not safe
  4 fenced by another run      5 bad data stopped the run  75 temporary, worth a retry
  99 nothing new, or paused (only with --exit-99-when-idle)  1 anything else"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fits paragraphs to the terminal. A paragraph with an indented line stays as it is: it may hold commands."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(self._fill(paragraph, width, indent) for paragraph in text.strip("\n").split("\n\n"))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill(self, paragraph: str, width: int, indent: str) -> str:
        if paragraph.startswith(" ") or "\n " in paragraph:
            return super()._fill_text(paragraph, width, indent)
        return textwrap.fill(paragraph, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Options are written in full: what is an abbreviation of one option today may be that of another tomorrow."""

    def __init__(self, **given: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=HelpFormatter, **given)

    def print_help(self, file: Any = None) -> None:
        out = file or sys.stdout
        self._print_message(in_colour(self.format_help(), out), out)

    def error(self, message: str) -> NoReturn:
        raise self.wrong(message[:_SHOWN_OF_A_WORD])

    def wrong(self, sentence: str) -> ConfigError:
        stop = "" if sentence.endswith("?") else "."
        return ConfigError(f"{sentence}{stop} See: {self.prog} --help", kind=Kind.USAGE)


def in_colour(text: str, out: TextIO) -> str:
    """The same text, with bold headings on a terminal that may have them."""
    if not has_colour(out):
        return text
    return re.sub(r"(?m)^(\S.*:|usage:.*)$", "\x1b[1m\\1\x1b[0m", text)


class Overview(Parser):
    """The parser of `blizzard` itself. `groups` has the names of its commands below headings."""

    def __init__(self, *, groups: Mapping[str, Sequence[str]], **given: Any) -> None:
        super().__init__(**given)
        self._groups = groups

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        formatter.add_text(self.description)
        lines = help_of_commands(self)
        for heading, names in self._groups.items():
            formatter.start_section(heading)
            formatter.add_text("\n".join(f"  {name:<16}{lines[name]}" for name in names))
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def add_command(
    commands: Commands,
    name: str,
    *,
    says: str,
    description: str | None = None,
    takes: str,
    examples: Sequence[str],
    ending: str = "",
) -> Parser:
    """`says` is its line in the list of commands. `takes` is what it is usually given, for the line of usage."""
    shown = "\n".join(["example:" if len(examples) == 1 else "examples:", *(f"  {line}" for line in examples)])
    parser: Parser = commands.add_parser(
        name,
        help=says,
        description=description or f"{says[0].upper()}{says[1:]}.",
        epilog=f"{shown}\n\n{ending}".rstrip(),
        usage=" ".join(["%(prog)s", *takes.split(), "[options]"]),
    )
    return parser


def add_group(commands: Commands, name: str, *, says: str, description: str, examples: Sequence[str]) -> Commands:
    """A command that is a family of others, its actions."""
    parser = add_command(commands, name, says=says, description=description, takes="ACTION", examples=examples)
    return parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions", prog=parser.prog)


def commands_of(parser: Parser) -> Mapping[str, Parser]:
    """What a command name or an action can be here. Empty for a command that takes none."""
    found = _choosing(parser)
    return {} if found is None else found.choices


def help_of_commands(parser: argparse.ArgumentParser) -> dict[str, str]:
    """By name, the line that says what a command is for."""
    found = _choosing(parser)
    return {} if found is None else {action.dest: action.help or "" for action in found._get_subactions()}


def _choosing(parser: argparse.ArgumentParser) -> Commands | None:
    return next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
