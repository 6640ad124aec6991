"""Planning: every pending file once, from where it stands, within the limits, left-overs first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.codec import encode_position
from blizzard.core.plan import Limits, count_backlog, is_drained, plan_batch
from blizzard.core.position import FINISHED, Marks, RecordsRead, advance_mark, apply_reports, prune_finished
from blizzard.core.types import Cores, SliceReport, SourceFile
from tests.core.test_codec import example


def files(*names: str, size: int = 100) -> list[SourceFile]:
    return [SourceFile(path=n, size_bytes=size, etag="e") for n in sorted(names)]


def paths(plan_slices: object) -> list[str]:
    return [s.path for s in plan_slices]  # type: ignore[attr-defined]


def test_a_batch_takes_what_is_after_the_mark() -> None:
    plan = plan_batch(Marks(last_committed_file="b"), files("a", "b", "c", "d"), Limits(), slots=2)
    assert sorted(paths(plan.slices)) == ["c", "d"]
    assert plan.frontier == ("c", "d")


def test_left_overs_come_first_and_resume_where_they_stand() -> None:
    position = Marks(files={"a": RecordsRead(records=7, size_bytes=100, etag="e")}, last_committed_file="b")
    plan = plan_batch(position, files("a", "b", "c"), Limits(max_files=1), slots=2)
    assert [(s.path, s.from_record) for s in plan.slices] == [("a", 7)]


def test_a_finished_exception_is_not_read_again() -> None:
    position = Marks(files={"c": FINISHED}, last_committed_file="a")
    plan = plan_batch(position, files("a", "b", "c", "d"), Limits(), slots=1)
    assert paths(plan.slices) == ["b", "d"]
    assert plan.frontier == ("b", "c", "d")


def test_the_frontier_ends_before_the_first_file_left_out() -> None:
    position = Marks(files={"d": FINISHED})
    plan = plan_batch(position, files("a", "b", "c", "d"), Limits(max_files=2), slots=1)
    assert plan.frontier == ("a", "b")  # c is neither planned nor named, so the mark must not reach d


def test_max_files_may_be_one() -> None:
    assert paths(plan_batch(Marks(), files("a", "b"), Limits(max_files=1), slots=4).slices) == ["a"]


def test_a_file_larger_than_max_bytes_is_still_planned_alone() -> None:
    plan = plan_batch(Marks(), files("a", "b", size=1000), Limits(max_bytes=10), slots=2)
    assert paths(plan.slices) == ["a"]


def test_large_files_are_dealt_to_different_slots() -> None:
    listing = [SourceFile(path=n, size_bytes=s, etag="e") for n, s in [("a", 9), ("b", 1), ("c", 9), ("d", 1)]]
    listing = [replace(f, size_bytes=f.size_bytes * 10**6) for f in listing]
    plan = plan_batch(Marks(), listing, Limits(), slots=2)
    loads = [sum(s.size_bytes for s in t.slices) for t in plan.tasks]
    assert loads == [10 * 10**6, 10 * 10**6]


def test_no_more_tasks_than_files() -> None:
    assert len(plan_batch(Marks(), files("a"), Limits(), slots=8).tasks) == 1


@pytest.mark.parametrize(
    ("names", "slots", "cores", "threads"),
    [
        ("a", 2, Cores(per_executor=2), 2),
        ("ab", 2, Cores(per_executor=2), 1),
        ("abc", 2, Cores(per_executor=2), 1),
        ("a", 8, Cores(per_executor=2), 2),
        ("ab", 8, Cores(per_executor=16), 4),
        ("abc", 8, Cores(per_executor=16), 2),
        ("a", 8, Cores(), 1),
        ("a", 1, Cores(per_executor=4), 1),  # the slots were set by hand
        ("abcd", 4, Cores(per_executor=8, per_task=2), 2),
        ("ab", 4, Cores(per_executor=8, per_task=2), 4),
        ("a", 4, Cores(per_executor=3, per_task=2), 3),
    ],
)
def test_a_task_uses_its_cores_and_its_share_of_the_idle_ones(
    names: str, slots: int, cores: Cores, threads: int
) -> None:
    plan = plan_batch(Marks(), files(*names), Limits(), slots=slots, cores=cores)
    assert {task.threads for task in plan.tasks} == {threads}


def test_max_records_is_shared_out_exactly() -> None:
    plan = plan_batch(Marks(), files("a", "b", "c"), Limits(max_records=7), slots=3)
    assert sorted(t.budget.max_records or 0 for t in plan.tasks) == [2, 2, 3]
    assert len(plan_batch(Marks(), files("a", "b", "c"), Limits(max_records=1), slots=3).tasks) == 1


def test_nothing_pending_is_drained_and_not_planned() -> None:
    position, listing = Marks(last_committed_file="b"), files("a", "b")
    assert is_drained(position, listing)
    assert count_backlog(position, listing) == (0, 0)
    with pytest.raises(ValueError, match="nothing to plan"):
        plan_batch(position, listing, Limits(), slots=1)


def test_a_backlog_counts_files_in_progress() -> None:
    position = Marks(files={"a": RecordsRead(records=1)}, last_committed_file="b")
    assert count_backlog(position, files("a", "b", "c")) == (2, 200)


@given(
    st.sets(st.text("abcdef/-", min_size=1, max_size=8), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 10_000),
)
def test_every_planned_file_is_dealt_exactly_once(names: set[str], slots: int, max_files: int, max_bytes: int) -> None:
    listing = files(*names)
    plan = plan_batch(Marks(), listing, Limits(max_files=max_files, max_bytes=max_bytes), slots=slots)
    dealt = paths(plan.slices)
    assert len(dealt) == len(set(dealt))
    assert sorted(dealt) == [f.path for f in listing][: len(dealt)]
    assert tuple(sorted(dealt)) == plan.frontier
    assert len(dealt) <= max_files
    assert all(t.slices == tuple(sorted(t.slices, key=lambda s: s.path)) for t in plan.tasks)


@pytest.mark.parametrize("done", ["even", "second half", "first half"])
def test_a_planned_batch_never_outgrows_the_payload_whatever_finishes(done: str) -> None:
    listing = files(*(f"{'x' * 120}/{i:06d}" for i in range(20_000)))
    plan = plan_batch(Marks(), listing, Limits(max_files=20_000, max_bytes=1 << 60), slots=2)
    names = sorted(paths(plan.slices))
    half = len(names) // 2
    finished = {"even": names[::2], "second half": names[half:], "first half": names[:half]}[done]
    reports = [
        SliceReport(path=n, size_bytes=1, etag="e", from_record=0, to_record=1, finished=True, rows=1) for n in finished
    ]
    position = prune_finished(advance_mark(apply_reports(Marks(), reports), plan.frontier))
    assert 1000 < len(names) < 20_000
    encode_position(example(marks=position))  # raises if it is too large
