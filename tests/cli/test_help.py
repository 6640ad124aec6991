"""The help of every command: complete, with examples that work, and quick."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.cli.help import Parser, commands_of, in_colour
from blizzard.cli.main import main
from blizzard.cli.mistakes import chosen_command
from blizzard.cli.parser import GROUPS, build_parser
from tests.cli.every_command import call, make_flow, places

_HEAVY = ("pyspark", "deltalake", "pyarrow", "pandas", "numpy", "s3fs", "yaml", "shtab")


def every_parser(parser: Parser | None = None) -> Iterator[Parser]:
    parser = parser or build_parser()
    yield parser
    for command in commands_of(parser).values():
        yield from every_parser(command)


COMMANDS = {parser.prog: parser for parser in every_parser()}


def examples_of(parser: Parser) -> list[list[str]]:
    """The words of each, as a shell would pass them on."""
    lines = re.findall(r"^  (blizzard .*)$", parser.epilog or "", re.MULTILINE)
    return [shlex.split(line.partition(" > ")[0], comments=True) for line in lines]


def test_every_command_is_there() -> None:
    assert len(COMMANDS) == 1 + 17 + 8 + 6 + 2  # blizzard, its commands, and the actions of checkpoint, dlq and schema


@pytest.mark.parametrize("prog", COMMANDS)
def test_every_command_says_what_it_does_and_has_an_example(prog: str) -> None:
    parser = COMMANDS[prog]
    assert parser.description
    assert re.match(r"[A-Z].*\.$", parser.description, re.DOTALL)
    usage = parser.format_usage().strip()
    assert usage.startswith(f"usage: {prog} ")
    assert "\n" not in usage
    assert len(usage) <= 110
    examples = examples_of(parser)
    assert examples
    for words in examples:
        named, _ = chosen_command(COMMANDS["blizzard"], words[1:])
        assert named.prog.startswith(prog)
        if prog != "blizzard" and not commands_of(parser):
            assert named.prog == prog
        COMMANDS["blizzard"].parse_args(words[1:])


@pytest.mark.parametrize("prog", COMMANDS)
def test_every_option_has_a_help_text(prog: str) -> None:
    for action in COMMANDS[prog]._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        assert action.help, action.option_strings
        assert action.help != argparse.SUPPRESS, action.option_strings
        assert action.nargs == 0 or action.metavar or action.choices, action.option_strings


def test_the_overview_has_every_command_once() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(commands_of(build_parser()))
    shown = build_parser().format_help()
    for name in grouped:
        assert len(re.findall(rf"^    {name}  ", shown, re.MULTILINE)) == 1


@pytest.mark.parametrize(("words", "shows"), [([], "examples:"), (["checkpoint"], "rollback"), (["dlq"], "replay")])
def test_a_command_that_is_left_out_is_a_mistake_that_shows_the_help(
    capfd: pytest.CaptureFixture[str], words: list[str], shows: str
) -> None:
    """Exit 2, on stderr: `blizzard $COMMAND` in a script, with a variable that is empty, has ingested nothing. It must
    not end as if it had, and leaves nothing on stdout that could be taken for a result."""
    code, out, err = call(capfd, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"usage: {' '.join(['blizzard', *words])} ")
    assert shows in err


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["checkpoint", "rollback", "-h"]])
def test_help_that_is_asked_for_is_a_result(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    out, err = capfd.readouterr()
    assert out.startswith("usage: blizzard ")
    assert err == ""


def test_the_help_is_quick_and_the_same_for_all(tmp_path: Path) -> None:
    """Nothing heavy is loaded for it, and nothing of the terminal or of colours is in the text."""
    code = (
        "import sys\nfrom blizzard.cli.main import main\n"
        f"try: code = main(sys.argv[1:])\nexcept SystemExit as e: code = e.code\n"
        f"print(code, sorted(set({_HEAVY}) & set(sys.modules)))"
    )
    said = {}
    for words in ((), ("--help",), ("run", "--tabel", "x")):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=os.environ | {"FORCE_COLOR": "", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        said[words] = done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] in ("0 []", "2 []")
        assert "\x1b" not in said[words]
    assert "blizzard try /data/events" in said[()]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_headings_are_bold_on_a_terminal_and_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = build_parser().format_help()
    assert in_colour(plain, io.StringIO()) == plain
    bold = in_colour(plain, Terminal())
    assert "\x1b[1mexamples:\x1b[0m\n" in bold
    assert re.sub(r"\x1b\[[0-9]*m", "", bold) == plain
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert in_colour(plain, Terminal()) == plain


def test_the_examples_of_the_overview_work(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a real table, which already holds what the source has: so even the run needs no Spark."""
    flow = make_flow(tmp_path)
    where = {"/data/events": str(flow.src), "/lake/events": str(flow.table)}
    quarantine = places(flow)["quarantine.path"]
    examples = examples_of(build_parser())
    assert 4 <= len(examples) <= 6
    assert [words[1] for words in examples] == ["try", "plan", "run", "status", "dlq"]
    for words in examples:
        own = [where.get(word, word) for word in words[1:]]
        code, out, err = call(capfd, *own, "--set", f"quarantine.path={quarantine}")
        assert code == 0, (words, err)
        assert out
