"""Retries a request that failed: a few times, with growing pauses, never silently."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from blizzard.core.retry import RetryPolicy
from blizzard.text.shown import shown

_log = logging.getLogger("blizzard.retry")
_T = TypeVar("_T")


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
            warn_and_wait(policy, attempt, what=what, error=e, sleep=sleep)
    raise AssertionError("a policy has at least one attempt")


def warn_and_wait(
    policy: RetryPolicy,
    attempt: int,
    *,
    what: str,
    error: BaseException,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    delay_s = policy.delay_s(attempt, random.random())
    reason = str(error) or type(error).__name__
    _log.warning("%s: attempt %d/%d in %.1fs: %s", shown(what), attempt + 1, policy.attempts, delay_s, shown(reason))
    sleep(delay_s)
