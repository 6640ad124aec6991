"""The page of several targets: one part for each, and above them where each stands, and why one does not go on."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.report.facts import Live, TargetFacts, TargetsFacts
from blizzard.report.page import render_page
from blizzard.report.targets import collect_targets, with_errors
from blizzard.run.assemble import Assembly
from tests.flows.shell import Shell
from tests.flows.targets import Targets
from tests.ingesting import line, write, write_ids
from tests.report.test_page import HOSTILE, NOW_MS, STATUS, Tags, facts, hostile_facts
from tests.run.test_targets import break_table, run


def target(**changes: Any) -> TargetFacts:
    made = TargetFacts(
        table="s3://lake/sales",
        required=True,
        state="front",
        sequence=3,
        last_commit_ms=NOW_MS - 120_000,
        facts=facts(),
    )
    return replace(made, **changes)


def several(**targets: TargetFacts) -> TargetsFacts:
    return TargetsFacts(pipeline="events", commit_policy="required", made_at_ms=NOW_MS, targets=targets)


BROKEN = target(state="unknown", required=False, sequence=None, last_commit_ms=None, error="gone [x]", facts=None)


def said(html: str) -> str:
    return re.sub(r"\s+", " ", Tags(html).text)


def test_it_says_the_policy_and_of_each_target_state_lag_and_last_error() -> None:
    html = render_page(several(orders=target(), raw=target(state="behind", required=False), broken=BROKEN))
    text = said(html)
    assert "commit_policy required: the run ends when a required target fails" in text
    assert "orders required as far as any other target 3 2 min ago s3://lake/sales –".replace(" ", "") in text.replace(
        " ", ""
    )
    assert "raw not required behind the others".replace(" ", "") in text.replace(" ", "")
    assert "cannot be looked at" in text
    assert text.count("gone [x]") == 2  # in the table, and in its part
    assert "Target orders" in text
    assert "Target raw" in text


@pytest.mark.parametrize(
    ("policy", "text"), [("all", "when any target fails"), ("quorum:2", "fewer targets than that")]
)
def test_every_policy_is_explained(policy: str, text: str) -> None:
    assert text in said(render_page(replace(several(a=target()), commit_policy=policy)))


def test_no_id_is_there_twice_and_every_link_leads_somewhere() -> None:
    page = Tags(render_page(several(a=target(), b=target(), c=BROKEN)))
    ids = Counter(a["id"] for _, a in page.tags if a.get("id"))
    assert max(ids.values()) == 1
    links = [a["href"] for a in page.named("a")]
    assert links == ["#t0", "#t1", "#t2"]
    assert {(link or "").removeprefix("#") for link in links} <= set(ids)
    labels = {name for _, a in page.tags for name in (a.get("aria-labelledby") or "").split()}
    assert labels <= set(ids)


def test_no_name_of_a_target_becomes_markup() -> None:
    bad = target(table=HOSTILE, error=HOSTILE, facts=hostile_facts())
    html = render_page(replace(several(**{HOSTILE: bad}), pipeline=HOSTILE, commit_policy=HOSTILE))
    page = Tags(html)
    assert len(page.named("script")) == 1
    assert page.named("img") == []
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "\u202e" not in html
    html.encode()


def test_a_live_page_knows_the_errors_of_the_run_and_what_is_left_to_read() -> None:
    of_targets = {"a": {"sequence": 3, "backlog_files": 12345}, "b": {"sequence": None, "backlog_files": None}}
    live = Live(status=STATUS | {"sequence": None, "targets": of_targets}, needs_token=False)
    shown = with_errors(several(a=target(), b=target()), {"b": "down [commit_failed]"})
    html = render_page(shown, live)
    text = said(html)
    assert "Files to read" in text
    assert "12,345" in text
    assert "failed in this run" in text
    assert "down [commit_failed]" in text
    (main,) = Tags(html).named("main")
    assert (main["data-version"], main["data-sequence"]) == ("3 3", "3 ")


def collected(shell: Shell) -> TargetsFacts:
    given = {"source.path": str(shell.folder / "src"), "schema.ddl": "id BIGINT"}
    given |= {f"targets.{name}.table.path": str(shell.folder / name) for name in ("bad", "good", "new")}
    return collect_targets(Assembly(request=Request(config=make_config(given))))


def test_it_is_made_from_the_logs_alone(shell: Shell) -> None:
    optional: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False}}
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, optional)
    log = break_table(shell, "bad")
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    run(shell, optional)
    states = {name: one.state for name, one in collected(shell).targets.items()}
    assert states == {"bad": "unknown", "good": "front", "new": "new"}
    log.with_suffix(".away").rename(log)
    found = collected(shell)
    assert {name: one.state for name, one in found.targets.items()} == {"bad": "behind", "good": "front", "new": "new"}
    assert {name: one.sequence for name, one in found.targets.items()} == {"bad": 1, "good": 2, "new": None}
    assert "There is no table yet" in said(render_page(found))


def test_of_a_quarantine_that_targets_share_each_shows_its_own_records(shell: Shell) -> None:
    shared = {"path": str(shell.folder / "shared")}
    targets = Targets(shell.folder, {"first": {"quarantine": shared, "where": "id < 9"}, "second": {"where": "id < 1"}})
    targets.own["second"]["quarantine"] = shared
    write(targets.src / "a.ndjson", line(0) + b"oops\n" + line(100) + line(101))
    assert shell("run", *targets.words()).code == 0
    said = shell("report", "--config", str(shell.folder / targets.config), "--json")
    found = {name: one["facts"] for name, one in json.loads(said.text)["targets"].items()}
    kinds = {
        name: {group["error_kind"]: group["records"] for group in one["pipelines"][0]["quarantine"]}
        for name, one in found.items()
    }
    assert kinds == {"first": {"unrouted": 2, "not_json": 1}, "second": {"not_json": 1}}
    assert {name: one["quarantine"]["records"] for name, one in found.items()} == {"first": 3, "second": 1}
