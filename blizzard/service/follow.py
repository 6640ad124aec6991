"""A run that does not end: it drains what is there, waits a little, and looks again, until it is told to stop.

Trouble that passes is waited out, with growing pauses; what needs a person ends the run as it would end any other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from blizzard.errors import SparkGone, Temporary
from blizzard.run.ports import Progress, Telemetry
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl

_LONGEST_PAUSE_S = 300.0
# Of so many cycles in a row that ended in trouble, the health check speaks.
UNHEALTHY_AFTER = 3
_ADDED_UP = (
    *("commits", "files", "records", "bad_records", "quarantined", "rejected", "rescued_records", "bad_files"),
    *("late_files", "rewritten_files", "cleaned_files", "bytes_read", "blocked_seconds"),
)


@dataclass(slots=True, kw_only=True)
class Following:
    """What is known of a run that follows, for whoever asks."""

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
    progress: Progress,
    telemetry: Telemetry,
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
                raise  # what was under way was given up, or every cycle from now on would fail
            following.failures += 1
            following.last_error = f"{e} [{e.kind}]"
            telemetry.failed(e.kind)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2 ** min(following.failures, 10))
            progress.warn(f"{e} [{e.kind}]; looking again in {pause_s:.0f} s")
        else:
            following.failures, following.last_error, following.is_ready = 0, None, True
        finally:
            following.cycles += 1
            control.batch_ended()  # "commit now" is over, even where there was nothing to commit
            _add(following.total, cycle)
            following.total.seconds = time.monotonic() - started
        if not control.is_stopping:
            control.wait(pause_s)
    following.total.status = "stopped"


def _add(total: Summary, cycle: Summary) -> None:
    """Counts add up; everything else is as the newest cycle has it."""
    for field in fields(Summary):
        value = getattr(cycle, field.name)
        if field.name in _ADDED_UP:
            setattr(total, field.name, getattr(total, field.name) + value)
        elif isinstance(value, list):
            known = getattr(total, field.name)
            known += [name for name in value if name not in known]
        elif value is not None and field.name not in ("status", "seconds", "exit_code"):
            setattr(total, field.name, value)
