"""Commits as other writers may leave them: what Delta allows is read, the rest is damage, nothing crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from blizzard.cli.main import main
from blizzard.core.codec import PREFIX, checksum_of, decode_json
from blizzard.core.log import rewrites_table
from blizzard.delta.log import read_commit, read_file_actions
from blizzard.errors import Refused
from blizzard.store import open_store
from tests.core.test_codec import app_id
from tests.flows.in_process import Flow, info, log_file, newest, write_raw
from tests.ingesting import commit_actions, ids, write_ids

ANYTHING: list[Any] = [None, True, 0, -1, 1.5, 2**63, 1e30, "", "x", "../x", [], [1], {}, {"a": 1}]


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path).first_run()


def commands(flow: Flow) -> list[list[str]]:
    table = ["--table", str(flow.table)]
    where = ["--source", str(flow.src), *table, "--pipeline", "p"]
    return [
        ["files", *table],
        ["checkpoint", "list", *table],
        ["checkpoint", "show", *table],
        ["checkpoint", "rollback", *where, "--to", "0", "--dry-run"],
        ["audit", *where],
        ["plan", *where],
        ["status", *table, "--explain"],
        ["report", *table, "--out", str(flow.folder / "report.html")],
        ["vacuum-orphans", *table, "--older-than", "7d"],
    ]


def nothing_crashes(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(flow):
        code, err = main(command), capsys.readouterr().err
        assert code in (0, 2, 3), (command, err)
        assert "internal" not in err


def change(flow: Flow, version: int, kind: str, how: Callable[[Any], Any]) -> None:
    actions = [{k: how(v) if k == kind else v for k, v in a.items()} for a in commit_actions(flow.table, version)]
    log_file(flow.table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize("value", ["text", [1, 2], 7, True, None], ids=repr)
def test_a_commit_info_that_is_no_object_says_nothing(
    flow: Flow, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Delta allows any JSON there."""
    version = write_raw(flow.table, {"commitInfo": value})
    commit = read_commit(open_store(str(flow.table)), version)
    assert commit is not None
    assert (commit.operation, commit.mode, commit.timestamp_ms, commit.user_metadata) == ("", None, 0, None)
    nothing_crashes(flow, capsys)


@pytest.mark.parametrize("value", ["mode=Overwrite", ["mode", "Overwrite"], 7, True], ids=repr)
def test_an_overwrite_cannot_hide_behind_parameters_of_another_kind(flow: Flow, value: Any) -> None:
    remove = {"remove": {"path": "x.parquet", "dataChange": True}}
    version = write_raw(flow.table, info("WRITE", operationParameters=value), remove)
    commit = read_commit(open_store(str(flow.table)), version)
    assert commit is not None
    assert rewrites_table(commit)


@pytest.mark.parametrize("name", ["timestamp", "inCommitTimestamp", "operation", "operationParameters", "userMetadata"])
def test_any_value_in_any_field_of_the_commit_info(flow: Flow, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    version = write_raw(flow.table, info("WRITE"))
    for value in ANYTHING:
        log_file(flow.table, version).unlink()
        write_raw(flow.table, {"commitInfo": info("WRITE")["commitInfo"] | {name: value}})
        commit = read_commit(open_store(str(flow.table)), version)
        assert commit is not None
        assert 0 <= commit.timestamp_ms < 2**48
    nothing_crashes(flow, capsys)


NO_VERSIONS: list[Any] = ["1", 1.5, True, None, [], {}]
NO_APP_IDS: list[Any] = [7, None, [], {}]


@pytest.mark.parametrize(
    "txn",
    [
        *({"appId": "x", "version": version} for version in NO_VERSIONS),
        *({"appId": app_id, "version": 1} for app_id in NO_APP_IDS),
        *({"appId": "x"}, {"version": 1}, {"appId": "x", "version": 1, "lastUpdated": "now"}, "x", [], 7, None),
    ],
    ids=repr,
)
def test_a_txn_that_no_reader_could_take_is_damage(flow: Flow, txn: Any, capsys: pytest.CaptureFixture[str]) -> None:
    version = write_raw(flow.table, info("WRITE"), {"txn": txn})
    with pytest.raises(Refused) as refused:
        read_commit(open_store(str(flow.table)), version)
    assert refused.value.kind == "log_damaged"
    assert main(["files", "--table", str(flow.table)]) in (2, 3)
    assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["7", '"txn"', '["txn"]', "null", "{", '{"add":7}', '{"remove":{"path":7}}'])
def test_a_line_that_is_no_action_is_damage(flow: Flow, line: str) -> None:
    version = write_raw(flow.table, info("WRITE"))
    log_file(flow.table, version).write_text(line + "\n")
    with pytest.raises(Refused) as refused:
        assert read_commit(open_store(str(flow.table)), version) is not None  # it does not look into Adds
        read_file_actions(open_store(str(flow.table)), version)
    assert refused.value.kind == "log_damaged"


def _put_payload(flow: Flow, version: int, payload: str) -> None:
    change(flow, version, "txn", lambda txn: txn | ({"appId": payload} if txn["appId"].startswith(PREFIX) else {}))


def test_any_value_in_any_field_of_the_payload(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    """With a checksum that fits: whoever writes to the table can make one."""
    version = newest(flow.table)
    whole = log_file(flow.table, version).read_bytes()
    (payload,) = (
        action["txn"]["appId"]
        for action in commit_actions(flow.table, version)
        if "txn" in action and action["txn"]["appId"].startswith(PREFIX)
    )
    sound = {k: v for k, v in decode_json(payload).items() if k != "checksum"}
    for number, name in enumerate(sound):
        fields = sound | {name: ANYTHING[number % len(ANYTHING)]}
        forged = app_id(orjson.dumps(fields | {"checksum": checksum_of(fields)}))
        log_file(flow.table, version).write_bytes(whole)
        _put_payload(flow, version, forged)
        nothing_crashes(flow, capsys)


def test_what_was_read_before_is_read_still(flow: Flow) -> None:
    write_raw(flow.table, {"commitInfo": "text"})
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    assert ids(flow.table) == list(range(6))
