"""Every page for everybody: on a phone, in light and dark, with a keyboard, and for those who hear it."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.report.browser.chromium import Browser
from tests.report.browser.test_report_in_a_browser import save, widths
from tests.report.scenes import pages

pytestmark = pytest.mark.browser

PAGES = ("one", "three", "eventful", "many", "targets", "nothing", "fleet")
_BOXES = """
return [...document.querySelectorAll(arguments[0])].filter(e => e.getClientRects().length).map(e => {
  const box = e.getBoundingClientRect(); return [e.textContent.trim(), box.left, box.right, box.height];
})"""
# Everything that begins or ends outside of the window, unless a table's own container scrolls it.
_OUTSIDE = """
return [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 1 && !e.closest('.scroll *, thead') && (box.left < -1 || box.right > innerWidth + 1);
}).map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses, by name."""
    made = {}
    for name, html in pages().items():
        folder: Path = tmp_path_factory.mktemp(name)
        made[name] = save(html, folder)
    assert tuple(made) == PAGES
    return made


def boxes(browser: Browser, selector: str) -> list[tuple[str, float, float, float]]:
    found: Any = browser.execute_script(_BOXES, selector)
    return [(text, left, right, height) for text, left, right, height in found]


# Of hundreds of rows axe takes minutes to judge the colours, and there is nothing in them that twenty do not have.
@pytest.mark.parametrize("name", [name for name in PAGES if name != "many"])
def test_axe_finds_nothing(browser: Browser, shown: dict[str, str], name: str) -> None:
    """With the tables of numbers opened, wide and in light; narrow and in dark."""
    for scheme, width in (("light", 1280), ("dark", 360)):
        browser.prefer(scheme)
        browser.resize(width, 900, mobile=width == 360)
        browser.open(shown[name])
        browser.execute_script("for (const e of document.querySelectorAll('details')) e.open = true")
        assert browser.complaints() == []


def test_axe_does_find_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    browser.open(save("<!doctype html><title>x</title><img src='data:,'><p style='color:#ccc'>pale</p>", tmp_path))
    found = [complaint.split(" ")[0] for complaint in browser.complaints()]
    assert {"image-alt", "color-contrast", "html-has-lang"} <= set(found)


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_nothing_sticks_out_and_a_finger_can_hit_it(
    browser: Browser, shown: dict[str, str], name: str
) -> None:
    browser.resize(360, 800, mobile=True)
    browser.open(shown[name])
    browser.execute_script("for (const e of document.querySelectorAll('details')) e.open = true")
    assert widths(browser) == (360, 360)
    assert browser.execute_script(_OUTSIDE) == []
    assert [box for box in boxes(browser, "button, summary, nav a, th a, input") if box[3] < 40] == []


@pytest.mark.parametrize("width", [761, 1021, 1100, 1181])
@pytest.mark.parametrize("name", [name for name in PAGES if name != "many"])
def test_between_a_phone_and_a_desk_nothing_sticks_out(
    browser: Browser, shown: dict[str, str], name: str, width: int
) -> None:
    browser.resize(width, 900)
    browser.open(shown[name])
    assert widths(browser) == (width, width)
    assert browser.execute_script(_OUTSIDE) == []


@pytest.mark.parametrize("width", [360, 768, 1000, 1280])
@pytest.mark.parametrize("name", ["eventful", "fleet"])
def test_the_state_has_room_beside_the_buttons_and_the_token(
    browser: Browser, shown: dict[str, str], name: str, width: int
) -> None:
    browser.resize(width, 900, mobile=width == 360)
    browser.open(shown[name])
    ((text, _, _, height),) = boxes(browser, "#state")
    assert (text, height < 40) == ("running", True)
    ((_, left, right, _),) = boxes(browser, "#live .state")
    assert right - left > 240


def test_a_table_shows_that_it_goes_on_to_the_side(browser: Browser, shown: dict[str, str]) -> None:
    """Many browsers show no scroll bar before somebody scrolls, and a table may be cut just between two columns."""
    browser.resize(768, 900)
    browser.open(shown["three"])
    commits = browser.find(".scroll:has(> .commits)")
    assert browser.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", commits) is True

    def edge() -> bytes:
        box: Any = browser.execute_script(
            "arguments[0].scrollIntoView({block: 'center'}); const b = arguments[0].getBoundingClientRect();"
            "return {x: b.right - 9 + scrollX, y: b.bottom - 5 + scrollY, width: 8, height: 3, scale: 1}",
            commits,
        )
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": box})
        return base64.b64decode(shot["data"])

    there_is_more = edge()
    browser.execute_script("arguments[0].scrollTo(10000, 0)", commits)
    assert edge() != there_is_more


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize(("name", "many"), [("one", 1), ("three", 3)])
def test_few_bars_are_spread_and_their_labels_stand_below_them(
    browser: Browser, shown: dict[str, str], name: str, many: int, width: int
) -> None:
    browser.resize(width, 900, mobile=width == 360)
    browser.open(shown[name])
    ((_, left, right, _),) = boxes(browser, ".chart:first-child .plot svg")
    bars = boxes(browser, ".chart:first-child rect.main")
    labels = boxes(browser, ".chart:first-child svg.x text")
    assert len(bars) == len(labels) == many
    for i, (bar, label) in enumerate(zip(bars, labels, strict=True)):
        centre = left + (i + 0.5) / many * (right - left)
        assert (bar[1] + bar[2]) / 2 == pytest.approx(centre, abs=2)
        assert (label[1] + label[2]) / 2 == pytest.approx(centre, abs=2)
        assert 8 < bar[2] - bar[1] < 90
    assert all(one[2] < other[1] for one, other in pairwise(labels))


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_labels_of_many_bars_do_not_overlap(browser: Browser, shown: dict[str, str], width: int) -> None:
    browser.resize(width, 900, mobile=width == 360)
    browser.open(shown["many"])
    for chart in (1, 2, 3):
        ((_, left, right, _),) = boxes(browser, f".chart:nth-child({chart}) .plot svg")
        labels = boxes(browser, f".chart:nth-child({chart}) svg.x text")
        assert len(labels) >= 3
        assert all(one[2] < other[1] for one, other in pairwise(labels))
        assert left - 1 <= labels[0][1]
        assert labels[-1][2] <= right + 1


def test_the_legend_has_the_colours_of_the_bars(browser: Browser, shown: dict[str, str]) -> None:
    browser.open(shown["three"])
    assert [text for text, *_ in boxes(browser, ".chart:first-child .legend li")] == ["records"]
    browser.open(shown["eventful"])
    assert [text for text, *_ in boxes(browser, ".chart:first-child .legend li")] == [
        *("records", "bad records", "taken back by a rollback", "rollback"),
        *("files skipped on purpose", "damaged commit"),
    ]
    fill = "getComputedStyle(document.querySelector(arguments[0])).fill"
    ground = "getComputedStyle(document.querySelector(arguments[1])).backgroundColor"
    for css in ("main", "bad", "work", "gap", "lag"):
        same = f"return {fill} === {ground}"
        assert browser.execute_script(same, f"figure rect.{css}", f".legend i.{css}") is True, css


def test_on_paper_the_legend_keeps_its_colours(browser: Browser, shown: dict[str, str]) -> None:
    """Browsers print no backgrounds; bars are no background."""
    adjusts = "return getComputedStyle(document.querySelector('.legend i')).printColorAdjust"
    browser.open(shown["three"])
    assert browser.execute_script(adjusts) == "economy"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.execute_script(adjusts) == "exact"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_with_colours_that_the_system_forces_the_legend_keeps_its_own(browser: Browser, shown: dict[str, str]) -> None:
    """Bars keep their fill then, so the legend has to keep its ground."""
    ground = "return getComputedStyle(document.querySelector('.legend i.bad')).backgroundColor"
    browser.open(shown["eventful"])
    usual = browser.execute_script(ground)
    features = [{"name": "forced-colors", "value": "active"}, {"name": "prefers-color-scheme", "value": "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    assert browser.execute_script("return matchMedia('(forced-colors: active)').matches") is True
    assert browser.execute_script(ground) == usual


def test_with_a_keyboard_the_numbers_of_a_chart_can_be_opened_and_the_focus_is_seen(
    browser: Browser, shown: dict[str, str]
) -> None:
    browser.open(shown["three"])
    body = browser.find("body")
    body.send_keys(Keys.TAB)
    active = browser.switch_to.active_element
    assert active.text.endswith("The numbers as a table")
    outline = "const s = getComputedStyle(document.activeElement); return [s.outlineStyle, parseFloat(s.outlineWidth)]"
    assert browser.execute_script(outline) == ["solid", 2]
    active.send_keys(Keys.ENTER)
    assert "Bad records" in browser.text("details[open] thead")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.className") == "scroll short"
    assert browser.execute_script(outline) == ["solid", 2]
    assert browser.console() == []
    assert browser.requests() == [shown["three"]]


def test_a_finger_that_touches_a_bar_is_told_what_it_is(browser: Browser, shown: dict[str, str]) -> None:
    browser.resize(360, 800, mobile=True)
    browser.open(shown["three"])
    browser.execute_script(
        "const e = document.querySelector('rect.hit'), b = e.getBoundingClientRect();"
        "e.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, clientX: b.left + 5, clientY: b.top + 5}))"
    )
    assert "sequence 1" in browser.text("#tip")
    ((_, left, right, _),) = boxes(browser, "#tip")
    assert left >= 0
    assert right <= 360
    browser.find("body").send_keys(Keys.ESCAPE)
    assert browser.execute_script("return document.getElementById('tip').hidden") is True
