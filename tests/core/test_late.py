"""Which of the names that a mark has passed are late, rewritten or unclear, and how much of the log that takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.codec import encode_position, fence_app_id
from blizzard.core.late import EVERYTHING, LatePolicy, Unexpected, as_looked_at, compare_with_ledgers, plan_listing
from blizzard.core.ledger import Ledger, encode_ledger, entries_of
from blizzard.core.log import CommitFacts, Txn
from blizzard.core.look import Listed, digest_files, settled_files
from blizzard.core.position import FINISHED, Marks, Position, RecordsRead
from blizzard.core.types import SliceReport, SourceFile, SourceIdentity
from blizzard.testing.positions import changed
from tests.core.test_codec import example

HOUR_MS = 3600 * 1000
SOURCE = SourceIdentity(root="file:///s", pattern="default")


def position(mark: str | None = "m", *, start_from: str | None = None, **files: Any) -> Position:
    return example(marks=Marks(files=files, last_committed_file=mark), start_from=start_from)


def took(
    version: int,
    *names: str,
    pipeline: str = "p",
    state: Position | None = None,
    superseded: tuple[int, ...] = (),
) -> CommitFacts:
    """A commit of the sequence that is its version; 0 made the table."""
    reports = [
        SliceReport(path=n, size_bytes=1, etag="e", from_record=0, to_record=1, finished=True, rows=1) for n in names
    ]
    ledger = Ledger(
        pipeline=pipeline,
        sequence=version,
        run_id="r",
        batch_id="b",
        base_version=version - 1,
        source=SOURCE,
        records=len(names),
        entries=entries_of(reports),
        superseded=superseded,
    )
    txns = [Txn(app_id=fence_app_id(pipeline), version=version)]
    txns += [] if state is None else [Txn(app_id=encode_position(state), version=version)]
    text = encode_ledger(ledger) if version else None
    return CommitFacts(version=version, timestamp_ms=0, operation="WRITE", user_metadata=text, txns=tuple(txns))


def without_ledger(commit: CommitFacts) -> CommitFacts:
    return replace(commit, user_metadata=None)


def listed(*names: str, seen_ms: int = 0) -> list[SourceFile]:
    return [SourceFile(path=n, size_bytes=1, etag="e", seen_ms=seen_ms) for n in sorted(names)]


def compare(
    listing: list[SourceFile],
    state: Position,
    commits: Iterable[CommitFacts],
    *,
    is_full: bool = True,
    at_ms: int = 100 * HOUR_MS,
) -> Unexpected:
    look = Listed(files=sorted(listing, key=lambda f: f.path), at_ms=at_ms, is_full=is_full)
    return compare_with_ledgers(look, state, commits, LatePolicy())


def find_late_files(listing: list[SourceFile], state: Position, commits: Iterable[CommitFacts]) -> tuple[str, ...]:
    return compare(listing, state, commits).late


def compared(state: Position, *names: str, at_ms: int = 99 * HOUR_MS) -> Position:
    """As a look at these names left it."""
    settled = digest_files(settled_files(listed(*names), state))
    return changed(state, settled_names=settled, names_compared_ms=at_ms, relist_watermark_ms=at_ms)


def test_a_name_below_the_mark_that_no_ledger_knows_is_late() -> None:
    commits = [took(2, "m"), took(1, "a"), took(0)]
    assert find_late_files(listed("a", "b", "m", "z"), position(), commits) == ("b",)
    assert find_late_files(listed("a", "m", "z"), position(), commits) == ()


def test_without_a_mark_nothing_is_late() -> None:
    assert find_late_files(listed("a"), position(None), [took(0)]) == ()


def test_what_after_skipped_is_not_late_and_what_comes_behind_it_is() -> None:
    commits = [took(1, "m"), took(0)]
    listing = listed("a", "c", "d", "m")
    assert find_late_files(listing, position(start_from="after:c"), commits) == ("d",)
    assert find_late_files(listing, position(start_from="beginning"), commits) == ("a", "c", "d")


def test_files_the_state_still_names_are_not_late() -> None:
    state = position(a=RecordsRead(records=0), b=RecordsRead(records=3, size_bytes=1, etag="e"), c=FINISHED)
    assert find_late_files(listed("a", "b", "c", "d", "m"), state, [took(1, "m"), took(0)]) == ("d",)


def test_the_ledger_of_another_pipeline_knows_nothing_of_ours() -> None:
    commits = [took(2, "b", pipeline="q"), took(1, "m"), took(0)]
    assert find_late_files(listed("b", "m"), position(), commits) == ("b",)


def test_a_ledger_in_a_commit_without_the_fence_knows_nothing() -> None:
    forged = replace(took(2, "b"), txns=())
    assert find_late_files(listed("b", "m"), position(), [forged, took(1, "m"), took(0)]) == ("b",)


def test_where_old_ledgers_are_gone_it_is_unclear_what_was_in_them() -> None:
    """Only a name that the mark had not passed yet, at the oldest commit that is left, cannot have been in one."""
    oldest = took(8, state=position("b"))
    found = compare(listed("a", "c", "m"), position(), [took(9, "m"), oldest])
    assert (found.late, found.unclear) == (("c",), ("a",))
    found = compare(listed("a", "c", "m"), position(), [took(9, "m")])
    assert (found.late, found.unclear) == ((), ("a", "c"))


OLD = 0
YOUNG = 99 * HOUR_MS
LOOKED = changed(position(), relist_watermark_ms=99 * HOUR_MS)
WHOLE = [took(2, "m"), took(1, "a"), took(0)]
GONE = [took(9, "m"), took(8, "k", state=position("k"))]  # what came before sequence 8 is not known
IMPORT = as_looked_at(position("g"), 98 * HOUR_MS)
IMPORTED = [took(2, "m", state=replace(IMPORT, marks=LOOKED.marks)), took(1, state=IMPORT), took(0)]
DAMAGED = [took(3, "m"), without_ledger(took(2, state=position("g"))), took(1, "a"), took(0)]
TAKEN_BACK = [took(4, "m"), took(3, superseded=(2,)), took(2, "b"), took(1, "a"), took(0)]
LATE, UNCLEAR, SILENT = "late", "unclear", "silent"


@pytest.mark.parametrize(
    ("name", "seen_ms", "commits", "expected"),
    [
        ("b", OLD, WHOLE, LATE),
        ("b", YOUNG, WHOLE, LATE),
        ("b", OLD, WHOLE[:2], LATE),  # the ledger of sequence 1 is the first of the pipeline, whatever came before
        ("a", OLD, WHOLE, SILENT),
        ("b", OLD, GONE, SILENT),
        ("b", YOUNG, GONE, UNCLEAR),
        ("l", OLD, GONE, LATE),  # the mark was at k when sequence 8 was committed: only later ledgers could have it
        ("l", YOUNG, GONE, LATE),
        ("b", OLD, IMPORTED, SILENT),  # the imported position says that it was done with
        ("b", YOUNG, IMPORTED, LATE),
        ("h", OLD, IMPORTED, LATE),  # it was not: its mark was g
        ("b", OLD, DAMAGED, SILENT),  # may be in the ledger that cannot be read
        ("b", YOUNG, DAMAGED, UNCLEAR),
        ("h", OLD, DAMAGED, LATE),  # cannot: the mark was g after it
        ("b", OLD, [], SILENT),
        ("b", YOUNG, [], UNCLEAR),
        ("b", OLD, TAKEN_BACK, LATE),  # what took it was rolled back
    ],
)
def test_names_are_compared_whatever_their_times_say_where_that_proves_something(
    name: str, seen_ms: int, commits: list[CommitFacts], expected: str
) -> None:
    state = changed(LOOKED, late_from_ms=IMPORT.seen.late_from_ms) if commits is IMPORTED else LOOKED
    found = compare([*listed(name, seen_ms=seen_ms), *listed("m")], state, commits)
    assert found.settled_names is not None
    assert found.late == ((name,) if expected == LATE else ())
    assert found.unclear == ((name,) if expected == UNCLEAR else ())


def test_a_listing_of_a_part_is_compared_by_its_times_alone() -> None:
    listing = [*listed("a", "b", seen_ms=OLD), *listed("c", seen_ms=YOUNG), *listed("m")]
    found = compare(listing, LOOKED, WHOLE, is_full=False)
    assert (found.late, found.settled_names) == (("c",), None)


def test_a_listing_with_the_names_of_the_last_comparison_reads_no_ledger() -> None:
    def commits() -> Iterator[CommitFacts]:
        raise AssertionError("read although nothing came in")
        yield

    state = compared(position(), "a", "m")
    found = compare(listed("a", "m", "z"), state, commits())
    assert (found, found.commits_read) == (Unexpected(settled_names=state.seen.settled_names), 0)


@pytest.mark.parametrize(
    ("now", "version", "compared_h", "is_by_name"),
    [
        (("a", "b", "k", "m"), 10**6, 99, True),  # a name more
        (("a", "b", "m"), 10**6, 99, True),  # another name
        (("a", "m"), 10**6, 99, False),  # a name less: in a long log that waits
        (("b", "m"), 10**6, 99, False),
        (("b", "m"), 100, 99, True),  # a short log is read at once
        (("b", "m"), 10**6, 76, True),  # it has waited for a day
        (("b", "m"), 10**6, 101, True),  # the clock was ahead then
    ],
)
def test_where_files_were_taken_away_a_long_log_is_read_once_a_day(
    now: tuple[str, ...], version: int, compared_h: int, is_by_name: bool
) -> None:
    state = compared(changed(position(), delta_version=version), "a", "k", "m", at_ms=compared_h * HOUR_MS)
    found = compare(listed(*now), state, [took(2, "m"), took(1, "a", "k"), took(0)])
    assert (found.settled_names is not None) == is_by_name
    assert found.late == (("b",) if is_by_name and "b" in now else ())


@pytest.mark.parametrize(("names", "compared_h", "is_by_name"), [(10, 99, True), (10**6, 99, False), (10**6, 76, True)])
def test_the_names_of_a_large_folder_are_compared_once_a_day(names: int, compared_h: int, is_by_name: bool) -> None:
    """It is listed whole by every run: that costs enough."""
    state = changed(compared(position(), "a", "m", at_ms=compared_h * HOUR_MS), relist_names=names)
    found = compare(listed("a", "b", "m"), state, WHOLE)
    assert (found.settled_names is not None, found.late) == (is_by_name, ("b",) if is_by_name else ())


def test_a_look_by_a_clock_that_was_ahead_does_not_put_the_next_one_off() -> None:
    ahead = changed(position(), relist_names=10**6, relist_watermark_ms=1000 * HOUR_MS)
    assert plan_listing(ahead, LatePolicy(), now_ms=100 * HOUR_MS) == EVERYTHING
    just_now = changed(ahead, relist_watermark_ms=99 * HOUR_MS)
    assert not plan_listing(just_now, LatePolicy(), now_ms=100 * HOUR_MS).is_full


def test_commits_are_read_no_further_than_the_last_candidate() -> None:
    def commits() -> Iterator[CommitFacts]:
        yield took(2, "a", "m")
        raise AssertionError("read on although every name is known")

    assert find_late_files(listed("a", "m"), position(), commits()) == ()


@pytest.mark.parametrize(("size_bytes", "etag"), [(2, "e"), (1, "other")])
def test_a_file_that_differs_from_the_newest_ledger_that_names_it_is_rewritten(size_bytes: int, etag: str) -> None:
    other = SourceFile(path="a", size_bytes=size_bytes, etag=etag)
    commits = [took(2, "m"), took(1, "a", "b"), took(0)]
    found = compare([other, *listed("b", "m")], position(), commits)
    assert (found.late, found.rewritten) == ((), ("a",))
