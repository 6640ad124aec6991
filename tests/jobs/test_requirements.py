"""Bounds, pins, and every `pip install` that a document or a message tells somebody to type."""

from __future__ import annotations

import re
import shlex

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from blizzard.operate import doctor
from blizzard.store import objects
from tests.jobs.project import EXTRAS, REQUIREMENTS, pins, texts_of_the_project

# Versions of these are dates: no number says what breaks.
DATED = {"s3fs", "gcsfs", "adlfs"}
# What users install. `airflow` is tested in an environment of its own, the other extras are for developers.
FOR_USERS = [
    *REQUIREMENTS,
    *(each for name in ("gcs", "azure", "mirror-sql", "sql", "connect") for each in EXTRAS[name]),
]
KNOWN = {
    canonicalize_name(each.name)
    for group in (REQUIREMENTS, *EXTRAS.values(), pins(), pins("constraints-airflow.txt"))
    for each in group
}
# What follows `pip install` in a shell: options, quoted and bare words. A document goes on after it, with a space too.
WORD = r"""'[^' \n{}]*'|[^\s'"`,;|()#]+"""
COMMAND = re.compile(rf"(?:pip3? install\b|installed_by\(\")((?: *(?:{WORD}))*)")
WITH_A_VALUE = ("-c", "-e", "-r", "--python", "--constraint")


def bound(asked: Requirement) -> Version | None:
    below = [Version(each.version) for each in asked.specifier if each.operator == "<"]
    return below[0] if below else None


def pinned(name: str) -> list[Version]:
    found = [each for each in pins() if canonicalize_name(each.name) == canonicalize_name(name)]
    return [Version(next(iter(each.specifier)).version) for each in found]


@pytest.mark.parametrize("asked", FOR_USERS, ids=lambda each: each.name)
def test_a_bound_ends_at_what_ci_runs(asked: Requirement) -> None:
    """`<3` where CI runs 2.x, `<1.7` where it runs 1.6."""
    last = bound(asked)
    if asked.name in DATED:
        assert last is None
        return
    assert last is not None, f"{asked} has no upper bound"
    if asked.name == "pyspark":
        return  # make test-newest holds this one: tests/jobs/installed.py
    depth = len(last.release)
    newest = (*last.release[:-1], last.release[-1] - 1)
    assert newest in {(each.release + (0,) * depth)[:depth] for each in pinned(asked.name)}


def test_every_pin_is_what_pyproject_allows() -> None:
    asked = [each for group in (REQUIREMENTS, *EXTRAS.values()) for each in group if each.name != "blizzard-delta"]
    wrong = [f"{each} is pinned to {at}" for each in asked for at in pinned(each.name) if at not in each.specifier]
    assert wrong == []


def named_in(text: str) -> list[str]:
    """What is wrong with the `pip install` commands of a text."""
    return [f"pip install{found[1]}" for found in COMMAND.finditer(text) if not is_right(found[1])]


def is_right(arguments: str) -> bool:
    bare = re.sub(r"'[^']*'", "", arguments)
    if "[" in bare or "<" in bare or ">" in bare:
        return False  # a shell would take brackets for a pattern, and < and > for files
    words = iter(shlex.split(arguments))
    for word in words:
        if word in WITH_A_VALUE:
            next(words, None)
        elif not (word.startswith(("-", "{", ".", "…")) or word.endswith(".whl") or is_known(word)):
            return False
    return True


def is_known(word: str) -> bool:
    try:
        asked = Requirement(word)
    except InvalidRequirement:
        return False
    if asked.name == "blizzard-delta":
        return asked.extras <= set(EXTRAS)
    return canonicalize_name(asked.name) in KNOWN


def test_every_pip_install_names_what_exists() -> None:
    texts = {
        name: text
        for name, text in texts_of_the_project().items()
        if name.split("/")[0] not in ("CHANGELOG.md", "tests")
    }
    commands = [found for text in texts.values() for found in COMMAND.findall(text) if found.strip()]
    assert len(commands) > 20
    assert {name: bad for name, text in texts.items() if (bad := named_in(text))} == {}


def test_what_messages_put_together_exists_too() -> None:
    assert set(objects._EXTRAS.values()) <= set(EXTRAS)
    words = [doctor._INSTALLED_AS.get(name, name) for name in (*doctor._PACKAGES, *doctor._INSTALLED_AS)]
    assert [word for word in words if not is_right(f" {word}")] == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install blizzard-delta[sql]",
        "pip install 'blizzard-delta[sqll]'",
        "pip install 'blizzard'",
        "`pip install duckdbb`",
        "pip install pyspark<4",
        "pip install --no-deps blizzard",
        "pip install -e .[dev]",
    ],
)
def test_a_wrong_command_would_be_found(text: str) -> None:
    assert named_in(text) != []
