"""Recovery on real logs that others have cleaned up, damaged or filled: the same position, or a clear refusal."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blizzard.cli.main import main
from blizzard.core.codec import PREFIX
from blizzard.core.log import positions_in
from blizzard.delta.checkpoints import read_newest_checkpoint
from blizzard.errors import BlizzardError, Refused
from blizzard.store import open_store
from tests.failing import ends_with
from tests.flows.in_process import Flow, clean_up_log, info, log_file, newest, write_foreign, write_raw
from tests.flows.shell import Shell
from tests.ingesting import commit_actions, ids, write, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def runs(flow: Flow, count: int) -> list[int]:
    """Sequences 1 to count, one file of three records each; returns the ids."""
    for number in range(count):
        write_ids(flow.src / f"{number:03d}.ndjson", 3 * number, 3 * number + 3)
        flow.run()
    return list(range(3 * count))


def goes_on(flow: Flow, expected: list[int], path: str) -> None:
    """The next run recovers this way, takes what is new and nothing else."""
    write_ids(flow.src / "zzz.ndjson", 1000, 1003)
    summary = flow.run()
    assert (summary.recovery, summary.records) == (path, 3)
    assert [i for i in ids(flow.table) if i < 9000] == [*expected, 1000, 1001, 1002]
    assert flow.run().recovery == "log"


def clean_up(flow: Flow) -> int:
    return clean_up_log(flow.table)


def test_a_position_whose_commit_was_cleaned_up_is_found_in_the_delta_checkpoint(flow: Flow) -> None:
    expected = runs(flow, 3)
    write_foreign(flow.table, 9000)
    clean_up(flow)
    write_foreign(flow.table, 9001)
    goes_on(flow, expected, "delta_checkpoint")


def test_it_is_refused_where_compaction_has_taken_its_files_too(flow: Flow) -> None:
    runs(flow, 3)
    DeltaTable(str(flow.table)).optimize.compact()
    write_foreign(flow.table, 9000)
    clean_up(flow)
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "table_rewritten"


def test_foreign_commits_hide_nothing(flow: Flow) -> None:
    expected = runs(flow, 1)
    for number in range(150):
        write_foreign(flow.table, 9000 + number)
    goes_on(flow, expected, "log")


def test_an_incomplete_checkpoint_is_not_read(flow: Flow) -> None:
    runs(flow, 2)
    DeltaTable(str(flow.table)).create_checkpoint()
    folder = flow.table / "_delta_log"
    (whole,) = folder.glob("*.checkpoint.parquet")
    part = whole.name.replace(".checkpoint.", ".checkpoint.0000000001.0000000002.")
    whole.rename(folder / part)
    assert read_newest_checkpoint(open_store(str(flow.table)), 100) is None
    (folder / part.replace("0000000001.", "0000000002.", 1)).write_bytes((folder / part).read_bytes())
    found = read_newest_checkpoint(open_store(str(flow.table)), 100)
    assert found is not None
    assert len(found.txns) == 3  # the fence and two payloads


def test_compacted_logs_are_read_beside_what_they_were_made_of(flow: Flow) -> None:
    expected = runs(flow, 4)
    DeltaTable(str(flow.table)).compact_logs(2, 3)
    assert list((flow.table / "_delta_log").glob("*.compacted.json"))
    goes_on(flow, expected, "log")


def test_a_compacted_log_that_is_older_than_the_checkpoint_says_nothing_new(flow: Flow) -> None:
    expected = runs(flow, 4)
    DeltaTable(str(flow.table)).compact_logs(1, 3)
    write_foreign(flow.table, 9000)
    clean_up(flow)
    found = read_newest_checkpoint(open_store(str(flow.table)), 100)
    assert found is not None
    assert max(state.sequence for state in positions_in(found.txns)) == 4
    goes_on(flow, expected, "delta_checkpoint")


def test_a_compacted_log_after_the_checkpoint_has_the_later_txns(flow: Flow) -> None:
    runs(flow, 2)
    DeltaTable(str(flow.table)).create_checkpoint()
    for number in (2, 3):
        write_ids(flow.src / f"9{number}.ndjson", 90 + 3 * number, 93 + 3 * number)
        flow.run()
    DeltaTable(str(flow.table)).compact_logs(3, 4)
    found = read_newest_checkpoint(open_store(str(flow.table)), 100)
    assert found is not None
    assert (found.version, max(s.sequence for s in positions_in(found.txns))) == (4, 4)


def test_expired_txns_leave_the_checkpoints(flow: Flow) -> None:
    """One row per commit would be kept for ever; with the retention set at creation they go."""
    runs(flow, 8)
    version = newest(flow.table)
    for path in (flow.table / "_delta_log").glob("*.json"):
        actions = commit_actions(flow.table, int(path.stem))
        for action in actions:
            if "txn" in action and int(path.stem) < version:
                action["txn"]["lastUpdated"] = 1_000
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    DeltaTable(str(flow.table)).create_checkpoint()
    found = read_newest_checkpoint(open_store(str(flow.table)), 100)
    assert found is not None
    assert len(found.txns) == 2  # the newest payload and the fence
    clean_up(flow)
    write_foreign(flow.table, 9000)
    goes_on(flow, list(range(24)), "delta_checkpoint" if not log_file(flow.table, version).exists() else "log")


def change_payload(table: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The newest payload as somebody has damaged it."""
    version = newest(table)
    actions = commit_actions(table, version)
    for action in actions:
        app_id = action.get("txn", {}).get("appId", "")
        if app_id.startswith(PREFIX):
            fields = change(json.loads(base64.b64decode(app_id.removeprefix(PREFIX))))
            action["txn"]["appId"] = PREFIX + base64.b64encode(json.dumps(fields).encode()).decode()
    log_file(table, version).write_text("".join(json.dumps(a, separators=(",", ":")) + "\n" for a in actions))


FIELDS = [
    *("schema_version", "source_state", "delta_version", "pipeline", "sequence", "run_id", "batch_id", "taken_at_ms"),
    *("table_id", "add_path", "source", "file_versions", "schema_fingerprint", "start_from", "pending_quarantine"),
    *("replayed", "held_back", "list_from", "relist_watermark_ms", "prefix_marks"),
]


@pytest.mark.parametrize("field", FIELDS)
def test_a_payload_with_any_field_missing_is_replaced_by_the_ledgers(flow: Flow, field: str) -> None:
    expected = runs(flow, 3)
    change_payload(flow.table, lambda fields: {k: v for k, v in fields.items() if k != field})
    goes_on(flow, expected, "ledgers")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(FIELDS), value=st.sampled_from([None, 3, -1, "x", [], {}, 2**70, True, [1], {"a": 1}]))
def test_a_payload_with_any_field_changed_never_doubles_or_loses_and_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    flow = Flow(tmp_path_factory.mktemp("flow"))
    expected = runs(flow, 2)
    change_payload(flow.table, lambda fields: fields | {field: value})
    write_ids(flow.src / "zzz.ndjson", 1000, 1003)
    try:
        flow.run()
    except BlizzardError:
        assert ids(flow.table) == expected
    else:
        assert ids(flow.table) == [*expected, 1000, 1001, 1002]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10**6), byte=st.integers(33, 126))
def test_random_bytes_in_the_payload_never_double_or_lose(
    tmp_path_factory: pytest.TempPathFactory, position: int, byte: int
) -> None:
    flow = Flow(tmp_path_factory.mktemp("flow"))
    expected = runs(flow, 2)
    version = newest(flow.table)
    actions = commit_actions(flow.table, version)
    for action in actions:
        app_id = action.get("txn", {}).get("appId", "")
        if app_id.startswith(PREFIX):
            place = len(PREFIX) + position % (len(app_id) - len(PREFIX))
            action["txn"]["appId"] = app_id[:place] + chr(byte) + app_id[place + 1 :]
    log_file(flow.table, version).write_text("".join(json.dumps(a) + "\n" for a in actions))
    write_ids(flow.src / "zzz.ndjson", 1000, 1003)
    try:
        flow.run()
    except BlizzardError:
        assert ids(flow.table) == expected
    else:
        assert ids(flow.table) == [*expected, 1000, 1001, 1002]


def test_with_the_ledger_gone_as_well_a_damaged_payload_is_refused(flow: Flow) -> None:
    runs(flow, 2)
    change_payload(flow.table, lambda _: {})
    version = newest(flow.table)
    actions = commit_actions(flow.table, version)
    for action in actions:
        action.get("commitInfo", {}).pop("userMetadata", None)
    log_file(flow.table, version).write_text("".join(json.dumps(a) + "\n" for a in actions))
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "damaged_checkpoint"
    assert "no ledger" in str(error.value)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_status_explains_what_recovery_would_do(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    runs(flow, 2)
    _, text = call(capsys, "status", "--table", str(flow.table), "--explain")
    assert "Looked at 1 JSON commit, versions 2 to 2" in text
    assert "sequence 2; its payload is sound" in text
    assert "resume at sequence 3" in text
    change_payload(flow.table, lambda _: {})
    _, text = call(capsys, "status", "--table", str(flow.table), "--explain")
    assert "missing or damaged" in text
    assert "the ledgers of the commits since" in text


def test_checkpoints_are_listed_and_shown_with_the_schema_they_were_written_under(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    runs(flow, 3)
    code, text = call(capsys, "checkpoint", "list", "--table", str(flow.table), "--json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert [(r["sequence"], r["delta_version"], r["files"], r["records"]) for r in rows] == [
        (3, 3, 1, 3),
        (2, 2, 1, 3),
        (1, 1, 1, 3),
    ]
    code, text = call(capsys, "checkpoint", "show", "2", "--table", str(flow.table), "--json")
    (shown,) = json.loads(text)
    assert (code, shown["sequence"], shown["delta_commit"]) == (0, 2, 2)
    assert "id" in shown["schema"]
    code, text = call(capsys, "checkpoint", "show", "9", "--table", str(flow.table))
    assert code == 2
    assert "checkpoint list" in text
    assert call(capsys, "checkpoint", "list", "--table", str(flow.table))[0] == 0


def where(flow: Flow) -> list[str]:
    return ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]


def test_a_file_that_broke_is_read_again_from_where_it_broke(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.run.test_broken_files import truncated

    write_ids(flow.src / "a.ndjson", 0, 3)
    whole = truncated(flow)
    flow.run()
    assert ids(flow.table) == [0, 1, 2]
    (flow.src / "b.ndjson.gz").write_bytes(whole)
    flow.run()
    assert ids(flow.table) == [0, 1, 2]
    reset = ["checkpoint", "reset", *where(flow), "--file", "b.ndjson.gz"]
    code, text = call(capsys, *reset)
    assert (code, flow.open().fence("p")) == (2, 1)
    assert "--yes" in text
    code, text = call(capsys, *reset, "--yes")
    assert code == 0, text
    summary = flow.run()
    assert summary.sequence == 3
    assert ids(flow.table) == [0, 1, 2, *range(10, 200)]
    assert flow.run().commits == 0


def test_reading_a_whole_file_again_has_to_be_said(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    runs(flow, 2)
    reset = ["checkpoint", "reset", *where(flow), "--file", "000.ndjson", "--yes"]
    code, text = call(capsys, *reset)
    assert code == 2
    assert "doubles" in text
    assert call(capsys, *reset, "--from-record", "2")[0] == 0
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 2, 3, 4, 5]
    assert call(capsys, "checkpoint", "reset", *where(flow), "--file", "none.ndjson", "--yes")[0] == 2


def test_a_file_can_be_left_out(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    runs(flow, 1)
    write_ids(flow.src / "bad.ndjson", 50, 60)
    write_ids(flow.src / "next.ndjson", 60, 63)
    assert call(capsys, "checkpoint", "skip", *where(flow), "--file", "bad.ndjson", "--yes")[0] == 0
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 60, 61, 62]


def test_an_edit_is_not_folded_over(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    runs(flow, 2)
    assert call(capsys, "checkpoint", "skip", *where(flow), "--file", "001.ndjson", "--yes")[0] == 0
    change_payload(flow.table, lambda _: {})
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "damaged_checkpoint"


def test_an_idle_run_renews_a_position_before_it_expires(flow: Flow) -> None:
    runs(flow, 1)
    day_ms = 86_400_000
    flow.clock.ms += 3 * day_ms
    assert (flow.run().sequence, newest(flow.table)) == (1, 1)
    flow.clock.ms += day_ms  # a quarter of the 14 days has passed
    summary = flow.run()
    assert (summary.commits, summary.sequence, summary.records) == (0, 2, 0)
    assert (flow.run().sequence, newest(flow.table)) == (2, 2)
    change_payload(flow.table, lambda _: {})
    goes_on(flow, [0, 1, 2], "ledgers")


def test_a_position_can_be_moved_to_a_copy_of_the_table(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    expected = runs(flow, 2)
    kept = str(flow.folder / "position.json")
    table = ["--table", str(flow.table)]
    assert call(capsys, "checkpoint", "export", *table, "--pipeline", "p", "--out", kept)[0] == 0
    assert call(capsys, "checkpoint", "export", *table, "--pipeline", "p", "--out", kept)[0] == 2
    rows = DeltaTable(str(flow.table)).to_pyarrow_table()
    flow.table.rename(flow.folder / "old")
    deltalake.write_deltalake(str(flow.table), rows)
    with ends_with("table_has_data"):
        flow.run()
    code, text = call(capsys, "checkpoint", "import", *table, "--in", kept)
    assert code == 3
    assert "another table" in text
    code, text = call(capsys, "checkpoint", "import", *table, "--in", kept, "--unverified", "--json")
    assert (code, json.loads(text)["sequence"]) == (0, 1)
    assert flow.run().late_files == 0
    goes_on(flow, expected, "log")
    code, text = call(capsys, "checkpoint", "import", *table, "--in", kept)
    assert code == 2
    assert "--replace" in text
    (flow.folder / "junk").write_text("{}")
    assert call(capsys, "checkpoint", "import", *table, "--in", str(flow.folder / "junk"))[0] == 2


@pytest.mark.parametrize("where", ["table", "table_quarantine"])
@pytest.mark.parametrize("command", ["status", "plan", "audit", "doctor", "run", "checkpoint list", "dlq list"])
def test_a_txn_that_no_reader_can_take_is_no_reason_for_a_traceback(
    tmp_path: Path, shell: Shell, where: str, command: str
) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1}\nbad\n')
    assert shell.run("--pipeline", "p").code == 0
    write_raw(tmp_path / where, info("WRITE"), {"txn": {"appId": "x", "version": "y"}})
    source = shell.where("--pipeline", "p") if command in ("plan", "audit", "run") else ["--table", str(shell.table)]
    said = shell(*command.split(), *source)
    assert said.code in (0, 3), said.text
    assert said.kind in (None, "log_damaged", "table_unreadable")
