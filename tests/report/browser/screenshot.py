"""The picture in the documentation, made anew: python -m tests.report.browser.screenshot"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.report.facts import PipelineFacts
from blizzard.report.live import collect_report
from blizzard.report.page import render_page
from blizzard.run.assemble import Assembly
from tests.flows.histories import make_history
from tests.report.browser.chromium import Browser
from tests.report.browser.conftest import NOW_MS

OUT = Path(__file__).parents[3] / "docs" / "images" / "report.png"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = make_history(Path(folder), now_ms=NOW_MS)
        facts = collect_report(Assembly(request=Request(config=make_config({"table.path": str(table)}))))
        # As it would be read: four minutes after the newest commit, and from a lake.
        facts = replace(
            facts, made_at_ms=NOW_MS, table="s3://lake/sales", pipelines=tuple(map(_in_a_lake, facts.pipelines))
        )
        page = Path(folder) / "report.html"
        page.write_text(render_page(facts))
        browser = Browser(shutil.which("chromedriver") or "chromedriver", shutil.which("chromium") or "chromium")
        try:
            browser.prefer("light")
            browser.resize(1180, 1420)
            browser.open(page.as_uri())
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_bytes(browser.get_screenshot_as_png())
        finally:
            browser.quit()


def _in_a_lake(pipeline: PipelineFacts) -> PipelineFacts:
    assert pipeline.position is not None
    return replace(pipeline, position=replace(pipeline.position, source=f"s3://landing/{pipeline.name}"))


if __name__ == "__main__":
    main()
