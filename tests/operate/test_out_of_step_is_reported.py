"""A quarantine that is out of step, a table that no longer holds what a position says: no command says all is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from tests.flows.backups import Elsewhere, put_back, three_batches


def put_the_table_back(flow: Elsewhere) -> None:
    put_back(flow, "table-2")


def put_the_quarantine_back(flow: Elsewhere) -> None:
    put_back(flow, "quarantine-1")


def restore(flow: Elsewhere) -> None:
    DeltaTable(str(flow.table)).restore(2)


TROUBLE = {
    "quarantine_ahead": put_the_table_back,
    "quarantine_behind": put_the_quarantine_back,
    "table_rewritten": restore,
}
WAY_OUT = {"quarantine_ahead": "dlq realign", "quarantine_behind": "dlq realign", "table_rewritten": "rollback --to 2"}


@pytest.fixture(params=TROUBLE)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def flow(tmp_path: Path, kind: str) -> Elsewhere:
    made = three_batches(tmp_path)
    TROUBLE[kind](made)
    return made


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def names(flow: Elsewhere) -> list[str]:
    return ["--table", str(flow.table), "--source", str(flow.src)]


def test_status_and_doctor_say_so(flow: Elsewhere, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(capsys, "status", "--table", str(flow.table), "--json")
    status: dict[str, Any] = json.loads(text)["pipelines"][0]
    assert (code, status["recovery"]) == (0, "refused")
    assert WAY_OUT[kind] in status["recovery_message"]
    assert kind in call(capsys, "status", "--table", str(flow.table), "--explain")[1]
    code, text = call(capsys, "doctor", "--table", str(flow.table))
    assert code == 3
    assert WAY_OUT[kind] in text


def test_plan_refuses_as_a_run_would(flow: Elsewhere, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(capsys, "plan", *names(flow))
    assert (code, f"[{kind}]" in text) == (3, True), text
    assert WAY_OUT[kind] in text


def test_audit_finds_it(flow: Elsewhere, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(capsys, "audit", "--check", *names(flow))
    if kind == "quarantine_behind":  # it can say which commits' bad records are missing
        assert (code, "by sequence: 2, 3" in text) == (5, True), text
    else:
        assert (code, f"[{kind}]" in text) == (3, True), text


def test_the_report_says_so(flow: Elsewhere, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(capsys, "report", "--table", str(flow.table), "--json")
    recovery = json.loads(text)["pipelines"][0]["recovery"]
    assert (code, recovery["path"], recovery["kind"]) == (0, "refused", kind)
