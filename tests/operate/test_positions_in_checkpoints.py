"""Positions that only a Delta checkpoint has: every command sees them, and a way out doubles and loses nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.core.plan import Limits
from blizzard.errors import BlizzardError, Refused
from blizzard.operate.transfer import export_position, import_position
from tests.delta.test_hostile_log import change_payload
from tests.failing import ends_with
from tests.flows.in_process import Flow, clean_up_log, newest, write_foreign
from tests.flows.rollbacks import roll_back
from tests.flows.shell import Shell
from tests.ingesting import commit_actions, ids, write_ids


def partly_read(folder: Path) -> Flow:
    """Sequence 2; a is finished, b is in progress with two of its four records."""
    flow = Flow(folder)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 7)
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1)
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    return flow


def locked_out(folder: Path) -> Flow:
    """The commit that holds the position is gone, and so is the file it added."""
    flow = partly_read(folder)
    DeltaTable(str(flow.table)).optimize.compact()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    return flow


def test_the_refusal_gives_the_whole_position_and_its_way_out_doubles_nothing(tmp_path: Path, shell: Shell) -> None:
    locked_out(tmp_path)
    write_ids(tmp_path / "src/c.ndjson", 7, 9)
    said = shell.run("--pipeline", "p")
    assert (said.code, said.kind) == (3, "table_rewritten")
    for words in ("sequence 2", "mark ", "b.ndjson (2 records read)"):
        assert words in said.last["error"]
    *_, done = shell.follow(said)
    assert done.code == 0, done.text
    assert ids(shell.table) == [*range(9), 9000]
    assert shell.run().last["recovery"] == "log"


def test_no_other_name_gets_around_it(tmp_path: Path, shell: Shell) -> None:
    locked_out(tmp_path)
    for words in ([], ["--pipeline", "q"], ["--pipeline", "q", "--start-from", "beginning"]):
        assert shell.run(*words).kind in ("table_rewritten", "source_read_by_other")
    assert ids(shell.table) == [0, 1, 2, 3, 4, 9000]


def test_every_command_that_looks_sees_it(tmp_path: Path, shell: Shell) -> None:
    locked_out(tmp_path)
    table = ["--table", str(shell.table)]
    explained = shell("status", *table, "--explain").text
    assert "no pipeline has committed" not in explained
    assert "It holds the pipeline's position: sequence 2" in explained
    assert "refuse (table_rewritten)" in explained
    (status,) = json.loads(shell("status", *table, "--json").text)["pipelines"]
    assert (status["pipeline"], status["sequence"], status["in_progress"]) == ("p", 2, {"b.ndjson": 2})
    rows = [json.loads(text) for text in shell("checkpoint", "list", *table, "--json").text.splitlines()]
    assert [(r["sequence"], r["in_log"]) for r in rows] == [(2, False), (1, False)]
    assert "in a Delta checkpoint" in shell("checkpoint", "list", *table).text
    (shown,) = json.loads(shell("checkpoint", "show", *table, "--json").text)
    assert (shown["sequence"], shown["delta_checkpoint"]) == (2, newest(shell.table))
    assert json.loads(shell("checkpoint", "show", "1", *table, "--json").text)[0]["sequence"] == 1
    assert shell("checkpoint", "export", *table, "--pipeline", "p", "--sequence", "1", "--out", "-").code == 0
    assert "pipeline p stands at sequence 2 (" in shell("files", *table).text
    findings = json.loads(shell("doctor", *table, "--json").text)
    assert [f["verdict"] for f in findings if f["about"] == "pipelines"] == ["problem"]
    (reported,) = json.loads(shell("report", *table, "--json").text)["pipelines"]
    assert (reported["position"]["sequence"], reported["recovery"]["kind"]) == (2, "table_rewritten")


def test_a_sound_position_there_is_only_a_warning(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    findings = json.loads(shell("doctor", "--table", str(shell.table), "--json").text)
    assert [f["verdict"] for f in findings if f["about"] == "pipelines"] == ["warning"]
    assert shell("audit", *shell.where("--pipeline", "p")).code == 0


def test_what_a_rollback_took_back_is_told_there_too(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    assert shell("checkpoint", "rollback", *shell.where("--pipeline", "p"), "--to", "1", "--yes").code == 0
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    rows = [json.loads(t) for t in shell("checkpoint", "list", "--table", str(shell.table), "--json").text.splitlines()]
    assert [(r["sequence"], r["superseded"]) for r in rows] == [(3, False), (2, True), (1, False)]


@pytest.mark.parametrize("trouble", ["none", "source", "batch"])
def test_a_position_found_only_there_is_put_into_the_log_before_anything_is_read(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then an OPTIMIZE cannot lock the next run out, whatever became of this one."""
    flow = partly_read(tmp_path)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    if trouble == "source":
        flow.src.rename(tmp_path / "away")
    with monkeypatch.context() as m:
        if trouble == "batch":
            m.setattr("tests.flows.in_process.run_task", _dies)
        try:
            flow.run()
        except (BlizzardError, KeyboardInterrupt):
            assert trouble != "none"
    if trouble == "source":
        (tmp_path / "away").rename(flow.src)
    assert any(note.startswith("the position is committed once more") for note in flow.told.notes)
    DeltaTable(str(flow.table)).optimize.compact()
    write_ids(flow.src / "c.ndjson", 7, 9)
    assert flow.run().recovery == "log"
    assert ids(flow.table) == [*range(9), 9000]


