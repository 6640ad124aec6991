"""Whoever can write to the table can write any ledger. No file outside of the source is touched for it, and nothing
ends in anything but an error that says what is wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.audit import audit
from blizzard.core.batch import seal
from blizzard.core.judge import judge_history
from blizzard.core.late import LatePolicy, Scope, compare_with_ledgers
from blizzard.core.log import CommitFacts, History
from blizzard.core.look import Listed
from blizzard.core.position import Position
from blizzard.core.rollback import plan_rollback
from blizzard.core.types import BatchResult, SourceFile
from blizzard.errors import BlizzardError, Refused
from blizzard.operate.status import checkpoints, ingested_files
from blizzard.report.rows import gather
from blizzard.run.after_ingest import Cleaning
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.local import LocalStore
from blizzard.store.objects import ObjectStore
from blizzard.testing.positions import changed
from tests.core.forged import forged_ledgers, sound_ledger
from tests.flows.in_process import Flow, info, log_file, newest, touch_again, write_raw
from tests.flows.replaying import newest_position
from tests.ingesting import commit_actions, ids, line, write, write_ids

DAY_MS = 86_400_000


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Three sequences, the last of which has a bad record; and a file outside of the source."""
    made = Flow(tmp_path)
    for number in range(3):
        write(made.src / f"{number}.ndjson", line(number) + (b"{]\n" if number == 2 else b""))
        made.run()
    write_ids(tmp_path / "precious.ndjson", 0, 3)
    made.clock.ms += 2 * DAY_MS
    return made


def forge(flow: Flow, version: int, change: Any) -> None:
    """Put `change(ledger)` in place of the ledger of this version; text is taken as it is."""
    actions = commit_actions(flow.table, version)
    for action in actions:
        if "commitInfo" in action:
            forged = change(json.loads(action["commitInfo"]["userMetadata"]))
            action["commitInfo"]["userMetadata"] = forged if isinstance(forged, str) else json.dumps(forged)
    log_file(flow.table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def names(flow: Flow, name: str, file: Path) -> None:
    """The newest ledger says that this was ingested under that name, and it is as it was then."""
    info = file.stat()
    taken = {"path": name, "size": info.st_size, "etag": str(info.st_mtime_ns), "from": 0, "to": 3}
    entry = taken | {"finished": True, "bad": 0}
    forge(flow, newest(flow.table), lambda ledger: ledger | {"files": [entry]})


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "_delta_log" not in str(p)}


@pytest.mark.parametrize("action", ["delete", "archive"])
@pytest.mark.parametrize(
    "name",
    [
        *("../precious.ndjson", "{folder}/precious.ndjson", "d/../../precious.ndjson", "link/precious.ndjson"),
        *("./../precious.ndjson", "d/../0.ndjson", "//{folder}/precious.ndjson"),
        *("_hidden/x.ndjson", "d/.x.ndjson", "x.csv"),
    ],
)
def test_no_name_in_a_ledger_leads_out_of_the_source(flow: Flow, name: str, action: str) -> None:
    for hidden in ("_hidden/x.ndjson", "d/.x.ndjson", "x.csv"):
        write_ids(flow.src / hidden, 0, 3)
    real = {"link/precious.ndjson": flow.folder / "precious.ndjson"}.get(name) or flow.src / name.format(
        folder=flow.folder
    )
    names(flow, name.format(folder=flow.folder), real)
    archive = open_store(str(flow.folder / "kept")) if action == "archive" else None
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=archive), keep_ms=DAY_MS)
    position = changed(newest_position(flow), due_through=3)
    if name.startswith("link"):
        (flow.src / "link").symlink_to(flow.folder)
    before = everything(flow.folder)
    cleaning.run(position, list(flow.open().scan_back()), flow.told.see, flow.quarantine)
    after = everything(flow.folder)
    gone = {path for path in before if path not in after}
    assert gone <= {str(flow.src / f"{n}.ndjson") for n in range(2)}  # what the other ledgers name
    copied = {path for path in after if path not in before}
    assert copied <= {str(flow.folder / f"kept/{n}.ndjson") for n in range(2)}


def test_a_name_in_the_position_is_not_asked_for_outside(flow: Flow) -> None:
    """As a pending file of bad records, which settling would add to the quarantine."""
    position = changed(newest_position(flow), pending=("../table/x.parquet",))
    sealed = seal(replace(position, sequence=4), BatchResult())
    version = newest(flow.table) + 1
    txns = [{"appId": sealed.app_id, "version": 4}, {"appId": sealed.fence_app_id, "version": 4}]
    actions = [{"txn": txn | {"lastUpdated": 1}} for txn in txns]
    log_file(flow.table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))
    with pytest.raises(Refused) as refused:
        flow.run()
    assert refused.value.kind == "damaged_checkpoint"


