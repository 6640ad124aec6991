"""How long commits took, and how many records they brought in that time. Pure.

A commit works from the moment it is planned, or from the commit before it if that is later, until it is in the log: so
no second counts twice, though the next batch is read while one is committed. What is left until the commit before is
waiting. The first commit has none before it: it counts with its own begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from blizzard.report.facts import CommitRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds, by version. A commit is in neither if nobody knows."""

    gaps: dict[int, float] = field(default_factory=dict)  # since the commit before
    work: dict[int, float] = field(default_factory=dict)

    def waited(self, version: int) -> float:
        return max(0.0, self.gaps.get(version, 0.0) - self.work.get(version, 0.0))


def time_commits(rows: Sequence[CommitRow], made_at_ms: int | None = None) -> Timing:
    """`rows` newest first. `made_at_ms`: when the pipeline made the table."""
    gaps, work = {}, {}
    for i, row in enumerate(rows):
        before = rows[i + 1] if i + 1 < len(rows) else None
        if before is not None:
            gaps[row.version] = _seconds(before.at_ms, row.at_ms)
        began_ms = begin_of(row, None if before is not None else made_at_ms)
        if began_ms is not None:
            work[row.version] = _seconds(max(began_ms, before.at_ms if before is not None else 0), row.at_ms)
    return Timing(gaps=gaps, work=work)


def begin_of(row: CommitRow, made_at_ms: int | None) -> int | None:
    """When it began; else when its table was made, which a run does just before it reads."""
    return row.began_ms if row.began_ms is not None else made_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """None: not known. `seconds` is from the begin of the first commit to the newest one."""

    per_second: float | None
    seconds: float
    has_first: bool  # the first commit is in it
    working_per_second: float | None
    working_s: float


def rates(rows: Sequence[CommitRow], timing: Timing, made_at_ms: int | None = None) -> Rates:
    """Of `rows`, newest first, that were not taken back."""
    counted = [row for row in rows if not row.is_superseded]
    worked = [row for row in counted if row.version in timing.work and row.records]
    working_s = sum(timing.work[row.version] for row in worked)
    working = sum(row.records for row in worked) / working_s if working_s else None
    if not counted:
        return Rates(per_second=None, seconds=0.0, has_first=True, working_per_second=working, working_s=working_s)
    first = counted[-1]
    began_ms = begin_of(first, made_at_ms if first is rows[-1] else None)
    seconds = _seconds(first.at_ms if began_ms is None else began_ms, counted[0].at_ms)
    records = sum(row.records for row in (counted if began_ms is not None else counted[:-1]))
    return Rates(
        per_second=records / seconds if seconds else None,
        seconds=seconds,
        has_first=began_ms is not None,
        working_per_second=working,
        working_s=working_s,
    )


def _seconds(from_ms: int, to_ms: int) -> float:
    return max(0.0, (to_ms - from_ms) / 1000)
