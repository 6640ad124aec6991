"""What an audit makes of each file, of other pipelines, and of the quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.audit import PROBLEMS, Audit, audit
from blizzard.core.balance import InQuarantine
from blizzard.core.codec import encode_position, fence_app_id
from blizzard.core.late import as_looked_at
from blizzard.core.ledger import SKIPPED, Ledger, LedgerEntry, encode_ledger
from blizzard.core.log import CommitFacts, Txn
from blizzard.core.look import Listed
from blizzard.core.position import Marks, Position, RecordsRead
from blizzard.core.types import SourceFile, SourceIdentity
from tests.core.test_codec import example

SOURCE = SourceIdentity(root="file:///s", pattern="*")


def position(mark: str = "m", **changes: Any) -> Position:
    return example(**{"marks": Marks(last_committed_file=mark)} | changes)


def entry(path: str, first: int = 0, last: int = 3, **changes: Any) -> LedgerEntry:
    made = LedgerEntry(
        path=path, size_bytes=1, etag="e", from_record=first, to_record=last, finished=True, bad=0, broken=None
    )
    return replace(made, **changes)


def took(
    sequence: int, *entries: LedgerEntry, pipeline: str = "p", root: str = SOURCE.root, **changes: Any
) -> CommitFacts:
    """A commit whose version is its sequence."""
    rows = sum(e.to_record - e.from_record - e.bad for e in entries)
    ledger = Ledger(
        pipeline=pipeline,
        sequence=sequence,
        run_id="r",
        batch_id="b",
        base_version=sequence - 1,
        source=replace(SOURCE, root=root),
        records=changes.pop("records", rows),
        entries=entries,
        **{name: changes.pop(name) for name in ("quarantine", "quarantined", "kind", "superseded") if name in changes},
    )
    state = changes.pop("state", None)
    txns = [Txn(app_id=fence_app_id(pipeline), version=sequence)]
    txns += [] if state is None else [Txn(app_id=encode_position(state), version=sequence)]
    return CommitFacts(
        version=sequence, timestamp_ms=0, operation="WRITE", txns=tuple(txns), user_metadata=encode_ledger(ledger)
    )


MADE = CommitFacts(version=0, timestamp_ms=0, operation="CREATE TABLE")


def look(*names: str, held: Mapping[str, str] | None = None, **changed: Any) -> Listed:
    files = [replace(SourceFile(path=n, size_bytes=1, etag="e"), **changed.get(n, {})) for n in sorted(names)]
    return Listed(files=files, at_ms=10**12, held=held or {})


def names_in(found: Audit) -> dict[str, list[str]]:
    """Every kind that holds a name."""
    kinds = (name for name in Audit.__dataclass_fields__ if isinstance(getattr(found, name), tuple | dict))
    return {kind: list(names) for kind in kinds if (names := getattr(found, kind))}


IN_PROGRESS = position(marks=Marks(files={"a": RecordsRead(records=2)}, last_committed_file="m"))
HELD = position(
    marks=Marks(files={"a": RecordsRead(records=0)}, last_committed_file="m"),
    held_back={"a": "unreadable: no permission"},
)
IMPORTED = as_looked_at(position("c"), 10**11)


A = entry("a")
BROKEN = entry("a", last=0, broken="truncated after line 0")
GIVEN_UP = entry("a", last=0, broken="late")
LEFT_OUT = entry("a", last=0, broken=SKIPPED)
BEGUN = entry("a", last=2, finished=False)
OTHER_ETAG = look("a", a={"etag": "f"})
YOUNG = look("a", a={"seen_ms": 10**12})


@pytest.mark.parametrize(
    ("state", "commits", "listed", "ingested", "expected"),
    [
        (position(), [took(1, A)], look("a"), 1, {}),
        (position(), [took(1, A)], look("a", "z"), 1, {"waiting": ["z"]}),
        (position(), [took(1, entry("a", last=0))], look("a"), 1, {}),  # an empty file is whole
        (position(), [took(1, BROKEN)], look("a"), 0, {"broken": ["a"]}),
        (position(), [took(1, GIVEN_UP)], look("a"), 0, {"broken": ["a"]}),
        (position(), [took(1, LEFT_OUT)], look("a"), 0, {"skipped": ["a"]}),
        (position(), [took(1, BEGUN)], look("a"), 0, {"unfinished": ["a"]}),
        (IN_PROGRESS, [took(1, BEGUN)], look("a"), 0, {"waiting": ["a"], "partial": ["a"]}),
        (IN_PROGRESS, [took(1, BEGUN)], OTHER_ETAG, 0, {"waiting": ["a"], "partial": ["a"], "rewritten": ["a"]}),
        (HELD, [], look("a"), 0, {"waiting": ["a"], "held": ["a"], "unreadable": ["a"]}),
        (position(), [], look("z", held={"z": "empty"}), 0, {"waiting": ["z"], "held": ["z"]}),
        (position(), [took(1, entry("m"))], look("a", "m"), 1, {"never_ingested": ["a"]}),
        (IMPORTED, [took(1, state=IMPORTED)], look("a"), 0, {"taken_over": ["a"]}),
        (IMPORTED, [took(1, state=IMPORTED)], YOUNG, 0, {"never_ingested": ["a"]}),
        (position(), [took(2, entry("a", 1, 3)), took(1, entry("a", 0, 2))], look("a"), 1, {"twice": ["a"]}),
        (position(), [took(2, entry("a", 2, 3)), took(1, entry("a", 0, 2))], look("a"), 1, {}),
        (position(), [took(1, A)], OTHER_ETAG, 0, {"rewritten": ["a"]}),
        (position(), [took(1, A)], look(), 0, {"gone": ["a"]}),
        (position(), [took(1, LEFT_OUT)], look(), 0, {"skipped": ["a"]}),
        (position(), [took(2, entry("a", 2, 2, broken=SKIPPED)), took(1, BEGUN)], look(), 0, {"skipped": ["a"]}),
        (position(), [took(2, A, pipeline="q"), took(1, A)], look("a"), 1, {"read_by_others": ["a"]}),
        (position(), [took(2, entry("a", 3, 5), pipeline="q"), took(1, A)], look("a"), 1, {}),
        (position(), [took(2, A, pipeline="q", root="file:///t"), took(1, A)], look("a"), 1, {}),
        (position(start_from="after:b"), [], look("a"), 0, {}),
    ],
)
def test_every_file_is_counted_for_what_became_of_it(
    state: Position, commits: list[CommitFacts], listed: Listed, ingested: int, expected: dict[str, list[str]]
) -> None:
    found = audit(listed, state, [*commits, MADE])
    assert (found.ingested, names_in(found)) == (ingested, expected)
    assert set(found.problems) == set(expected) & set(PROBLEMS)


def test_what_the_ledgers_no_longer_say_is_unclear() -> None:
    found = audit(look("a", "m"), position(), [took(5, entry("m"))])
    assert (found.ingested, names_in(found)) == (1, {"unclear": ["a"]})


def test_a_file_that_was_to_be_read_again_is_told_and_no_trouble() -> None:
    wanted = took(2, A, pipeline="q", state=position(pipeline="q", reads_again=True))
    for state, commits in ((position(), [wanted]), (position(reads_again=True), [took(2, A, pipeline="q")])):
        found = audit(look("a"), state, [*commits, took(1, A), MADE])
        assert (found.read_by_others, found.problems) == ({"a": ("q",)}, {})


def test_sources_that_nest_are_compared_by_their_whole_names() -> None:
    other = took(2, entry("x/a"), pipeline="q", root="file:///s")
    mine = took(1, entry("a"), root="file:///s/x")
    state = position(source=replace(SOURCE, root="file:///s/x"))
    assert audit(look("a"), state, [other, mine, MADE]).read_by_others == {"a": ("q",)}


@pytest.mark.parametrize(
    ("commits", "rows_of", "expected"),
    [
        ([took(1, entry("a")), MADE], {"a": 3}, {}),
        ([took(1, entry("a")), MADE], {}, {"rows_missing": ["a"]}),
        ([took(1, entry("a"), records=0), MADE], {}, {}),  # nothing but blank lines
        ([took(1, entry("a"), entry("b", last=1), records=2), MADE], {"b": 1}, {"rows_missing": ["a"], "gone": ["b"]}),
        ([took(1, entry("a", bad=3)), MADE], {}, {}),
        ([took(1, entry("a")), MADE], {"a": 3, "x": 1}, {"rows_unknown": ["x"]}),
        ([took(2, entry("x"), pipeline="q"), took(1, entry("a")), MADE], {"a": 3, "x": 1}, {}),
        ([took(5)], {"a": 3}, {"in_rows": ["a"]}),
    ],
)
def test_rows_are_held_against_the_ledgers_of_all_pipelines(
    commits: list[CommitFacts], rows_of: dict[str, int], expected: dict[str, list[str]]
) -> None:
    assert names_in(audit(look("a"), position(), commits, rows_of)) == expected


BAD = took(1, entry("a", bad=2), quarantine=("q1",))
REPLAY = took(2, kind="replay")


@pytest.mark.parametrize(
    ("commits", "quarantine", "missing", "unknown"),
    [
        ([BAD, MADE], InQuarantine(rows={1: 2}), (), ()),
        ([BAD, MADE], InQuarantine(rows={1: 1}), (1,), ()),
        ([BAD, MADE], InQuarantine(rows={}), (1,), ()),
        ([BAD, MADE], InQuarantine(rows={}, was_purged=True), (), ()),
        ([BAD, MADE], InQuarantine(rows={}, unsettled=1), (), ()),
        ([BAD, MADE], InQuarantine(rows={1: 1}, keeps_all=False), (), ()),
        ([BAD, MADE], InQuarantine(rows={}, keeps_all=False), (1,), ()),
        ([took(1, entry("a", bad=2)), MADE], InQuarantine(rows={}), (), ()),  # dropped, as the policy said
        ([REPLAY, BAD, MADE], InQuarantine(rows={2: 1}), (), ()),
        ([BAD, MADE], InQuarantine(rows={1: 2, 7: 1}), (), (7,)),
        ([took(2, superseded=(1,)), BAD, MADE], InQuarantine(rows={1: 2}), (), ()),  # older than all that counts
        ([took(4, superseded=(3,)), took(3), took(2), MADE], InQuarantine(rows={3: 2}), (), (3,)),
        ([took(9)], InQuarantine(rows={3: 2}), (), ()),  # its ledger is gone
    ],
)
def test_the_quarantine_is_held_against_the_ledgers(
    commits: list[CommitFacts], quarantine: InQuarantine, missing: tuple[int, ...], unknown: tuple[int, ...]
) -> None:
    found = audit(look("a"), position(), commits, quarantine=quarantine)
    assert (found.quarantine_missing, found.quarantine_unknown) == (missing, unknown)
    assert found.quarantined == sum(quarantine.rows.values())


def test_what_the_newest_rollback_has_yet_to_take_out_is_known() -> None:
    state = position(rolled_back=(3, 3))
    commits = [took(4, superseded=(3,)), took(3), took(2), MADE]
    assert audit(look("a"), state, commits, quarantine=InQuarantine(rows={3: 2})).quarantine_unknown == ()


def test_records_that_are_not_for_the_table_are_no_missing_rows() -> None:
    """Of the file all records but one were for other targets, and that one was bad."""
    commit = took(1, entry("a", bad=1, filtered=2, unrouted=1), records=0)
    found = audit(look("a"), position(), [commit, MADE], rows_of={})
    assert (found.filtered_records, found.unrouted_records, found.rows_missing) == (2, 1, ())
    missing = audit(look("a"), position(), [took(1, entry("a", filtered=2), records=1), MADE], rows_of={})
    assert missing.rows_missing == ("a",)


@pytest.mark.parametrize(("rows", "put_in", "missing"), [(2, 2, ()), (1, 2, (1,)), (1, 1, ()), (0, 1, (1,))])
def test_records_for_no_target_must_be_in_quarantine_where_they_are_kept(
    rows: int, put_in: int, missing: tuple[int, ...]
) -> None:
    """The ledger says how many records went there: one bad one, and the one that is for nobody if it is kept."""
    commit = took(1, entry("a", bad=1, filtered=1, unrouted=1), records=1, quarantine=("q",), quarantined=put_in)
    found = audit(look("a"), position(), [commit, MADE], quarantine=InQuarantine(rows={1: rows}))
    assert found.quarantine_missing == missing
