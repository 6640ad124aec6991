"""Rates: every record counts, those of the first commit too, and no second counts twice."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.report.facts import CommitRow
from blizzard.report.page import render_page
from blizzard.report.timing import Rates, rates, time_commits
from tests.report.test_page import Tags, facts, pipeline, row


def commit(number: int, began_s: float | None, at_s: float, records: int = 100, **changes: Any) -> CommitRow:
    began_ms = None if began_s is None else int(began_s * 1000)
    return row(number, began_ms=began_ms, at_ms=int(at_s * 1000), records=records, **changes)


def rated(*newest_first: CommitRow, made_at_ms: int | None = None) -> Rates:
    return rates(newest_first, time_commits(newest_first, made_at_ms), made_at_ms)


def test_one_commit_has_a_rate() -> None:
    found = rated(commit(1, 10, 14))
    assert (found.per_second, found.seconds, found.has_first) == (25, 4, True)
    assert (found.working_per_second, found.working_s) == (25, 4)


def test_the_first_commit_counts_from_its_begin() -> None:
    found = rated(commit(2, 50, 60, 300), commit(1, 10, 20))
    assert (found.per_second, found.seconds) == (400 / 50, 50)
    assert (found.working_per_second, found.working_s) == (400 / 20, 20)


def test_of_a_ledger_without_a_begin_the_making_of_the_table_tells_it() -> None:
    found = rated(commit(2, None, 60, 300), commit(1, None, 20), made_at_ms=10_000)
    assert (found.per_second, found.seconds, found.has_first) == (400 / 50, 50, True)
    assert (found.working_per_second, found.working_s) == (10, 10)  # of the second nobody knows it


def test_where_nobody_knows_the_begin_the_first_commit_is_left_out_and_that_is_said() -> None:
    found = rated(commit(2, None, 60, 300), commit(1, None, 20, 7))
    assert (found.per_second, found.seconds, found.has_first) == (300 / 40, 40, False)
    assert found.working_per_second is None
    assert rated(commit(1, None, 20)).per_second is None
    assert rated().per_second is None
    text = Tags(render_page(facts(pipelines=(pipeline(commits=(commit(2, None, 60), commit(1, None, 20))),)))).text
    assert "without the first commit" in text


def test_what_is_read_while_the_batch_before_is_committed_counts_once() -> None:
    rows = (commit(2, 15, 30), commit(1, 10, 20))
    timing = time_commits(rows)
    assert timing.work == {2: 10, 1: 10}
    assert timing.gaps == {2: 10}
    assert timing.waited(2) == 0
    assert rated(*rows).working_per_second == 10


def test_waiting_is_what_is_left_of_the_time_since_the_commit_before() -> None:
    timing = time_commits((commit(3, None, 100, 0, kind="renewal"), commit(2, 55, 60), commit(1, 10, 20)))
    assert (timing.work[2], timing.waited(2)) == (5, 35)
    assert (3 in timing.work, timing.waited(3)) == (False, 40)


def test_what_was_taken_back_is_in_no_rate() -> None:
    found = rated(commit(3, 80, 90, 50), commit(2, 50, 60, 1_000_000, is_superseded=True), commit(1, 10, 20))
    assert found.per_second == pytest.approx(150 / 80)
    assert found.working_per_second == pytest.approx(150 / 20)


def test_clocks_that_go_back_make_no_negative_time() -> None:
    rows = (commit(2, 5, 1), commit(1, 10, 3))
    assert min(*time_commits(rows).work.values(), *time_commits(rows).gaps.values()) == 0
    assert rated(*rows).per_second is None
