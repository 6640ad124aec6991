"""What is remembered of a log's Txns and of a handle must be what the log says now, whoever has written to it since."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.schema import PrimitiveType

from blizzard.delta import txns
from blizzard.delta.errors import txn_version
from blizzard.delta.txns import Txns
from blizzard.quarantine.kept import KeptHandle
from blizzard.store import open_store
from blizzard.store.files import Store

SCHEMA = Schema([Field("id", PrimitiveType("long"))])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Txns that delta-rs was asked for, in order."""
    seen: list[str] = []

    def counting(handle: DeltaTable, app_id: str, store: Store) -> int | None:
        seen.append(app_id)
        return txn_version(handle, app_id, store)

    monkeypatch.setattr(txns, "txn_version", counting)
    return seen


def make(root: Path) -> DeltaTable:
    return DeltaTable.create(str(root), schema=SCHEMA)


def commit(root: Path, **versions: int) -> None:
    """By a writer of its own."""
    stamp = CommitProperties(app_transactions=[Transaction(app_id, version) for app_id, version in versions.items()])
    DeltaTable(str(root)).create_write_transaction([], mode="append", schema=SCHEMA, commit_properties=stamp)


def test_a_txn_is_asked_once_and_then_followed(tmp_path: Path, asked: list[str]) -> None:
    handle, known = make(tmp_path), Txns(open_store(str(tmp_path)))
    commit(tmp_path, a=1)
    handle.update_incremental()
    assert known.at(handle, "a", "b") == (1, None)
    commit(tmp_path, b=5)
    commit(tmp_path, a=2)
    commit(tmp_path, a=3, c=1)
    handle.update_incremental()
    assert known.at(handle, "a", "b") == (3, 5)
    commit(tmp_path, c=2)
    handle.update_incremental()
    assert known.at(handle, "a", "b") == (3, 5)
    assert asked == ["a", "b"]


def test_each_txn_is_followed_from_where_it_was_asked(tmp_path: Path, asked: list[str]) -> None:
    handle, known = make(tmp_path), Txns(open_store(str(tmp_path)))
    commit(tmp_path, a=1, b=1)
    handle.update_incremental()
    assert known.at(handle, "a") == (1,)
    commit(tmp_path, a=2, b=2)
    handle.update_incremental()
    assert known.at(handle, "b") == (2,)
    commit(tmp_path, b=3)
    handle.update_incremental()
    assert known.at(handle, "a", "b") == (2, 3)
    assert asked == ["a", "b"]


def test_a_commit_that_was_cleaned_up_is_asked_of_delta_rs(tmp_path: Path, asked: list[str]) -> None:
    handle, known = make(tmp_path), Txns(open_store(str(tmp_path)))
    commit(tmp_path, a=1)
    handle.update_incremental()
    assert known.at(handle, "a") == (1,)
    commit(tmp_path, a=2)
    commit(tmp_path, c=1)
    DeltaTable(str(tmp_path)).create_checkpoint()
    (tmp_path / "_delta_log" / f"{2:020d}.json").unlink()
    assert known.at(DeltaTable(str(tmp_path)), "a") == (2,)
    assert asked == ["a", "a"]


def test_a_kept_handle_follows_its_table(tmp_path: Path) -> None:
    make(tmp_path)
    kept, opened = KeptHandle(), list[int]()

    def open_table() -> DeltaTable:
        opened.append(1)
        return DeltaTable(str(tmp_path))

    store = open_store(str(tmp_path))
    for version in range(4):
        handle = kept.newest(store, open_table)
        assert handle is not None
        assert (handle.version(), kept.txn_versions(handle, "a")) == (version, (version or None,))
        commit(tmp_path, a=version + 1)
    assert len(opened) == 1


def test_a_kept_handle_is_not_used_for_another_table_at_the_same_place(tmp_path: Path) -> None:
    root, store, kept = tmp_path / "table", open_store(str(tmp_path / "table")), KeptHandle()
    make(root)
    commit(root, a=7)
    before = kept.newest(store, lambda: DeltaTable(str(root)))
    assert before is not None
    assert kept.txn_versions(before, "a") == (7,)
    old_id = before.metadata().id
    shutil.rmtree(root)
    make(root)
    commit(root, b=1)
    commit(root, b=2)
    after = kept.newest(store, lambda: DeltaTable(str(root)))
    assert after is not None
    assert after.metadata().id != old_id
    assert kept.txn_versions(after, "a", "b") == (None, 2)


def test_a_table_that_is_gone_is_not_kept(tmp_path: Path) -> None:
    root, kept = tmp_path / "table", KeptHandle()
    make(root)
    store = open_store(str(root))
    assert kept.newest(store, lambda: DeltaTable(str(root))) is not None
    shutil.rmtree(root)
    assert kept.newest(store, lambda: None) is None
