"""`blizzard report`, and the same page served by a run: decides what is read for it, and how often."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from blizzard.core.kinds import Kind
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.report.collect import MAX_COMMITS, collect
from blizzard.report.facts import Live, ReportFacts
from blizzard.run.assemble import Assembly
from blizzard.store.uri import show_uri

# The page of a run is reloaded often, and the run needs the machine.
_LIVE_COMMITS = 120
_LIVE_AGE_S = 2.0


def collect_report(
    assembly: Assembly,
    *,
    pipeline: str | None = None,
    max_commits: int = MAX_COMMITS,
    table: DeltaRsTable | None = None,
) -> ReportFacts:
    return collect(
        table or assembly.open_table(),
        assembly.quarantine,
        now_ms=assembly.clock.now_ms(),
        pipeline=pipeline,
        max_commits=max_commits,
        scan_commits=assembly.config.checkpoint.scan_commits,
    )


class LiveReport:
    """The page of a run. However many people look at it, the log is read at most every 2 s, and only after a change."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._lock = threading.Lock()
        self._facts: ReportFacts | None = None
        self._read_at_s = float("-inf")

    def render(self, live: Live) -> str:
        from blizzard.report.page import render_page  # its template engine is slow to load, and most runs show no page

        with self._lock:
            if time.monotonic() - self._read_at_s > _LIVE_AGE_S:
                self._facts = self._read()
                self._read_at_s = time.monotonic()
            assert self._facts is not None
            facts = self._facts
        return render_page(replace(facts, made_at_ms=self._assembly.clock.now_ms()), live)

    def _read(self) -> ReportFacts:
        try:
            table = self._assembly.open_table()
        except ConfigError as e:
            if e.kind != Kind.TABLE_NOT_FOUND:
                raise
            return ReportFacts(
                table=show_uri(self._assembly.request.table_root), made_at_ms=self._assembly.clock.now_ms()
            )
        known, seen = self._facts, (table.table_id, table.version)
        if known is not None and (known.table_id, known.version) == seen and not _may_change(known):
            return known
        return collect_report(self._assembly, max_commits=_LIVE_COMMITS, table=table)


def _may_change(facts: ReportFacts) -> bool:
    """Whether the facts may change without another commit: bad records go into quarantine after their commit."""
    return any(p.position is not None and p.position.pending_quarantine for p in facts.pipelines)
