"""The page of a report: nothing it is told can become markup, leave the page, or make it fail."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from blizzard.core.paths import Path as RecoveryPath
from blizzard.report import formats
from blizzard.report.facts import (
    BadGroup,
    CommitRow,
    FileInProgress,
    HeldFile,
    Live,
    PipelineFacts,
    QuarantineFacts,
    RecoveryNow,
    ReportFacts,
    StandsAt,
    TableSize,
)
from blizzard.report.page import render_page
from blizzard.text.redaction import redact

NOW_MS = 1_794_900_000_000
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe\ud800\x00'


def row(number: int, **changes: Any) -> CommitRow:
    made = CommitRow(
        version=number,
        at_ms=NOW_MS - 1_000_000 + number * 60_000,
        sequence=number,
        kind="batch",
        run_id="run",
        files=2,
        finished_files=1,
        records=100 * number,
        bytes=1000,
        bad=0,
        broken_files=0,
        late_files=0,
        payload_bytes=300,
        is_superseded=False,
        superseded=(),
        rolled_back_to=None,
        problem=None,
    )
    return replace(made, **changes)


def position(**changes: Any) -> StandsAt:
    made = StandsAt(
        source="s3://lake/orders",
        pattern="default",
        sequence=3,
        version=3,
        taken_at_ms=NOW_MS,
        run_id="run",
        marks=(("", "c.ndjson"),),
        marks_count=1,
        in_progress=(FileInProgress(path="d.ndjson", records=1250, size_bytes=10),),
        in_progress_count=1,
        held=(HeldFile(path="e.ndjson", why="truncated"),),
        held_count=1,
        pending_quarantine=0,
    )
    return replace(made, **changes)


def pipeline(**changes: Any) -> PipelineFacts:
    made = PipelineFacts(
        name="orders",
        position=position(),
        recovery=RecoveryNow(
            path=RecoveryPath.LOG, kind=None, sentences=("Looked.", "Decision: resume at sequence 4.")
        ),
        commits=(row(3), row(2), row(1)),
        quarantine=(BadGroup(error_kind="not_json", records=7, complete=6, files=2),),
    )
    return replace(made, **changes)


def facts(**changes: Any) -> ReportFacts:
    made = ReportFacts(
        table="s3://lake/sales",
        made_at_ms=NOW_MS,
        table_id="id",
        version=3,
        size=TableSize(files=2, bytes=5000, rows=600),
        commits_read=4,
        oldest_read=0,
        pipelines=(pipeline(),),
        quarantine=QuarantineFacts(uri="s3://lake/sales_quarantine", records=7, is_counted_by_reason=True),
    )
    return replace(made, **changes)


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def hostile_facts() -> ReportFacts:
    """Everything that others have chosen is hostile."""
    return facts(
        table=HOSTILE,
        table_id=HOSTILE,
        problems=(HOSTILE,),
        quarantine=QuarantineFacts(uri=HOSTILE, records=None, is_counted_by_reason=False, problem=HOSTILE),
        pipelines=(
            pipeline(
                name=HOSTILE,
                position=position(
                    source=HOSTILE,
                    pattern=HOSTILE,
                    run_id=HOSTILE,
                    marks=((HOSTILE, HOSTILE),),
                    in_progress=(FileInProgress(path=HOSTILE, records=1, size_bytes=None),),
                    held=(HeldFile(path=HOSTILE, why=HOSTILE),),
                ),
                recovery=RecoveryNow(path=RecoveryPath.REFUSED, kind=HOSTILE, sentences=(HOSTILE,)),
                commits=(row(1, kind=HOSTILE, run_id=HOSTILE, problem=HOSTILE),),
                quarantine=(BadGroup(error_kind=HOSTILE, records=1, complete=1, files=1),),
            ),
        ),
    )


def test_no_name_becomes_markup() -> None:
    live = Live(status=STATUS | {"pipeline": HOSTILE, "run_id": HOSTILE, "last_error": HOSTILE}, needs_token=False)
    for html in (render_page(hostile_facts()), render_page(hostile_facts(), live)):
        page = Tags(html)
        assert len(page.named("script")) == 1
        assert page.named("img") == []
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
        assert "\u202e" not in html
        assert "U+202E" in page.text
        html.encode()  # a name that is no UTF-8 does not stop it


def test_the_page_asks_for_nothing_and_allows_only_its_own_script() -> None:
    html = render_page(facts())
    page = Tags(html)
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", html)
    assert not re.search(r"url\(|@import|https?://", html)
    (policy,) = [m["content"] for m in page.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert "default-src 'none'" in policy
    script = html.split("<script>", 1)[1].split("</script>", 1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert not any("style" in attributes for _, attributes in page.tags)  # the policy would drop it


def test_what_a_person_wants_to_know_is_there() -> None:
    html = render_page(
        facts(
            pipelines=(
                pipeline(
                    position=position(pending_quarantine=2),
                    commits=(
                        row(4, kind="rollback", rolled_back_to=2, superseded=(3,), records=0),
                        row(3, is_superseded=True),
                        row(2, bad=5, late_files=1, dropped=3, broken_files=1),
                        row(1, problem="the payload is damaged"),
                    ),
                ),
            )
        )
    )
    text = re.sub(r"\s+", " ", Tags(html).text)
    for said in (
        "Resumes from the log",
        "Decision: resume at sequence 4.",
        "d.ndjson1,250",
        "e.ndjsontruncated",
        "not_json762",
        "not in the quarantine table yet: 2 files of bad records",
        "rollback to 2; took back 1 sequence",
        "taken back",
        "Bad records53 older ones dropped from quarantine",
        "Given up1broken, or left unread by a policy",
        "Late or rewritten1files taken in",
        "the payload is damaged",
    ):
        assert said in text, said
    assert "Records300in 4 commits" in text  # what was taken back does not count: 200 and 100


def test_every_chart_has_a_bar_for_each_commit_and_says_what_it_shows() -> None:
    page = Tags(render_page(facts()))
    charts = [a for a in page.named("svg") if a.get("role") == "img"]
    assert len(charts) == len(page.named("figure")) == 3
    ids = {a.get("id") for _, a in page.tags if a.get("id")}
    said = [chart[name] or "" for chart in charts for name in ("aria-labelledby", "aria-describedby")]
    assert set(said) <= ids
    assert len(set(said)) == 6
    bars = [a for a in page.named("rect") if a["class"] == "main"]
    assert len(bars) == 6  # records and bytes of three commits
    assert [float(a["height"] or 0) for a in bars[:3]] == [20, 40, 60]  # 100, 200 and 300 of 500


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": None, "size": None, "pipelines": (), "quarantine": None}, "There is no table yet"),
        ({"pipelines": ()}, "No pipeline has committed to this table"),
        ({"is_cut": True, "commits_read": 500, "oldest_read": 9}, "What is older than version 9 is left out"),
        ({"oldest_read": 7}, "The log begins at version 7"),
        ({"pipelines": (pipeline(commits=()),)}, "None of the commits that were read is this pipeline"),
        ({"pipelines": (pipeline(commits=(), position=None),)}, "Next start"),
        ({"pipelines": (pipeline(commits=(row(1, sequence=None, at_ms=10**18),)),)}, "1000000000000000000 ms"),
    ],
)
def test_whatever_is_missing_the_page_is_made(changes: dict[str, Any], said: str) -> None:
    assert said in Tags(render_page(facts(**changes))).text


STATUS: dict[str, Any] = {
    "pipeline": "orders",
    "state": "running",
    "run_id": "r",
    "uptime_seconds": 61.0,
    "last_error": None,
    "sequence": 3,
}


@pytest.mark.parametrize("needs_token", [True, False])
def test_a_live_page_has_buttons_and_with_a_token_they_need_a_script_and_the_token(needs_token: bool) -> None:
    page = Tags(render_page(facts(), Live(status=STATUS, needs_token=needs_token)))
    forms = [form for form in page.named("form") if "action" in form]
    assert [form["action"] for form in forms] == ["/pause", "/resume", "/checkpoint", "/stop"]
    assert all(("hidden" in form) == needs_token for form in forms)
    assert bool(page.named("input")) == needs_token
    assert Tags(render_page(facts())).named("form") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/a", "s3://key:***@bucket/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("az://c/a?sv=1&sig=abc%3D&x=1", "az://c/a?sv=1&sig=***&x=1"),
        ("s3://b/a?X-Amz-Signature=abc", "s3://b/a?X-Amz-Signature=***"),
        ("file:///data/a?b@c:d", "file:///data/a?b@c:d"),
    ],
)
def test_secrets_in_locations_are_not_shown(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_numbers_read_well() -> None:
    assert [formats.count(n) for n in (0, 0.5, 999, 12_345, 1_234_567, 2e9)] == [
        "0",
        "0.5",
        "999",
        "12,345",
        "1.23 M",
        "2 G",
    ]
    assert [formats.size(n) for n in (0, 999, 1000, 1_500_000)] == ["0 B", "999 B", "1 kB", "1.5 MB"]
    assert [formats.duration(s) for s in (0.04, 9.94, 60, 200, 3_600, 90_061)] == [
        *("0 s", "9.9 s", "1 min", "3 min 20 s", "1 h", "1 d 1 h")
    ]
    assert [formats.ago(s) for s in (59, 247, 21_150, 100_000)] == [
        "59 s ago",
        "4 min ago",
        "5 h 52 min ago",
        "1 d 3 h ago",
    ]
    assert [formats.rate(n) for n in (1234.5, 0.9, 0.01, 0.0001, 0)] == [
        *("1,234/s", "54/min", "36/h", "8.64/d", "0/s")
    ]
