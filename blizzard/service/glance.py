"""A quick look: can anything have changed since a cycle that found nothing to do?

A whole cycle opens the table, reads its log and compares names with ledgers. A glance asks for two commit files and
lists the source as the cycle would. It only ever leaves a cycle out, so a wrong answer is late, never lost or doubled;
and after `WHOLE_EVERY_S` a whole cycle follows anyway, for what only time changes (renewals, cleaning, full listings).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from blizzard.core.late import Scope, plan_listing
from blizzard.core.look import digest_files
from blizzard.delta import log
from blizzard.errors import BlizzardError
from blizzard.run.assemble import Assembly
from blizzard.source.listed import ListedSource
from blizzard.source.looked import LookedAt
from blizzard.store import open_store
from blizzard.store.files import Store

WHOLE_EVERY_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    version: int
    commit: object  # what tells this commit file from another of the same name
    files: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    log: Store
    version: int
    source: ListedSource | LookedAt
    scope: Scope

    def look(self) -> _Seen | None:
        """None: something is there that only time or a whole cycle settles."""
        version = log.newest_commit(self.log, self.version)
        commit = log.commit_identity(self.log, version)
        listed = self.source.look(self.scope)
        if commit is None or listed.held or listed.asides:
            return None
        return _Seen(version=version, commit=commit, files=digest_files(listed.files))


class Glance:
    """Call `shows_nothing_new` before a cycle, and `remember` after each one that was not left out."""

    def __init__(self, pipeline: str, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._pipeline, self._now_s = pipeline, now_s
        self._was_idle, self._whole_s = False, float("-inf")
        self._places: _Places | None = None
        self._seen: _Seen | None = None  # before the newest whole cycle, which found nothing
        self._seen_now: _Seen | None = None

    def shows_nothing_new(self, assembly: Assembly) -> bool:
        self._seen_now = None
        if not self._was_idle:
            return False
        try:
            self._places = self._places or _places(assembly, self._pipeline)
            self._seen_now = None if self._places is None else self._places.look()
        except (BlizzardError, OSError, ValueError):
            return False  # the cycle itself says what is wrong
        is_recent = self._now_s() - self._whole_s < WHOLE_EVERY_S
        return is_recent and self._seen_now is not None and self._seen_now == self._seen

    def remember(self, *, was_idle: bool) -> None:
        """What came between the look and the cycle differs from the look: the next one sees that."""
        self._was_idle, self._whole_s, self._places = was_idle, self._now_s(), None
        self._seen = self._seen_now if was_idle else None


def _places(assembly: Assembly, pipeline: str) -> _Places | None:
    """None: the pipeline has no position yet."""
    table = assembly.open_table()
    position = table.newest_position(pipeline)
    if position is None:
        return None
    source = assembly.on(table, pipeline).source
    return _Places(
        log=open_store(assembly.request.table_root, assembly.request.table_access),
        version=table.version,
        source=source,
        scope=plan_listing(position, assembly.config.late_policy, now_ms=source.now_ms()),
    )
