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
LIVE_COMMITS = 120
LIVE_AGE_S = 2.0


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
            if time.monotonic() - self._read_at_s > LIVE_AGE_S:
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
        if self._facts is not None and is_still_so(self._facts, table):
            return self._facts
        return collect_report(self._assembly, max_commits=LIVE_COMMITS, table=table)


def is_still_so(facts: ReportFacts, table: DeltaRsTable) -> bool:
    """Whether the facts still hold. Without another commit they change only while bad records go into quarantine, which
    is after their commit."""
    is_settled = not any(p.position is not None and p.position.pending_quarantine for p in facts.pipelines)
    return (facts.table_id, facts.version) == (table.table_id, table.version) and is_settled
