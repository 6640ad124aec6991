"""From the reports of a batch to the position that its commit carries; what does not add up is never committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.batch import (
    InconsistentReport,
    RunIdentity,
    check_result,
    find_passed,
    next_position,
    position_before,
    renewed_position,
    rolled_back_position,
)
from blizzard.core.look import Listed, Look
from blizzard.core.position import (
    Begun,
    CleanedThrough,
    ForQuarantine,
    Marks,
    Position,
    QuarantineHead,
    RecordsRead,
    Seen,
)
from blizzard.core.recover import Fresh, Resume
from blizzard.core.rollback import RollbackPlan
from blizzard.core.types import (
    BatchPlan,
    BatchResult,
    Budget,
    DataFile,
    Slice,
    SliceReport,
    SourceIdentity,
    TaskPlan,
    TaskReport,
)
from tests.core.logs import listed
from tests.core.test_codec import EXAMPLE, example

UNREAD = RecordsRead(records=0)
HEAD = QuarantineHead(batch_id="b5", sequence=5, table_id="q")


def parquet(rows: int, path: str = "f.parquet") -> DataFile:
    return DataFile(path=path, size_bytes=9, rows=rows, stats="{}", modified_ms=1)


def plan(*names: str, start: int = 0, frontier: tuple[str, ...] | None = None) -> BatchPlan:
    slices = tuple(Slice(path=name, size_bytes=10, etag="e", from_record=start) for name in names)
    budget = Budget(output_bytes=1, max_records=None, seconds=None)
    return BatchPlan(
        tasks=(TaskPlan(slot=0, slices=slices, budget=budget),), frontier=names if frontier is None else frontier
    )


def report(path: str, end: int = 5, start: int = 0, **changes: Any) -> SliceReport:
    fields: dict[str, Any] = {"size_bytes": 10, "etag": "e", "finished": True, "rows": end - start} | changes
    return SliceReport(path=path, from_record=start, to_record=end, **fields)


def result(*slices: SliceReport, rows: int | None = None, **task: Any) -> BatchResult:
    """One task whose Parquet file has as many rows as were read, unless it is said otherwise."""
    counted = sum(s.rows for s in slices) if rows is None else rows
    files = (parquet(counted),) if counted else ()
    return BatchResult(reports=(TaskReport(slot=0, slices=slices, files=files, **task),))


A = report("a")
QUARANTINED = (parquet(2, "q.parquet"),)

# what is reported of a plan that has a and b, from their beginnings; the words of the objection
REPORTS: dict[str, tuple[BatchResult, str | None]] = {
    "all that was planned": (result(A, report("b")), None),
    "less than was planned": (result(A), None),
    "a part of a file": (result(report("a", finished=False)), None),
    "an empty file": (result(report("a", 0)), None),
    "blank and bad lines": (result(report("a", rows=2, bad=2, blank=1), quarantine=QUARANTINED), None),
    "bad lines that the policy dropped": (result(report("a", rows=3, bad=2)), None),
    "a broken file, told in quarantine": (
        result(report("a", 0, broken="truncated"), quarantine=(parquet(1, "q.parquet"),)),
        None,
    ),
    "not planned": (result(report("c")), "c was reported but not planned, or reported twice"),
    "twice": (result(A, A), "a was reported but not planned, or reported twice"),
    "from another place": (result(report("a", start=1)), "a was read from another place than planned"),
    "another size": (result(report("a", size_bytes=11)), "a was read from another place than planned"),
    "another etag": (result(report("a", etag="f")), "a was read from another place than planned"),
    "lines that nobody counted": (result(report("a", rows=4)), "a: lines read and records counted differ"),
    "records from nowhere": (result(report("a", rows=6)), "a: lines read and records counted differ"),
    "too few rows in Parquet": (result(A, rows=4), "do not hold as many rows as were read"),
    "too many rows in Parquet": (result(A, rows=6), "do not hold as many rows as were read"),
    "more in quarantine than was bad": (
        result(report("a", rows=4, bad=1), quarantine=QUARANTINED),
        "more rows for the quarantine than bad records",
    ),
    "nothing": (result(), "the batch read nothing"),
    "nothing of a file": (result(report("a", 0, finished=False)), "the batch read nothing"),
}


@pytest.mark.parametrize(("reported", "words"), REPORTS.values(), ids=REPORTS)
def test_what_adds_up(reported: BatchResult, words: str | None) -> None:
    if words is None:
        check_result(plan("a", "b"), reported)
        return
    with pytest.raises(InconsistentReport, match=words):
        check_result(plan("a", "b"), reported)
    with pytest.raises(InconsistentReport, match=words):
        next_position(example(marks=Marks()), plan("a", "b"), reported, batch_id="n", now_ms=1)


IDENTITY = RunIdentity(
    pipeline="p",
    run_id="new",
    source=SourceIdentity(root="file:///s", pattern="*", marks_per="region"),
    table_id="t2",
    schema_fingerprint="f2",
)


def test_a_fresh_run_starts_from_nothing() -> None:
    fresh = Fresh(marks=Marks(last_committed_file="m"), start_from="after:m", reads_again=True)
    before = position_before(fresh, IDENTITY, version=3, timestamp_ms=44)
    assert (before.sequence, before.batch_id, before.run_id, before.taken_at_ms) == (0, "", "new", 44)
    assert before.marks == Marks(last_committed_file="m", marks_per="region")
    assert (before.on.table_id, before.on.delta_version, before.on.schema_fingerprint) == ("t2", 3, "f2")
    assert before.begun == Begun(start_from="after:m", reads_again=True)
    assert (before.seen, before.quarantine, before.cleaned) == (Seen(), ForQuarantine(), CleanedThrough())


def test_a_resumed_run_keeps_what_is_still_true() -> None:
    committed = example(
        add_path="x.parquet",
        removed_path="y.parquet",
        start_from="beginning",
        relist_names=7,
        pending=("q.parquet",),
        replayed={"through": "6"},
        rolled_back=(2, 3),
        head=HEAD,
        done_through=2,
        due_through=4,
    )
    before = position_before(Resume(position=committed, version=9), IDENTITY, version=12, timestamp_ms=44)
    assert (before.sequence, before.run_id, before.taken_at_ms) == (committed.sequence, "new", 44)
    assert (before.on.delta_version, before.on.add_path, before.on.removed_path) == (12, "x.parquet", "y.parquet")
    assert (before.begun, before.seen, before.cleaned) == (committed.begun, committed.seen, committed.cleaned)
    assert before.quarantine == ForQuarantine(head=HEAD)  # what was to follow that commit is done by now


def after(
    reported: BatchResult, before: Position, planned: BatchPlan | None = None, now_ms: int = 50, **how: Any
) -> Position:
    return next_position(before, planned or plan("a", "b"), reported, batch_id="n", now_ms=now_ms, **how)


EMPTY = example(marks=Marks(), taken_at_ms=1)


@pytest.mark.parametrize(
    ("reported", "marks"),
    [
        (result(A, report("b")), Marks(last_committed_file="b")),
        (result(A), Marks(last_committed_file="a")),
        (result(report("b")), Marks(files={"a": UNREAD}, last_committed_file="b")),
        (
            result(report("a", 3, finished=False), report("b")),
            Marks(files={"a": RecordsRead(records=3, size_bytes=10, etag="e")}, last_committed_file="b"),
        ),
        (result(A, changed=("b",)), Marks(files={"b": UNREAD}, last_committed_file="b")),
        (result(A, unreadable=(("b", "why"),)), Marks(files={"b": UNREAD}, last_committed_file="b")),
    ],
    ids=["both", "the first", "the second", "a part", "one that had changed", "one that cannot be read"],
)
def test_where_the_position_stands_after_a_batch(reported: BatchResult, marks: Marks) -> None:
    assert after(reported, EMPTY).marks == marks


@pytest.mark.parametrize(("now_ms", "taken_ms"), [(50, 50), (20, 30), (30, 30)], ids=["later", "back", "same"])
def test_a_clock_that_goes_back_does_not_take_the_position_with_it(now_ms: int, taken_ms: int) -> None:
    before = replace(EMPTY, taken_at_ms=30)
    assert after(result(A), before, now_ms=now_ms).taken_at_ms == taken_ms
    assert renewed_position(before, batch_id="n", now_ms=now_ms).taken_at_ms == taken_ms


@pytest.mark.parametrize(
    ("reported", "witnesses"),
    [(result(A), ("f.parquet", None)), (result(report("a", 0)), ("x.parquet", "y.parquet"))],
    ids=["a batch with rows", "a batch without"],
)
def test_the_witnesses_are_those_of_the_newest_commit_with_rows(
    reported: BatchResult, witnesses: tuple[str, str | None]
) -> None:
    before = replace(EMPTY, on=replace(EMPTY.on, add_path="x.parquet", removed_path="y.parquet"))
    found = after(reported, before)
    assert (found.on.add_path, found.on.removed_path) == witnesses


@pytest.mark.parametrize("head", [None, HEAD], ids=["first", "later"])
def test_bad_records_make_the_commit_the_head_of_the_quarantine(head: QuarantineHead | None) -> None:
    before = replace(EMPTY, quarantine=ForQuarantine(head=head, pending=("old.parquet",), rolled_back=(1, 2)))
    assert after(result(A), before).quarantine == ForQuarantine(head=head)
    bad = after(result(report("a", rows=3, bad=2), quarantine=QUARANTINED), before).quarantine
    assert (bad.pending, bad.rolled_back) == (("q.parquet",), None)
    assert bad.head is not None
    assert (bad.head.batch_id, bad.head.sequence) == ("n", EMPTY.sequence + 1)
    assert bad.head.previous == (None if head is None else "b5")


# files that are held back, and why; what the position says of it. It names u, v and w as unread.
HELD: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "a named file": ({"u": "unreadable: x"}, {"u": "unreadable: x"}),
    "a file that is not named": ({"x": "young"}, {}),
    "a reason that just fits": ({"u": "x" * 78 + "ü"}, {"u": "x" * 78 + "ü"}),
    "a long reason is cut, and says so": ({"u": "x" * 200}, {"u": "x" * 77 + "…"}),
    "not within a letter": ({"u": "x" * 76 + "ü" * 3}, {"u": "x" * 76 + "…"}),
    "however many others there are": (
        {f"k{i:05d}": "young" for i in range(5000)} | {"u": "unreadable: x", "v": "late"},
        {"u": "unreadable: x", "v": "late"},
    ),
}


@pytest.mark.parametrize(("held", "told"), HELD.values(), ids=HELD)
def test_why_files_are_held_back(held: dict[str, str], told: dict[str, str]) -> None:
    before = replace(EMPTY, marks=Marks(files=dict.fromkeys("uvw", UNREAD), last_committed_file="w"))
    planned = plan("x1", frontier=())
    assert after(result(report("x1")), before, planned, held=held).seen.held_back == told


@pytest.mark.parametrize(("late", "others"), [(99, True), (900, False)], ids=["a few late files", "many"])
def test_reasons_have_their_limit_but_what_is_given_up_is_always_told(late: int, others: bool) -> None:
    names = [f"{i:04d}" for i in range(1000)]
    before = replace(EMPTY, marks=Marks(files=dict.fromkeys(names, UNREAD), last_committed_file="9"))
    held = dict.fromkeys(names, "unreadable: x") | dict.fromkeys(names[-late:], "late")
    told = after(result(report("x")), before, plan("x", frontier=()), held=held).seen.held_back
    assert [name for name, why in told.items() if why == "late"] == names[-late:]
    unreadable = sum(why != "late" for why in told.values())
    assert unreadable < 1000 - late
    assert (unreadable > 0) == others


def test_files_that_cannot_be_read_are_named_only_while_there_is_room() -> None:
    unread = tuple((f"{'x' * 200}{i:04d}", "why") for i in range(1000))
    found = after(result(A, unreadable=unread), EMPTY, plan("a", frontier=("a",)))
    assert 100 < len(found.marks.in_progress) < 400


def test_a_look_says_where_the_next_begins() -> None:
    files = listed("a", "b", seen_ms=5)
    before = replace(EMPTY, seen=Seen(relist_watermark_ms=5, young_names="0:0", settled_names="0:0"))
    look = Look(Listed(files=files, at_ms=10_000), before, grace_ms=10)
    found = after(result(A), before, look=look).seen
    assert found.list_from == {"": "a"}
    assert found.young_names == found.settled_names != "0:0"
    assert after(result(A), before).seen == before.seen


@pytest.mark.parametrize(
    ("marks", "passed"),
    [
        (Marks(last_committed_file="m", files={"a": UNREAD}), {"a"}),
        (Marks(last_committed_file="m", files={"a": RecordsRead(records=1)}), set()),
        (Marks(last_committed_file="0", files={"a": UNREAD}), set()),
        (Marks(last_committed_file="m"), set()),
    ],
    ids=["named unread, behind the mark", "begun", "after the mark", "not named"],
)
def test_which_files_were_late(marks: Marks, passed: set[str]) -> None:
    assert find_passed(marks, result(A, report("z"))) == passed


def test_a_renewed_position_says_the_same_under_the_next_number() -> None:
    before = example(taken_at_ms=30, pending=("q",), replayed={"a": "b"}, rolled_back=(1, 2), head=HEAD)
    found = renewed_position(before, batch_id="n", now_ms=50)
    quarantine = ForQuarantine(head=HEAD)
    assert found == replace(before, sequence=8, batch_id="n", taken_at_ms=50, quarantine=quarantine)


@pytest.mark.parametrize(("superseded", "rolled_back"), [((4, 5, 6, 7), (4, 7)), ((), None)], ids=["a range", "none"])
def test_a_rolled_back_position(superseded: tuple[int, ...], rolled_back: tuple[int, int] | None) -> None:
    current = example(start_from="import", add_path="new.parquet", done_through=2, due_through=6, head=HEAD)
    target = example(
        sequence=3, marks=Marks(last_committed_file="t"), relist_names=9, add_path="t.parquet", start_from="beginning"
    )
    made = RollbackPlan(
        target=target,
        superseded=superseded,
        files=(),
        entries=(),
        records=0,
        first_version=4,
        removed_path="gone.parquet",
    )
    found = rolled_back_position(current, made, batch_id="n", now_ms=50)
    assert (found.sequence, found.batch_id) == (EXAMPLE.sequence + 1, "n")
    assert (found.marks, found.seen, found.begun) == (target.marks, target.seen, target.begun)
    assert (found.on.add_path, found.on.removed_path) == ("t.parquet", "gone.parquet")
    assert found.cleaned == CleanedThrough(done_through=2, due_through=3)
    assert found.quarantine.rolled_back == rolled_back
    assert found.quarantine.head is not None
    assert found.quarantine.head.batch_id == ("n" if rolled_back else "b5")
