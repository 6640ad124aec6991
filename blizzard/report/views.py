"""What the page derives from the facts of each table and pipeline. Pure; nothing here is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blizzard.core.lists import count
from blizzard.core.paths import WORDS
from blizzard.report.charts import Chart
from blizzard.report.facts import CommitRow, PipelineFacts, ReportFacts, TargetFacts, TargetsFacts
from blizzard.report.history import charts
from blizzard.report.timing import Rates, Timing, rates, time_commits

_STATES = {
    "front": ("good", "as far as any other target"),
    "behind": ("warn", "behind the others"),
    "new": ("warn", "new: nothing is committed to it"),
    "refused": ("bad", "the next start refuses"),
    "failed": ("bad", "failed in this run"),
    "unknown": ("bad", "cannot be looked at"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the commits that were read and not taken back."""

    records: int
    bytes: int
    files: int
    bad: int
    dropped: int
    broken: int
    skipped: int
    late: int

    @property
    def bad_note(self) -> str | None:
        return f"{count(self.dropped, 'older one')} dropped from quarantine" if self.dropped else None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A pipeline with what is derived from its facts."""

    index: int  # on the page, from 1
    facts: PipelineFacts
    target: str | None
    verdict: tuple[str, str]
    lag_s: float | None
    totals: Totals
    timing: Timing
    rates: Rates
    charts: tuple[Chart, ...]

    @property
    def label(self) -> str:
        """What tells it from other parts of the page, for those who hear it."""
        return self.facts.name if self.target is None else f"{self.facts.name}, target {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the page shows of one table. `target` is None where there is only one."""

    index: int
    facts: ReportFacts | None  # None: it cannot be looked at
    views: tuple[View, ...] = ()
    name: str | None = None
    target: TargetFacts | None = None
    lag_s: float | None = None

    @property
    def badge(self) -> tuple[str, str]:
        assert self.target is not None
        return _STATES[self.target.state]


def parts_of(facts: ReportFacts | TargetsFacts) -> tuple[Part, ...]:
    if isinstance(facts, ReportFacts):
        return (_part(0, facts, facts.made_at_ms, None),)
    parts, shown = [], 0
    for i, (name, target) in enumerate(facts.targets.items()):
        last = target.last_commit_ms
        part = _part(shown, target.facts, facts.made_at_ms, name)
        lag_s = None if last is None else max(0.0, (facts.made_at_ms - last) / 1000)
        parts.append(replace(part, index=i, name=name, target=target, lag_s=lag_s))
        shown += len(part.views)
    return tuple(parts)


def _part(shown: int, facts: ReportFacts | None, now_ms: int, target: str | None) -> Part:
    """`shown` pipelines stand above it on the page."""
    pipelines = facts.pipelines if facts is not None else ()
    views = tuple(_view(shown + i, p, now_ms, target) for i, p in enumerate(pipelines))
    return Part(index=0, facts=facts, views=views)


def _view(index: int, pipeline: PipelineFacts, now_ms: int, target: str | None) -> View:
    rows = pipeline.commits
    timing = time_commits(rows, pipeline.made_at_ms)
    last = pipeline.last_commit_ms
    lag_s = None if last is None else max(0.0, (now_ms - last) / 1000)
    return View(
        index=index + 1,
        facts=pipeline,
        target=target,
        verdict=_verdict(pipeline),
        lag_s=lag_s,
        totals=_totals(rows),
        timing=timing,
        rates=rates(rows, timing, pipeline.made_at_ms),
        charts=charts(index, rows[::-1], timing, lag_s) if rows else (),
    )


def _verdict(pipeline: PipelineFacts) -> tuple[str, str]:
    words = WORDS[pipeline.recovery.path]
    is_paused = pipeline.position is not None and pipeline.position.paused is not None
    return ("warn", "Paused") if is_paused and words.verdict != "bad" else (words.verdict, words.title)


def _totals(rows: Sequence[CommitRow]) -> Totals:
    counted = [row for row in rows if not row.is_superseded]
    return Totals(
        records=sum(row.records for row in counted),
        bytes=sum(row.bytes for row in counted),
        files=sum(row.finished_files - row.broken_files for row in counted),
        bad=sum(row.bad for row in counted),
        dropped=sum(row.dropped for row in rows),  # they do not come back with a rollback
        broken=sum(row.broken_files for row in counted),
        skipped=sum(row.skipped_files for row in counted),
        late=sum(row.late_files for row in counted),
    )
