"""The states of files on real logs: skipped on purpose, given up, held back. None is taken for another."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.bad import BadPolicy
from blizzard.report.page import render_page
from tests.flows.in_process import Flow
from tests.flows.operating import InProcessOperation, SeveralOperation, ask, going, wait_until
from tests.ingesting import line, write, write_ids
from tests.report.test_collect import report
from tests.report.test_page import Tags

ADDRESS: dict[str, Any] = {"api.address": "127.0.0.1:0"}


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path).first_run()


def skip(flow: Flow, name: str) -> None:
    where = ["--source", str(flow.src), "--table", str(flow.table)]
    assert main(["checkpoint", "skip", *where, "--file", name, "--yes"]) == 0


def said(html: str) -> str:
    """Without style and script."""
    return re.sub(r"\s+", " ", Tags(re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL)).text)


def test_a_file_that_was_skipped_on_purpose_is_not_broken(flow: Flow) -> None:
    write_ids(flow.src / "b.ndjson", 3, 6)
    skip(flow, "b.ndjson")
    facts = report(flow.table)
    edit, first = facts.pipelines[0].commits
    assert (edit.kind, edit.skipped_files, edit.broken_files) == ("edit", 1, 0)
    assert (edit.files, edit.finished_files, edit.bytes, edit.late_files) == (0, 0, 0, 0)  # nothing of it was read
    assert (first.skipped_files, first.broken_files) == (0, 0)
    text = said(render_page(facts))
    assert "Skipped1files left out on purpose" in text
    assert "1 file skipped on purpose" in text
    assert "given up" not in text.lower()


def test_a_broken_file_is_not_skipped(flow: Flow) -> None:
    write(flow.src / "b.ndjson.gz", b"").write_bytes(gzip.compress(b"".join(map(line, range(500))))[:-40])
    os.utime(flow.src / "b.ndjson.gz", (0, 0))
    flow.run(bad=BadPolicy(files="quarantine"))
    facts = report(flow.table)
    newest = facts.pipelines[0].commits[0]
    assert (newest.broken_files, newest.skipped_files) == (1, 0)
    text = said(render_page(facts))
    assert "Given up1broken, or left unread by a policy" in text
    assert "skipped" not in text.lower()


def test_each_batch_says_when_it_began(flow: Flow) -> None:
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    write_ids(flow.src / "c.ndjson", 6, 7)
    skip(flow, "c.ndjson")
    facts = report(flow.table)
    edit, *batches = facts.pipelines[0].commits
    assert edit.began_ms is None
    assert len(batches) == 2
    assert [row.began_ms for row in batches] == [flow.clock.now_ms()] * 2
    assert facts.pipelines[0].made_at_ms is not None


def test_a_file_that_is_held_back_is_not_in_progress_too(flow: Flow) -> None:
    write(flow.src / "8.ndjson.gz", b"x").write_bytes(b"no gzip at all")
    write_ids(flow.src / "9.ndjson", 60, 61)
    flow.run(bad=BadPolicy(files="retry"))
    position = report(flow.table).pipelines[0].position
    assert position is not None
    assert (position.held_count, position.in_progress_count, position.in_progress) == (1, 0, ())


def held_table(html: str) -> str:
    found = re.search(r'<section class="card" id="held-now".*?</section>', html, re.DOTALL)
    return "" if found is None else said(found[0])


def test_the_page_of_a_run_says_what_it_holds_back_now_and_why(flow: Flow) -> None:
    """Also where nothing was committed since: the log does not know these files yet."""
    flow.later_ms = 0
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["held_files"] == 0)
        assert held_table(ask(url).body) == ""
        write(flow.src / "k.ndjson", b"")  # empty, so it may still be written to
        wait_until(lambda: ask(f"{url}/status").json["held_files"] == 1)
        assert "k.ndjsonempty, and younger than 60 s" in held_table(ask(url).body).replace(" k", "k")
        assert report(flow.table).pipelines[0].position.held_count == 0  # type: ignore[union-attr]
        write_ids(flow.src / "k.ndjson", 3, 5)
        wait_until(lambda: ask(f"{url}/status").json["held_files"] == 0)
        assert held_table(ask(url).body) == ""


def test_before_there_is_a_table_held_files_are_shown_too(tmp_path: Path) -> None:
    flow = Flow(tmp_path, later_ms=0)
    write(flow.src / "a.ndjson", b"")
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["held_files"] == 1)
        body = ask(url).body
        assert "There is no table yet" in body
        assert "a.ndjson" in held_table(body)


@pytest.mark.usefixtures("in_process")
def test_with_several_targets_each_says_what_it_holds_back(tmp_path: Path) -> None:
    write_ids(tmp_path / "src" / "a.ndjson", 0, 3)
    write(tmp_path / "src" / "k.ndjson", b"")
    with going(SeveralOperation(tmp_path, {"one": {}, "two": {}}, {**ADDRESS, "follow.poll_s": 0.05})) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["held_files"] == 1)
        wait_until(lambda: held_table(ask(url).body).count("k.ndjson") == 2)
        table = held_table(ask(url).body)
        assert "Target one: 1 file" in table
        assert "Target two: 1 file" in table
