"""A word that no command knows: the message names what was meant, and nothing is done."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from blizzard.cli.help import commands_of
from blizzard.cli.mistakes import refuse_unknown_words
from blizzard.cli.parser import build_parser
from blizzard.errors import ConfigError
from tests.cli.every_command import call
from tests.cli.test_help import COMMANDS, every_parser

MISSPELT = {
    "run --tabel t": "--tabel is not an option of blizzard run; did you mean --table? See: blizzard run --help",
    "run --tabel=t": "--tabel is not an option of blizzard run; did you mean --table?",
    "run -table t": "-table is not an option of blizzard run; did you mean --table?",
    "run -t t": "-t is not an option of blizzard run, which has no short ones; did you mean --table?",
    "run --tabel='my table'": "--tabel is not an option of blizzard run; did you mean --table?",
    "run --tab t": "--tab is not an option of blizzard run; did you mean --table?",
    "schema infer --sample 3": "did you mean --sample-files or --sample-records?",
    "run --whatever": "--whatever is not an option of blizzard run. See: blizzard run --help",
    "run --limits.max_files=3": "a key of the configuration: --set limits.max_files=VALUE",
    "checkpoint export --pipelin p": "did you mean --pipeline? See: blizzard checkpoint export --help",
    "audit --schema x": "--schema is not an option of blizzard audit.",
    "--table t status": "--table: give the command first, and its options after it",
    "statsu": "statsu is not a command of blizzard; did you mean blizzard status?",
    "checkpoint rolback": "rolback is not an action of blizzard checkpoint; did you mean blizzard checkpoint rollback?",
    "rollback --to 3": "did you mean blizzard checkpoint rollback?",
    "list": "did you mean blizzard checkpoint list or blizzard dlq list?",
    "ingest": "did you mean blizzard run?",
    "help": "did you mean blizzard --help?",
    "hepl": "did you mean blizzard --help?",
    "run events": "events is not an option of blizzard run; did you mean --source events? See: blizzard run --help",
    "plan events --infer": "did you mean --source events? See: blizzard plan --help",
    "status lake/events": "lake/events is not an option of blizzard status; did you mean --table lake/events?",
    "files lake/events": "did you mean --table lake/events? See: blizzard files --help",
    "serve fleet.yaml": "did you mean --config fleet.yaml?",
    "warm-up now": "now is not an option of blizzard warm-up. See: blizzard warm-up --help",
    "run --infer events": "events is not an option of blizzard run; did you mean --source events?",
    "run --source a --table t --infer b": "b is not an option of blizzard run. See: blizzard run --help",
    "run --source a.json b.json --table t": "b.json is one word too many after --source: a path with * or with spaces",
    "xyzzy": "xyzzy is not a command of blizzard; there are run, serve, try, plan,",
    "run --committer delta-sparc": "'delta-sparc' is none of delta-rs, delta-spark; did you mean delta-spark?",
    "checkpoint choose --below skp": "'skp' is none of ingest, skip; did you mean skip?",
    "dlq export --out - --format raww": "'raww' is none of raw, json; did you mean raw?",
    "completion bsh": "'bsh' is none of bash, zsh, fish; did you mean bash?",
    "run --source s --table t --set limits.max_record=3": "did you mean 'limits.max_records'?",
    "run --source s --table t --set late_files.policy=fial": "did you mean fail?",
    "serve --dry-run": "blizzard plan --config FLEET.yaml#NAME",
    "checkpoint skip --dry-run": "without --yes it only says what it would do",
}


@pytest.mark.parametrize("line", MISSPELT)
def test_the_nearest_word_is_named(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capfd, *shlex.split(line))
    assert code == 2
    assert MISSPELT[line] in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prog", [prog for prog, parser in COMMANDS.items() if not commands_of(parser)])
def test_no_option_can_be_abbreviated(prog: str) -> None:
    """What is an abbreviation of one option today may mean another one in the next version."""
    parser = COMMANDS[prog]
    assert not parser.allow_abbrev
    options = [o for o in parser._option_string_actions if o.startswith("--")]
    for option in options:
        if option[:-1] in options or len(option) < 4:
            continue
        with pytest.raises(ConfigError) as refused:
            refuse_unknown_words(COMMANDS["blizzard"], [*prog.split()[1:], option[:-1], "x"])
        meant = re.match(rf"{option[:-1]} is not an option of {prog}; did you mean (.*)\? See: ", str(refused.value))
        assert meant is not None
        assert option in meant[1].split(" or ")


@pytest.mark.parametrize(
    "value", ["-", "-5", "-0.5", "-- a", "-a b"]
)  # what argparse takes for a value, though it begins with a dash
def test_a_value_that_begins_with_a_dash_is_no_option(capfd: pytest.CaptureFixture[str], value: str) -> None:
    assert build_parser().parse_args(["pause", "--reason", value]).reason == value
    code, _, err = call(capfd, "pause", "--reason", value)
    assert code == 2
    assert "--table is missing" in err


def test_a_value_with_a_space_may_follow_an_equals_sign(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capfd, "run", "--schema=id BIGINT, ts TIMESTAMP", "--source=my events", "--set=where=-id = 1")
    assert code == 2
    assert "--table is missing" in err


def test_what_follows_a_double_dash_is_a_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capfd, "try", "--", "--no-such-file")
    assert code == 2
    assert "is not an option" not in err
    assert "no-such-file" in err


def test_a_secret_in_a_wrong_word_is_not_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, err = call(capfd, "run", "--pasword=hunter2hunter2", "--dry-run")
    assert "hunter2" not in out + err


def test_dry_run_points_to_plan_with_the_same_arguments(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a summary is written of this failure too
    given = ["--source", "/data/my events", "--max-batches", "3", "--table=/t", "--follow", "--summary=s.json"]
    secret = ["--set", "storage_options.AWS_SECRET_ACCESS_KEY=abcdefghijkl", "--infer", "--dry-run"]
    code, out, err = call(capfd, "run", *given, *secret)
    assert code == 2
    assert json.loads(out)["error_kind"] == "usage"
    assert "blizzard plan shows what a run would do, and changes nothing" in err
    (line,) = [line for line in err.splitlines() if line.startswith("  blizzard plan ")]
    words = shlex.split(line)
    hidden = ["--set", "storage_options.AWS_SECRET_ACCESS_KEY=***"]
    assert words == ["blizzard", "plan", "--source", "/data/my events", "--table=/t", *hidden, "--infer"]
    assert "*** stands for a secret" in err
    build_parser().parse_args(words[1:])  # ready to paste


def test_plan_takes_what_a_run_takes_to_find_its_places() -> None:
    of = {parser.prog: set(parser._option_string_actions) for parser in every_parser()}
    only_of_a_run = {
        *("--summary", "--attempt", "--max-batches", "--accept-quarantine-loss", "--follow", "--api-addr"),
        *("--log-json", "--exit-99-when-idle"),
    }
    assert of["blizzard run"] - of["blizzard plan"] == only_of_a_run
