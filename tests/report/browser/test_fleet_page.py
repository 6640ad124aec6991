"""The page of a fleet in a real Chromium: it shows every pipeline, follows them, and its buttons do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains

from tests.flows.fleets import FleetFolder, Readers, Running, running
from tests.flows.operating import wait_until
from tests.ingesting import write
from tests.report.browser.chromium import Browser
from tests.report.browser.test_report_in_a_browser import CONTRASTS, widths

pytestmark = pytest.mark.browser

# What a person who hears the page gets: a name for each control, and headings in order.
_WITHOUT_NAME = """
return [...document.querySelectorAll('button, a, input:not([hidden])')]
  .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')))
  .map(e => e.outerHTML)"""
_HEADINGS = "return [...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))"


@dataclass
class Shown:
    browser: Browser
    fleet: Running
    folder: FleetFolder

    def cell(self, pipeline: str, label: str) -> str:
        return self.browser.text(f"#p-{pipeline} td[data-label='{label}']")

    def state(self, pipeline: str) -> str:
        return self.browser.text(f"#p-{pipeline} .badge")

    def press(self, action: str, pipeline: str) -> None:
        self.browser.click(f"#{action}-{pipeline}")


@pytest.fixture
def folder(tmp_path: Path, readers: Readers) -> FleetFolder:
    made = FleetFolder(tmp_path).add("orders", "users", "lost")
    made.put("orders", 0, 3)
    write(made.src("users") / "a.ndjson", b'{"id":1}\n{"id":2}\nnonsense\n')
    made.src("lost").rmdir()
    return made


@pytest.fixture
def shown(browser: Browser, folder: FleetFolder) -> Iterator[Shown]:
    with running(folder) as fleet:
        wait_until(lambda: fleet.fleet.is_ready and fleet.row("users")["quarantined_records"] == 1)
        browser.open(fleet.url)
        yield Shown(browser, fleet, folder)


def test_every_pipeline_is_there_with_its_state_and_its_trouble(shown: Shown) -> None:
    assert shown.browser.text("h1") == "Fleet of 3 pipelines"
    assert [shown.state(name) for name in ("orders", "users", "lost")] == ["running", "running", "failed"]
    assert shown.cell("users", "Quarantine") == "1"
    assert shown.cell("orders", "Lag") == "none"
    assert "/s" in shown.cell("orders", "Speed")
    assert "does not exist [source_not_found]" in shown.cell("lost", "Last error")
    assert "tried again at" in shown.cell("lost", "Last error")
    assert "waits for a person" in shown.cell("lost", "State")
    assert shown.browser.console() == []


def test_one_click_leads_to_the_report_and_one_back(shown: Shown) -> None:
    browser = shown.browser
    browser.click("#p-orders a")
    browser.wait_until(lambda: browser.current_url.endswith("/pipelines/orders/report"))
    assert browser.text("section.pipeline h2") == "orders"
    assert browser.text("#state") == "running"
    browser.click("button[data-action=pause]")
    browser.wait_until(lambda: browser.text("#state") == "paused")
    assert shown.fleet.state("orders") == "paused"
    browser.click("nav a")
    browser.wait_until(lambda: browser.text("h1") == "Fleet of 3 pipelines")
    assert shown.state("orders") == "paused"
    assert browser.console() == []


def test_pause_resume_and_stop_act_on_their_pipeline_only(shown: Shown) -> None:
    browser = shown.browser
    shown.press("pause", "orders")
    browser.wait_until(lambda: shown.state("orders") == "paused")
    assert (shown.state("users"), shown.fleet.state("users")) == ("running", "running")
    assert not browser.is_enabled("#pause-orders")
    shown.press("resume", "orders")
    browser.wait_until(lambda: shown.state("orders") == "running")
    shown.press("stop", "orders")
    assert browser.switch_to.alert.text == "Stop orders? What it has read is committed first."
    browser.switch_to.alert.accept()
    browser.wait_until(lambda: shown.state("orders") == "stopped")
    shown.press("resume", "orders")
    browser.wait_until(lambda: shown.state("orders") == "running")


def test_a_button_that_is_pressed_while_the_page_follows_does_what_it_says(shown: Shown) -> None:
    browser, answers = shown.browser, list[str]()

    def has_followed() -> bool:
        answers.extend(browser.requests())
        return len(answers) > 2  # the page itself, and two later looks: the first of them has ended

    ActionChains(browser).click_and_hold(browser.find("#pause-orders")).perform()
    browser.wait_until(has_followed)
    ActionChains(browser).release().perform()
    browser.wait_until(lambda: shown.state("orders") == "paused")


def test_the_page_follows_and_keeps_the_focus(shown: Shown) -> None:
    browser = shown.browser
    browser.execute_script("document.getElementById('pause-users').focus()")
    shown.folder.put("lost", 0, 2)
    shown.fleet.fleet.members["lost"].resume()
    browser.wait_until(lambda: shown.state("lost") == "running")
    assert browser.execute_script("return document.activeElement.id") == "pause-users"
    assert {request.removeprefix(shown.fleet.url) for request in browser.requests()} == {"/"}


def test_when_the_process_has_ended_the_page_says_so_and_goes_on_with_the_next(
    browser: Browser, folder: FleetFolder
) -> None:
    with running(folder) as fleet:
        browser.open(fleet.url)
    browser.wait_until(lambda: browser.text("#state") == "no answer")
    assert not browser.is_enabled("#pause-orders")
    assert browser.text("#said").startswith("The process does not answer")
    folder.add("more").put("more", 0, 1)
    with running(folder, address=fleet.url.removeprefix("http://")):
        browser.wait_until(lambda: browser.text("#state") == "running")
        browser.wait_until(lambda: browser.text("#p-more .badge") == "running")
        assert browser.is_enabled("#pause-orders")
        assert browser.text("#said") == ""


def test_without_scripts_the_buttons_work_as_forms(shown: Shown) -> None:
    browser = shown.browser
    browser.allow_scripts(False)
    browser.open(shown.fleet.url)
    shown.press("pause", "users")
    browser.wait_until(lambda: browser.current_url == f"{shown.fleet.url}/")
    shown.fleet.wait_for("users", "paused")
    browser.refresh()  # without scripts a page does not follow
    assert shown.state("users") == "paused"
    browser.open(f"{shown.fleet.url}/pipelines/users/report")
    browser.click("button[data-action=resume]")
    shown.fleet.wait_for("users", "running")
    assert browser.current_url.endswith("/pipelines/users/report")
    browser.refresh()
    assert browser.text("#state") == "running"


def test_with_a_token_looking_takes_a_password_and_acting_the_token(browser: Browser, folder: FleetFolder) -> None:
    folder.top["api"] = {"token": "s3cret"}
    with running(folder) as fleet:
        wait_until(lambda: fleet.fleet.is_ready)
        browser.open(fleet.url.replace("//", "//me:s3cret@"))
        browser.click("#pause-orders")
        assert "Type the token" in browser.text("#said")
        browser.type("#token", "s3cret")
        browser.click("#pause-orders")
        browser.wait_until(lambda: fleet.state("orders") == "paused")
        browser.wait_until(lambda: browser.text("#p-orders .badge") == "paused")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1240])
def test_it_can_be_read_and_nothing_sticks_out(shown: Shown, scheme: str, width: int) -> None:
    browser = shown.browser
    browser.prefer(scheme)
    browser.resize(width, 900, mobile=width < 1000)
    browser.open(shown.fleet.url)
    assert widths(browser) == (width, width)
    assert browser.execute_script(CONTRASTS) == {}


def test_every_control_has_a_name_and_headings_are_in_order(shown: Shown) -> None:
    browser = shown.browser
    assert browser.execute_script(_WITHOUT_NAME) == []
    headings = browser.execute_script(_HEADINGS)
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    assert browser.execute_script("return document.documentElement.lang") == "en"
    names = browser.execute_script(
        "return [...document.querySelectorAll('#main button')].map(e => e.getAttribute('aria-label'))"
    )
    assert len(names) == len(set(names)) == 9
    assert "Pause orders" in names


def test_hostile_texts_do_not_run(browser: Browser, folder: FleetFolder) -> None:
    name = "\"'><img src=x onerror=document.title='run'><script>document.title='run'</script>"
    folder.add("evil", source={"path": f"/nowhere/{name}"})
    with running(folder) as fleet:
        wait_until(lambda: fleet.state("evil") == "failed")
        browser.open(fleet.url)
        assert "onerror" in browser.text("#p-evil td[data-label='Last error']")
        assert browser.execute_script("return document.title") == "4 pipelines · blizzard"
        assert browser.execute_script("return document.querySelectorAll('img').length") == 0
        assert browser.console() == []
