"""The documents keep their word: every error kind is explained, every link, test, key and command named exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from blizzard import errors
from blizzard.config.keys import KEYS
from blizzard.store.s3 import _ADVICE

ROOT = Path(__file__).parents[2]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "jobs").rglob("*.md")])
OPERATE = (ROOT / "docs/operate.md").read_text()

RAISED = {c.__name__ for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.BlizzardError)}
# A refusal of the core becomes an error at the edge; the rest is what tasks find in files.
RAISED |= {"Refuse", "Misaligned", "UnusableOrigin", "TaskFailure", "UnreadableSource"}


def kinds_raised() -> set[str]:
    found = {kind for kind, _ in _ADVICE.values()} | {"late_files", "rewritten_files"}
    for path in (ROOT / "blizzard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in RAISED:
                found |= {s.value.value for s in node.body if _is_kind(s)}  # type: ignore[attr-defined]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISED:
                values = [k.value for k in node.keywords if k.arg == "kind"]
                found |= {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}
    return found


def _is_kind(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == "kind"
        and isinstance(statement.value, ast.Constant)
    )


def test_every_error_kind_is_explained_to_the_person_who_is_paged() -> None:
    raised = kinds_raised()
    assert len(raised) > 70
    first_cells = re.findall(r"^\| (`[^|]+) \|", OPERATE, re.MULTILINE)
    explained = {kind for cell in first_cells for kind in re.findall(r"`(\w+)`", cell)}
    assert raised - explained - {"error"} == set()


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
    families = tuple({name.split(".")[0] + "." for name in KEYS if "." in name} - {"spark."})  # others' settings
    for key in re.findall(r"`([a-z_]+\.[a-z_]+)(?:[=:] ?\w+)?`", text):
        if key.startswith(families) and not key.endswith((".py", ".md", ".sh")):
            assert key in KEYS or key.endswith("conf"), key
    for command in re.findall(r"`?blizzard ((?:checkpoint )?[a-z]+(?:-[a-z]+)?) --", text):
        assert command.split()[0] in _commands(), command


def _commands() -> set[str]:
    from blizzard.cli.main import build_parser

    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    return set(commands.choices or ())
