"""Refusals that are about the quarantine: produce the state, follow the text by the letter, compare every record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard import faults
from tests.failing import ends_with
from tests.flows.backups import Elsewhere, add_file, lines, live, put_back, three_batches
from tests.flows.in_process import Flow, info, write_raw
from tests.flows.shell import Said, Shell
from tests.ingesting import ids
from tests.operate.test_ways_out_of_files import goes_on, stopped

LOSS = "--accept-quarantine-loss"


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    return three_batches(tmp_path)


def realign(shell: Shell, *words: str) -> Said:
    return shell("dlq", "realign", "--table", str(shell.table), "--pipeline", "p", *words)


def every_record_once(flow: Flow, *numbers: int) -> None:
    assert (ids(flow.table), live(flow)) == (list(numbers), lines(*numbers))


def pending_is_lost(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth batch is committed, and the file with its bad record vanishes before it is added."""
    before = set(Path(flow.quarantine.root).glob("*.parquet"))
    add_file(flow, 4)
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run()
    monkeypatch.delenv("BLIZZARD_FAULT")
    (pending,) = set(Path(flow.quarantine.root).glob("*.parquet")) - before
    pending.rename(flow.folder / pending.name)


@pytest.mark.parametrize("way", ["back", "again", "give up"])
def test_quarantine_lost(flow: Elsewhere, shell: Shell, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    pending_is_lost(flow, monkeypatch)
    said = stopped(shell.run("--pipeline", "p"), 3, "quarantine_lost")
    if way == "back":
        (kept,) = flow.folder.glob("*.parquet")
        kept.rename(Path(flow.quarantine.root) / kept.name)
    elif way == "again":
        done = shell.obey(said, "checkpoint rollback")
        assert done.code == 0, done.text
    else:
        assert shell.run("--pipeline", "p", LOSS).code == 0
        assert live(flow) == lines(1, 2, 3)
        return
    goes_on(shell, "--set", "after_ingest.action=delete", "--set", "after_ingest.keep_s=0")
    every_record_once(flow, 1, 2, 3, 4)


def test_a_loss_is_known_before_a_run(flow: Elsewhere, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pending_is_lost(flow, monkeypatch)
    assert json.loads(shell("plan", *shell.where("--pipeline", "p"), "--json").text)["error_kind"] == "quarantine_lost"
    doctor = shell("doctor", "--table", str(flow.table))
    assert doctor.code == 3
    assert "--accept-quarantine-loss" in doctor.text


@pytest.mark.parametrize("way", ["back", "again"])
def test_quarantine_behind_and_its_files_are_gone_too(flow: Elsewhere, shell: Shell, way: str) -> None:
    put_back(flow, "quarantine-1")
    stopped(shell.run("--pipeline", "p"), 3, "quarantine_behind")
    said = stopped(realign(shell), 3, "quarantine_lost")
    if way == "back":
        put_back(flow, "quarantine-3")
    else:
        assert realign(shell, LOSS).code == 0
        done = shell.obey(said, "checkpoint rollback")
        assert done.code == 0, done.text
    goes_on(shell)
    every_record_once(flow, 1, 2, 3)


def test_quarantine_ahead(flow: Elsewhere, shell: Shell) -> None:
    put_back(flow, "table-1")
    said = stopped(shell.run("--pipeline", "p"), 3, "quarantine_ahead")
    assert "dlq realign" in said.last["error"]
    assert realign(shell).code == 0
    goes_on(shell)
    every_record_once(flow, 1, 2, 3)


@pytest.mark.parametrize("way", ["back", "new"])
def test_quarantine_moved(flow: Elsewhere, shell: Shell, tmp_path: Path, way: str) -> None:
    elsewhere = ("--set", f"quarantine.path={tmp_path / 'another'}")
    add_file(flow, 4)
    stopped(shell.run("--pipeline", "p", *elsewhere), 3, "quarantine_moved")
    if way == "back":
        goes_on(shell)
        every_record_once(flow, 1, 2, 3, 4)
        return
    stopped(realign(shell, *elsewhere), 3, "quarantine_lost")
    assert realign(shell, *elsewhere, LOSS).code == 0
    assert shell.run("--pipeline", "p", *elsewhere).code == 0
    old = live(flow)
    flow.quarantine_at = tmp_path / "another"
    assert (ids(flow.table), old, live(flow)) == ([1, 2, 3, 4], lines(1, 2, 3), lines(4))


def protocol(reader: int, writer: int, **features: list[str]) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer} | features}


@pytest.mark.parametrize("way", ["drop", "another"])
def test_unsupported_table(flow: Elsewhere, shell: Shell, tmp_path: Path, way: str) -> None:
    """Somebody turned deletion vectors on in the quarantine table: runs go on, and nobody reads it."""
    root, named = Path(flow.quarantine.root), ["deletionVectors"]
    write_raw(root, info("UPGRADE PROTOCOL"), protocol(3, 7, readerFeatures=named, writerFeatures=named))
    said = stopped(shell("dlq", "list", "--table", str(flow.table)), 3, "unsupported_table")
    assert "DROP FEATURE" in said.text
    if way == "another":
        elsewhere = ("--set", f"quarantine.path={tmp_path / 'another'}")
        assert realign(shell, *elsewhere, LOSS).code == 0
        add_file(flow, 4)
        assert shell.run("--pipeline", "p", *elsewhere).code == 0
        flow.quarantine_at = tmp_path / "another"
        assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(4))
        flow.quarantine_at = None
    write_raw(root, info("DROP FEATURE"), protocol(1, 2))
    assert shell("dlq", "list", "--table", str(flow.table)).code == 0
    assert live(flow) == lines(1, 2, 3)


def test_a_file_that_blizzard_did_not_write_is_taken_out_of_the_quarantine(flow: Elsewhere, shell: Shell) -> None:
    root = Path(flow.quarantine.root)
    foreign = {"path": "../elsewhere.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    write_raw(root, info("WRITE"), {"add": foreign | {"dataChange": True}})
    said = stopped(shell("dlq", "show", "--table", str(flow.table)), 3, "unsupported_table")
    assert "take that file out of the table again" in said.text
    write_raw(root, info("FSCK"), {"remove": {"path": foreign["path"], "dataChange": True, "deletionTimestamp": 1}})
    assert shell("dlq", "show", "--table", str(flow.table)).code == 0
    goes_on_unchanged = shell.run("--pipeline", "p")
    assert (goes_on_unchanged.code, goes_on_unchanged.last["commits"]) == (0, 0)
    every_record_once(flow, 1, 2, 3)


def test_quarantine_damaged(flow: Elsewhere, shell: Shell) -> None:
    where = ("--table", str(flow.table), "--pipeline", "p")
    damaged = max(Path(flow.quarantine.root).glob("*.parquet"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-100])
    said = stopped(shell("dlq", "export", *where, "--out", "-"), 3, "quarantine_damaged")
    assert f"{damaged.name} holds records in quarantine and is damaged" in said.text
    damaged.write_bytes(content)
    assert len(shell("dlq", "export", *where, "--out", "-").text.splitlines()) >= 3
    every_record_once(flow, 1, 2, 3)
