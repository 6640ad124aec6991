"""Results show themselves on one line, and in a notebook as a table in which nothing of the data is HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

import blizzard
from blizzard.text.html import table_html
from tests.ingesting import write

NO_SPARK = cast(Any, None)
SCRIPT = "<script>alert(1)</script>"
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


class Tags(HTMLParser):
    """Which elements are there, that each is closed, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.open, self.text = set[str](), list[str](), ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def results(tmp_path: Path, in_process: None) -> dict[str, Any]:
    """Of a source whose names and records would be HTML."""
    source = tmp_path / "<b>src"
    write(source / "<i>a.ndjson", f'{{"id": 1}}\n{{"id": "{SCRIPT}"}}\n'.encode())
    where: dict[str, Any] = {"source": str(source), "table": str(tmp_path / "table")}
    plan = blizzard.plan(**where, schema="id BIGINT")
    summary = blizzard.ingest(NO_SPARK, **where, schema="id BIGINT")
    quarantine = blizzard.quarantine(where["table"])
    return {
        "plan": plan,
        "summary": summary,
        "status": blizzard.status(where["table"], source=where["source"]),
        "audit": blizzard.audit(**where),
        "files": blizzard.files(where["table"]),
        "quarantine": quarantine,
        "exported": quarantine.export(str(tmp_path / "out.ndjson")),
        "replayed": quarantine.replay(source=where["source"]),
        "rolled back": blizzard.rollback(where["table"], to=0, source=where["source"]),
    }


def test_every_result_has_a_table_and_one_line(results: dict[str, Any]) -> None:
    for name, result in results.items():
        html = Tags(result._repr_html_())
        assert html.tags <= TAGS, name
        assert {"table", "caption", "tr"} <= html.tags
        assert "\n" not in str(result)
        assert str(result) in html.text
    for name in ("plan", "files", "quarantine", "rolled back"):
        assert "<i>a.ndjson" in Tags(results[name]._repr_html_()).text, name


def test_the_summary_says_what_was_done_and_what_was_bad(results: dict[str, Any]) -> None:
    summary = results["summary"]
    assert str(summary).startswith("done: 1 record, 1 file finished, 1 commit; 1 bad record, 0 bad files; most: ")
    rows = dict(re.findall(r"<th>([^<]*)</th><td>([^<]*)</td>", summary._repr_html_()))
    assert (rows["status"], rows["records"], rows["bad_records"]) == ("done", "1", "1")
    assert rows["bad"] == "1 record: id BIGINT holds a text"
    assert "rejected" not in rows  # nothing was


def test_the_summary_of_several_targets_has_a_row_for_each(tmp_path: Path, in_process: None) -> None:
    write(tmp_path / "src" / "a.ndjson", b'{"id": 1}\n')
    bad: dict[str, Any] = {"table": str(tmp_path / "bad"), "schema": "id DATE", "required": False}
    targets = {"good": {"table": str(tmp_path / "good"), "schema": "id BIGINT"}, "bad": bad}
    summary = blizzard.ingest(NO_SPARK, source=str(tmp_path / "src"), targets=targets)
    rows = dict(re.findall(r"<th>([^<]*)</th><td>([^<]*)</td>", summary._repr_html_()))
    assert rows["target good"].startswith("done: 1 record")
    assert rows["target bad"].startswith("failed: ")
    error = summary.targets["bad"].error
    assert error is not None
    assert "--set" not in error
    assert 'options={"bad_records.first_batch_max_ratio": 1}' in error


def test_a_long_table_is_cut() -> None:
    html = table_html("many", [[n] for n in range(1000, 1060)], ["number"])
    assert "<td>1,049</td>" in html
    assert "<td>1,050</td>" not in html
    assert "… and 10 more" in html
