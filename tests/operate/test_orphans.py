"""Files that nothing names: found when they are old, deleted when asked, and never one that is still needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard import faults
from blizzard.operate.orphans import SHORTEST_AGE, find_orphans
from blizzard.store.local import LocalStore
from tests.delta.test_hostile_log import call, clean_up, runs
from tests.failing import ends_with
from tests.flows.in_process import Flow
from tests.flows.shell import Shell
from tests.ingesting import ids, write
from tests.quarantine.test_table import mixed


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def test_orphans_are_files_that_nothing_names(
    flow: Flow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = runs(flow, 2)
    ours = list(flow.table.glob("*.parquet"))
    orphan = flow.table / "blizzard-0123456789ab-00000007-0000-0123456789ab-0000.snappy.parquet"
    foreign = flow.table / "part-00000-of-somebody.snappy.parquet"
    marker = flow.table / "_blizzard-end-0123456789ab-00000007"
    for path in (orphan, foreign, marker):
        path.write_bytes(ours[0].read_bytes())
    # A file's ctime cannot be set: a later clock makes them all old.
    monkeypatch.setattr("blizzard.store.local.LocalStore.now_ms", lambda _: 4_000_000_000_000)
    arguments = ["vacuum-orphans", "--table", str(flow.table)]
    code, text = call(capsys, *arguments, "--json")
    assert code == 0
    assert [os.path.basename(f["path"]) for f in json.loads(text)["files"]] == [marker.name, orphan.name]
    assert orphan.exists()
    clean_up(flow)
    code, text = call(capsys, *arguments, "--yes")
    assert (code, orphan.exists(), marker.exists(), foreign.exists()) == (0, False, False, True), text
    assert ids(flow.table) == expected
    assert call(capsys, *arguments, "--older-than", "6d")[0] == 2


def test_young_files_are_never_orphans(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    runs(flow, 1)
    (flow.table / "blizzard-0123456789ab-00000007-0000-0123456789ab-0000.snappy.parquet").write_bytes(b"")
    _, text = call(capsys, "vacuum-orphans", "--table", str(flow.table), "--json")
    assert json.loads(text)["files"] == []


def test_a_pending_quarantine_file_is_never_an_orphan(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed(flow)
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run()
    monkeypatch.delenv("BLIZZARD_FAULT")
    monkeypatch.setattr("blizzard.store.local.LocalStore.now_ms", lambda _: 4_000_000_000_000)
    assert find_orphans(flow.open(), flow.quarantine.root, SHORTEST_AGE) == []
    flow.run()
    assert find_orphans(flow.open(), flow.quarantine.root, SHORTEST_AGE) == []


def test_what_a_crash_left_of_a_copy_is_an_orphan(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed(flow)
    flow.run()
    folder = Path(flow.quarantine.root)
    written = next(folder.glob("*.parquet")).read_bytes()
    for name in ("kept", "realign"):
        (folder / f"blizzard-{name}-0123456789ab.parquet").write_bytes(written)
    assert find_orphans(flow.open(), flow.quarantine.root, SHORTEST_AGE) == []  # too young
    monkeypatch.setattr("blizzard.store.local.LocalStore.now_ms", lambda _: 4_000_000_000_000)
    found = [Path(orphan.path).name for orphan in find_orphans(flow.open(), flow.quarantine.root, SHORTEST_AGE)]
    assert found == ["blizzard-kept-0123456789ab.parquet", "blizzard-realign-0123456789ab.parquet"]


def test_bad_records_that_another_table_has_pending_are_no_orphans(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in the quarantine that both share, and only the other table's log names them."""
    shared = ("--set", f"quarantine.path={tmp_path / 'shared'}")

    def where(name: str) -> list[str]:
        table = ["--source", str(tmp_path / name), "--table", str(tmp_path / f"t-{name}"), "--pipeline", "p", *shared]
        return [*table, *([] if (tmp_path / f"t-{name}").exists() else ["--schema", "id BIGINT"])]

    for number, name in enumerate(("one", "two")):
        write(tmp_path / name / "a.ndjson", b'{"id":%d}\nbad %d\n' % (number, number))
        if name == "two":
            faults._visits.clear()
            monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
        assert shell("run", *where(name)).code == (75 if name == "two" else 0)
    monkeypatch.delenv("BLIZZARD_FAULT")
    real = LocalStore.now_ms
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "now_ms", lambda self: real(self) + 8 * 86_400_000)
        said = shell("vacuum-orphans", "--table", str(tmp_path / "t-one"), *shared, "--yes")
    assert said.text.startswith("0 orphans")
    assert shell("run", *where("two")).code == 0
    assert len(DeltaTable(str(tmp_path / "shared")).to_pyarrow_table()) == 2
