"""Makes docs/reference.md from the code: the parser of the command line, the keys, the tree of errors, the kinds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blizzard.cli.parser import build_parser
from blizzard.config.keys import KEYS, NAMED_KEYS
from blizzard.core.kinds import Kind, LineKind
from blizzard.errors import BadData, BlizzardError, ConfigError, Fenced, Refused, Temporary

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference.md"

_HEAD = """# Reference

Every command, option, key, exit code and error kind. This page is made from the code by `make docs`; a test fails if it
is not what the code says. `blizzard COMMAND --help` says the same in a terminal.
"""

_COMMANDS = """## Commands

The source is a folder, one file, or a glob, on this machine or in a bucket. Names that begin with `_` or `.` are
ignored. A link to a folder is refused, since its files could be read twice. A file that changes during a run is left to
the next run.

- Without `--pipeline` a run goes on with the pipeline of the table that reads this source. A second pipeline over the
  same files is refused, and the message names the first; `--reads-again` (`reads_again=True` in Python) allows it.
- On a table that already has data or another pipeline, a new pipeline starts with `--start-from beginning`,
  `after:NAME` or `date:2026-01-31`.
- Pattern and filters are part of the position; `blizzard checkpoint choose` changes them. If files are there and none
  matches, the first run ends with `no_file_matches` and the setting that reads them.
- The last line on stdout of `blizzard run` is one JSON object, on failure too.
- One source can go into [several tables](targets.md), the targets of a configuration: commands that only look show each
  of them, and every command but `run` takes one with `--target NAME`.
"""

_EXIT_CODES = """## Exit codes

