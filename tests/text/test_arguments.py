"""Messages for a caller from Python name arguments and functions; what has none stays a command or a flag."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import blizzard
from blizzard.api import Quarantine
from blizzard.cli.parser import build_parser
from blizzard.core.refuse import options_of
from blizzard.core.types import SourceIdentity
from blizzard.text.arguments import FUNCTIONS, NAMES, PROSE, in_python

PACKAGE = Path(blizzard.__file__).parent
# These packages speak to people at a terminal, and to nobody else.
ELSEWHERE = {"cli", "airflow", "testing", "report", "service"}
# Flags of commands that have no function, and of other programs.
STAY = {
    "below",
    "unverified",
    "replace",
    "from-mirror",
    "table-id",
    "in",
    "from-record",
    "follow",
    "json",
    "yes",
    "file",
}
STAY |= {"packages", "archives", "py-files"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--schema is missing", "schema= is missing"),
        ("begin with --start-from beginning; or not", 'begin with start_from="beginning"; or not'),
        ("(--start-from after:a.json)", '(start_from="after:a.json")'),
        ("add --reads-again.", "add reads_again=True."),
        ("--pipeline NAME.", "pipeline=NAME."),
        ("--set limits.max_files=10, once", 'options={"limits.max_files": 10}, once'),
        ("--set 'source.pattern=**/*.log x'", 'options={"source.pattern": "**/*.log x"}'),
        ("--set a.b=x,y, or", 'options={"a.b": "x,y"}, or'),
        ("--set a.b=true --set c.d=x.", 'options={"a.b": True, "c.d": "x"}.'),
        ("""--source 'it'"'"'s' --pipeline p""", '''source="it's", pipeline="p"'''),
        ("blizzard status shows it", "blizzard.status(…) shows it"),
        ("blizzard plan --validate.", "blizzard.plan(…, validate=True)."),
        ("blizzard checkpoint rollback --to 5 --yes", "blizzard.rollback(…, to=5)"),
        ("blizzard dlq list", "blizzard.quarantine(…)"),
        ("blizzard dlq export --kind x --out f", 'blizzard.quarantine(…, kind="x").export(out="f")'),
        ("blizzard dlq replay", "blizzard.quarantine(…).replay(…)"),
        # No function does this.
        ("blizzard checkpoint skip --file a.json --yes.", "blizzard checkpoint skip --file a.json --yes."),
        ("blizzard run --follow --config c.yaml", "blizzard run --follow --config c.yaml"),
        ("blizzard resume --pipeline p, then --schema", "blizzard resume --pipeline p, then schema="),
        ("spark-submit --packages x", "spark-submit --packages x"),
        ("--below skip and --set takes", "--below skip and --set takes"),
        # Names of files and what is no flag at all.
        ("--table.json, --table-x.json, --table/a, x/--table", "--table.json, --table-x.json, --table/a, x/--table"),
        ("a--schema, x --schemata, -- and ---table", "a--schema, x --schemata, -- and ---table"),
        ("nothing to say", "nothing to say"),
    ],
)
def test_flags_become_arguments(text: str, said: str) -> None:
    assert in_python(text) == said
    assert in_python(said) == said


def test_options_that_are_put_together_become_arguments() -> None:
    source = SourceIdentity(root="file:///a b", pattern="*.log")
    said = in_python(f"go on with: {options_of('p', source)}.")
    assert said == 'go on with: source="file:///a b", pipeline="p", options={"source.pattern": "*.log"}.'


def literals() -> Iterator[tuple[str, str]]:
    """Every text in the package but docstrings. What is filled in is shown as X."""
    for path in sorted(PACKAGE.rglob("*.py")):
        # The texts of keys are those of the README.
        if path.relative_to(PACKAGE).parts[0] not in ELSEWHERE | {"text"} and path.name != "keys.py":
            yield from ((f"{path.name}:{line}", text) for line, text in _texts(ast.parse(path.read_text())))


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    seen: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            seen.add(node.value)  # a docstring
        text = None if node in seen else _text(node)
        if text is not None:
            seen.update(ast.walk(node))
            assert isinstance(node, ast.expr)
            yield node.lineno, text


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in values)
        case ast.BinOp(left=left, right=right):
            first, second = _text(left), _text(right)
            return None if first is None or second is None else first + second
    return None


FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
MESSAGES = [(where, text) for where, text in literals() if FLAG.search(text) and " " in text]


def test_there_are_messages_to_look_at() -> None:
    assert len(MESSAGES) > 60


@pytest.mark.parametrize(("where", "text"), MESSAGES, ids=[where for where, _ in MESSAGES])
def test_no_message_leaves_a_flag_that_is_an_argument(where: str, text: str) -> None:
    """Except inside of a command that has no function: that is to be typed as it is."""
    said = in_python(text)
    for command in re.findall(r"blizzard (?:checkpoint|dlq|schema|resume|run|serve) ?[a-z]*(?: --[^.;,()]*)?", said):
        said = said.replace(command, "")
    left = {flag for flag in FLAG.findall(said) if not re.search(rf"--{flag} (?:X|takes key)", said)}
    assert left <= STAY, said


@pytest.mark.parametrize(("where", "text"), MESSAGES, ids=[where for where, _ in MESSAGES])
def test_no_word_of_a_sentence_is_taken_for_a_value(where: str, text: str) -> None:
    """A value is a placeholder, a name with a dot or a colon, or one of the few words that are values."""
    values = re.findall(r'(?<![\w{])[a-z_]+="([^"]*)"', in_python(text))
    words = {value for value in values if re.fullmatch(r"[a-z]+", value)}
    assert words <= {"beginning", "unrouted"}, words


def parameters(command: str) -> set[str]:
    if not command.startswith("dlq "):
        return set(inspect.signature(getattr(blizzard, NAMES.get(command, command))).parameters)
    method = getattr(Quarantine, command.removeprefix("dlq "), None)
    own = set() if method is None else set(inspect.signature(method).parameters)
    return own | set(inspect.signature(blizzard.quarantine).parameters)


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_flag_that_is_translated_is_an_argument_and_an_option(command: str) -> None:
    flags = set(FUNCTIONS[command])
    assert {flag.replace("-", "_") for flag in flags} - parameters(command) == set()
    assert flags - options_of_command(command) == set()


def options_of_command(command: str) -> set[str]:
    parser: Any = build_parser()
    for word in command.split():
        (commands,) = [action for action in parser._actions if hasattr(action, "choices") and action.dest in DESTS]
        parser = commands.choices[word]
    return {option.removeprefix("--") for action in parser._actions for option in action.option_strings}


DESTS = ("command", "action")


def test_prose_is_no_name_that_anybody_gives() -> None:
    assert all(re.fullmatch(r"[a-z]{2,5}", word) for word in PROSE)
