"""A run that does not end: it drains what is there, waits, and looks again, until it is asked to stop.

After a temporary failure it tries again, with growing pauses. Any other failure, or a dead Spark session, ends it; a
pipeline of a fleet waits out every failure but a dead session.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from blizzard.core.events import Emit, Failed, Warned
from blizzard.core.retry import RetryPolicy
from blizzard.errors import BlizzardError, SparkGone, Temporary, failure_of
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl

# After a failure that may pass. The first pause is twice the usual one, and that may be none at all.
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 300.0
# While the pipeline is paused, the log is not looked at more often, whatever follow.poll_s says.
_PAUSED_POLL_S = 1.0
# After a failure that no waiting mends, a pipeline of a fleet tries again: a person may have mended it meanwhile. The
# first pause is twice the shortest.
_SHORTEST_FOR_A_PERSON_S, _LONGEST_FOR_A_PERSON_S = 30.0, 3600.0
# Unhealthy after this many failed cycles in a row.
UNHEALTHY_AFTER = 3


@dataclass(slots=True, kw_only=True)
class Following:
    """The state of a run that follows, for the API. `total` counts the events of all cycles."""

    total: Summary
    cycles: int = 0
    failures: int = 0  # in a row
    last_error: str | None = None
    error: BlizzardError | None = None  # the same
    repeats: int = 0  # failures of its kind in a row
    next_try_s: float | None = None  # when it tries again after a failure, in seconds since 1970
    is_ready: bool = False  # one cycle has gone well

    @property
    def is_healthy(self) -> bool:
        return self.failures < UNHEALTHY_AFTER

    @property
    def needs_person(self) -> bool:
        return self.error is not None and not isinstance(self.error, Temporary)

    def went_well(self) -> None:
        self.failures, self.repeats, self.last_error, self.error, self.next_try_s = 0, 0, None, None, None
        self.is_ready = True

    def failed(self, error: BlizzardError) -> None:
        is_same = self.error is not None and self.error.kind == error.kind
        self.failures, self.repeats = self.failures + 1, self.repeats + 1 if is_same else 1
        self.error, self.last_error = error, f"{error} [{error.kind}]"


# How long to wait after a failure, from the error, how often it came in a row, and the usual pause. None: it ends all.
PauseAfter = Callable[[BlizzardError, int, float], float | None]


def wait_out_temporary(error: BlizzardError, repeats: int, pause_s: float) -> float | None:
    if not isinstance(error, Temporary) or isinstance(error, SparkGone):  # with a dead session every cycle would fail
        return None
    policy = RetryPolicy(base_ms=max(pause_s, _SHORTEST_PAUSE_S) * 1000, max_ms=_LONGEST_PAUSE_S * 1000)
    return policy.delay_s(repeats, chance=0)  # the jitter is in `pause_s` already


def wait_out_all(error: BlizzardError, repeats: int, pause_s: float) -> float | None:
    if isinstance(error, Temporary):
        return wait_out_temporary(error, repeats, pause_s)
    policy = RetryPolicy(base_ms=_SHORTEST_FOR_A_PERSON_S * 1000, max_ms=_LONGEST_FOR_A_PERSON_S * 1000)
    return policy.delay_s(repeats, chance=0)


def follow(
    run_once: Callable[[Summary], None],
    control: RunControl,
    following: Following,
    *,
    poll_s: float,
    jitter_s: float,
    emit: Emit,
    pause_after: PauseAfter = wait_out_temporary,
) -> None:
    started = time.monotonic()
    while not control.is_stopping:
        cycle, pause_s = Summary(), poll_s + random.uniform(0, jitter_s)
        try:
            run_once(cycle)
        except Exception as e:
            error = failure_of(e)
            following.failed(error)
            waits_s = pause_after(error, following.repeats, pause_s)
            if control.is_stopping or waits_s is None:
                raise  # the batch was given up on purpose, or waiting does not help
            pause_s, following.next_try_s = waits_s, time.time() + waits_s
            emit(Failed(kind=error.kind))
            emit(Warned(message=f"{following.last_error}; looking again in {pause_s:.0f} s"))
        else:
            following.went_well()
            pause_s = max(pause_s, _PAUSED_POLL_S) if cycle.paused is not None else pause_s
        finally:
            following.cycles += 1
            control.batch_ended()  # "commit now" is over, even where there was nothing to commit
            following.total.seconds = time.monotonic() - started
        if not control.is_stopping:
            control.wait(pause_s)
    following.total.status = "stopped"
