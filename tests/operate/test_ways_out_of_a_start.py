"""Each refusal of a start: produce the state, do what the text says by the letter, and compare every record."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.core.plan import Limits
from tests.delta.test_hostile_log import change_payload
from tests.flows.in_process import Flow, clean_up_log, log_file, newest, write_foreign
from tests.flows.shell import Said, Shell, options_in
from tests.ingesting import commit_actions, ids, write_ids
from tests.operate.test_positions_in_checkpoints import partly_read
from tests.run.test_adopt import rust_commit


def refused(said: Said, kind: str) -> str:
    assert (said.code, said.kind) == (3, kind), said.text
    return str(said.last["error"])


def as_another_table(table: Path) -> None:
    """A copy that was given an id of its own, with the log of the first."""
    actions = commit_actions(table, 0)
    for action in actions:
        if "metaData" in action:
            action["metaData"]["id"] = "11111111-2222-3333-4444-555555555555"
    log_file(table, 0).write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize("is_cleaned_up", [False, True])
def test_table_replaced(tmp_path: Path, shell: Shell, is_cleaned_up: bool) -> None:
    flow = partly_read(tmp_path)
    as_another_table(flow.table)
    if is_cleaned_up:
        write_foreign(flow.table, 9000)
        clean_up_log(flow.table)
    write_ids(flow.src / "c.ndjson", 7, 9)
    said = shell.run("--pipeline", "p")
    text = refused(said, "table_replaced")
    assert "b.ndjson (2 records read)" in text
    assert "--start-from" not in text
    *_, done = shell.follow(said)
    assert done.code == 0, done.text
    assert [i for i in ids(shell.table) if i < 9000] == list(range(9))


def test_other_source_where_the_files_were_moved(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    flow.src.rename(tmp_path / "new")
    write_ids(tmp_path / "new/c.ndjson", 7, 9)
    text = refused(said := shell.run("--pipeline", "p", source="new"), "other_source")
    assert "If its files were moved, make the old path lead to them again" in text
    os.symlink(tmp_path / "new", flow.src)
    assert shell.run(*options_in(said, "and go on with ")).code == 0
    assert ids(shell.table) == list(range(9))


def test_other_source_where_it_is_another_one(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    flow.run()
    write_ids(tmp_path / "new/a.ndjson", 7, 9)
    text = refused(shell.run("--pipeline", "p", source="new"), "other_source")
    assert "give it a --pipeline name of its own" in text
    text = refused(shell.run("--pipeline", "new", source="new"), "table_has_data")
    assert "Its pipelines (p) read other sources" in text
    assert "begin with --start-from beginning" in text
    assert shell.run("--pipeline", "new", "--start-from", "beginning", source="new").code == 0
    assert ids(shell.table) == list(range(9))


@pytest.mark.parametrize("words", [["--set", "source.pattern=*.ndjson"], ["--set", "source.marks_per=day"]])
def test_other_source_where_only_its_description_differs(tmp_path: Path, shell: Shell, words: list[str]) -> None:
    partly_read(tmp_path)
    text = refused(said := shell.run("--pipeline", "p", *words), "other_source")
    assert "name of its own" not in text
    assert shell.run(*options_in(said, "Go on with what it reads: ")).code == 0
    assert ids(shell.table) == list(range(7))


@pytest.mark.parametrize("words", [["--start-from", "beginning"], ["--start-from", "after:a.ndjson"]])
def test_start_from_rejected(tmp_path: Path, shell: Shell, words: list[str]) -> None:
    partly_read(tmp_path)
    text = refused(shell.run("--pipeline", "p", *words), "start_from_rejected")
    assert text.endswith("Leave the option out to go on from there.")
    assert shell.run("--pipeline", "p").code == 0
    assert ids(shell.table) == list(range(7))


def test_table_has_data_of_somebody_else(tmp_path: Path, shell: Shell) -> None:
    write_foreign(shell.table, 9000)
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    assert "begin with --start-from beginning" in refused(shell.run(), "table_has_data")
    assert shell.run("--start-from", "beginning").code == 0
    assert ids(shell.table) == [0, 1, 2, 9000]


def test_table_has_data_of_this_source_by_another_program(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/b.ndjson", 3, 6)
    write_foreign(shell.table, 0, 1, 2)
    assert "--start-from after:NAME leaves out the files up to NAME" in refused(shell.run(), "table_has_data")
    assert shell.run("--start-from", "after:a.ndjson").code == 0
    assert ids(shell.table) == list(range(6))


@pytest.mark.parametrize("how", ["backup", "export"])
def test_damaged_checkpoint(tmp_path: Path, shell: Shell, how: str) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 4)
    flow.run(limits=Limits(max_records=2), max_batches=1)  # the only commit: there is no position before it
    version = newest(flow.table)
    shutil.copy(log_file(flow.table, version), tmp_path / "backup.json")
    table = ["--table", str(flow.table)]
    assert shell("checkpoint", "export", *table, "--pipeline", "p", "--out", "kept.json").code == 0
    change_payload(flow.table, lambda _: {})
    text = refused(shell.run("--pipeline", "p"), "damaged_checkpoint")
    assert f"Restore _delta_log/{version:020d}.json from a backup" in text
    assert "p" in shell("status", *table).text
    assert shell.run("--pipeline", "q", "--start-from", "beginning").code == 3  # the ledger knows the files
    if how == "backup":
        shutil.copy(tmp_path / "backup.json", log_file(flow.table, version))
    else:
        assert (
            "import an exported position of sequence 1 (blizzard checkpoint import --replace; with --from-mirror"
            in text
        )
        assert shell("checkpoint", "import", *table, "--in", "kept.json", "--replace").code == 0
    assert shell.run("--pipeline", "p").code == 0
    assert ids(shell.table) == [0, 1, 2, 3]


def rust_table(folder: Path) -> Flow:
    flow = Flow(folder)
    for number, name in enumerate("abc"):
        write_ids(flow.src / f"{name}.ndjson", 3 * number, 3 * number + 3)
    return flow


@pytest.mark.parametrize("is_cleaned_up", [False, True])
@pytest.mark.parametrize("words", [[], ["--start-from", "beginning"], ["--start-from", "after:a.ndjson"]])
def test_a_table_of_the_rust_program_is_adopted(
    tmp_path: Path, shell: Shell, words: list[str], is_cleaned_up: bool
) -> None:
    flow = rust_table(tmp_path)
    rust_commit(flow, None, {}, 0)
    rust_commit(flow, f"file://{flow.src}/b.ndjson", {}, 1, 2, 3, 4, 5)
    if is_cleaned_up:
        write_foreign(flow.table, 9000)
        clean_up_log(flow.table)
    text = refused(shell.run(*words), "source_read_by_other" if words else "table_has_data")
    assert "--adopt" in text
    assert shell.run("--adopt").code == 0
    assert [i for i in ids(shell.table) if i < 9000] == list(range(9))


def test_adopt_rejected_where_there_is_a_position_already(tmp_path: Path, shell: Shell) -> None:
    partly_read(tmp_path)
    assert "Leave --adopt out" in refused(shell.run("--pipeline", "p", "--adopt"), "adopt_rejected")
    assert shell.run("--pipeline", "p").code == 0
    assert ids(shell.table) == list(range(7))


def test_adopt_rejected_where_a_file_in_progress_is_gone(tmp_path: Path, shell: Shell) -> None:
    flow = rust_table(tmp_path)
    rust_commit(flow, f"file://{flow.src}/a.ndjson", {f"file://{flow.src}/b.ndjson": {"RecordsRead": 1}}, 0, 1, 2, 3)
    (flow.src / "b.ndjson").rename(tmp_path / "b.ndjson")
    assert refused(shell.run("--adopt"), "adopt_rejected").endswith("Put it back.")
    (tmp_path / "b.ndjson").rename(flow.src / "b.ndjson")
    assert shell.run("--adopt").code == 0
    assert ids(shell.table) == list(range(9))


@pytest.mark.parametrize("mark", [None, "date=2024-01-01/0198.parquet", "s3://elsewhere/a.ndjson"])
def test_adopt_rejected_where_its_position_says_nothing(tmp_path: Path, shell: Shell, mark: str | None) -> None:
    flow = rust_table(tmp_path)
    rust_commit(flow, mark, {}, 0, 1, 2, 3, 4, 5)
    text = refused(shell.run("--adopt"), "adopt_rejected")
    assert "the last file NAME of this source whose records are all in the table" in text
    assert shell.run("--start-from", "after:b.ndjson").code == 0
    assert ids(shell.table) == list(range(9))


def test_adopt_rejected_on_a_table_that_it_never_wrote(tmp_path: Path, shell: Shell) -> None:
    write_foreign(shell.table, 9000)
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    refused(shell.run("--adopt"), "adopt_rejected")
    assert shell.run("--start-from", "beginning").code == 0
    assert ids(shell.table) == [0, 1, 2, 9000]


def test_a_position_in_a_checkpoint_whose_rows_are_gone(tmp_path: Path, shell: Shell) -> None:
    """The other half of that way out: the table does not hold the records of the position, and a backup does."""
    flow = partly_read(tmp_path)
    shutil.copytree(flow.table, tmp_path / "backup")
    DeltaTable(str(flow.table)).restore(newest(flow.table) - 1)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    text = refused(shell.run("--pipeline", "p"), "table_rewritten")
    assert text.endswith("If it does not, restore the table from a backup that does.")
    shutil.rmtree(flow.table)
    (tmp_path / "backup").rename(flow.table)
    assert shell.run("--pipeline", "p").code == 0
    assert ids(shell.table) == list(range(7))
