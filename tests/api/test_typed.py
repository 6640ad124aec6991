"""A program of a user passes mypy --strict, and its mistakes do not: the API has the types of its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typed_program"
ROOT = Path(__file__).parents[2]


def check(folder: Path, program: str) -> list[str]:
    """What mypy says of the program; [] if it has nothing to say."""
    (folder / "program.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(HERE / "mypy.ini"),
        "--cache-dir",
        str(folder / "cache"),
    ]
    done = subprocess.run(
        [*command, "--no-error-summary", "program.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_program_of_a_user_is_typed(tmp_path: Path) -> None:
    program = (HERE / "program.txt").read_text()
    assert check(tmp_path, program) == []
    # Without the comments that say where the mistakes are, each of them is found.
    found = check(tmp_path, program.replace("  # type: ignore", "  # was"))
    errors = [line for line in found if ": error: " in line]
    assert len(errors) == program.count("# type: ignore") > 8