The same for every command. The branch of the error tree is what Python raises.
"""

_SIGNALS = """The first SIGTERM or SIGINT ends the current batch at the next record, commits it and exits 0. A second
one, or the end of `stop_grace_s`, discards the batch and exits 75. Send signals to the driver alone: a SIGTERM to its
whole process group (systemd's default; use `KillMode=mixed`) ends the JVM first, and the batch with it.
"""

_KINDS = """## Error kinds

A kind is a stable word for scripts and alerts: in brackets at the end of the last line on stderr, `error_kind` in the
JSON object, `.kind` of an exception. Each is explained in [operate](operate.md), with what to do about it.
"""

_CONFIGURATION = """## Configuration

One tree of keys for a YAML file (`--config`, see [conf/example.yaml](../conf/example.yaml)), `--set key=value` and the
Python API (`options`). An unknown key is an error. `${ENV}` and `${ENV:-default}` are resolved at start and stored
nowhere. The configuration means the same to every command; flags override it. Many pipelines can be in one file, for
[`blizzard serve`](fleet.md); to other commands `--config FLEET.yaml#NAME` is one of them.
"""

# Beside what the docstring of the branch says.
_DO: dict[int, tuple[str, str]] = {
    0: ("done, nothing to do, paused, or stopped by a signal", ""),
    2: ("", "change the command"),
    3: ("", "read the message: it says what you have to decide"),
    4: ("", "run one driver per pipeline"),
    5: (
        "bad data stopped the run: its first batch was mostly bad, or you asked for that or set a limit",
        "do what the text says: it names settings, or the file to fix or move. Nothing of the batch is committed",
    ),
    75: ("", "run it again"),
    99: ("nothing new, or paused: instead of 0, with `--exit-99-when-idle`", ""),
    1: ("Anything else.", "report it"),
}
_BRANCHES: dict[int, type[BlizzardError]] = {
    branch.exit_code: branch for branch in (BlizzardError, ConfigError, Refused, Fenced, BadData, Temporary)
}


def make_reference() -> str:
    parts = [_HEAD, _COMMANDS, *_commands(build_parser()), _EXIT_CODES, _exit_codes(), _SIGNALS]
    parts += [_KINDS, _kinds(), _CONFIGURATION, _keys()]
    return "\n".join(parts)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    unsaid = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)
    yield from (a for a in parser._actions if a.help is not argparse.SUPPRESS and not isinstance(a, unsaid))


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, help and parser of each command below this one, in the order of --help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {said.dest: _text(said) for said in action._choices_actions}
            for name, command in action.choices.items():
                yield name, helps.get(name) or (command.description or "").split(". ")[0], command


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    found = list(_below(parser))
    yield _table("command", "what it does", ((f"[`{p.prog}`](#{_anchor(p.prog)})", says) for _, says, p in found))
    for _, says, command in found:
        yield f"### {command.prog}\n"
        yield _paragraph(command.description or says)
        actions = list(_below(command))
        if not actions:
            yield _options(command)
        yield from _examples(command)
        for name, what, action in actions:
            yield f"#### {command.prog} {name}\n"
            yield _paragraph(action.description or what)
            yield _options(action)
            yield from _examples(action)


def _examples(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What stands below the options in --help. Exit codes are the same for all, and have a section of their own."""
    said = re.sub(r"exit codes:\n(  .*(\n|$))+", "", parser.epilog or "").strip()
    if said:
        yield f"```text\n{said}\n```\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _paragraph(text: str) -> str:
    """Help texts are made for a terminal: what looks like markup is none, and a blank line begins a paragraph."""
    said = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    said = said[:1].upper() + said[1:]
    return _linked(said if said.endswith((".", ":")) else f"{said}.") + "\n"


def _options(parser: argparse.ArgumentParser) -> str:
    return _table("option", "meaning", ((f"`{_signature(a)}`", _text(a)) for a in _actions(parser)))


def _signature(action: argparse.Action) -> str:
    choices = "|".join(map(str, action.choices)) if action.choices else None
    value = action.metavar or choices or action.dest.upper()
    if not action.option_strings:
        return f"[{value}]…" if action.nargs == "*" else f"[{value}]" if action.nargs == "?" else str(value)
    flag = ", ".join(action.option_strings)
    if action.nargs == 0:
        return flag
    return f"{flag} [{value}]" if action.nargs == "?" else f"{flag} {value}"


def _text(action: argparse.Action) -> str:
    values: dict[str, Any] = vars(action)
    said = (action.help or "") % {**values, "prog": "blizzard"}
    return f"{said} (required)" if action.option_strings and action.required else said


def _linked(text: str) -> str:
    """Where a text names a page of docs/, as a link from this page."""
    return re.sub(r"\bdocs/([\w-]+)\.md(#[\w-]+)?", r"[\1](\1.md\2)", text)


def _table(first: str, second: str, rows: Any) -> str:
    lines = [f"| {' | '.join(_linked(cell.replace('|', chr(92) + '|')) for cell in row)} |" for row in rows]
    return "\n".join((f"| {first} | {second} |", "|---|---|", *lines, ""))


def _exit_codes() -> str:
    rows = []
    for code, (said, todo) in _DO.items():
        branch = _BRANCHES.get(code)
        meaning = said or " ".join((branch.__doc__ or "").split()) if branch else said
        rows.append(f"| {code} | {meaning} | {todo} | {f'`{branch.__name__}`' if branch else ''} |")
    return "\n".join(("| code | meaning | what to do | in Python |", "|---|---|---|---|", *rows, ""))


def _kinds() -> str:
    """By the tables of docs/operate.md: the code of some kinds depends on the case."""
    operate, rows, seen = (ROOT / "docs/operate.md").read_text(), [], {str(Kind.ERROR)}
    for title, text in re.findall(r"^## (Error kinds.*?)\n(.*?)(?=^## )", operate, re.MULTILINE | re.DOTALL):
        cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
        named = [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]
        code = re.findall(r"exit (\d+)", title)[0]
        rows.append((f"[{code}](operate.md#{_anchor(title)})", ", ".join(f"`{kind}`" for kind in named)))
        seen |= set(named)
    unknown = {*map(str, Kind)} - seen
    assert not unknown, f"docs/operate.md does not explain {unknown}"
    lines = ", ".join(f"`{kind}`" for kind in LineKind)
    return _table("exit code", "kinds", rows) + (
        "\nWhy a line is not a record, `error_kind` in the quarantine table"
        f" ([the record contract](record-contract.md#kinds-of-bad-lines)): {lines}.\n"
    )


def _keys() -> str:
    rows = [f"| `{name}` | {_default(key.default)} | {_linked(key.help)} |" for name, key in KEYS.items()]
    rows += [f"| `{name}` | | {_linked(says)} |" for name, says in NAMED_KEYS.items()]
    return "\n".join(("| key | default | meaning |", "|---|---|---|", *rows, ""))


def _default(default: Any) -> str:
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}"
        case int() if default % 2**20 == 0:
            return f"{default // 2**20}MiB"
        case _:
            return f"{default:,}" if isinstance(default, int) else f"`{default}`"
