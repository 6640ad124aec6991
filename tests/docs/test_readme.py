"""The README keeps its word: its commands print what it shows, and its numbers are those that were measured."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from blizzard.testing.samples import write_events
from tests.docs.console import differences, recorded, steps_of
from tests.docs.numbers import with_numbers
from tests.docs.pages import HOMES, README, ROOT, environment
from tests.drivers import Driver

TEXT = README.read_text()


@pytest.mark.process
@pytest.mark.usefixtures("fast_drivers")
def test_its_commands_print_what_it_shows(tmp_path: Path) -> None:
    now = recorded(TEXT, tmp_path, environment(tmp_path, java_options=Driver.java_options), home=HOMES[README])
    assert differences(TEXT, now) == "", "write it again with: make docs"


def test_it_shows_what_two_commands_print() -> None:
    """A page without blocks would pass the test above."""
    ingests = [step for step in steps_of(TEXT) if step.command.startswith("blizzard run")]
    assert [any("4,000 records" in line for line in step.shown) for step in ingests] == [True, False]


def test_its_numbers_are_those_that_were_measured() -> None:
    assert with_numbers(TEXT) == TEXT, "write it again with: make docs"


def test_every_target_of_make_that_it_names_is_there() -> None:
    named = set(re.findall(r"\bmake ([a-z][\w-]+)", TEXT)) - {"and", "sure"}
    assert {"demo", "quick", "test", "docs", "setup"} <= named
    subprocess.run(["make", "--dry-run", *sorted(named)], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.spark
def test_its_python_runs(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    write_events(str(tmp_path / "data/events"), files=1, records=50)
    exec(block.replace('"/data/', f'"{tmp_path}/data/').replace('"/lake/', f'"{tmp_path}/lake/'), {"spark": spark})
    first, second = capsys.readouterr().out.splitlines()
    assert first == "done 50 1"
    assert second.startswith("events-")
    assert "1 events-00000.ndjson.gz" in second
