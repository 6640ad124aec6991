"""What pyproject.toml and the pins say, for the tests of the packages."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# pytest brings tomli where Python has no tomllib.
_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
PROJECT: dict[str, Any] = _toml.loads((ROOT / "pyproject.toml").read_text())["project"]
# What every installation needs, and what each extra adds.
REQUIREMENTS = [Requirement(each) for each in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(each) for each in asked] for name, asked in PROJECT["optional-dependencies"].items()}


def pins(name: str = "constraints.txt") -> list[Requirement]:
    lines = (ROOT / "conf" / name).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def texts_of_the_project() -> dict[str, str]:
    """By name, every file that git has and that is text: documents, notebooks, code, units, scripts."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {}
    for name in filter(None, listed.split("\0")):
        try:
            found[name] = (ROOT / name).read_text()
        except (FileNotFoundError, UnicodeDecodeError):
            continue
    return found
