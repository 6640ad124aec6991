"""The report as a person sees it, in a real Chromium: it renders, asks for nothing, and runs nothing but its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.core.plan import Limits
from blizzard.report.live import collect_report
from blizzard.report.page import render_page
from blizzard.run.assemble import Assembly
from tests.flows.in_process import Flow
from tests.ingesting import write_ids
from tests.report.browser.chromium import Browser
from tests.report.test_page import hostile_facts
from tests.report.test_targets_page import BROKEN, several, target

pytestmark = pytest.mark.browser

_SIZES = """
return [...document.querySelectorAll(arguments[0])].map(e => {
  const box = e.getBoundingClientRect(); return [box.width, box.height];
})"""
# The contrast of each text with what it stands on, by WCAG's formula.
CONTRASTS = """
const luminance = (c) => {
  const [r, g, b] = c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c.slice(0, 3);
  }
  return [255, 255, 255];
};
const low = {};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n = walker.nextNode(); n; n = walker.nextNode()) {
  const e = n.parentElement;
  if (!n.textContent.trim() || !e.getClientRects().length || e.closest('svg, script, style')) continue;
  const [a, b] = [parse(getComputedStyle(e).color).slice(0, 3), ground(e)].map(luminance).sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < 4.5) low[e.className + ' ' + n.textContent.trim().slice(0, 30)] = ratio;
}
return low;"""


def page_of(table: Path, folder: Path) -> str:
    return save(
        render_page(collect_report(Assembly(request=Request(config=make_config({"table.path": str(table)}))))), folder
    )


def save(html: str, folder: Path) -> str:
    path = folder / "report.html"
    path.write_text(html)
    return path.as_uri()


@pytest.fixture
def page(history: Path, tmp_path: Path) -> str:
    return page_of(history, tmp_path)


def widths(browser: Browser) -> tuple[int, int]:
    found: Any = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    return found[0], found[1]


def test_it_renders_without_a_word_on_the_console_and_without_a_request(browser: Browser, page: str) -> None:
    browser.open(page)
    assert browser.execute_script("return document.querySelectorAll('section.pipeline').length") == 2
    charts = browser.execute_script(_SIZES, "figure.chart .plot svg")
    assert len(charts) == 6
    assert all(width > 300 and height > 100 for width, height in charts)
    bars = browser.execute_script(_SIZES, "figure.chart rect.main")
    assert len(bars) > 40
    assert all(width > 1 and height > 0.5 for width, height in bars)
    assert browser.console() == []
    assert browser.requests() == [page]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(browser: Browser, page: str, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(page)
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(ground) > 600) == (scheme == "light")
    assert (sum(ground) < 150) == (scheme == "dark")
    assert browser.execute_script(CONTRASTS) == {}


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_of_a_phone(browser: Browser, page: str, width: int) -> None:
    browser.resize(width, 800, mobile=True)
    browser.open(page)
    assert widths(browser) == (width, width)
    assert all(w > 200 for w, _ in browser.execute_script(_SIZES, "figure.chart .plot svg"))
    assert min(browser.execute_script("return [...document.querySelectorAll('.y span, svg.x text')]"
                           ".map(e => parseFloat(getComputedStyle(e).fontSize))")) > 11  # fmt: skip


def test_without_scripts_everything_is_there_and_tooltips_are_the_browsers(browser: Browser, page: str) -> None:
    browser.allow_scripts(False)
    browser.open(page)
    assert all(height > 100 for _, height in browser.execute_script(_SIZES, "figure.chart .plot svg"))
    assert browser.execute_script("return document.querySelectorAll('rect.hit > title').length") > 40
    assert "Resumes from the log" in browser.text("section.pipeline .badge")


def test_a_bar_that_is_pointed_at_says_what_it_is(browser: Browser, page: str) -> None:
    browser.open(page)
    assert browser.execute_script("return document.getElementById('tip').hidden") is True
    browser.point_at("figure.chart rect.hit:nth-last-of-type(4)")
    assert "sequence" in browser.text("#tip")
    assert "records" in browser.text("#tip")
    left, right = browser.execute_script(
        "const b = document.getElementById('tip').getBoundingClientRect(); return [b.left, b.right]"
    )
    assert left >= 0
    assert right <= 1240


def test_names_made_to_run_do_not(browser: Browser, tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    act = "document.title='run'"
    name = f"\"'><img src=x onerror={act}><svg onload={act}>\u202e<script>{act}"
    write_ids(flow.src / f"a{name}.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=4), slots=1, max_batches=1)
    url = page_of(flow.table, tmp_path)
    browser.open(url)
    assert name.replace("\u202e", "U+202E") in browser.text(".columns .scroll tbody th")
    browser.open(url)
    assert "blizzard" in browser.execute_script("return document.title")
    assert browser.execute_script("return document.querySelectorAll('img, script').length") == 1  # our own script
    assert browser.console() == []
    assert browser.requests() == [url]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_several_targets_can_be_read_on_a_phone_too(browser: Browser, tmp_path: Path, scheme: str) -> None:
    shown = several(orders=target(), raw=target(state="behind", required=False), broken=BROKEN)
    url = save(render_page(shown), tmp_path)
    browser.prefer(scheme)
    browser.open(url)
    assert browser.execute_script(CONTRASTS) == {}
    assert browser.console() == []
    assert browser.requests() == [url]
    browser.resize(360, 800, mobile=True)
    assert widths(browser) == (360, 360)


def test_hostile_values_everywhere(browser: Browser, tmp_path: Path) -> None:
    url = save(render_page(hostile_facts()), tmp_path)
    browser.open(url)  # an alert would make the next command fail
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.console() == []
    assert browser.requests() == [url]
    browser.resize(360, 800, mobile=True)
    assert widths(browser) == (360, 360)


def test_what_was_not_escaped_would_still_not_run(browser: Browser, tmp_path: Path) -> None:
    """The page's own policy, held against a mistake that has not been made yet."""
    html = render_page(hostile_facts()).replace(
        "</main>", "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\"></main>"
    )
    browser.open(save(html, tmp_path))
    assert browser.execute_script("return document.title") != "run"
    assert browser.console() != []
