"""What make says on a machine that lacks something: one line, before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """The exit code, and what it said itself: without make's own last line."""
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    said = (done.stdout + done.stderr).splitlines()
    return done.returncode, [line for line in said if not re.match(r"make(\[\d+\])?: \*\*\*", line)]


def program(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "number"),
    [('openjdk version "11.0.22" 2024-01-16', "11"), ('java version "1.8.0_392"', "8"), ('openjdk version "16"', "16")],
)
def test_a_java_that_is_too_old_gets_one_line(version: str, number: str, tmp_path: Path) -> None:
    java = program(tmp_path / "bin" / "java", f"echo '{version}' >&2", "echo 'Runtime Environment (build 17)' >&2")
    code, said = make("demo", JAVA_HOME=str(tmp_path))
    assert code == 2
    assert said == [f"{java} is Java {number}, and Spark 4 needs 17 or 21: install a JDK 17 or 21, or set JAVA_HOME."]


def test_no_java_gets_one_line(tmp_path: Path) -> None:
    expected = ["Java was not found: install a JDK 17 or 21, or set JAVA_HOME."]
    assert make("demo", JAVA_HOME=str(tmp_path)) == (2, expected)
    for name in ("make", "sh", "find", "uname", "id", "sed", "head"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    assert make("demo", JAVA_HOME="", PATH=str(tmp_path)) == (2, expected)


@pytest.mark.parametrize("version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21.0.1"', "who knows"])
def test_a_java_that_may_work_is_taken(version: str, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "echo 'NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g' >&2", f"echo '{version}' >&2")
    assert make("java", JAVA_HOME=str(tmp_path)) == (0, [])


def test_a_python_that_is_too_old_gets_one_line(tmp_path: Path) -> None:
    """The real check, in a Python that says that it is older."""
    python = shutil.which("python3")
    # The check is argument 2: `python3 -c CODE`.
    older = program(
        tmp_path / "python3.9", f'exec "{python}" -c "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])" "$2"'
    )
    code, said = make("python", f"PYTHON={older}")
    assert code == 2
    assert said == [f"blizzard needs Python 3.10 or newer, and {older} is Python 3.9: make PYTHON=python3.12 ..."]


def test_this_python_is_taken() -> None:
    assert make("python") == (0, [])


def test_a_change_of_the_package_makes_the_copy_of_test_newest_old() -> None:
    """It is no editable installation: without this it would test what was installed once."""
    code, said = make("--dry-run", "--print-data-base", "help")
    assert code == 0
    (rule,) = [line for line in said if line.startswith(".venv-newest/.ready:")]
    needs = rule.split()
    assert {"pyproject.toml", "blizzard/errors.py", "blizzard/native/__init__.py"} <= set(needs)
    assert [name for name in needs if name.endswith((".so", ".pyc")) or "/target/" in name] == []
