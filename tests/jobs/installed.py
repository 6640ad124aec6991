"""blizzard as a user gets it: a plain `pip install .` without pins, away from this tree.

`make test-newest` runs this file. `make test` does not: its environment has the pins, and this tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from blizzard.testing.samples import write_events
from tests.drivers import Finished, ids
from tests.jobs.project import REQUIREMENTS, ROOT, pins

pytestmark = [pytest.mark.spark, pytest.mark.process]
BIN = Path(sys.executable).parent


def call(folder: Path, *command: str) -> Finished:
    """With the commands of this environment on PATH, and nothing of this tree."""
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_every_bound_allows_what_was_installed_and_no_pin_held_it_back() -> None:
    assert [str(each) for each in REQUIREMENTS if version(each.name) not in each.specifier] == []
    (pinned,) = [each for each in pins() if each.name == "pyspark"]
    assert version("pyspark") not in pinned.specifier


def test_the_bound_of_pyspark_is_the_minor_version_that_runs_here() -> None:
    (asked,) = [each for each in REQUIREMENTS if each.name == "pyspark"]
    major, minor = Version(version("pyspark")).release[:2]
    assert f"<{major}.{minor + 1}" in str(asked.specifier).split(",")


def test_the_package_is_not_this_tree(tmp_path: Path) -> None:
    where = call(tmp_path, sys.executable, "-c", "import blizzard; print(blizzard.__file__)").stdout
    assert "site-packages" in where
    assert not Path(where.strip()).is_relative_to(ROOT / "blizzard")


def test_try_and_run_work_and_nobody_warns(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=500)
    tried = call(tmp_path, "blizzard", "try", "src")
    assert tried.code == 0, tried.stderr
    assert f"rows        {total:,}" in tried.stdout
    finished = call(tmp_path, "blizzard", "run", "--source", "src", "--table", "table", "--infer")
    assert finished.code == 0, finished.stderr
    assert (finished.summary["status"], finished.summary["records"]) == ("done", total)
    assert ids(tmp_path / "table") == list(range(total))
    # PySpark says so when it is not made for this pandas, pyarrow or numpy: then a bound is too wide.
    assert "Warning:" not in finished.stderr


def test_the_demo_kills_a_driver_and_finds_each_record_once(tmp_path: Path) -> None:
    done = call(tmp_path, sys.executable, str(ROOT / "jobs/demo.py"))
    assert done.code == 0, done.stdout + done.stderr
    assert "$ kill -9 " in done.stdout
    assert "none is missing, none is there twice" in done.stdout
    assert (tmp_path / "demo/report.html").stat().st_size > 10_000
    assert len(done.stdout.splitlines()) <= 60
