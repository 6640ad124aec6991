"""The documents keep their word: every error kind is explained, every link, test, key and command named exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from blizzard.config.keys import KEYS
from blizzard.config.load import COLUMN_FAMILIES
from blizzard.core.kinds import Kind, LineKind
from tests.docs.links import broken_links

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


MARKDOWN = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if (ROOT / name).exists()
)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    assert list(broken_links(path)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `word`\n# Twice\n# Twice\n```\n# no heading\n```\n")
    (tmp_path / "a.md").write_text(
        "# Here\n[1](b.md) [2](b.md#one-word) [3](b.md#twice-1) [4](#here) [5](https://example.org/x.md) `[6](c.md)`\n"
        "[7](c.md) [8](b.md#no-heading) [9](#there)\n"
    )
    assert [link.partition(":")[0] for link in broken_links(tmp_path / "a.md")] == ["c.md", "b.md#no-heading", "#there"]


def _commands() -> set[str]:
    from blizzard.cli.parser import build_parser

    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    return set(commands.choices or ())
