"""What was meant by a word that no command knows: the nearest command or option, found before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from blizzard.cli.help import Parser, commands_of
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.text.nearest import nearest
from blizzard.text.redaction import HIDDEN, redact_argument
from blizzard.text.shell import shell_words

_SHOWN = 60  # characters of a word that is not understood
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")  # argparse takes it for a value
# Names that people try, of things that have another one here.
_OTHER_NAMES = {
    "ingest": "run",
    "quarantine": "dlq",
    "dry-run": "plan",
    "init": "try",
    "version": "--version",
    "help": "--help",
}


def chosen_command(parser: Parser, words: Sequence[str]) -> tuple[Parser, Sequence[str]]:
    """The command that the first words name, as far as they do, and the words after them."""
    while words and words[0] in commands_of(parser):
        parser, words = commands_of(parser)[words[0]], words[1:]
    return parser, words


def refuse_unknown_words(parser: Parser, arguments: Sequence[str]) -> None:
    command, rest = chosen_command(parser, arguments)
    known = command._option_string_actions
    if not commands_of(command):
        for name in _options_in(command, rest):
            if name not in known:
                raise _unknown_option(parser, command, name, arguments)
        _refuse_stray_word(parser, arguments)
    elif rest and rest[0].startswith("-"):
        if rest[0] not in known:
            raise _option_before_command(parser, command, rest[0].partition("=")[0])
    elif rest:
        raise _unknown_command(parser, command, rest[0])


def _refuse_stray_word(parser: Parser, arguments: Sequence[str]) -> None:
    """`blizzard try FOLDER` works, so people type the same of commands whose words all belong to options. And of a glob
    without quotes a shell makes several words."""
    command, words = chosen_command(parser, arguments)
    if any(not action.option_strings for action in command._actions):
        return
    before, is_value = "", False  # the option before the word, and whether the word is its value
    for word in words:
        if word == "--":
            return
        if _is_option(command, word):
            before, equals, _ = word.partition("=")
            is_value = not equals and command._option_string_actions[before].nargs in (None, "?")
        elif is_value:
            is_value = False
        elif re.match("--[^ =]+=", word):
            raise _unknown_option(parser, command, word.partition("=")[0], arguments)
        else:
            raise _stray_word(command, _shown(redact_argument(word)), before, words)


def _stray_word(command: Parser, word: str, before: str, words: Sequence[str]) -> ConfigError:
    if before in ("--source", "--table"):
        return command.wrong(f"{word} is one word too many after {before}: a path with * or with spaces needs quotes")
    first = re.search(r"--[a-z]+(?= [A-Z])", command.usage or "")  # what a command is told first
    meant = f"; did you mean {first[0]} {word}?" if first and first[0] not in words else ""
    return command.wrong(f"{word} is not an option of {command.prog}{meant}")


def _options_in(command: Parser, words: Sequence[str]) -> Iterator[str]:
    """The names of options among the words, without their values: as argparse finds them."""
    for word in words:
        if word == "--":
            return
        if _is_option(command, word):
            yield word.partition("=")[0]


def _is_option(command: Parser, word: str) -> bool:
    """One with a space is an option only if its name is known: `--schema='id INT, n INT'`, and not '-a = 1'."""
    if not word.startswith("-") or word == "-" or _NUMBER.fullmatch(word):
        return False
    return " " not in word or word.partition("=")[0] in command._option_string_actions


def _unknown_option(parser: Parser, command: Parser, name: str, arguments: Sequence[str]) -> ConfigError:
    known = [option for option in command._option_string_actions if option.startswith("--")]
    if name == "--dry-run" and "--yes" in known:
        return command.wrong(f"{command.prog} has no --dry-run: without --yes it only says what it would do")
    if name == "--dry-run" and command.prog == "blizzard run":
        return _plan_instead(parser, arguments)
    if name == "--dry-run" and command.prog == "blizzard serve":
        return command.wrong(
            "blizzard serve has no --dry-run: blizzard plan --config FLEET.yaml#NAME shows what it would do first for"
            " one of its pipelines"
        )
    return command.wrong(f"{_shown(name)} is not an option of {command.prog}{_meant(name, known)}")


def _meant(name: str, known: Sequence[str]) -> str:
    """The end of the sentence: the nearest options."""
    if re.fullmatch(r"-\w", name):
        longer = sorted(option for option in known if option.startswith(f"-{name}"))
        return f", which has no short ones; did you mean {' or '.join(longer)}?" if longer else ""
    if "." in name:
        from blizzard.config.keys import KEYS

        if name.lstrip("-") in KEYS:
            return f", but a key of the configuration: --set {name.lstrip('-')}=VALUE"
    return nearest(name.lstrip("-"), [option.removeprefix("--") for option in known], called="--{}")


def _plan_instead(parser: Parser, arguments: Sequence[str]) -> ConfigError:
    """The same command for `blizzard plan`, without the options that it does not have; secrets in it are hidden."""
    words = ["blizzard", "plan", *map(redact_argument, _words_for_plan(parser, arguments[1:]))]
    note = f" ({HIDDEN} stands for a secret: put it in again)" if any(HIDDEN in word for word in words) else ""
    return ConfigError(
        f"blizzard run has no --dry-run. blizzard plan shows what a run would do, and changes nothing{note}:",
        kind=Kind.USAGE,
        further=[f"  {shell_words(words)}"],
    )


def _words_for_plan(parser: Parser, words: Sequence[str]) -> Iterator[str]:
    commands = commands_of(parser)
    of_run, of_plan = commands["run"]._option_string_actions, commands["plan"]._option_string_actions
    takes_next = drops_next = False
    for word in words:
        name, equals, _ = word.partition("=")
        if takes_next or not word.startswith("-"):
            if not drops_next:
                yield word
            takes_next = drops_next = False
            continue
        action = of_run.get(name)
        takes_next = action is not None and action.nargs is None and not equals
        drops_next = takes_next and name not in of_plan
        if name in of_plan:
            yield word


def _unknown_command(parser: Parser, command: Parser, word: str) -> ConfigError:
    known, what = commands_of(command), "a command" if command is parser else "an action"
    elsewhere = [f"{name} {word}" for name, group in commands_of(parser).items() if word in commands_of(group)]
    other = _OTHER_NAMES.get(word) if command is parser else None
    if other is not None:
        meant = f"; did you mean {command.prog} {other}?"
    elif elsewhere:
        meant = f"; did you mean {' or '.join(f'{parser.prog} {name}' for name in elsewhere)}?"
    else:
        meant = nearest(word, [*known, "help"], called=f"{command.prog} {{}}").replace(" help?", " --help?")
    there_are = "" if meant else f"; there are {', '.join(known)}"
    return command.wrong(f"{_shown(word)} is not {what} of {command.prog}{meant}{there_are}")


def _option_before_command(parser: Parser, command: Parser, name: str) -> ConfigError:
    what = "command" if command is parser else "action"
    return command.wrong(f"{_shown(name)}: give the {what} first, and its options after it")


def _shown(word: str) -> str:
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"
