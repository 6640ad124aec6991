"""`blizzard audit` counts apart what became of files and bad records, over all pipelines of the table."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from tests.flows.in_process import BEGINNING, Flow
from tests.ingesting import line, write_ids
from tests.run.test_broken_files import truncated


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    made = Flow(tmp_path)
    write_ids(made.src / "m.ndjson", 0, 3)
    made.run()
    return made


def where(flow: Flow) -> list[str]:
    return ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", flow.pipeline]


def audit(flow: Flow, capsys: pytest.CaptureFixture[str], *, code: int) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["audit", *where(flow), "--json", "--check"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["ok"] == (code == 0)
    return found


def test_a_truncated_file_is_broken_and_a_skipped_one_skipped(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    truncated(flow, "n.ndjson.gz")
    os.utime(flow.src / "n.ndjson.gz", (1, 1))
    write_ids(flow.src / "o.ndjson", 10, 13)
    assert main(["checkpoint", "skip", *where(flow), "--file", "o.ndjson", "--yes"]) == 0
    flow.later_ms = 86_400_000
    flow.run()
    found = audit(flow, capsys, code=5)
    assert (found["listed"], found["ingested"]) == (3, 1)
    assert (found["broken"], found["skipped"], found["problems"]) == (["n.ndjson.gz"], ["o.ndjson"], ["broken"])
    assert found["quarantined"] == 1
    assert main(["audit", *where(flow)]) == 0
    said = capsys.readouterr().out
    assert "1 of them ingested whole" in said
    assert "! 1 file given up before the end: see blizzard dlq list: n.ndjson.gz" in said
    assert "  1 file left out by a person (checkpoint skip), or gone before they could be read: o.ndjson" in said


def test_a_file_in_progress_and_one_held_back_wait_and_are_no_trouble(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ids(flow.src / "n.ndjson", 10, 20)
    flow.run(limits=Limits(max_records=4), slots=1, max_batches=1)
    (flow.src / "o.ndjson").write_bytes(b"")
    found = audit(flow, capsys, code=0)
    assert (found["partial"], found["held"]) == (["n.ndjson"], ["o.ndjson"])
    assert found["waiting"] == ["n.ndjson", "o.ndjson"]


def test_bad_records_are_held_against_the_quarantine(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    (flow.src / "n.ndjson").write_bytes(line(10) + b"bad\nworse\n")
    flow.run()
    backup = flow.folder / "backup"
    shutil.copytree(flow.quarantine.root, backup)
    (flow.src / "o.ndjson").write_bytes(b"worst\n")
    flow.run()
    found = audit(flow, capsys, code=0)
    assert (found["bad_records"], found["quarantined"], found["ingested"]) == (3, 3, 3)
    shutil.rmtree(flow.quarantine.root)
    shutil.copytree(backup, flow.quarantine.root)
    found = audit(flow, capsys, code=5)
    assert (found["quarantined"], found["quarantine_missing"], found["problems"]) == (2, [3], ["quarantine_missing"])
    assert main(["audit", *where(flow)]) == 0
    assert "3 bad records; the quarantine holds 2 rows" in capsys.readouterr().out


def test_records_that_were_purged_or_replayed_are_not_missing(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    (flow.src / "n.ndjson").write_bytes(line(10) + b"bad\n")
    flow.run()
    assert main(["dlq", "purge", "--table", str(flow.table), "--older-than", "0d", "--yes"]) == 0
    found = audit(flow, capsys, code=0)
    assert (found["bad_records"], found["quarantined"]) == (1, 0)


def test_a_file_that_two_pipelines_of_the_table_read_is_told_and_trouble_unless_it_was_asked_for(
    flow: Flow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Flow(flow.folder, pipeline="q")
    other.run(start_from=BEGINNING, reads_again=True)
    for each, seen in ((flow, "q"), (other, "p")):
        found = audit(each, capsys, code=0)
        assert (found["read_by_others"], found["ingested"]) == ({"m.ndjson": [seen]}, 1)
    monkeypatch.setattr("blizzard.core.audit._reads_again", lambda *_: False)  # as if no word had been asked for
    assert audit(flow, capsys, code=5)["problems"] == ["read_by_others"]
    assert main(["audit", *where(flow)]) == 0
    said = capsys.readouterr().out
    assert "! 1 file ingested by another pipeline of this table too, at least in part: m.ndjson" in said
    assert "the other pipelines: q" in said


def test_a_late_file_that_went_to_quarantine_unread_is_not_ingested(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ids(flow.src / "b.ndjson", 50, 53)
    flow.run(late=LatePolicy(late="quarantine"))
    found = audit(flow, capsys, code=5)
    assert (found["broken"], found["ingested"], found["never_ingested"]) == (["b.ndjson"], 1, [])
