"""The documents keep their word: every error kind is explained, every link, test, key and command named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blizzard.config.keys import KEYS
from blizzard.config.load import COLUMN_FAMILIES
from blizzard.core.kinds import Kind, LineKind

ROOT = Path(__file__).parents[2]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "jobs").rglob("*.md")])


def first_cells(document: str) -> set[str]:
    """What the tables of a document explain."""
    cells = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs" / document).read_text(), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


def test_every_error_kind_is_explained_to_the_person_who_is_paged() -> None:
    assert {*map(str, Kind)} - first_cells("operate.md") - {"error"} == set()


def test_every_reason_not_to_be_a_record_is_in_the_contract() -> None:
    assert {*map(str, LineKind)} - first_cells("record-contract.md") == set()


@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_document_names_exists(path: Path) -> None:
    text = path.read_text()
    for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
        assert (path.parent / link).exists(), link
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30 or path.name != "guarantees.md"
    for file, test in named:
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
        assert (ROOT / file).exists(), file
    for file in re.findall(r"(?<![\w/.])blizzard/[\w/]+(?:\.py)?\b(?![.:*{])", text):
        assert (ROOT / file).exists(), file
    families = tuple({name.split(".")[0] + "." for name in KEYS if "." in name} - {"spark."})  # others' settings
    for key in re.findall(r"`([a-z_]+\.[a-z_]+)(?:[=:] ?\w+)?`", text):
        if key.startswith(families) and not key.endswith((".py", ".md", ".sh")):
            assert key in KEYS or key in COLUMN_FAMILIES or key.endswith("conf"), key
    for command in re.findall(r"`?blizzard ((?:checkpoint )?[a-z]+(?:-[a-z]+)?) --", text):
        assert command.split()[0] in _commands(), command


def _commands() -> set[str]:
    from blizzard.cli.parser import build_parser

    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    return set(commands.choices or ())
