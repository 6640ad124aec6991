"""The first hour can be typed as it stands: every command of docs/quickstart.md prints what the page shows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.docs.console import differences, recorded, steps_of
from tests.docs.pages import HOMES, QUICKSTART, environment
from tests.drivers import Driver, ids

TEXT = QUICKSTART.read_text()


@pytest.mark.skipif(shutil.which("curl") is None and os.environ.get("CI") != "true", reason="curl is not installed")
@pytest.mark.process
@pytest.mark.usefixtures("fast_drivers")
def test_its_commands_print_what_it_shows(tmp_path: Path) -> None:
    now = recorded(TEXT, tmp_path, environment(tmp_path, java_options=Driver.java_options), home=HOMES[QUICKSTART])
    assert differences(TEXT, now) == "", "write it again with: make docs"
    # Killed, replayed, fixed, followed: each order is in the table once.
    assert ids(tmp_path / "shop/lake/orders") == list(range(1, 4001))
    assert "<html" in (tmp_path / "shop/report.html").read_text()


def test_it_goes_the_whole_way() -> None:
    typed = "\n".join(step.command for step in steps_of(TEXT))
    for command in ("try", "run", "status", "dlq replay", "dlq purge", "files", "audit", "report"):
        assert f"blizzard {command} " in typed
    for word in ("--infer", "kill -9", "--follow", "--config", "kill -INT"):
        assert word in typed
