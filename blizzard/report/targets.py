"""Collects what a report on several targets shows: the report of each, and where each stands among the others.

From the logs alone: nobody lists the source for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from blizzard.core.lag import stands_behind
from blizzard.core.paths import Path
from blizzard.core.position import Marks
from blizzard.errors import BlizzardError, known_failure
from blizzard.report.collect import MAX_COMMITS
from blizzard.report.facts import Live, PipelineFacts, ReportFacts, TargetFacts, TargetsFacts
from blizzard.report.live import LIVE_AGE_S, LIVE_COMMITS, collect_report, is_still_so
from blizzard.run.assemble import Assembly


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    facts: ReportFacts | None = None
    marks: Marks | None = None
    error: BlizzardError | None = None


def collect_targets(assembly: Assembly, *, pipeline: str | None = None, max_commits: int = MAX_COMMITS) -> TargetsFacts:
    """`pipeline`: show only this one."""
    meant = pipeline or (assembly.pipeline_of_targets() if assembly.config.source.path is not None else None)
    look = _Look(meant=meant, only=pipeline, max_commits=max_commits)
    return _facts(assembly, meant, {name: look.see(target) for name, target in assembly.targets().items()})


class LiveTargets:
    """The page of a run with several targets. However many people look at it, each log is read at most every 2 s, and
    only after a change."""

    def __init__(self, assembly: Assembly, pipeline: str) -> None:
        self._assembly, self._pipeline = assembly, pipeline
        self._lock, self._read_at_s = threading.Lock(), float("-inf")
        self._seen: dict[str, _Seen] = {}

    def render(self, live: Live, errors: Mapping[str, str]) -> str:
        """`errors`: why targets have failed last, which no log knows."""
        from blizzard.report.page import render_page  # its template engine is slow to load, and most runs show no page

        with self._lock:
            if time.monotonic() - self._read_at_s > LIVE_AGE_S:
                look = _Look(meant=self._pipeline, only=None, max_commits=LIVE_COMMITS)
                targets = self._assembly.targets()
                self._seen = {name: look.see(target, self._seen.get(name)) for name, target in targets.items()}
                self._read_at_s = time.monotonic()
            facts = _facts(self._assembly, self._pipeline, self._seen)
        return render_page(with_errors(facts, errors), live)


def _facts(assembly: Assembly, meant: str | None, seen: Mapping[str, _Seen]) -> TargetsFacts:
    return TargetsFacts(
        pipeline=meant,
        commit_policy=assembly.config.commit_policy,
        made_at_ms=assembly.clock.now_ms(),
        targets={
            name: _target(target, seen[name], meant, [one.marks for other, one in seen.items() if other != name])
            for name, target in assembly.targets().items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """`meant` is the pipeline of the targets; `only`: show no other one."""

    meant: str | None
    only: str | None
    max_commits: int

    def see(self, target: Assembly, known: _Seen | None = None) -> _Seen:
        """`known` is what was seen before, if anything was."""
        try:
            table = target.find_table()
            if table is None:
                return _Seen(facts=ReportFacts(table=target.request.table_shown, made_at_ms=target.clock.now_ms()))
            if known is not None and known.facts is not None and is_still_so(known.facts, table):
                return known
            facts = collect_report(target, pipeline=self.only, max_commits=self.max_commits, table=table)
            position = None if self.meant is None else table.newest_position(self.meant)
            return _Seen(facts=facts, marks=None if position is None else position.marks)
        except Exception as e:
            failure = known_failure(e)
            if failure is None:
                raise
            return _Seen(error=failure)


def _target(target: Assembly, seen: _Seen, meant: str | None, others: Iterable[Marks | None]) -> TargetFacts:
    facts, error = seen.facts, seen.error
    own = next((p for p in facts.pipelines if p.name == meant), None) if facts is not None else None
    known = [marks for marks in others if marks is not None]
    return TargetFacts(
        table=target.request.table_shown,
        required=target.config.required if target.config.policy_of_targets.kind == "required" else None,
        state=_state(seen, own, known),
        sequence=None if own is None or own.position is None else own.position.sequence,
        last_commit_ms=None if own is None else own.last_commit_ms,
        error=None if error is None else f"{error} [{error.kind}]",
        error_kind=None if error is None else error.kind,
        exit_code=0 if error is None else error.exit_code,
        facts=facts,
    )


def _state(seen: _Seen, own: PipelineFacts | None, others: Iterable[Marks]) -> str:
    if seen.error is not None:
        return "unknown"
    if own is not None and own.recovery.path is Path.REFUSED:
        return "refused"
    if seen.marks is None:
        return "new"
    return "behind" if stands_behind(seen.marks, others) else "front"


def with_errors(facts: TargetsFacts, errors: Mapping[str, str]) -> TargetsFacts:
    """With what a run knows about its targets and no log does: why each has failed last."""
    return replace(
        facts,
        targets={
            name: replace(target, state="failed", error=errors[name]) if name in errors else target
            for name, target in facts.targets.items()
        },
    )
