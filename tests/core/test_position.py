"""The mark and its exceptions: nothing listed at or before the mark is ever forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.position import (
    FINISHED,
    Finished,
    Marks,
    RecordsRead,
    advance_mark,
    apply_reports,
    entry_bytes,
    prune_finished,
)
from blizzard.core.types import SliceReport


def report(path: str, *, to: int = 10, finished: bool = True) -> SliceReport:
    return SliceReport(path=path, size_bytes=100, etag="e", from_record=0, to_record=to, finished=finished, rows=to)


def settle(marks: Marks, reports: list[SliceReport], frontier: list[str]) -> Marks:
    return prune_finished(advance_mark(apply_reports(marks, reports), frontier))


def test_files_that_finish_in_order_leave_only_the_mark() -> None:
    position = settle(Marks(), [report("a"), report("b")], ["a", "b"])
    assert position == Marks(files={}, last_committed_file="b")


def test_a_slower_earlier_file_is_named_and_not_lost() -> None:
    # The seed's rule, "the latest finished file", would forget a.
    position = settle(Marks(), [report("a", to=5, finished=False), report("b")], ["a", "b"])
    assert position.records_read("a") == 5
    assert not position.is_finished("a")
    assert position.is_finished("b")
    assert position.last_committed_file == "b"


def test_a_file_that_was_never_started_is_never_finished() -> None:
    position = settle(Marks(), [report("b")], ["a", "b"])
    assert not position.is_finished("a")
    assert position.is_finished("b")


def test_a_file_in_progress_keeps_size_and_etag() -> None:
    position = settle(Marks(), [report("a", to=5, finished=False)], ["a"])
    assert position.files == {"a": RecordsRead(records=5, size_bytes=100, etag="e")}


def test_an_empty_file_is_finished() -> None:
    assert settle(Marks(), [report("a", to=0)], ["a"]).is_finished("a")


def test_the_mark_moves_on_when_the_left_over_is_finished() -> None:
    position = settle(Marks(), [report("a", to=5, finished=False), report("b")], ["a", "b"])
    position = settle(position, [report("a")], [])
    assert position == Marks(files={}, last_committed_file="b")


def test_after_a_hundred_thousand_names_only_what_is_in_progress_is_held() -> None:
    position = Marks()
    names = [f"part-{i:08d}.ndjson.gz" for i in range(100_000)]
    for start in range(0, len(names), 10_000):
        batch = names[start : start + 10_000]
        # Two slots that end at different places, with two files in progress.
        done = set(batch) - {batch[500], batch[9_000]}
        reports = [report(n, finished=n in done) for n in batch]
        position = settle(position, reports, batch)
        assert set(position.files) == {batch[500], batch[9_000]}
        position = settle(position, [report(batch[500]), report(batch[9_000])], [])
        assert position == Marks(files={}, last_committed_file=batch[-1])


status = st.sampled_from(["finished", "partial", "unstarted"])


@given(st.lists(status, min_size=1, max_size=40), st.lists(status, max_size=40))
def test_no_order_of_finishing_forgets_or_invents_a_file(first: list[str], second: list[str]) -> None:
    position = Marks()
    truth: dict[str, str] = {}
    offset = 0
    for statuses in (first, second):
        names = [f"f{offset + i:03d}" for i in range(len(statuses))]
        offset += len(names)
        frontier = sorted({n for n, s in truth.items() if s == "unstarted"} | set(names))
        frontier = [n for n in frontier if position.last_committed_file is None or n > position.last_committed_file]
        frontier = sorted(set(frontier) | {n for n in position.files if n > (position.last_committed_file or "")})
        truth |= dict(zip(names, statuses, strict=True))
        reports = [
            report(n, finished=s == "finished") for n, s in zip(names, statuses, strict=True) if s != "unstarted"
        ]
        position = settle(position, reports, frontier)
        for name, what in truth.items():
            assert position.is_finished(name) == (what == "finished"), (name, what, position)
            assert position.records_read(name) == (10 if what == "partial" else 0)
        # What has to be named never exceeds half of what was listed, plus what is in progress.
        named = sum(entry_bytes(n) for n, p in position.files.items() if isinstance(p, Finished) or p.records == 0)
        assert named <= sum(map(entry_bytes, truth)) / 2


def test_finished_above_the_mark_is_an_exception_until_the_mark_covers_it() -> None:
    position = Marks(files={"c": FINISHED}, last_committed_file="a")
    assert prune_finished(position) == position
    assert prune_finished(Marks(files={"c": FINISHED}, last_committed_file="c")).files == {}