def test_a_quarantine_that_names_a_file_elsewhere_is_not_read(flow: Flow) -> None:
    folder = flow.folder / "table_quarantine"
    version = newest(folder)
    text = log_file(folder, version).read_text()
    (name,) = (p.name for p in folder.glob("*.parquet"))
    (folder / name).rename(flow.folder / name)
    log_file(folder, version).write_text(text.replace(f'"path":"{name}"', f'"path":"../{name}"'))
    assert f"../{name}" in log_file(folder, version).read_text()
    assert main(["dlq", "list", "--table", str(flow.table)]) == Refused.exit_code


def commands(flow: Flow, commits: list[CommitFacts], position: Position) -> Iterator[Any]:
    """Everything that reads ledgers."""
    table, listing = flow.open(), flow.source.list()
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS)
    yield lambda: list(ingested_files(table, None))
    yield lambda: list(checkpoints(table, None))
    yield lambda: audit(Listed(files=listing, at_ms=0), position, commits)
    yield lambda: gather(commits)
    yield lambda: compare_with_ledgers(Listed(files=listing, at_ms=0), position, commits, LatePolicy())
    yield lambda: cleaning.due_through(position, commits, flow.clock.ms)
    yield lambda: cleaning.run(changed(position, due_through=3), commits, flow.told.see, flow.quarantine)
    found = [(commit, actions) for commit in commits if (actions := table.file_actions(commit.version)) is not None]
    history = History(commits=tuple(found), base=frozenset())
    for to in range(3):
        yield lambda to=to: plan_rollback(history, judge_history(history, "p"), current=position, to=to)


def test_no_forged_ledger_ends_in_a_crash(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: set[str] = set()

    def delete(_: LocalStore, file: SourceFile) -> bool:
        deleted.add(file.path)
        return True

    monkeypatch.setattr(LocalStore, "delete_version", delete)
    version, position = newest(flow.table), newest_position(flow)
    whole = log_file(flow.table, version).read_bytes()
    (ledger,) = (
        json.loads(action["commitInfo"]["userMetadata"])
        for action in commit_actions(flow.table, version)
        if "commitInfo" in action
    )
    texts: list[tuple[str, Any]] = [("no JSON", '{"blizzard"'), ("no object", '["blizzard"]'), ("text", '"blizzard"')]
    for _, fields in [*forged_ledgers(ledger), *texts]:
        log_file(flow.table, version).write_bytes(whole)
        forge(flow, version, lambda _, fields=fields: fields)
        for command in commands(flow, list(flow.open().scan_back()), position):
            with contextlib.suppress(BlizzardError):
                command()
    assert deleted <= {"0.ndjson", "1.ndjson", "2.ndjson"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("sequence", "x"), ("files", [{"path": 7}]), ("superseded", 5), ("records", None), ("source", "x"), ("kind", [])],
)
def test_every_command_says_what_is_wrong(
    flow: Flow, field: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(flow, newest(flow.table), lambda ledger: ledger | {field: value})
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    for command in (
        ["files", "--table", str(flow.table)],
        ["checkpoint", "list", "--table", str(flow.table)],
        ["checkpoint", "show", "--table", str(flow.table)],
        ["checkpoint", "rollback", *where, "--to", "1", "--dry-run"],
        ["audit", *where],
        ["plan", *where],
        ["status", "--table", str(flow.table)],
        ["report", "--table", str(flow.table), "--out", str(flow.folder / "report.html")],
    ):
        assert main(command) in (0, 2, 3), command
        assert "internal" not in capsys.readouterr().err


def test_a_commit_that_took_no_sequence_says_nothing_about_files(flow: Flow) -> None:
    """A foreign commit with a ledger of this pipeline: the file it names was never read."""
    write_ids(flow.src / "0-late.ndjson", 100, 103)
    info_of = (flow.src / "0-late.ndjson").stat()
    entry = {"path": "0-late.ndjson", "size": info_of.st_size, "etag": str(info_of.st_mtime_ns)}
    entry |= {"from": 0, "to": 3, "finished": True, "bad": 0}
    ledger = sound_ledger() | {"sequence": 4, "files": [entry], "superseded": [2, 3]}
    write_raw(flow.table, info("WRITE", userMetadata=json.dumps(ledger)))
    assert flow.run().late_files == 1
    assert ids(flow.table) == [0, 1, 2, 100, 101, 102]


def test_a_name_in_the_position_is_asked_for_only_if_a_listing_would_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ObjectStore, "stat", lambda _, name: asked.append(name))
    source = locate_source("memory://bucket/src")
    scope = Scope(
        is_full=False, after={"": "x"}, also=("../a.ndjson", "d/../b.ndjson", "_c.ndjson", "d.csv", "e.ndjson")
    )
    assert len(list_source(source, scope)) == 0
    assert asked == ["e.ndjson"]


def test_a_name_whose_ledger_cannot_be_read_is_not_taken_for_late(flow: Flow) -> None:
    """It is in the table, and only that ledger knew."""
    forge(flow, newest(flow.table), lambda ledger: ledger | {"records": "x"})
    touch_again(flow.src / "2.ndjson", (flow.src / "2.ndjson").read_bytes())
    with pytest.raises(Refused) as refused:
        flow.run()
    assert refused.value.kind == "late_unclear"
    assert ids(flow.table) == [0, 1, 2]
