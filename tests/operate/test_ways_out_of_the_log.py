"""Refusals that are about the log and about going back: produce the state, follow the text, compare every record."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.core.codec import checksum_of
from blizzard.run.settle import settle
from tests.delta.test_hostile_log import change_payload
from tests.flows.in_process import Flow, clean_up_log, log_file, newest, touch_again, write_foreign
from tests.flows.replaying import STRICT, quarantined_flow, replay_in
from tests.flows.shell import Said, Shell
from tests.ingesting import commit_actions, ids, line, write, write_ids
from tests.operate.test_ways_out_of_files import goes_on, stopped


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Sequences 1 to 3 in versions 1 to 3, one file of three records each; a fourth file is new."""
    made = Flow(tmp_path)
    for number in range(3):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        made.run()
    write_ids(made.src / "3.ndjson", 9, 12)
    return made


ALL = list(range(12))


def ours(shell: Shell) -> list[int]:
    return [i for i in ids(shell.table) if i < 9000]


def make_a_gap(flow: Flow) -> Path:
    write_foreign(flow.table, 9000)
    return log_file(flow.table, 3)


@pytest.mark.parametrize("name", ["log_gap", "log_damaged"])
def test_a_commit_is_restored(flow: Flow, shell: Shell, tmp_path: Path, name: str) -> None:
    lost = make_a_gap(flow)
    shutil.copy(lost, tmp_path / "backup")
    lost.unlink() if name == "log_gap" else lost.write_bytes(b"{not json\n")
    said = stopped(shell.run("--pipeline", "p"), 3, name)
    assert f"{3:020d}.json is" in said.last["error"]
    assert "Restore it from a backup" in said.last["error"]
    shutil.copy(tmp_path / "backup", lost)
    goes_on(shell)
    assert ours(shell) == ALL


def test_table_unreadable(flow: Flow, shell: Shell, tmp_path: Path) -> None:
    """Every commit can be read, and together they make no table."""
    first = log_file(flow.table, 0)
    shutil.copy(first, tmp_path / "backup")
    first.write_text("".join(json.dumps(a) + "\n" for a in commit_actions(flow.table, 0) if "metaData" not in a))
    said = stopped(shell.run("--pipeline", "p"), 3, "table_unreadable")
    assert "Restore what is wrong in its _delta_log from a backup" in said.last["error"]
    shutil.copy(tmp_path / "backup", first)
    goes_on(shell)
    assert ours(shell) == ALL


def test_stale_checkpoint(flow: Flow, shell: Shell, tmp_path: Path) -> None:
    """The fence is in a Delta checkpoint; the commit that took it is not the newest of the log that can be found."""
    newest_own = log_file(flow.table, 3)
    shutil.copy(newest_own, tmp_path / "backup")
    DeltaTable(str(flow.table)).create_checkpoint()
    actions = [a for a in commit_actions(flow.table, 3) if "txn" not in a]
    for action in actions:
        action.get("commitInfo", {}).pop("userMetadata", None)
        action.get("commitInfo", {}).pop("blizzard", None)
    newest_own.write_text("".join(json.dumps(a) + "\n" for a in actions))
    said = stopped(shell.run("--pipeline", "p"), 3, "stale_checkpoint")
    assert "a newer commit is missing from the log. Restore it from a backup" in said.last["error"]
    shutil.copy(tmp_path / "backup", newest_own)
    goes_on(shell)
    assert ours(shell) == ALL


def test_log_rewritten(flow: Flow, shell: Shell, tmp_path: Path) -> None:
    """The log was truncated: the newest position was planned on a version that comes after it now."""
    shutil.copytree(flow.table / "_delta_log", tmp_path / "backup")
    log_file(flow.table, 3).rename(log_file(flow.table, 2))
    said = stopped(shell.run("--pipeline", "p"), 3, "log_rewritten")
    assert "Restore _delta_log from a backup" in said.last["error"]
    shutil.rmtree(flow.table / "_delta_log")
    (tmp_path / "backup").rename(flow.table / "_delta_log")
    goes_on(shell)
    assert ours(shell) == ALL


