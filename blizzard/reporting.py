"""`blizzard report`, and the same page beside a run: what is read for it, and how often."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from blizzard import dlq
from blizzard.config import Config
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.job import SystemClock, open_existing
from blizzard.report.collect import MAX_COMMITS, collect
from blizzard.report.facts import Live, ReportFacts
from blizzard.report.page import render_page
from blizzard.store.uri import locate, show_uri, without_secrets

# A page beside a run is looked at again and again, and the run needs the machine.
_LIVE_COMMITS = 120
_LIVE_AGE_S = 2.0


def collect_report(
    config: Config, *, pipeline: str | None = None, max_commits: int = MAX_COMMITS, table: DeltaRsTable | None = None
) -> ReportFacts:
    table = table or open_existing(config)
    root = dlq.quarantine_root(table=config["table.path"], quarantine=config["quarantine.path"])
    clock = SystemClock()
    return collect(
        table,
        dlq.open_quarantine(root, clock, config.access("table", root)),
        now_ms=clock.now_ms(),
        pipeline=pipeline,
        max_commits=max_commits,
        scan_commits=config["checkpoint.scan_commits"],
    )


class LiveReport:
    """The page of a run. However many look at it, the log is read when it has grown, and not more than now and then."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._facts: ReportFacts | None = None
        self._read_at_s = float("-inf")

    def render(self, live: Live) -> str:
        with self._lock:
            if time.monotonic() - self._read_at_s > _LIVE_AGE_S:
                self._facts = self._read()
                self._read_at_s = time.monotonic()
            assert self._facts is not None
            facts = self._facts
        return render_page(replace(facts, made_at_ms=SystemClock().now_ms()), live)

    def _read(self) -> ReportFacts:
        try:
            table = open_existing(self._config)
        except ConfigError as e:
            if e.kind != "table_not_found":
                raise
            root = locate(self._config.require("table.path", "--table"), what="table")
            return ReportFacts(table=without_secrets(show_uri(root)), made_at_ms=SystemClock().now_ms())
        known, seen = self._facts, (table.table_id, table.version)
        if known is not None and (known.table_id, known.version) == seen and not _may_change(known):
            return known
        return collect_report(self._config, max_commits=_LIVE_COMMITS, table=table)


def _may_change(facts: ReportFacts) -> bool:
    """Whether what is told may become wrong without another commit: bad records are added after the one they are of."""
    return any(p.position is not None and p.position.pending_quarantine for p in facts.pipelines)