def _dies(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_position_rebuilt_from_ledgers_is_put_into_the_log_too(tmp_path: Path) -> None:
    flow = partly_read(tmp_path)
    change_payload(flow.table, lambda _: {})
    (flow.src / "b.ndjson").rename(tmp_path / "b.ndjson")
    with pytest.raises(BlizzardError) as error:
        flow.run()
    assert error.value.kind == "source_changed"
    (tmp_path / "b.ndjson").rename(flow.src / "b.ndjson")
    clean_up_log(flow.table)
    assert flow.run().recovery == "log"
    assert ids(flow.table) == list(range(7))


def test_a_renewal_that_fails_does_not_stop_an_idle_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = partly_read(tmp_path)
    flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)

    def fails(*_arguments: object) -> None:
        raise OSError("not today")

    monkeypatch.setattr("blizzard.delta.table.DeltaRsTable.append", fails)
    assert flow.run().recovery == "delta_checkpoint"
    assert any("could not be committed once more" in warning for warning in flow.told.warnings)


def without_payloads(table: Path, *, with_fences: bool) -> None:
    """As if positions had expired, or been taken out by whoever rewrote the log; the commits are gone then, too."""
    for path in (table / "_delta_log").glob("*.json"):
        actions = [
            action
            for action in commit_actions(table, int(path.stem))
            if "txn" not in action or (with_fences and action["txn"]["appId"].startswith("blizzard-fence:"))
        ]
        for action in actions:
            action.get("commitInfo", {}).pop("userMetadata", None)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    write_foreign(table, 9000)
    clean_up_log(table)


@pytest.mark.parametrize("with_fences", [True, False])
def test_a_lost_position_is_imported_from_an_export(tmp_path: Path, shell: Shell, with_fences: bool) -> None:
    flow = partly_read(tmp_path)
    table = ["--table", str(flow.table)]
    assert shell("checkpoint", "export", *table, "--pipeline", "p", "--out", "kept.json").code == 0
    without_payloads(flow.table, with_fences=with_fences)
    status = shell("status", *table, "--explain").text
    assert ("position_not_found" in status) is with_fences
    write_ids(tmp_path / "src/c.ndjson", 7, 9)
    said = shell.run("--pipeline", "p")
    assert (said.code, said.kind) == (3, "position_not_found" if with_fences else "table_has_data")
    assert "--start-from" not in said.last["error"]
    assert "blizzard checkpoint import" in said.last["error"]
    replace = ["--replace"] if "import --replace" in said.last["error"] else []
    assert "--unverified" in said.last["error"]
    assert shell("checkpoint", "import", *table, "--in", "kept.json", *replace).code == 3  # the log cannot tell
    imported = shell("checkpoint", "import", *table, "--in", "kept.json", *replace, "--unverified")
    assert imported.code == 0, imported.text
    assert shell.run("--pipeline", "p").code == 0
    assert ids(shell.table) == [*range(9), 9000]


def test_a_lost_position_and_no_export_leave_another_table(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    without_payloads(flow.table, with_fences=True)
    said = shell.run("--pipeline", "p")
    assert "ingest the source into another --table" in said.last["error"]
    other = str(tmp_path / "other")
    assert shell("run", "--source", str(flow.src), "--table", other, "--schema", "id BIGINT, name STRING").code == 0
    assert ids(tmp_path / "other") == list(range(7))
    assert not os.path.exists("position.json")


def restored_and_forgotten(flow: Flow, version: int) -> None:
    """A RESTORE that a run refuses; then somebody writes, and log cleanup takes the RESTORE out of the log."""
    DeltaTable(str(flow.table)).restore(version)
    with ends_with("table_rewritten"):
        flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)


def test_a_rollback_undone_before_the_log_was_cleaned_up_is_noticed(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(4):
        write_ids(flow.src / f"{number}.ndjson", number, number + 1)
        flow.run()
    roll_back(flow, 2)
    restored_and_forgotten(flow, 4)
    with pytest.raises(Refused, match="which its rollback removed, is part of the table again") as refused:
        flow.run()
    assert refused.value.kind == "table_rewritten"
    assert ids(flow.table) == [0, 1, 2, 3, 9000]


def test_a_rollback_that_stands_is_gone_on_with(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(4):
        write_ids(flow.src / f"{number}.ndjson", number, number + 1)
        flow.run()
    roll_back(flow, 2)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 9000]


def test_a_restore_to_before_an_imported_position_is_noticed(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(4):
        write_ids(flow.src / f"{number}.ndjson", number, number + 1)
        flow.run()
    import_position(flow.open(), export_position(flow.open(), "p"), quarantine=flow.quarantine, replaces=True)
    restored_and_forgotten(flow, 2)
    with pytest.raises(Refused, match="which it added, is no longer part of the table"):
        flow.run()


def test_a_position_of_another_table_that_only_a_checkpoint_has_proves_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "0.ndjson", 0, 1)
    flow.run()
    kept = export_position(flow.open(), "p")
    shutil.rmtree(flow.table)
    write_foreign(flow.table, 0)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=False, is_trusted=True)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    with pytest.raises(Refused, match="imported from another table"):
        flow.run()