def newer_field(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {"from_the_future": 1}


def newer_version(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {"schema_version": 4, "marks": {}}


def sealed(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(fields: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in change(fields).items() if name != "checksum"}
        return rest | {"checksum": checksum_of(rest)}

    return changed


@pytest.mark.parametrize("change", [newer_field, newer_version])
@pytest.mark.parametrize("is_cleaned_up", [False, True])
def test_newer_checkpoint(
    flow: Flow, shell: Shell, change: Callable[[dict[str, Any]], dict[str, Any]], is_cleaned_up: bool
) -> None:
    """Its ledgers would lead to a position that lacks what the newer version knew."""
    shutil.copytree(flow.table, flow.folder / "as_that_version_sees_it")
    change_payload(flow.table, sealed(change))
    if is_cleaned_up:
        write_foreign(flow.table, 9000)
        clean_up_log(flow.table)
    said = stopped(shell.run("--pipeline", "p"), 3, "newer_checkpoint")
    assert "Run that version, or a later one" in said.last["error"]
    shutil.rmtree(flow.table)
    (flow.folder / "as_that_version_sees_it").rename(flow.table)
    goes_on(shell)
    assert ours(shell) == ALL


def test_a_payload_that_only_looks_newer_is_a_damaged_one(flow: Flow, shell: Shell) -> None:
    change_payload(flow.table, newer_field)  # without a checksum that fits
    goes_on(shell)
    assert ours(shell) == ALL


# table_rewritten


@pytest.mark.parametrize("way", ["restore", "rollback"])
@pytest.mark.parametrize("rewrite", ["restore", "overwrite"])
def test_table_rewritten(flow: Flow, shell: Shell, way: str, rewrite: str) -> None:
    if rewrite == "restore":
        DeltaTable(str(flow.table)).restore(2)
    else:
        write_foreign(flow.table, 9000, mode="overwrite")
    said = stopped(shell.run("--pipeline", "p"), 3, "table_rewritten")
    told = shell("status", *shell.where("--explain"))
    assert "RESTORE the table to version 3" in told.text
    if way == "restore":
        (version,) = re.findall(r"RESTORE the table to version (\d+)", said.last["error"])
        DeltaTable(str(flow.table)).restore(int(version))
    elif rewrite == "overwrite":
        assert "checkpoint rollback" not in said.last["error"]  # nothing says what is left
        return
    else:
        done = shell.obey(said, "checkpoint rollback")
        assert done.code == 0, done.text
    goes_on(shell)
    assert ours(shell) == ALL


def test_a_table_emptied_on_purpose_is_begun_again(flow: Flow, shell: Shell) -> None:
    DeltaTable(str(flow.table)).restore(0)
    done = shell.obey(stopped(shell.run("--pipeline", "p"), 3, "table_rewritten"), "checkpoint rollback")
    assert done.code == 0, done.text
    goes_on(shell)
    assert ours(shell) == ALL


def test_import_mismatch_of_an_older_position(flow: Flow, shell: Shell, tmp_path: Path) -> None:
    table = ["--table", str(flow.table)]
    assert shell("checkpoint", "export", *table, "--pipeline", "p", "--sequence", "1", "--out", "kept.json").code == 0
    said = shell("checkpoint", "import", *table, "--in", "kept.json", "--replace")
    stopped(said, 3, "import_mismatch")
    assert shell.obey(said, "checkpoint rollback").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


# rollback


def roll_back(shell: Shell, to: int, *words: str) -> Said:
    where = shell.where("--pipeline", "p", source="src")
    return shell("checkpoint", "rollback", "--to", str(to), *words, *where)


def test_rollback_shows_first_and_does_it_when_told(flow: Flow, shell: Shell) -> None:
    before = newest(flow.table)
    assert roll_back(shell, 1, "--dry-run").code == 0
    said = stopped(roll_back(shell, 1), 2, "not_confirmed")
    assert "add --yes" in said.text
    assert newest(flow.table) == before
    assert roll_back(shell, 1, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_rollback_target(flow: Flow, shell: Shell) -> None:
    said = stopped(roll_back(shell, 7, "--yes"), 3, "rollback_target")
    assert "blizzard checkpoint list" in said.text
    listed = shell("checkpoint", "list", "--table", str(flow.table), "--json")
    known = sorted(json.loads(row)["sequence"] for row in listed.text.splitlines())
    assert roll_back(shell, known[-2], "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_rollback_ledger(flow: Flow, shell: Shell, tmp_path: Path) -> None:
    path = log_file(flow.table, 2)
    shutil.copy(path, tmp_path / "backup")
    actions = commit_actions(flow.table, 2)
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"] = {"timestamp": 1, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    path.write_text("".join(json.dumps(a) + "\n" for a in actions))
    said = stopped(roll_back(shell, 1, "--yes"), 3, "rollback_ledger")
    assert f"Restore _delta_log/{2:020d}.json from a backup" in said.text
    shutil.copy(tmp_path / "backup", path)
    assert roll_back(shell, 1, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_rollback_files(flow: Flow, shell: Shell) -> None:
    DeltaTable(str(flow.table)).optimize.compact()
    said = stopped(roll_back(shell, 1, "--yes"), 3, "rollback_files")
    (version,) = re.findall(r"RESTORE the table to version (\d+)", said.text)
    DeltaTable(str(flow.table)).restore(int(version))
    assert roll_back(shell, 1, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


@pytest.mark.parametrize("way", ["back", "less far"])
def test_rollback_source(flow: Flow, shell: Shell, tmp_path: Path, way: str) -> None:
    (flow.src / "1.ndjson").rename(tmp_path / "1.ndjson")
    said = stopped(roll_back(shell, 1, "--yes"), 3, "rollback_source")
    assert "Put the original back, or roll back to a later sequence" in said.text
    if way == "back":
        (tmp_path / "1.ndjson").rename(flow.src / "1.ndjson")
    assert roll_back(shell, 1 if way == "back" else 2, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_rollback_schema(flow: Flow, shell: Shell) -> None:
    write(flow.src / "3.ndjson", b'{"id":9,"extra":"x"}\n')
    assert shell.run("--pipeline", "p", "--set", "schema.evolution=add_columns").code == 0
    write_deltalake(str(flow.table), pa.table({"id": [9000], "name": ["n"], "extra": ["mine"]}), mode="append")
    said = stopped(roll_back(shell, 2, "--with-schema", "--yes"), 3, "rollback_schema")
    assert "Leave --with-schema out" in said.text
    assert roll_back(shell, 2, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == list(range(10))


def test_rollback_replay(tmp_path: Path, shell: Shell) -> None:
    flow = quarantined_flow(tmp_path)
    assert replay_in(flow).replayed == 2
    write(flow.src / "c.ndjson", line(5))
    flow.run(spec=STRICT)
    said = stopped(roll_back(shell, 1, "--yes"), 3, "rollback_replay")
    (to,) = re.findall(r"Roll back to sequence (\d+) or a later one", said.text)
    assert roll_back(shell, int(to), "--yes").code == 0
    goes_on(shell)
    assert (ours(shell), len(flow.quarantined())) == ([0, 1, 2, 3, 4, 5], 1)


def test_append_only(flow: Flow, shell: Shell) -> None:
    DeltaTable(str(flow.table)).alter.set_table_properties({"delta.appendOnly": "true"})
    said = stopped(roll_back(shell, 1, "--yes"), 3, "append_only")
    assert "set the property to false, roll back, and set it again" in said.text
    DeltaTable(str(flow.table)).alter.set_table_properties({"delta.appendOnly": "false"})
    assert roll_back(shell, 1, "--yes").code == 0
    DeltaTable(str(flow.table)).alter.set_table_properties({"delta.appendOnly": "true"})
    goes_on(shell)
    assert ours(shell) == ALL


def meanwhile(monkeypatch: pytest.MonkeyPatch, module: str, change: Callable[[], object]) -> None:
    """What somebody else does between the look of the first command and its commit."""
    real, others = settle, [change]

    def settle_late(*given: Any, **named: Any) -> None:
        if others:
            others.pop()()
        real(*given, **named)

    monkeypatch.setattr(f"blizzard.{module}.settle", settle_late)


def test_position_changed(flow: Flow, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(
        monkeypatch, "operate.positions", lambda: touch_again(flow.src / "3.ndjson", b"".join(map(line, range(9, 12))))
    )
    again = ("checkpoint", "reset", "--file", "3.ndjson", "--yes", *shell.where("--pipeline", "p"))
    assert "Run again" in stopped(shell(*again), 3, "position_changed").text
    assert shell(*again).code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_rollback_changed(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody deletes what it was about to remove; the rows say which sequence they are of."""
    provenance = ("--set", "table.provenance=sequence")
    for number in range(4):
        write_ids(tmp_path / f"src/{number}.ndjson", 3 * number, 3 * number + 3)
        assert shell.run("--pipeline", "p", *provenance).code == 0
    meanwhile(monkeypatch, "operate.rollback", lambda: DeltaTable(str(shell.table)).delete("_sequence = 3"))
    said = stopped(roll_back(shell, 2, "--yes"), 3, "rollback_changed")
    assert "Run again" in said.text
    assert roll_back(shell, 2, "--yes").code == 0
    goes_on(shell)
    assert ours(shell) == ALL


def test_checkpoint_not_found(flow: Flow, shell: Shell) -> None:
    where = ("--table", str(flow.table), "--pipeline", "p")
    said = stopped(shell("checkpoint", "export", *where, "--sequence", "9", "--out", "-"), 2, "checkpoint_not_found")
    assert "blizzard checkpoint list" in said.text
    assert shell("checkpoint", "export", *where, "--sequence", "3", "--out", "-").code == 0
