"""Retries a request that failed: a few times, with growing pauses, never silently."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from blizzard.text.shown import shown

_log = logging.getLogger("blizzard.retry")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    attempts: int = 3
    base_ms: int = 100
    max_ms: int = 10_000

    def delay_s(self, attempt: int) -> float:
        """After the given attempt (1 is the first): exponential, with jitter so that tasks do not come back at once."""
        return min(self.max_ms, self.base_ms * 2.0**attempt) / 1000 * random.uniform(0.5, 1.0)


def retried(
    call: Callable[[], _T],
    policy: RetryPolicy,
    *,
    what: str,
    is_passing: Callable[[BaseException], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """The call's answer. Raises its last exception if every attempt failed, or if the failure is not temporary."""
    for attempt in range(1, policy.attempts + 1):
        try:
            return call()
        except Exception as e:
            if attempt == policy.attempts or not is_passing(e):
                raise
            tell_and_wait(policy, attempt, what=what, error=e, sleep=sleep)
    raise AssertionError("a policy has at least one attempt")


def tell_and_wait(
    policy: RetryPolicy,
    attempt: int,
    *,
    what: str,
    error: BaseException,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    delay_s = policy.delay_s(attempt)
    reason = str(error) or type(error).__name__
    _log.warning("%s: attempt %d/%d in %.1fs: %s", shown(what), attempt + 1, policy.attempts, delay_s, shown(reason))
    sleep(delay_s)
