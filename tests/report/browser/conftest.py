"""One browser for all tests here, as new for each of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.histories import make_history
from tests.report.browser.chromium import Browser

NOW_MS = 1_794_900_000_000


def program(*names: str) -> str:
    """A program that `make setup-browser` installed. Without one its tests are skipped, but fail in CI."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = f"{names[0]} is not installed: run make setup-browser, which needs apt-get and root"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    made = Browser(program("chromedriver"), program("chromium", "chromium-browser", "google-chrome"))
    yield made
    made.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    chromium.prefer("light")
    chromium.resize(1240, 1400)
    chromium.allow_scripts(True)
    return chromium


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a past."""
    return make_history(tmp_path_factory.mktemp("history"), commits=24, now_ms=NOW_MS)
