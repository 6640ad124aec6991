"""Commits in the background, without a thread: a test decides when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from blizzard.run.ports import Pending, Result


class MemoryBackground:
    """Commits run at once, or only when somebody waits for them: the two extremes of a real thread."""

    def __init__(self, at_once: Callable[[], bool]) -> None:
        self._at_once = at_once
        self._last: MemoryPending[Any] | None = None

    def start(self, commit: Callable[[], Result]) -> Pending[Result]:
        pending = MemoryPending(commit, self._last)
        self._last = pending
        if self._at_once():
            pending.run()
        return pending


class MemoryPending(Generic[Result]):
    def __init__(self, commit: Callable[[], Result], before: MemoryPending[Any] | None) -> None:
        self._commit, self._before = commit, before
        self._outcome: Result | Exception | None = None

    def run(self) -> None:
        if self._outcome is not None:
            return
        # In the order they were given, as on one thread. What has run is let go: a run may have thousands of commits,
        # and a call for each of them would be deeper than Python allows.
        before, self._before = self._before, None
        if before is not None:
            before.run()
        try:
            self._outcome = self._commit()
        except Exception as e:  # not a Crash: the process has died
            self._outcome = e

    def done(self) -> bool:
        return self._outcome is not None

    def exception(self) -> BaseException | None:
        self.run()
        return self._outcome if isinstance(self._outcome, Exception) else None

    def result(self) -> Result:
        self.run()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome
