"""Going back to an older position, on real logs: nothing is lost or doubled, or it is refused and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard import faults
from blizzard.cli.main import main
from blizzard.core.commit import CommitRequest
from blizzard.core.plan import Limits
from blizzard.errors import Refused
from blizzard.operate.rollback import apply_rollback, prepare_rollback
from blizzard.operate.transfer import export_position, import_position
from tests.delta.test_hostile_log import change_payload, clean_up
from tests.failing import ends_with
from tests.flows.in_process import BEGINNING, Flow, newest, touch_again, write_foreign
from tests.flows.replaying import quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import commit_actions, ids, write, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Sequences 1 to 4, one file of three records each."""
    made = Flow(tmp_path)
    for number in range(4):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        made.run()
    return made


def refuses(flow: Flow, to: int, kind: str, **how: Any) -> str:
    before, rows = newest(flow.table), ids(flow.table)
    with pytest.raises(Refused) as error:
        roll_back(flow, to, **how)
    assert error.value.kind == kind
    assert (newest(flow.table), ids(flow.table)) == (before, rows)
    return str(error.value)


def test_later_batches_leave_the_table_and_are_read_again(flow: Flow) -> None:
    assert roll_back(flow, 2) == (5, 5)
    assert ids(flow.table) == list(range(6))
    summary = flow.run()
    assert (summary.recovery, summary.sequence, summary.records) == ("log", 6, 6)
    assert ids(flow.table) == list(range(12))
    assert flow.run().commits == 0


def test_the_commit_removes_and_says_so(flow: Flow) -> None:
    roll_back(flow, 3)
    (added,) = (a["add"]["path"] for a in commit_actions(flow.table, 4) if "add" in a)
    actions = commit_actions(flow.table, 5)
    assert [a["remove"]["path"] for a in actions if "remove" in a] == [added]
    ledger = json.loads(actions[0]["commitInfo"]["userMetadata"])
    assert (ledger["kind"], ledger["rolled_back_to"], ledger["superseded"]) == ("rollback", 3, [4])
    assert sum("txn" in a for a in actions) == 2


@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_reader_sees_the_table_as_it_was(flow: Flow, checkpointed: bool) -> None:
    roll_back(flow, 1)
    if checkpointed:
        DeltaTable(str(flow.table)).create_checkpoint()
    assert ids(flow.table) == [0, 1, 2]
    assert DeltaTable(str(flow.table), version=4).to_pyarrow_table().num_rows == 12


def test_to_the_very_beginning(flow: Flow) -> None:
    roll_back(flow, 0)
    assert ids(flow.table) == []
    assert flow.run().records == 12
    assert ids(flow.table) == list(range(12))


def test_a_file_in_progress_is_resumed_where_it_stood_then(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    for _ in range(3):
        flow.run(limits=Limits(max_records=3), max_batches=1)
    assert ids(flow.table) == list(range(9))
    roll_back(flow, 1)
    assert ids(flow.table) == [0, 1, 2]
    flow.run()
    assert ids(flow.table) == list(range(10))


def test_a_rollback_after_a_rollback(flow: Flow) -> None:
    roll_back(flow, 3)  # sequence 5
    flow.run()  # sequence 6
    roll_back(flow, 2)  # takes 3 and 6 back; 4 was taken back before
    assert ids(flow.table) == list(range(6))
    flow.run()
    assert ids(flow.table) == list(range(12))
    assert "taken it back" in refuses(flow, 4, "rollback_target")


def test_others_keep_their_rows(flow: Flow) -> None:
    write_foreign(flow.table, 9000)
    other = Flow(flow.folder, pipeline="q")
    write_ids(flow.src / "9.ndjson", 90, 93)
    other.run(start_from=BEGINNING, reads_again=True)
    before = ids(flow.table)
    roll_back(flow, 3)
    assert len(ids(flow.table)) == len(before) - 3
    other.run()
    flow.run()
    assert sorted(ids(flow.table)) == sorted([*range(12), *range(12), *range(90, 93), *range(90, 93), 9000])


@pytest.mark.parametrize("to", [4, 5, -1, 99])
def test_only_an_older_sequence_can_be_gone_back_to(flow: Flow, to: int) -> None:
    refuses(flow, to, "rollback_target")


def test_files_that_were_compacted_are_not_taken_for_the_ones_that_were_added(flow: Flow) -> None:
    """delta-rs commits such Removes without a word: the position would go back, and the rows would stay."""
    DeltaTable(str(flow.table)).optimize.compact()
    told = refuses(flow, 2, "rollback_files")
    assert "OPTIMIZE" in told
    assert "RESTORE the table to version 2" in told


def test_compaction_of_older_files_is_no_hindrance(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(2):
        write_ids(flow.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        flow.run()
    DeltaTable(str(flow.table)).optimize.compact()
    write_ids(flow.src / "2.ndjson", 6, 9)
    flow.run()
    roll_back(flow, 2)
    assert ids(flow.table) == list(range(6))


def test_a_file_rewritten_between_the_look_and_the_commit_stops_it(flow: Flow) -> None:
    table, listing = flow.open(), flow.source.list()
    prepared = prepare_rollback(
        table, pipeline="p", source=flow.source.identity, to=2, listing=listing, with_schema=False
    )
    DeltaTable(str(flow.table)).optimize.compact()
    with pytest.raises(Refused) as error:
        apply_rollback(
            table,
            prepared,
            flow.quarantine,
            list_source=flow.source.list,
            scan_commits=100,
            clock=flow.clock,
            emit=flow.told.see,
        )
    assert error.value.kind == "rollback_files"
    assert ids(flow.table) == list(range(12))


def test_a_commit_between_the_look_and_the_commit_is_looked_at_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very version it was prepared for is taken, by somebody who does no harm."""
    from blizzard.delta.table import DeltaRsTable

    original, calls = DeltaRsTable._commit_by_hand, []

    def late(self: DeltaRsTable, request: CommitRequest) -> None:
        calls.append(self.version)
        if len(calls) == 1:
            write_foreign(flow.table, 9000)
        original(self, request)

    monkeypatch.setattr(DeltaRsTable, "_commit_by_hand", late)
    assert roll_back(flow, 2) == (5, 6)
    assert calls == [4, 5]
    assert ids(flow.table) == [*range(6), 9000]


def test_sources_that_are_gone_or_changed_stop_it(flow: Flow) -> None:
    content = (flow.src / "3.ndjson").read_bytes()
    touch_again(flow.src / "3.ndjson", content)
    refuses(flow, 3, "rollback_source")
    refuses(flow, 2, "rollback_source")
    (flow.src / "3.ndjson").unlink()
    refuses(flow, 3, "rollback_source")
    (flow.src / "0.ndjson").unlink()  # not to be read again
    write_ids(flow.src / "4.ndjson", 12, 15)
    flow.run()
    roll_back(flow, 4)
    assert ids(flow.table) == list(range(12))


def test_an_append_only_table_is_refused(flow: Flow) -> None:
    DeltaTable(str(flow.table)).alter.set_table_properties({"delta.appendOnly": "true"})
    refuses(flow, 2, "append_only")


def test_a_log_that_was_cleaned_up_is_refused(flow: Flow) -> None:
    clean_up(flow)
    refuses(flow, 2, "rollback_target")


def test_bad_records_of_the_batches_taken_back_leave_the_quarantine(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(3):
        write(flow.src / f"{number}.ndjson", b'{"id":%d}\nnot json %d\n' % (number, number))
        flow.run()
    assert len(flow.quarantined()) == 3
    roll_back(flow, 1)
    assert [row["source_file"] for row in flow.quarantined()] == ["0.ndjson"]
    flow.run()
    assert [row["source_file"] for row in flow.quarantined()] == ["0.ndjson", "1.ndjson", "2.ndjson"]
    assert ids(flow.table) == [0, 1, 2]


@pytest.mark.parametrize("point", ["commit.during", "commit.answer", "quarantine.copied", "quarantine.before"])
def test_a_crash_at_any_point_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    class Died(BaseException):
        """Nothing catches this, as nothing catches a SIGKILL."""

    flow = Flow(tmp_path)
    for number in range(3):
        write(flow.src / f"{number}.ndjson", b'{"id":%d}\nnot json %d\n' % (number, number))
        flow.run()

    def die(action: str, at: str) -> None:
        raise Died

    monkeypatch.setattr(faults, "_act", die)
    monkeypatch.setenv("BLIZZARD_FAULT", f"{point}=kill")
    with pytest.raises(Died):
        roll_back(flow, 1)
    monkeypatch.undo()
    landed = newest(flow.table) == 4
    assert landed == (point != "commit.during")
    assert ids(flow.table) == ([0] if landed else [0, 1, 2])
    flow.run()
    assert ids(flow.table) == [0, 1, 2]
    assert [row["source_file"] for row in flow.quarantined()] == ["0.ndjson", "1.ndjson", "2.ndjson"]


def test_a_lost_answer_is_found_in_the_log(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLIZZARD_FAULT", "commit.answer=raise")
    assert roll_back(flow, 2) == (5, 5)
    monkeypatch.delenv("BLIZZARD_FAULT")
    assert ids(flow.table) == list(range(6))


def test_a_replay_is_never_taken_back(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)
    replay_in(flow)
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    refuses(flow, 1, "rollback_replay")
    write_ids(flow.src / "c.ndjson", 5, 8)
    flow.run()
    roll_back(flow, 2)
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def test_a_damaged_payload_after_a_rollback_is_rebuilt_without_what_was_taken_back(flow: Flow) -> None:
    roll_back(flow, 2)
    write_ids(flow.src / "4.ndjson", 12, 15)
    flow.run(limits=Limits(max_files=1), max_batches=1)
    change_payload(flow.table, lambda _: {})
    summary = flow.run()
    assert summary.recovery == "ledgers"
    assert ids(flow.table) == list(range(15))


def test_a_damaged_rollback_is_rebuilt_too(flow: Flow) -> None:
    roll_back(flow, 2)
    change_payload(flow.table, lambda _: {})
    assert flow.run().recovery == "ledgers"
    assert ids(flow.table) == list(range(12))


def add_column(flow: Flow) -> None:
    field = deltalake.Field("extra", deltalake.schema.PrimitiveType("string"))
    DeltaTable(str(flow.table)).alter.add_columns([field])


def evolved(flow: Flow) -> None:
    """Version 5 adds a column, sequence 5 in version 6 uses it."""
    add_column(flow)
    write(flow.src / "4.ndjson", b'{"id":12,"extra":"x"}\n')
    flow.run()


def test_columns_added_since_stay_and_are_told(flow: Flow) -> None:
    evolved(flow)
    prepared = prepare_rollback(
        flow.open(), pipeline="p", source=flow.source.identity, to=3, listing=flow.source.list(), with_schema=False
    )
    assert prepared.later_columns == ("extra",)
    assert "extra" in " ".join(prepared.sentences)
    roll_back(flow, 3)
    assert [f["name"] for f in flow.open().schema["fields"]] == ["id", "name", "extra"]


def test_the_schema_goes_back_in_the_same_commit(flow: Flow) -> None:
    evolved(flow)
    before = newest(flow.table)
    roll_back(flow, 3, with_schema=True)
    assert newest(flow.table) == before + 1
    assert [f["name"] for f in flow.open().schema["fields"]] == ["id", "name"]
    assert ids(flow.table) == list(range(9))
    flow.run()
    assert ids(flow.table) == list(range(13))


def test_the_schema_stays_where_somebody_else_may_use_it(flow: Flow) -> None:
    evolved(flow)
    rows = pa.table({"id": [9000], "name": ["n"], "extra": ["mine"]})
    deltalake.write_deltalake(str(flow.table), rows, mode="append")
    refuses(flow, 3, "rollback_schema", with_schema=True)


def call(flow: Flow, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    code = main(["checkpoint", "rollback", *where, *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_the_command_says_what_it_would_do_and_does_it_only_when_told(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = call(flow, capsys, "--to", "2", "--dry-run")
    assert (code, newest(flow.table)) == (0, 4)
    assert "out of the table: 6 records, in 2 Parquet files" in text
    assert "2.ndjson, 3.ndjson" in text
    code, text = call(flow, capsys, "--to", "2")
    assert (code, newest(flow.table)) == (2, 4)
    assert "--yes" in text
    code, text = call(flow, capsys, "--to", "2", "--yes", "--json")
    assert code == 0, text
    assert json.loads(text)["sequence"] == 5
    assert ids(flow.table) == list(range(6))
    assert main(["files", "--table", str(flow.table)]) == 0
    assert "3.ndjson" not in capsys.readouterr().out
    assert main(["checkpoint", "list", "--table", str(flow.table)]) == 0
    assert capsys.readouterr().out.count("taken back") == 2


def test_what_a_rollback_took_back_is_never_taken_for_ingested_again(flow: Flow) -> None:
    """Its rows can come back, by a RESTORE. Its bad records cannot: they have left the quarantine."""
    kept = export_position(flow.open(), "p")
    roll_back(flow, 2)  # sequence 5
    DeltaTable(str(flow.table)).restore(4)
    for is_trusted in (False, True):
        with pytest.raises(Refused, match="RESTORE the table to version 5") as error:
            import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True, is_trusted=is_trusted)
        assert error.value.kind == "import_mismatch"
    with pytest.raises(Refused, match="RESTORE the table to version 5"):
        flow.run()
    DeltaTable(str(flow.table)).restore(5)
    assert flow.run().records == 6
    assert ids(flow.table) == list(range(12))


def test_after_a_restore_an_older_position_can_be_put_back(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    """What the refusals advise where a rollback is not possible."""
    DeltaTable(str(flow.table)).restore(2)
    with ends_with("table_rewritten") as error:
        flow.run()
    assert "checkpoint rollback --to 2" in str(error.value)
    table, kept = ["--table", str(flow.table)], str(flow.folder / "p.json")
    assert main(["checkpoint", "export", *table, "--pipeline", "p", "--sequence", "2", "--out", kept]) == 0
    assert main(["checkpoint", "import", *table, "--in", kept]) == 2
    DeltaTable(str(flow.table)).restore(1)  # not what the position is of
    assert main(["checkpoint", "import", *table, "--in", kept, "--replace"]) == 3
    DeltaTable(str(flow.table)).restore(2)
    assert main(["checkpoint", "import", *table, "--in", kept, "--replace"]) == 0
    capsys.readouterr()
    assert flow.run().records == 6
    assert ids(flow.table) == list(range(12))
