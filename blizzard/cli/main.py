"""The command line. Others script against it: flags, exit codes and the JSON on the last line are a contract.

stdout carries results only; progress, warnings and errors go to stderr.
"""

from __future__ import annotations

import argparse
import atexit
import sys
from collections.abc import Callable, Sequence

from blizzard.cli.arguments import add_config_arguments
from blizzard.cli.end_of_process import EndOfProcess
from blizzard.cli.failures import failure_of, failure_text, trace_of
from blizzard.cli.help import Parser, commands_of, in_colour
from blizzard.cli.mistakes import chosen_command, refuse_unknown_words
from blizzard.cli.output import say
from blizzard.cli.parser import build_parser
from blizzard.cli.watched_stdout import run_watched, stdout_is_lost
from blizzard.errors import ConfigError
from blizzard.service.logs import others_shown
from blizzard.text.redaction import learn_arguments, of_one_command
from blizzard.text.streams import hold_standard_streams, put_err, put_out

# The commands that change something, unless they are only asked to say what they would do.
_CHANGES = ("import", "reset", "skip", "rollback", "replay", "realign", "purge", "vacuum-orphans", "pause", "resume")


def main(argv: Sequence[str] | None = None) -> int:
    """Without `argv`: as the program that this process is."""
    end = EndOfProcess()
    if argv is None:
        atexit.register(end)  # first of all, so it is called last of all
    hold_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    with of_one_command(), others_shown():
        learn_arguments(arguments)
        code = _main(arguments)
    if argv is None:
        end.begin(code)
    return code


def _main(arguments: list[str]) -> int:
    parser = build_parser()
    command, rest = chosen_command(parser, arguments)
    if not rest and commands_of(command):
        # Not a success, and not a result: a script whose command is an empty variable must not pass for one that ran.
        put_err(in_colour(command.format_help(), sys.stderr))
        return ConfigError.exit_code
    try:
        refuse_unknown_words(parser, arguments)
        options = parser.parse_args(arguments)
    except SystemExit:  # --help or --version has been printed
        lost = put_out()
        if lost is None or isinstance(lost, BrokenPipeError):
            raise
        return _fail(stdout_is_lost(lost))
    except ConfigError as e:
        # The last line of these, and their summary file, are one JSON object, whatever happened.
        match arguments[:1]:
            case ["run"]:
                from blizzard.cli.run import RunCommand

                return RunCommand(_destination_of(arguments[1:]), arguments).fail(e)
            case ["serve"]:
                from blizzard.cli.serve import ServeCommand

                return ServeCommand(_destination_of(arguments[1:])).fail(e)
            case _:
                return _fail(e)
    _take_name_of_pipeline(options)
    match options.command:
        case "run":
            from blizzard.cli.run import RunCommand

            return RunCommand(options, arguments).run()
        case "serve":
            from blizzard.cli.serve import ServeCommand

            return ServeCommand(options).run()
    code, error = run_watched(lambda: _command(options)(options), prints_at_the_end=_changes_something(options))
    return code if error is None else _fail(error)


def _take_name_of_pipeline(options: argparse.Namespace) -> None:
    """`--config FLEET.yaml#NAME` names the pipeline too."""
    if getattr(options, "pipeline", "") is None and options.config is not None:
        from blizzard.config.file import split_name

        options.pipeline = split_name(options.config)[1]


def _fail(error: BaseException) -> int:
    known = failure_of(error)
    say(*trace_of(error), *failure_text(known).split("\n"))
    return known.exit_code


def _changes_something(options: argparse.Namespace) -> bool:
    name = getattr(options, "action", options.command)
    shows_only = not getattr(options, "yes", True) or getattr(options, "dry_run", False)
    return name in _CHANGES and not shows_only


def _destination_of(arguments: Sequence[str]) -> argparse.Namespace | None:
    """Where the summary goes if the arguments of `run` are wrong: only the options for that are read."""
    parser = Parser(add_help=False)
    parser.add_argument("--summary")
    parser.add_argument("--attempt")
    add_config_arguments(parser)
    try:
        return parser.parse_known_args(arguments)[0]
    except ConfigError:
        return None


def _command(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Imported only now: what a command needs may be slow to load."""
    match options.command:
        case "dlq":
            from blizzard.cli import quarantine

            return quarantine.dispatch
        case "checkpoint":
            from blizzard.cli import checkpoint

            return checkpoint.dispatch
        case "schema":
            from blizzard.cli import schema

            return schema.dispatch
        case "audit" | "doctor" | "vacuum-orphans":
            from blizzard.cli import maintenance

            return maintenance.dispatch
        case "pause" | "resume":
            from blizzard.cli import pause

            return pause.dispatch
        case "completion":
            from blizzard.cli import completion

            return completion.dispatch
        case "try":
            from blizzard.cli import try_out

            return try_out.dispatch
        case "warm-up":
            from blizzard.cli import warm_up

            return warm_up.dispatch
        case _:
            from blizzard.cli import show

            return show.dispatch
