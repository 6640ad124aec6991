"""`blizzard audit` finds what was never ingested, ingested twice, has changed or is gone, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.plan import Limits
from blizzard.schema.layout import apply_layout
from blizzard.schema.load import load_schema
from tests.flows.in_process import Flow, clean_up_log, touch_again, write_foreign
from tests.ingesting import DDL, line, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    made = Flow(tmp_path)
    for number in range(4):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
    made.run()
    return made


def audit(flow: Flow, capsys: pytest.CaptureFixture[str], *more: str, code: int = 0) -> dict[str, Any]:
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["audit", *where, "--json", *more]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_source_that_is_all_ingested_is_fine(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(flow, capsys, "--check")
    assert (found["ok"], found["listed"], found["ingested"]) == (True, 4, 4)
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["audit", *where]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_each_kind_of_trouble_is_found(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    write_ids(flow.src / "0-late.ndjson", 50, 53)
    write_ids(flow.src / "9.ndjson", 60, 63)
    touch_again(flow.src / "1.ndjson", line(7))
    (flow.src / "2.ndjson").unlink()
    found = audit(flow, capsys, "--check", code=5)
    assert (found["never_ingested"], found["waiting"]) == (["0-late.ndjson"], ["9.ndjson"])
    assert (found["rewritten"], found["gone"], found["twice"]) == (["1.ndjson"], ["2.ndjson"], [])
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    reset = ["checkpoint", "reset", *where, "--file", "3.ndjson", "--from-record", "2", "--yes"]
    assert main(reset) == 0
    flow.run()
    capsys.readouterr()
    found = audit(flow, capsys)
    assert (found["never_ingested"], found["waiting"], found["twice"]) == ([], [], ["3.ndjson"])


def test_a_file_read_in_two_parts_is_not_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    for _ in range(2):
        flow.run(limits=Limits(max_records=4), max_batches=1)
    found = audit(flow, capsys)
    assert (found["ok"], found["waiting"]) == (True, ["a.ndjson"])
    flow.run()
    assert audit(flow, capsys)["ingested"] == 1


def test_what_the_log_no_longer_says_is_unclear(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    found = audit(flow, capsys, code=0)
    assert found["unclear"] == [f"{n}.ndjson" for n in range(4)]
    assert not found["ok"]


def test_rows_are_held_against_the_ledgers_where_the_table_says_where_they_are_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = apply_layout(load_schema(DDL), partition_by=(), provenance=("source_file",))
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 6)
    from dataclasses import replace

    flow.run(place=replace(flow.place, schema=layout.schema), spec={"layout": layout})
    assert audit(flow, capsys)["ok"]
    DeltaTable(str(flow.table)).delete("_source_file = 'a.ndjson'")
    found = audit(flow, capsys, code=0)
    assert (found["ok"], found["rows_missing"]) == (False, ["a.ndjson"])
    assert audit(flow, capsys, "--no-rows")["ok"]


def test_a_pipeline_that_never_ran_is_said(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "other"]
    assert main(["audit", *where]) in (2, 3)
