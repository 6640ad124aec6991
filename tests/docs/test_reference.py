"""docs/reference.md is what the code says: every command, option, key, exit code and error kind."""

from __future__ import annotations

import re

from blizzard.cli.parser import build_parser
from blizzard.config.keys import KEYS, NAMED_KEYS
from blizzard.config.load import _FAMILIES
from blizzard.core.kinds import Kind, LineKind
from blizzard.errors import BlizzardError
from tests.docs.pages import ROOT
from tests.docs.reference import REFERENCE, make_reference

TEXT = REFERENCE.read_text()


def test_it_is_what_the_code_says() -> None:
    assert make_reference() == TEXT, (
        "write it again with: make docs, or without Java: python -m jobs.docs --without-commands"
    )


def test_every_command_is_there() -> None:
    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    assert set(commands.choices or ()) == set(re.findall(r"^### blizzard ([\w-]+)$", TEXT, re.MULTILINE))


def test_every_key_is_there_with_its_default_and_meaning() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) ?\| (.+) \|$", TEXT.split("## Configuration")[1], re.MULTILINE)
    assert [name for name, _, _ in rows] == [*KEYS, *NAMED_KEYS]
    assert {name: default for name, default, _ in rows}["limits.max_record_bytes"] == "16MiB"
    assert all(meaning for _, _, meaning in rows)


def test_every_family_of_keys_is_named() -> None:
    assert {name.rpartition(".")[0] for name in NAMED_KEYS} == {*_FAMILIES, "targets.NAME", "pipelines.NAME"}


def test_every_exit_code_is_there_and_in_operate() -> None:
    """99 and 0 are no errors. Whether operate.md says the same of each is for a person to see."""

    def branches(error: type[BlizzardError]) -> set[type[BlizzardError]]:
        return {error}.union(*(branches(below) for below in error.__subclasses__()))

    codes = {error.exit_code for error in branches(BlizzardError)} | {0, 99}
    for page in (TEXT, (ROOT / "docs/operate.md").read_text()):
        section = page.split("\n## Exit codes\n")[1].split("\n## ")[0]
        assert {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == codes


def test_every_kind_is_there() -> None:
    section = TEXT.split("## Error kinds")[1].split("## Configuration")[0]
    assert {*map(str, Kind), *map(str, LineKind)} - set(re.findall(r"`(\w+)`", section)) == {"error"}
