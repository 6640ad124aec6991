"""Makes one HTML page from facts. The page needs nothing else: no request, no font, and no script to be readable.

The template engine escapes every value; control characters are shown, secrets are not. The page's policy allows only
its own script and style, by their digests: even a value that was not escaped would not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from blizzard import __version__
from blizzard.core.paths import WORDS
from blizzard.report import formats
from blizzard.report.charts import Chart, Column, bar_chart
from blizzard.report.facts import CommitRow, Live, PipelineFacts, ReportFacts


def render_page(facts: ReportFacts, live: Live | None = None) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            facts=facts,
            live=live,
            status=live.status if live is not None else {},
            pipelines=[_view(i, p, facts.made_at_ms) for i, p in enumerate(facts.pipelines)],
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
            blizzard_version=__version__,
        )
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("blizzard.report", "templates"),
        autoescape=True,
        finalize=formats.plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": formats.count,
        "size": formats.size,
        "duration": formats.duration,
        "ago": formats.ago,
        "rate": formats.rate,
        "when": formats.when,
        "name": formats.shown_name,
    }
    return made


@cache
def _asset(name: str) -> str:
    return (resources.files("blizzard.report") / "templates" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:;"
        f" connect-src 'self'; form-action 'self'; base-uri 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """Sums over the commits that were read and not taken back."""

    records: int
    bytes: int
    bad: int
    broken: int
    late: int
    seconds: float | None  # from the first commit to the last
    after_first: int  # records of all commits but the first: those of these seconds

    @property
    def records_per_second(self) -> float | None:
        return self.after_first / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A pipeline with what is derived from its facts."""

    facts: PipelineFacts
    verdict: tuple[str, str]
    lag_s: float | None
    totals: _Totals
    gaps: dict[int, float]  # seconds since the commit before, by version
    charts: tuple[Chart, ...]

    @property
    def has_problems(self) -> bool:
        return any(row.problem for row in self.facts.commits)


def _view(index: int, pipeline: PipelineFacts, now_ms: int) -> _View:
    rows = pipeline.commits
    gaps = {new.version: max(0.0, (new.at_ms - old.at_ms) / 1000) for new, old in pairwise(rows)}
    last = pipeline.last_commit_ms
    lag_s = None if last is None else max(0.0, (now_ms - last) / 1000)
    return _View(
        facts=pipeline,
        verdict=(WORDS[pipeline.recovery.path].verdict, WORDS[pipeline.recovery.path].title),
        lag_s=lag_s,
        totals=_totals(rows),
        gaps=gaps,
        charts=_charts(index, rows[::-1], gaps, lag_s) if rows else (),
    )


def _totals(rows: Sequence[CommitRow]) -> _Totals:
    counted = [row for row in rows if not row.is_superseded]
    seconds = (counted[0].at_ms - counted[-1].at_ms) / 1000 if len(counted) > 1 else 0.0
    return _Totals(
        records=sum(row.records for row in counted),
        bytes=sum(row.bytes for row in counted),
        bad=sum(row.bad for row in counted),
        broken=sum(row.broken_files for row in counted),
        late=sum(row.late_files for row in counted),
        seconds=seconds if seconds > 0 else None,
        after_first=sum(row.records for row in counted[:-1]),
    )


def _charts(index: int, rows: Sequence[CommitRow], gaps: dict[int, float], lag_s: float | None) -> tuple[Chart, ...]:
    """`rows` oldest first."""
    span = f"{len(rows)} commits, {formats.when(rows[0].at_ms)} to {formats.when(rows[-1].at_ms)} UTC."
    most = max(rows, key=lambda row: row.records)
    records = bar_chart(
        [_column(row, (("main", row.records), ("bad", row.bad))) for row in rows],
        chart_id=f"records-{index}",
        title="Records per commit",
        description=f"{span} At most {most.records:,} records, in sequence {most.sequence}. Bad records are on top.",
        show=formats.count,
    )
    stored = bar_chart(
        [_column(row, (("main", row.bytes),)) for row in rows],
        chart_id=f"bytes-{index}",
        title="Source bytes finished per commit",
        description=f"{span} The stored size of the source files that each commit finished.",
        show=formats.size,
    )
    longest = max(gaps.values(), default=0.0)
    waits = [_column(row, (("gap", gaps.get(row.version, 0.0)),)) for row in rows]
    if lag_s is not None:
        # Cut, so that after weeks without a commit the other bars can still be read.
        drawn = min(lag_s, 2 * longest) if longest else lag_s
        waits.append(_now(lag_s, drawn))
    between = bar_chart(
        waits,
        chart_id=f"lag-{index}",
        title="Time between commits",
        description=f"{span} At most {formats.duration(longest)}. The last bar is the time since the newest commit,"
        f" cut at twice that.",
        show=formats.duration,
        is_time=True,
    )
    return records, stored, between


def _now(lag_s: float, drawn: float) -> Column:
    return Column(parts=(("lag", drawn),), tip=f"since the last commit\n{formats.duration(lag_s)}", label="now")


def _column(row: CommitRow, parts: tuple[tuple[str, float], ...]) -> Column:
    state = " gone" if row.is_superseded else ""
    marker = "problem" if row.problem else "rollback" if row.rolled_back_to is not None else None
    return Column(
        parts=tuple((css + state, value) for css, value in parts), tip=_tip(row), label=_label(row), marker=marker
    )


def _label(row: CommitRow) -> str:
    return formats.when(row.at_ms)[5:16]


def _tip(row: CommitRow) -> str:
    parts = [
        f"sequence {row.sequence if row.sequence is not None else '?'} · version {row.version}",
        f"{formats.when(row.at_ms)} UTC",
        f"{row.records:,} records · {row.files:,} files · {formats.size(row.bytes)}",
    ]
    if row.bad:
        parts.append(f"{row.bad:,} bad records")
    if row.is_superseded:
        parts.append("taken back by a rollback")
    if row.rolled_back_to is not None:
        parts.append(f"rollback to sequence {row.rolled_back_to}")
    if row.problem:
        parts.append(row.problem)
    return "\n".join(parts)
