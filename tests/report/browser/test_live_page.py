"""The page beside a run, in a real Chromium: it follows the run, and its buttons do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from tests.flows.in_process import Flow
from tests.flows.operating import LONGEST_S, InProcessOperation, ask, going
from tests.ingesting import ids, write, write_ids
from tests.report.browser.chromium import Browser

pytestmark = pytest.mark.browser

ADDRESS: dict[str, Any] = {"api.address": "127.0.0.1:0"}


def button(action: str) -> str:
    return f"button[data-action={action}]"


def test_pause_resume_and_stop(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS)
    with going(operation) as (url, thread):
        browser.open(url)
        assert browser.text("#state") == "running"
        browser.click(button("pause"))
        browser.wait_until(lambda: browser.text("#state") == "paused")
        assert ask(f"{url}/status").json["state"] == "paused"
        assert browser.execute_script("return document.querySelector(arguments[0]).disabled", button("pause")) is True
        browser.click(button("resume"))
        browser.wait_until(lambda: browser.text("#state") == "running")
        assert ask(f"{url}/status").json["state"] == "running"
        browser.click(button("checkpoint"))
        assert browser.text("#said") == ""
        browser.click(button("stop"))
        browser.switch_to.alert.accept()
        thread.join(LONGEST_S)
        assert not thread.is_alive()
        browser.wait_until(lambda: browser.text("#state") == "ended")
    assert operation.summary.status == "stopped"


def test_the_page_grows_with_the_table(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        browser.open(url)
        rows = "return document.querySelectorAll('table.commits tbody tr').length"
        assert browser.execute_script(rows) == 1
        write_ids(flow.src / "b.ndjson", 3, 6)
        browser.wait_until(lambda: browser.execute_script(rows) == 2)
        browser.point_at("figure.chart rect.hit")
        assert "sequence 1" in browser.text("#tip")  # what came later has its tooltips, too
        assert browser.console() == []
        assert {request.removeprefix(url) for request in browser.requests()} <= {"/", "/status"}


def test_a_file_that_is_held_back_appears_and_what_somebody_has_opened_stays_open(
    browser: Browser, tmp_path: Path
) -> None:
    flow = Flow(tmp_path).first_run()
    flow.later_ms = 0
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        browser.open(url)
        assert browser.find_elements(By.ID, "held-now") == []
        browser.click("summary")
        write(flow.src / "k.ndjson", b"")  # empty, so it may still be written to
        browser.wait_until(lambda: browser.find_elements(By.ID, "held-now"))
        assert "k.ndjson empty, and younger than 60 s" in browser.text("#held-now tbody")
        assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 1
        assert browser.execute_script("return document.activeElement.tagName") == "SUMMARY"
        assert browser.complaints() == []
        write_ids(flow.src / "k.ndjson", 3, 6)
        browser.wait_until(lambda: not browser.find_elements(By.ID, "held-now"))
        assert browser.console() == []


def test_without_scripts_the_buttons_work_as_forms(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        browser.allow_scripts(False)
        browser.open(url)
        browser.click(button("pause"))
        browser.wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        browser.wait_until(lambda: browser.text("#state") == "paused")


def test_with_a_token_looking_takes_a_password_and_acting_the_token(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS | {"api.token": "s3cret"})
    with going(operation) as (url, _):
        browser.open(url.replace("//", "//me:s3cret@"))
        browser.click(button("pause"))
        assert "Type the token" in browser.text("#said")
        browser.type("#token", "wrong")
        browser.click(button("pause"))
        browser.wait_until(lambda: "a valid token is needed" in browser.text("#said"))
        assert not operation.control.is_paused
        browser.type("#token", "s3cret")
        browser.click(button("pause"))
        browser.wait_until(lambda: operation.control.is_paused)
        browser.wait_until(lambda: browser.text("#state") == "paused")
        assert all("401" in line for line in browser.console())  # the one that was wrong


def test_a_page_from_elsewhere_cannot_stop_the_run(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS)
    with going(operation) as (url, _):
        (tmp_path / "evil.html").write_text(
            f'<form id=f method=post action="{url}/stop"></form><script>document.getElementById("f").submit()</script>'
        )
        browser.open((tmp_path / "evil.html").as_uri())
        browser.wait_until(
            lambda: "a page of another site" in browser.execute_script("return document.body?.innerText ?? ''")
        )
        assert not operation.control.is_stopping
        browser.open(url.replace("127.0.0.1", "localhost"))  # another name of this machine, and its own page: fine
        assert browser.text("#state") == "running"
    assert ids(flow.table) == [0, 1, 2]
