"""`make quick` is there, and runs no test that needs Spark, a server or a browser."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def arguments() -> list[str]:
    """What `make quick` gives to pytest."""
    shown = subprocess.run(["make", "-n", "quick"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in shown.splitlines() if " -m pytest " in line]
    return shlex.split(line.split(" -m pytest ")[1])


def collect(*arguments: str) -> dict[str, list[str]]:
    """The session fixtures of each test that pytest finds."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "tests.docs.needs", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return found


def test_it_leaves_out_every_marker_there_is(arguments: list[str]) -> None:
    markers = re.findall(
        r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text().split("\nmarkers = [")[1], re.MULTILINE
    )
    assert arguments[-2:] == ["-m", f"not ({' or '.join(markers)})"]


@pytest.mark.slow
def test_it_collects_most_tests_and_none_that_needs_something(arguments: list[str]) -> None:
    found = collect(*arguments)
    assert len(found) > 4000
    assert {name: needs for name, needs in found.items() if needs} == {}


def test_a_test_that_needs_something_is_told_apart() -> None:
    assert collect("tests/spark/test_spark_logs.py").popitem()[1] == ["spark"]


def test_help_and_readme_name_it() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^  quick +Run the tests that need no Java", shown, re.MULTILINE)
    assert "make quick" in (ROOT / "README.md").read_text()
