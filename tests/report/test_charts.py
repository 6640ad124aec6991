"""Charts: bars where a person expects them, however few there are, and no word about what is not drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blizzard.report.charts import About, Chart, Column, bar_chart, round_number, round_seconds
from blizzard.report.facts import CommitRow
from blizzard.report.history import charts
from blizzard.report.timing import time_commits
from tests.report.test_page import NOW_MS, row

WORDS = About(
    id="c",
    title="t",
    about="",
    description="",
    unit="",
    x_title="",
    series={"a": "as", "b": "bs", "gone": "gone ones", "mark": "marks"},
    head=("Name",),
)


def drawn(*columns: Column) -> Chart:
    return bar_chart(columns, WORDS, show=str)


def column(name: str, *parts: tuple[str, float], marker: str | None = None) -> Column:
    return Column(parts=parts or (("a", 5.0), ("b", 5.0)), tip="", label=name, marker=marker, cells=(name,))


def numbered(many: int) -> Chart:
    return drawn(*(column(str(i)) for i in range(many)))


def test_scales_are_round_and_never_below_what_they_show() -> None:
    for n in (0, 1, 3, 10, 11, 49, 50.5, 987_654):
        assert round_number(n) >= n
    assert (round_number(3), round_number(11), round_number(100)) == (5, 20, 100)
    assert (round_seconds(45), round_seconds(7_000), round_seconds(100_000)) == (60, 7_200, 172_800)


@pytest.mark.parametrize("many", [1, 2, 3, 5, 11, 12, 40, 500])
def test_bars_are_spread_over_the_whole_width_and_none_is_too_wide(many: int) -> None:
    chart = numbered(many)
    centres = sorted({round(b.x + b.width / 2, 1) for b in chart.bars})
    assert centres == pytest.approx([(i + 0.5) * 1000 / many for i in range(many)], abs=0.1)
    assert all(b.x >= 0 and b.x + b.width <= 1000 and b.y >= 0 and b.y + b.height <= 100.01 for b in chart.bars)
    assert max(b.width for b in chart.bars) <= 66
    assert (chart.hits[0].x, chart.hits[-1].x + chart.hits[-1].width) == pytest.approx((0, 1000), abs=5)


@pytest.mark.parametrize(
    ("many", "labels", "on_a_phone"),
    [
        (1, ["0"], ["0"]),
        (3, ["0", "1", "2"], ["0", "1", "2"]),
        (4, ["0", "1", "2", "3"], ["0", "3"]),
        (40, ["0", "10", "20", "29", "39"], ["0", "20", "39"]),
    ],
)
def test_a_label_stands_below_its_bar(many: int, labels: list[str], on_a_phone: list[str]) -> None:
    found = numbered(many).x_labels
    assert [label.text for label in found] == labels
    assert [label.text for label in found if not label.is_extra] == on_a_phone
    below = [(int(text) + 0.5) / many * 100 for text in labels]
    at = [("start", 0) if x < 8 else ("end", 100) if x > 92 else ("middle", pytest.approx(x, abs=0.01)) for x in below]
    assert [(label.anchor, label.percent) for label in found] == at


def test_the_legend_names_what_occurs_and_nothing_else() -> None:
    assert drawn(column("x", ("a", 1.0), ("b", 0.0))).legend == (("a", "as"),)
    assert numbered(1).legend == (("a", "as"), ("b", "bs"))
    taken_back = drawn(column("x", ("a gone", 1.0)), column("y", ("b", 0.0), marker="mark"))
    assert taken_back.legend == (("gone", "gone ones"), ("mark", "marks"))
    assert drawn(column("x", ("a", 0.0))).is_empty


def test_each_chart_has_its_numbers_as_a_table() -> None:
    rows = [row(2, records=5, bad=1), row(1, records=1_000, bytes=1_500)]
    records, stored, times = charts(0, rows[::-1], time_commits(rows), 30.0)
    at = ["2026-11-17 07:05:20", "2026-11-17 07:04:20"]
    assert records.rows == (("2", at[0], "5", "1"), ("1", at[1], "1,000", "0"))
    assert stored.rows == (("2", at[0], "1 kB"), ("1", at[1], "1.5 kB"))
    assert times.rows == (("none yet", "now", "30 s", "–"), ("2", at[0], "1 min", "–"), ("1", at[1], "–", "–"))
    for chart in (records, stored, times):
        assert all(len(cells) == len(chart.head) for cells in chart.rows)
        assert "One bar is one commit" in chart.about
        assert "2 commits, " + at[1] in chart.description
        assert chart.unit
        assert chart.x_title == "time of the commit on 2026-11-17, UTC"
    assert [label.text for label in records.x_labels] == ["07:04:20", "07:05:20"]


def test_the_first_bar_has_no_commit_before_it_and_says_what_it_is() -> None:
    def about(*rows: CommitRow) -> str:
        return charts(0, rows, time_commits(rows[::-1]), 30.0)[2].about

    assert "before it; that of the first one is the time it worked; the last bar" in about(
        row(1, at_ms=NOW_MS, began_ms=NOW_MS - 5_000)
    )
    assert "before it; the last bar" in about(row(1), row(2, began_ms=0))


def test_a_commit_that_was_taken_back_is_drawn_and_named_as_such() -> None:
    rows = [row(2, rolled_back_to=0, records=0, bytes=0), row(1, is_superseded=True)]
    (chart, *_) = charts(0, rows[::-1], time_commits(rows), None)
    assert [bar.css for bar in chart.bars] == ["main gone"]
    assert dict(chart.legend) == {"gone": "taken back by a rollback", "rollback": "rollback"}
    assert chart.rows[1][0] == "1 (taken back)"


def test_labels_are_as_short_as_they_can_be_told_apart() -> None:
    def labels(*times_ms: int) -> list[str]:
        rows = [replace(row(i + 1), at_ms=at_ms) for i, at_ms in enumerate(times_ms)]
        (chart, *_) = charts(0, rows, time_commits(rows[::-1]), None)
        return [label.text for label in chart.x_labels]

    day_ms = 86_400_000
    assert labels(NOW_MS, NOW_MS + 1_000) == ["07:20:00", "07:20:01"]
    assert labels(NOW_MS, NOW_MS + 7_200_000) == ["07:20", "09:20"]
    assert labels(NOW_MS, NOW_MS + day_ms) == ["11-17 07:20", "11-18 07:20"]
    assert labels(NOW_MS - 400 * day_ms, NOW_MS) == ["2025-10-13", "2026-11-17"]
    assert labels(10**18) == ["1000000000000000000 ms"]  # a commit may hold any number
