"""A run that does not end: it drains what is there, waits, and looks again, until it is asked to stop.

After a temporary failure it tries again, with growing pauses. Any other failure, or a dead Spark session, ends it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from blizzard.core.events import Emit, Failed, Warned
from blizzard.core.retry import RetryPolicy
from blizzard.errors import SparkGone, Temporary
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl

_LONGEST_PAUSE_S = 300.0
# Unhealthy after this many failed cycles in a row.
UNHEALTHY_AFTER = 3


@dataclass(slots=True, kw_only=True)
class Following:
    """The state of a run that follows, for the API. `total` counts the events of all cycles."""

    total: Summary
    cycles: int = 0
    failures: int = 0  # in a row
    last_error: str | None = None
    is_ready: bool = False  # one cycle has gone well

    @property
    def is_healthy(self) -> bool:
        return self.failures < UNHEALTHY_AFTER


def follow(
    run_once: Callable[[Summary], None],
    control: RunControl,
    following: Following,
    *,
    poll_s: float,
    jitter_s: float,
    emit: Emit,
) -> None:
    started = time.monotonic()
    while not control.is_stopping:
        if control.is_paused:
            control.wait_while_paused()
            continue
        cycle, pause_s = Summary(), poll_s + random.uniform(0, jitter_s)
        try:
            run_once(cycle)
        except Temporary as e:
            if control.is_stopping or isinstance(e, SparkGone):
                raise  # the batch was given up on purpose, or every later cycle would fail too
            following.failures += 1
            following.last_error = f"{e} [{e.kind}]"
            policy = RetryPolicy(base_ms=pause_s * 1000, max_ms=_LONGEST_PAUSE_S * 1000)
            pause_s = policy.delay_s(following.failures, chance=0)  # the jitter is in `pause_s` already
            emit(Failed(kind=e.kind))
            emit(Warned(message=f"{e} [{e.kind}]; looking again in {pause_s:.0f} s"))
        else:
            following.failures, following.last_error, following.is_ready = 0, None, True
        finally:
            following.cycles += 1
            control.batch_ended()  # "commit now" is over, even where there was nothing to commit
            following.total.seconds = time.monotonic() - started
        if not control.is_stopping:
            control.wait(pause_s)
    following.total.status = "stopped"
