"""The report on real logs: it tells what the ledgers and positions say, and is made whatever is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from blizzard.report.facts import ReportFacts
from blizzard.report.live import collect_report
from blizzard.report.page import render_page
from blizzard.run.assemble import Assembly
from tests.delta.test_hostile_log import change_payload, clean_up
from tests.flows.histories import make_history
from tests.flows.in_process import BEGINNING, Flow, log_file, newest, write_foreign
from tests.flows.rollbacks import roll_back
from tests.ingesting import line, write, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Sequences 1 to 3, one file of three records each."""
    made = Flow(tmp_path)
    for number in range(3):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        made.run()
    return made


def report(table: Path, **how: Any) -> ReportFacts:
    facts = collect_report(Assembly(request=Request(config=make_config({"table.path": str(table)}))), **how)
    assert render_page(facts).endswith("</html>")
    return facts


def test_each_commit_is_told_as_its_ledger_has_it(flow: Flow) -> None:
    write(flow.src / "3.ndjson", line(9) + b"nonsense\n" + line(10))
    write_ids(flow.src / "4.ndjson", 20, 40)
    flow.run(limits=Limits(max_records=16), max_batches=1, slots=1)
    facts = report(flow.table)
    (pipeline,) = facts.pipelines
    assert [row.sequence for row in pipeline.commits] == [4, 3, 2, 1]
    assert [row.version for row in pipeline.commits] == [4, 3, 2, 1]
    newest_row = pipeline.commits[0]
    assert (newest_row.files, newest_row.finished_files, newest_row.bad) == (2, 1, 1)
    assert newest_row.records == 2 + 13
    assert newest_row.bytes == (flow.src / "3.ndjson").stat().st_size
    assert pipeline.position is not None
    assert [(f.path, f.records) for f in pipeline.position.in_progress] == [("4.ndjson", 13)]
    assert [(g.error_kind, g.records) for g in pipeline.quarantine] == [("not_json", 1)]
    assert facts.size is not None
    assert (facts.size.rows, facts.size.files) == (9 + 15, 4)
    assert pipeline.recovery.path == "log"


def test_a_rollback_and_what_it_took_back_are_marked(flow: Flow) -> None:
    roll_back(flow, 1)
    flow.run()
    (pipeline,) = report(flow.table).pipelines
    assert [(r.sequence, r.kind, r.is_superseded) for r in pipeline.commits] == [
        (5, "batch", False),
        (4, "rollback", False),
        (3, "batch", True),
        (2, "batch", True),
        (1, "batch", False),
    ]
    assert (pipeline.commits[1].rolled_back_to, pipeline.commits[1].superseded) == (1, (2, 3))


def test_late_files_that_were_taken_in_are_counted(flow: Flow) -> None:
    write_ids(flow.src / "0-late.ndjson", 50, 52)
    write_ids(flow.src / "7.ndjson", 60, 61)
    flow.run()
    (pipeline,) = report(flow.table).pipelines
    assert [row.late_files for row in pipeline.commits] == [1, 0, 0, 0]


def test_files_held_back_are_named_with_the_reason(flow: Flow) -> None:
    write(flow.src / "8.ndjson.gz", b"x").write_bytes(b"no gzip at all")
    write_ids(flow.src / "9.ndjson", 60, 61)
    flow.run(bad=BadPolicy(files="retry"))
    (pipeline,) = report(flow.table).pipelines
    assert pipeline.position is not None
    assert [file.path for file in pipeline.position.held] == ["8.ndjson.gz"]
    assert pipeline.position.held[0].why


def test_only_so_many_commits_are_read_and_the_page_says_so(flow: Flow) -> None:
    facts = report(flow.table, max_commits=2)
    assert (facts.commits_read, facts.oldest_read, facts.is_cut) == (2, 2, True)
    assert [row.sequence for row in facts.pipelines[0].commits] == [3, 2]
    assert "Only the newest 2 commits were read" in render_page(facts)
    assert not report(flow.table, max_commits=4).is_cut


def test_two_pipelines_and_other_writers(flow: Flow) -> None:
    other = Flow(flow.folder, pipeline="q")
    other.run(start_from=BEGINNING, reads_again=True)
    write_foreign(flow.table, 9000)
    facts = report(flow.table)
    assert [p.name for p in facts.pipelines] == ["p", "q"]
    assert facts.foreign_commits == 1
    assert [p.name for p in report(flow.table, pipeline="q").pipelines] == ["q"]


