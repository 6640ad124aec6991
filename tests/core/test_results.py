"""Reports of a batch must add up with its plan, or nothing of it is committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blizzard.core.batch import InconsistentReport, check_result
from blizzard.core.types import (
    BatchPlan,
    BatchResult,
    Budget,
    DataFile,
    Slice,
    SliceReport,
    TaskPlan,
    TaskReport,
)

SLICES = (
    Slice(path="a", size_bytes=10, etag="ea", from_record=0),
    Slice(path="b", size_bytes=20, etag="eb", from_record=5),
)
BUDGET = Budget(output_bytes=1, max_records=None, seconds=None)
PLAN = BatchPlan(tasks=(TaskPlan(slot=0, slices=SLICES, budget=BUDGET),), frontier=("a", "b"))
A = SliceReport(path="a", size_bytes=10, etag="ea", from_record=0, to_record=4, finished=True, rows=3, blank=1)
B = SliceReport(path="b", size_bytes=20, etag="eb", from_record=5, to_record=7, finished=False, rows=1, bad=1)


def result(*reports: SliceReport, rows: int | None = None) -> BatchResult:
    counted = sum(r.rows for r in reports) if rows is None else rows
    file = DataFile(path="f", size_bytes=1, rows=counted, stats="{}", modified_ms=0)
    return BatchResult(reports=(TaskReport(slot=0, slices=reports, files=(file,) if counted else ()),))


def test_a_report_that_adds_up_is_taken() -> None:
    check_result(PLAN, result(A, B))
    check_result(PLAN, result(A))  # the other was not started
    check_result(PLAN, result(replace(A, rows=1, filtered=2)))
    check_result(PLAN, result(replace(A, rows=1, filtered=2, unrouted=2)))
    check_result(PLAN, result(replace(A, to_record=0, rows=0, blank=0)))  # an empty file is finished, and is progress


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (result(replace(A, path="c")), "not planned"),
        (result(A, A), "twice"),
        (result(replace(A, from_record=1, rows=2)), "another place"),
        (result(replace(A, etag="other")), "another place"),
        (result(replace(A, size_bytes=11)), "another place"),
        (result(replace(A, rows=4)), "lines read"),
        (result(replace(A, blank=0)), "lines read"),
        (result(replace(A, filtered=1)), "lines read"),
        (result(replace(A, rows=1, filtered=2, unrouted=3)), "more records are for no target"),
        (result(replace(B, bad=0)), "lines read"),
        (result(A, B, rows=5), "as many rows"),
        (result(A, B, rows=3), "as many rows"),
        (result(replace(B, to_record=5, rows=0, bad=0)), "read nothing"),
        (result(), "read nothing"),
    ],
)
def test_a_report_that_does_not_add_up_is_never_committed(wrong: BatchResult, why: str) -> None:
    with pytest.raises(InconsistentReport, match=why):
        check_result(PLAN, wrong)


@pytest.mark.parametrize(("rows", "is_taken"), [(2, True), (3, False)])
def test_records_for_no_target_may_be_in_quarantine_too(rows: int, is_taken: bool) -> None:
    """One bad record and one for no target: no third row can have come from this slice."""
    report = replace(B, to_record=8, filtered=1, unrouted=1)
    kept = DataFile(path="q", size_bytes=1, rows=rows, stats="{}", modified_ms=0)
    (made,) = result(report).reports
    taken = BatchResult(reports=(replace(made, quarantine=(kept,)),))
    if is_taken:
        check_result(PLAN, taken)
    else:
        with pytest.raises(InconsistentReport, match="more rows for the quarantine"):
            check_result(PLAN, taken)
