"""Which targets share a read, whose turn it is, and from where each takes its records."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.plan import Limits
from blizzard.core.share import Want, choose_together, share_read
from blizzard.core.types import ONE_CORE, BatchPlan, Budget, Slice, TaskPlan

BUDGET = Budget(output_bytes=1, max_records=None, seconds=None)
LIMITS = Limits(max_bytes=100)


def piece(path: str, from_record: int = 0, size: int = 10, framing: str = "lines", **changes: str) -> Slice:
    return Slice(path=path, size_bytes=size, etag="e", from_record=from_record, framing=framing, **changes)


def want(name: str, *pieces: Slice, given_bytes: int = 0) -> Want:
    plan = BatchPlan(tasks=(TaskPlan(slot=0, slices=pieces, budget=BUDGET),), frontier=())
    return Want(name=name, plan=plan, given_bytes=given_bytes)


def chosen(*wants: Want, limits: Limits = LIMITS) -> list[str]:
    return [one.name for one in choose_together(wants, limits)]


def test_targets_at_one_place_share_a_read() -> None:
    assert chosen(want("a", piece("1"), piece("2")), want("b", piece("1"), piece("2"))) == ["a", "b"]


def test_one_that_lags_far_reads_by_itself() -> None:
    far = [piece(f"{i:03d}") for i in range(10)]
    ahead = want("a", piece("900"), given_bytes=7)
    assert chosen(ahead, want("b", *far)) == ["b"]
    assert chosen(ahead, want("b", *far, given_bytes=8)) == ["a"]


def test_one_that_lags_by_less_than_a_batch_joins() -> None:
    assert chosen(want("a", piece("9")), want("b", *[piece(str(i)) for i in range(10)])) == ["a", "b"]


def test_a_full_batch_is_shared_though_one_of_them_wants_a_file_more() -> None:
    full = [piece(str(i)) for i in range(10)]
    assert chosen(want("a", *full), want("b", piece("-"), *full)) == ["a", "b"]


def test_a_file_is_read_from_the_smallest_record_and_each_takes_its_own() -> None:
    wants = [want("a", piece("1", 70), piece("2")), want("b", piece("1", 30))]
    shared = share_read(wants, LIMITS, slots=2, cores=ONE_CORE)
    assert {p.path: p.from_record for task in shared.tasks for p in task.slices} == {"1": 30, "2": 0}
    assert shared.wanted == {"a": {"1": 70, "2": 0}, "b": {"1": 30}}


def test_a_file_that_one_has_begun_is_read_as_it_was_begun() -> None:
    wants = [want("a", piece("1", 70, framing="array")), want("b", piece("1", framing="auto"))]
    assert [one.name for one in choose_together(wants, LIMITS)] == ["a", "b"]
    ((read,),) = [task.slices for task in share_read(wants, LIMITS, slots=1, cores=ONE_CORE).tasks]
    assert (read.from_record, read.framing) == (0, "array")


def test_a_file_that_two_have_begun_in_two_ways_is_not_shared() -> None:
    assert chosen(want("a", piece("1", 7, framing="array")), want("b", piece("1", 3, framing="lines"))) == ["a"]
    assert chosen(want("a", piece("1", 7)), want("b", piece("1", 3, encoding="utf-16"))) == ["a"]


def test_a_file_that_is_new_to_both_is_shared_only_if_both_read_it_in_the_same_way() -> None:
    """A position that an older release wrote reads lines; a new target finds out how the records lie."""
    assert chosen(want("a", piece("1", framing="lines")), want("b", piece("1", framing="auto"))) == ["a"]
    assert chosen(want("a", piece("1", framing="auto")), want("b", piece("1", framing="auto"))) == ["a", "b"]
    assert chosen(want("a", piece("1", 7, framing="array")), want("b", piece("1", framing="lines"))) == ["a"]


def test_two_versions_of_a_file_are_not_shared() -> None:
    assert chosen(want("a", piece("1")), want("b", piece("1", size=11))) == ["a"]


def test_a_file_that_only_one_of_them_gives_up_is_not_shared() -> None:
    assert chosen(want("a", piece("1")), want("b", piece("1", given_up="late"))) == ["a"]


def test_of_one_target_the_plan_stays_as_it_is() -> None:
    one = want("a", piece("2"), piece("1", 5))
    assert share_read([one], LIMITS, slots=4, cores=ONE_CORE).tasks == one.plan.tasks


pieces = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.tuples(st.integers(0, 3), st.sampled_from(["lines", "auto", "array"])),
    min_size=1,
)


@given(st.lists(st.tuples(pieces, st.integers(0, 9)), min_size=1, max_size=4), st.integers(1, 4))
def test_whoever_shares_gets_all_that_it_wants_and_the_turn_is_kept(
    wanted: list[tuple[dict[str, tuple[int, str]], int]], slots: int
) -> None:
    wants = [
        want(str(i), *(piece(path, n, framing=f) for path, (n, f) in files.items()), given_bytes=given_bytes)
        for i, (files, given_bytes) in enumerate(wanted)
    ]
    together = choose_together(wants, LIMITS)
    assert min(wants, key=lambda one: one.given_bytes) in together
    shared = share_read(together, LIMITS, slots=slots, cores=ONE_CORE)
    read = {p.path: p for task in shared.tasks for p in task.slices}
    assert max(Counter(p.path for task in shared.tasks for p in task.slices).values()) == 1
    for one in together:
        for p in one.plan.slices:
            assert shared.wanted[one.name][p.path] == p.from_record >= read[p.path].from_record
            assert read[p.path].framing == p.framing or (not p.from_record and p.framing == "auto")
    assert set(read) == {p.path for one in together for p in one.plan.slices}
