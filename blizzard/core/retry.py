"""How often and how soon to try again: the one formula for stores, commits, the quarantine and a run that follows.

Pure: the caller brings the chance and does the waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 30  # a run that follows may fail for weeks: 2.0**1024 is no number


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    attempts: int = 3
    base_ms: float = 100
    max_ms: float = 10_000

    def delay_s(self, attempt: int, chance: float) -> float:
        """The pause after this attempt (the first is 1). It doubles each time, up to `max_ms`.

        `chance` is a random number from 0 to 1: it takes away up to half, so that tasks do not return at once.
        """
        longest_ms = min(self.max_ms, self.base_ms * 2.0 ** min(attempt, _MAX_DOUBLINGS))
        return longest_ms / 1000 * (1 - chance / 2)
