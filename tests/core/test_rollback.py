"""What going back to an older sequence takes, and where it is refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.judge import judge_history
from blizzard.core.kinds import Kind
from blizzard.core.ledger import LedgerEntry
from blizzard.core.log import Txn
from blizzard.core.position import Marks, RecordsRead, Seen
from blizzard.core.refuse import Refuse
from blizzard.core.rollback import RollbackPlan, check_sources, plan_rollback
from blizzard.core.types import SourceFile
from tests.core.logs import DAMAGED, Log, facts, fence, listed, took
from tests.core.test_codec import EXAMPLE, example


def four() -> Log:
    """Version 0 makes the table. Sequences 1 to 4, in the versions of the same numbers, take file 1 to file 4."""
    log = Log().put(facts(0, fence(0), operation="CREATE TABLE"))
    for number in range(1, 5):
        log.own(took(str(number)), position={"marks": Marks(last_committed_file=str(number))})
    return log


def gone_back() -> Log:
    """Sequence 5 has gone back to sequence 2."""
    removed = ["f3.parquet", "f4.parquet"]
    return four().own(added=(), removed=removed, kind="rollback", rolled_back_to=2, superseded=(3, 4))


def without_ledger(log: Log) -> Log:
    commit, actions = log.commits[-1]
    log.commits[-1] = replace(commit, user_metadata=None), actions
    return log


def with_damaged_payload(log: Log, version: int) -> Log:
    commit, actions = log.commits[version]
    log.commits[version] = replace(commit, txns=(Txn(app_id=DAMAGED, version=1), commit.txns[1])), actions
    return log


def restored(log: Log, version: int, added: Collection[str] = (), removed: Collection[str] = ()) -> Log:
    return log.foreign("RESTORE", list(added), list(removed), restored_to=version, removes_rows=bool(removed))


def plan(log: Log, to: int, oldest: int = 0, proven_out: Collection[int] = (), **current: Any) -> RollbackPlan | Refuse:
    history = log.history(oldest)
    position = example(**{"sequence": log.sequence} | current)
    return plan_rollback(history, judge_history(history, "p"), current=position, to=to, proven_out=proven_out)


# the log; where to; the sequences taken back; the files removed; the source files to be read again; the first version
PLANS: dict[str, tuple[Log, int, tuple[int, ...], list[str], list[str], int]] = {
    "one batch": (four(), 3, (4,), ["f4.parquet"], ["4"], 4),
    "two batches": (four(), 2, (3, 4), ["f3.parquet", "f4.parquet"], ["3", "4"], 3),
    "to the beginning": (four(), 0, (1, 2, 3, 4), [f"f{n}.parquet" for n in (1, 2, 3, 4)], ["1", "2", "3", "4"], 1),
    "others' rows stay": (four().foreign(added=["x"]), 3, (4,), ["f4.parquet"], ["4"], 4),
    "a batch without rows": (four().own(took("5"), added=()), 3, (4, 5), ["f4.parquet"], ["4", "5"], 4),
    "over an earlier rollback": (gone_back(), 1, (2, 3, 4, 5), ["f2.parquet"], ["2"], 2),
    "a restored table has less to remove": (
        restored(four(), 2, removed=["f3.parquet", "f4.parquet"]),
        2,
        (3, 4),
        [],
        ["3", "4"],
        3,
    ),
    "rows that a RESTORE brought back leave again": (
        restored(gone_back(), 4, added=["f3.parquet", "f4.parquet"]),
        5,
        (),
        ["f3.parquet", "f4.parquet"],
        [],
        7,
    ),
}


@pytest.mark.parametrize(("log", "to", "superseded", "files", "read_again", "first"), PLANS.values(), ids=PLANS)
def test_going_back(
    log: Log, to: int, superseded: tuple[int, ...], files: list[str], read_again: list[str], first: int
) -> None:
    found = plan(log, to)
    assert isinstance(found, RollbackPlan)
    assert found.target.sequence == to
    assert found.superseded == superseded
    assert [add["path"] for add in found.files] == files
    assert [entry.path for entry in found.entries] == read_again
    assert list(found.source_files) == sorted(read_again)
    assert found.records == 5 * len(files)
    assert found.first_version == first


REFUSALS: dict[str, tuple[Log, int, dict[str, Any], Kind, str]] = {
    "where it stands": (four(), 4, {}, Kind.ROLLBACK_TARGET, "the newest sequence is 4"),
    "what is still to come": (four(), 5, {}, Kind.ROLLBACK_TARGET, "the newest sequence is 4"),
    "before everything": (four(), -1, {}, Kind.ROLLBACK_TARGET, "the newest sequence is 4"),
    "a later commit is gone": (four(), 1, {"oldest": 3}, Kind.ROLLBACK_TARGET, "the commit of sequence 2 is no longer"),
    "its own commit is gone": (four(), 2, {"oldest": 3}, Kind.ROLLBACK_TARGET, "its commit is no longer in the log"),
    "the beginning is gone": (four(), 0, {"oldest": 1}, Kind.ROLLBACK_TARGET, "the beginning of the log is gone"),
    "it began with an import": (
        four(),
        0,
        {"start_from": "import"},
        Kind.ROLLBACK_TARGET,
        "began with import, which is not a position of its own",
    ),
    "its payload is damaged": (
        with_damaged_payload(four(), 2),
        2,
        {},
        Kind.ROLLBACK_TARGET,
        "its payload, in version 2, cannot be read",
    ),
    "it was taken back": (gone_back(), 3, {}, Kind.ROLLBACK_TARGET, "version 5 has taken it back"),
    "a later ledger is gone": (without_ledger(four()), 3, {}, Kind.ROLLBACK_LEDGER, "sequence 4 (version 4) has no"),
    "a replay came after it": (
        four().own(kind="replay").own(took("6")),
        4,
        {},
        Kind.ROLLBACK_REPLAY,
        "Roll back to sequence 5 or a later one",
    ),
    "a later file was rewritten": (
        four().foreign("OPTIMIZE", added=["x"], removed=["f4.parquet"]),
        2,
        {},
        Kind.ROLLBACK_FILES,
        "f4.parquet, which version 4 (sequence 4) added, was changed",
    ),
    "the table does not hold it": (
        restored(four(), 2, removed=["f3.parquet", "f4.parquet"]),
        3,
        {},
        Kind.ROLLBACK_FILES,
        "it holds what it held after sequence 2. Nothing was changed. RESTORE the table to version 3",
    ),
    "nobody knows what the table holds": (
        four().foreign("RESTORE", added=["x"], removed=["f1.parquet"]),
        3,
        {},
        Kind.TABLE_REWRITTEN,
        "version 5 of the table is a RESTORE",
    ),
    "its sources are cleaned": (four(), 2, {"due_through": 3}, Kind.ROLLBACK_SOURCE, "Roll back to sequence 3 or"),
    "all sources are cleaned": (four(), 2, {"due_through": 9}, Kind.ROLLBACK_SOURCE, "Roll back to sequence 4 or"),
}


@pytest.mark.parametrize(("log", "to", "how", "kind", "words"), REFUSALS.values(), ids=REFUSALS)
def test_not_going_back(log: Log, to: int, how: dict[str, Any], kind: Kind, words: str) -> None:
    found = plan(log, to, **how)
    assert isinstance(found, Refuse)
    assert found.kind == kind
    assert words in found.message


ALLOWED: dict[str, tuple[Log, int, dict[str, Any]]] = {
    "what is cleaned came before": (four(), 3, {"due_through": 3}),
    "what is cleaned took no file": (four().own(), 4, {"due_through": 5}),
    "what was rewritten came before": (four().foreign("OPTIMIZE", added=["x"], removed=["f3.parquet"]), 3, {}),
    "what was rewritten holds no row of it": (
        four().foreign("OPTIMIZE", added=["x"], removed=["f4.parquet"]),
        3,
        {"proven_out": {4}},
    ),
    "a replay came before": (four().own(kind="replay").own(took("6")), 5, {}),
    "an older ledger is gone": (without_ledger(four()).own(took("5")), 4, {}),
}


@pytest.mark.parametrize(("log", "to", "how"), ALLOWED.values(), ids=ALLOWED)
def test_what_does_not_stand_in_the_way(log: Log, to: int, how: dict[str, Any]) -> None:
    found = plan(log, to, **how)
    assert isinstance(found, RollbackPlan), found
    assert found.target.sequence == to


def test_what_is_proven_out_is_not_removed() -> None:
    found = plan(four().foreign("OPTIMIZE", added=["x"], removed=["f4.parquet"]), 2, proven_out={4})
    assert isinstance(found, RollbackPlan)
    assert [add["path"] for add in found.files] == ["f3.parquet"]
    assert [entry.path for entry in found.entries] == ["3", "4"]
    assert found.removed_path == "f3.parquet"


def test_the_target_is_the_position_as_it_was_committed() -> None:
    found = plan(four(), 2)
    assert isinstance(found, RollbackPlan)
    assert found.target == example(sequence=2, batch_id="b2", delta_version=0, marks=Marks(last_committed_file="2"))


@pytest.mark.parametrize(
    ("start_from", "mark"), [(None, None), ("beginning", None), ("after:m", "m")], ids=["alone", "beginning", "after"]
)
def test_the_beginning_is_where_the_pipeline_began(start_from: str | None, mark: str | None) -> None:
    found = plan(
        four(),
        0,
        start_from=start_from,
        marks=Marks(files={"a": RecordsRead(records=1)}, last_committed_file="z"),
        late_from_ms=77,
        relist_names=5,
    )
    assert isinstance(found, RollbackPlan)
    assert found.target.marks == Marks(last_committed_file=mark)
    assert found.target.on.add_path is None
    assert found.target.seen == Seen(late_from_ms=77)
    assert found.target.pipeline == EXAMPLE.pipeline


# what is read again; what is listed; the words of the refusal
SOURCES: dict[str, tuple[LedgerEntry, list[SourceFile], str | None]] = {
    "as it was": (took("a"), listed("a", "b"), None),
    "gone": (took("a"), listed("b"), "a is no longer in the source"),
    "an empty source": (took("a"), [], "a is no longer in the source"),
    "another size": (took("a"), listed("a", size=11), "a is no longer the file that was ingested"),
    "another etag": (took("a"), listed("a", etag="f"), "a is no longer the file that was ingested"),
}


@pytest.mark.parametrize(("entry", "listing", "words"), SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("before", [(), (took("b"),)], ids=["alone", "after another"])
def test_everything_must_be_there_to_be_read_again(
    before: tuple[LedgerEntry, ...], entry: LedgerEntry, listing: list[SourceFile], words: str | None
) -> None:
    made = plan(four(), 3)
    assert isinstance(made, RollbackPlan)
    sound = [file for file in listing if file.path != "b"] + (listed("b") if before else [])
    refusal = check_sources(replace(made, entries=(*before, entry)), sound)
    assert (refusal is None) == (words is None)
    if refusal is not None and words is not None:
        assert refusal.kind == Kind.ROLLBACK_SOURCE
        assert words in refusal.message
