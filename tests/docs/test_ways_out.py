"""Every way out in docs/operate.md is a test: each error kind, by exit code, names the one that follows it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs import ways_out
from tests.flows.shell import commands_in

ROOT = Path(__file__).parents[2]
OPERATE = (ROOT / "docs/operate.md").read_text()

SECTIONS = {
    "Error kinds: exit 75, run it again": ways_out.RUN_AGAIN,
    "Error kinds: exit 4": ways_out.FENCED,
    "Error kinds: exit 3, a person decides": ways_out.A_PERSON_DECIDES,
    "Error kinds: exit 5, data stopped it": ways_out.DATA,
    "Error kinds: exit 2, change the command": ways_out.USAGE,
    "Error kinds: exit 1": ways_out.NOT_FORESEEN,
}
# Of no kind of their own; and a package that no test environment lacks.
NOT_TO_BE_FOLLOWED = {"refused", "bad_data", "bad_file", "no_connect"}


def section(title: str) -> str:
    return OPERATE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def kinds_in(text: str) -> list[str]:
    return [
        kind for cell in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for kind in re.findall(r"`(\w+)`", cell)
    ]


def test_all_sections_are_known() -> None:
    assert re.findall(r"^## (Error kinds.*)$", OPERATE, re.MULTILINE) == list(SECTIONS)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_kind_names_the_test_that_follows_its_way_out(title: str) -> None:
    kinds, named = kinds_in(section(title)), SECTIONS[title]
    assert sorted(kinds) == sorted(named)
    check_named(named, NOT_TO_BE_FOLLOWED)
    for kind, node in named.items():
        assert not node or kind in (ROOT / node.split("::")[0]).read_text(), f"{node} does not know {kind}"


def test_every_thing_that_people_do_has_a_test() -> None:
    bold = re.findall(r"\*\*(.+?)\*\*", section("Things people do"))
    assert sorted(bold) == sorted(ways_out.THINGS)
    check_named(ways_out.THINGS, set())


def check_named(named: Mapping[str, str], without: set[str]) -> None:
    for what, node in named.items():
        if what in without:
            assert node == ""
            continue
        file, _, test = node.partition("::")
        assert (ROOT / file).is_file(), node
        assert not test or f"def {test}(" in (ROOT / file).read_text(), node


def chosen(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    (commands,) = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    found: argparse.ArgumentParser = commands[name]
    return found


def test_commands_in_the_document_can_be_given() -> None:
    """Every option of a command that is advised is one that its parser knows, and what changes something has --yes."""
    from blizzard.cli.parser import build_parser

    advised = re.findall(r"`(?:blizzard )?((?:checkpoint|dlq) [a-z]+(?: [^`]+)?)`", OPERATE)
    assert len(advised) > 20
    for command in [*advised, *commands_in(OPERATE)]:
        words = command.split()
        parser = chosen(chosen(build_parser(), words[0]), words[1])
        known = {option for action in parser._actions for option in action.option_strings}
        assert {w for w in words if w.startswith("--")} <= known, command
        if words[1] in ("reset", "skip", "rollback") and len(words) > 2:
            assert {"--yes", "--dry-run"} & set(words) or command == "checkpoint reset --file NAME", command
