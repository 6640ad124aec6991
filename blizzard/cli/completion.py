"""`blizzard completion`: a script for a shell, made from the parser. The shell itself never starts blizzard."""

from __future__ import annotations

import argparse

import shtab

from blizzard.cli.help import Parser, commands_of, help_of_commands
from blizzard.cli.output import print_script
from blizzard.cli.parser import build_parser

_FILES = ("FILE", "URI", "DDL|FILE", "FLEET.yaml")  # what a value is called that may be a path on this machine


def dispatch(options: argparse.Namespace) -> int:
    print_script(script_for(options.shell))
    return 0


def script_for(shell: str) -> str:
    parser = build_parser()
    _prepare(parser)
    script: str = shtab.complete(parser, shell)
    return script.rstrip("\n") + "\n"


def _prepare(parser: Parser) -> None:
    """Values that may be paths are completed as such. Beside a command stands its line, not its description."""
    for action in parser._actions:
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    lines = help_of_commands(parser)
    for name, command in commands_of(parser).items():
        command.description = lines[name]
        _prepare(command)
