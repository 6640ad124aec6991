"""The charts of a pipeline's commits, and their words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from blizzard.core.kinds import CommitKind
from blizzard.core.lists import count
from blizzard.report import formats
from blizzard.report.charts import About, Chart, Column, bar_chart
from blizzard.report.facts import CommitRow
from blizzard.report.timing import Timing

_MARKERS = {
    "gone": "taken back by a rollback",
    "rollback": "rollback",
    "skipped": "files skipped on purpose",
    "problem": "damaged commit",
}
_HOUR_MS, _STAMP = 3_600_000, len("2026-01-31 08:00:00")


def charts(index: int, rows: Sequence[CommitRow], timing: Timing, lag_s: float | None) -> tuple[Chart, ...]:
    """`rows` oldest first, at least one. `index` makes the ids unique on the page."""
    labels, x_title = _labels(rows)
    span = f"{count(len(rows), 'commit')}, {formats.when(rows[0].at_ms)} to {formats.when(rows[-1].at_ms)} UTC."
    drawing = _Drawing(index, rows, labels, x_title, span, timing)
    return drawing.records(), drawing.stored(), drawing.times(lag_s)


class _Drawing:
    def __init__(
        self, index: int, rows: Sequence[CommitRow], labels: Sequence[str], x_title: str, span: str, timing: Timing
    ) -> None:
        self._index, self._rows, self._labels = index, rows, labels
        self._x_title, self._span, self._timing = x_title, span, timing

    def records(self) -> Chart:
        rows, most = self._rows, max(self._rows, key=lambda row: row.records)
        words = self._words(
            "records",
            "Records per commit",
            "One bar is one commit, oldest left. Its height is the number of records that went into the table"
            + ("; bad records stand on top." if any(row.bad for row in rows) else "."),
            f"At most {most.records:,} records, in sequence {most.sequence}; {sum(r.bad for r in rows):,} bad records.",
            unit="records",
            series={"main": "records", "bad": "bad records"},
            values=("Records", "Bad records"),
        )
        columns = [
            self._column(i, (("main", row.records), ("bad", row.bad)), (f"{row.records:,}", f"{row.bad:,}"))
            for i, row in enumerate(rows)
        ]
        return bar_chart(columns, words, show=formats.count)

    def stored(self) -> Chart:
        rows = self._rows
        words = self._words(
            "bytes",
            "Source bytes finished per commit",
            "One bar is one commit. Its height is the stored size of the source files that it finished.",
            f"{formats.size(sum(row.bytes for row in rows))} in all.",
            unit="bytes",
            series={"main": "bytes of finished files"},
            values=("Bytes",),
        )
        columns = [self._column(i, (("main", row.bytes),), (formats.size(row.bytes),)) for i, row in enumerate(rows)]
        return bar_chart(columns, words, show=formats.size)

    def times(self, lag_s: float | None) -> Chart:
        """The time since the newest commit is cut, so that after weeks without one the other bars can be read."""
        timing, rows = self._timing, self._rows
        longest = max((*timing.gaps.values(), *timing.work.values()), default=0.0)
        columns = [
            self._column(
                i,
                (("work", timing.work.get(row.version, 0.0)), ("gap", timing.waited(row.version))),
                (_known(timing.gaps, row), _known(timing.work, row)),
            )
            for i, row in enumerate(rows)
        ]
        is_known = all(row.version in timing.work for row in rows if row.records)
        first = "; that of the first one is the time it worked" if rows[0].version in timing.work else ""
        newest = ""
        if lag_s is not None:
            columns.append(_now(lag_s, min(lag_s, 2 * longest) if longest else lag_s))
            is_cut = longest and lag_s > 2 * longest
            newest = f"; the last bar{', cut short,' if is_cut else ''} is the time since the newest one"
        words = self._words(
            "lag",
            "Time per commit",
            f"One bar is one commit. Its height is the time since the commit before it{first}{newest}.",
            f"At most {formats.duration(longest)}.",
            unit="time",
            series={
                "work": "working: reading and committing",
                "gap": "waiting" if is_known else "waiting, or not known: an older release did not record it",
                "lag": "since the newest commit",
            },
            values=("Since the commit before", "Working"),
        )
        return bar_chart(columns, words, show=formats.duration, is_time=True)

    def _words(
        self,
        name: str,
        title: str,
        about: str,
        found: str,
        *,
        unit: str,
        series: dict[str, str],
        values: tuple[str, ...],
    ) -> About:
        return About(
            id=f"{name}-{self._index}",
            title=title,
            about=about,
            description=f"{self._span} {found}",
            unit=unit,
            x_title=self._x_title,
            series=series | _MARKERS,
            head=("Sequence", "Time (UTC)", *values),
        )

    def _column(self, i: int, parts: tuple[tuple[str, float], ...], cells: tuple[str, ...]) -> Column:
        row = self._rows[i]
        state = " gone" if row.is_superseded else ""
        return Column(
            parts=tuple((css + state, value) for css, value in parts),
            tip=_tip(row, self._timing),
            label=self._labels[i],
            marker=_marker(row),
            cells=(_sequence(row), formats.when(row.at_ms), *cells),
        )


def _marker(row: CommitRow) -> str | None:
    if row.problem:
        return "problem"
    if row.rolled_back_to is not None:
        return "rollback"
    return "skipped" if row.skipped_files and row.kind == CommitKind.EDIT else None


def _now(lag_s: float, drawn: float) -> Column:
    shown = formats.duration(lag_s)
    cells = ("none yet", "now", shown, "–")
    return Column(parts=(("lag", drawn),), tip=f"since the newest commit\n{shown}", label="now", cells=cells)


def _sequence(row: CommitRow) -> str:
    return f"{row.sequence if row.sequence is not None else '?'}{' (taken back)' if row.is_superseded else ''}"


def _known(seconds: dict[int, float], row: CommitRow) -> str:
    return formats.duration(seconds[row.version]) if row.version in seconds else "–"


def _labels(rows: Sequence[CommitRow]) -> tuple[list[str], str]:
    """The times of commits, as short as they can be told apart, and what they are."""
    stamps = [formats.when(row.at_ms) for row in rows]
    if any(len(stamp) != _STAMP for stamp in stamps):  # a commit may hold any number
        return stamps, "time of the commit"
    if len({stamp[:10] for stamp in stamps}) == 1:
        end = 19 if rows[-1].at_ms - rows[0].at_ms < _HOUR_MS else 16
        return [stamp[11:end] for stamp in stamps], f"time of the commit on {stamps[0][:10]}, UTC"
    if len({stamp[:4] for stamp in stamps}) == 1:
        return [stamp[5:16] for stamp in stamps], f"time of the commit in {stamps[0][:4]} (month-day), UTC"
    return [stamp[:10] for stamp in stamps], "day of the commit, UTC"


def _tip(row: CommitRow, timing: Timing) -> str:
    parts = [
        f"sequence {row.sequence if row.sequence is not None else '?'} · version {row.version}",
        f"{formats.when(row.at_ms)} UTC",
        f"{count(row.records, 'record')} · {count(row.files, 'file')} · {formats.size(row.bytes)}",
    ]
    work_s = timing.work.get(row.version)
    if work_s and row.records:
        parts.append(f"{formats.duration(work_s)} of work · {formats.rate(row.records / work_s)}")
    if row.bad:
        parts.append(count(row.bad, "bad record"))
    if row.dropped:
        parts.append(f"{row.dropped:,} older ones dropped from quarantine")
    parts += files_apart(row)
    if row.is_superseded:
        parts.append("taken back by a rollback")
    if row.rolled_back_to is not None:
        parts.append(f"rollback to sequence {row.rolled_back_to}")
    if row.problem:
        parts.append(row.problem)
    return "\n".join(parts)


def files_apart(row: CommitRow) -> list[str]:
    """Files of a commit that were not read like the others. Nothing is wrong with a file that was skipped."""
    apart = []
    if row.broken_files:
        apart.append(f"{count(row.broken_files, 'file')} given up, broken or left unread by a policy")
    if row.skipped_files:
        why = (
            "skipped on purpose" if row.kind == CommitKind.EDIT else "skipped, gone from the source before it was read"
        )
        apart.append(f"{count(row.skipped_files, 'file')} {why}")
    return apart
