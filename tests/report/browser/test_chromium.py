"""The browser of these tests: it comes from this machine, and where it does not come up nothing is left of it."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from selenium.common.exceptions import NoSuchDriverException, SessionNotCreatedException
from selenium.webdriver.common.selenium_manager import SeleniumManager

from tests.report.browser.chromium import Browser
from tests.report.browser.conftest import program

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        raise AssertionError("Selenium looked for a driver by itself")

    monkeypatch.setattr(SeleniumManager, "binary_paths", look)


def test_a_driver_that_is_not_there_is_not_downloaded() -> None:
    with pytest.raises(NoSuchDriverException) as e:
        Browser("chromedriver-that-is-not-there", "chromium")
    assert "not a valid file" in str(e.value.__cause__)


def test_a_browser_that_does_not_come_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[Any]] = []
    start = subprocess.Popen.__init__

    def note(process: subprocess.Popen[Any], *args: Any, **options: Any) -> None:
        started.append(process)
        start(process, *args, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    with pytest.raises(SessionNotCreatedException):
        Browser(program("chromedriver"), "/bin/false")
    assert len(started) == 1
    assert started[0].poll() is not None