def test_an_empty_table_and_one_of_others(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.place.create("p")
    facts = report(flow.table)
    assert [(p.name, p.commits, p.position) for p in facts.pipelines] == [("p", (), None)]
    assert facts.pipelines[0].recovery.path == "fresh"
    write_foreign(tmp_path / "theirs", 1, 2)
    assert report(tmp_path / "theirs").pipelines == ()


def test_a_damaged_payload_is_told_and_the_rest_is_shown(flow: Flow) -> None:
    change_payload(flow.table, lambda _: "nonsense")
    (pipeline,) = report(flow.table).pipelines
    assert pipeline.commits[0].problem is not None
    assert "payload is damaged" in pipeline.commits[0].problem
    assert [row.problem for row in pipeline.commits[1:]] == [None, None]
    assert pipeline.recovery.path == "ledgers"
    assert pipeline.position is not None
    assert pipeline.position.sequence == 2  # the newest that can be read


def test_without_any_sound_payload_it_says_that_a_start_is_refused(flow: Flow) -> None:
    for version in (1, 2, 3):
        path = log_file(flow.table, version)
        path.write_text(path.read_text().replace('"blizzard:', '"blizzard:!'))
    (pipeline,) = report(flow.table).pipelines
    assert (pipeline.position, pipeline.recovery.path) == (None, "refused")
    assert pipeline.recovery.kind is not None
    assert all(row.problem for row in pipeline.commits)


def test_a_damaged_ledger_is_told(flow: Flow) -> None:
    path = log_file(flow.table, 2)
    path.write_text(path.read_text().replace('\\"files\\"', '\\"fils\\"'))
    (pipeline,) = report(flow.table).pipelines
    assert [bool(row.problem) for row in pipeline.commits] == [False, True, False]


def test_a_commit_that_cannot_be_read_ends_the_history_and_not_the_report(flow: Flow) -> None:
    table = flow.open()
    log_file(flow.table, 1).write_text("{nonsense\n")
    facts = collect_report(Assembly(request=Request(config=make_config({"table.path": str(flow.table)}))), table=table)
    assert [row.sequence for row in facts.pipelines[0].commits] == [3, 2]
    assert "is damaged" in facts.problems[0]
    render_page(facts)


def test_a_pipeline_that_only_a_delta_checkpoint_remembers(flow: Flow) -> None:
    write_foreign(flow.table, 9000)
    clean_up(flow)
    (pipeline,) = report(flow.table).pipelines
    assert pipeline.commits == ()
    assert pipeline.position is not None
    assert (pipeline.position.sequence, pipeline.recovery.path) == (3, "delta_checkpoint")


def test_bad_records_that_are_not_in_quarantine_yet_are_told(flow: Flow) -> None:
    write(flow.src / "3.ndjson", b"nonsense\n")
    flow.run()
    assert report(flow.table).pipelines[0].position.pending_quarantine == 0  # type: ignore[union-attr]
    for path in (flow.folder / "table_quarantine" / "_delta_log").iterdir():
        path.unlink()
    assert report(flow.table).pipelines[0].position.pending_quarantine == 1  # type: ignore[union-attr]


def test_a_broken_quarantine_table_is_told(flow: Flow) -> None:
    write_foreign(flow.folder / "table_quarantine", 1)
    facts = report(flow.table)
    assert facts.quarantine is not None
    assert facts.quarantine.records is None
    assert "not a quarantine table" in (facts.quarantine.problem or "")


def test_the_command_writes_a_page_and_json(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    out = flow.folder / "page.html"
    assert main(["report", "--table", str(flow.table), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == out.as_uri()
    assert out.read_text().startswith("<!doctype html>")
    assert main(["report", "--table", str(flow.table), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["records"] for row in told["pipelines"][0]["commits"]] == [3, 3, 3]
    assert newest(flow.table) == 3  # it looked, and changed nothing


@pytest.mark.parametrize(
    "arguments",
    [["--pipeline", "nobody"], ["--commits", "0"], ["--out", "/nowhere/at/all.html"], ["--table", "/nowhere"]],
)
def test_what_cannot_be_reported_is_a_usage_error(flow: Flow, arguments: list[str]) -> None:
    assert main(["report", "--table", str(flow.table), *arguments]) == 2


def test_a_long_and_eventful_history(tmp_path: Path) -> None:
    facts = report(make_history(tmp_path, commits=24, now_ms=1_794_900_000_000))
    orders, payments = facts.pipelines
    assert (orders.name, payments.name) == ("orders", "payments")
    assert sum(row.is_superseded for row in orders.commits) == 3
    assert [row.problem for row in (*orders.commits, *payments.commits)] == [None] * (
        len(orders.commits) + len(payments.commits)
    )
