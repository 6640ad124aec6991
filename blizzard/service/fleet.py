"""Many pipelines in one process and one Spark session: starts them, keeps them apart, and ends with all of them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from blizzard.config.fleet import FleetConfig
from blizzard.core.events import Emit, Noted, Warned
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.errors import BlizzardError, Temporary
from blizzard.service.fleet_control import FleetControl
from blizzard.service.fleet_summary import FleetSummary
from blizzard.service.follow import UNHEALTHY_AFTER
from blizzard.service.member import Member
from blizzard.service.metrics import STATES, FleetMetrics, write_textfile
from blizzard.service.progress import Progress
from blizzard.service.turns import Turns
from blizzard.spark.gone import has_ended, spark_gone
from blizzard.spark.session import Session, is_connect

_LOOK_S = 0.5
# After the grace time, how long a batch that is given up may take to end. Then the process ends without it: nothing of
# it is committed, or its outcome is found in the log by the next start.
_GIVING_UP_S = 15.0


class Fleet:
    """`progress_of` gives each pipeline its own lines of the log; None: those of the process."""

    def __init__(
        self,
        config: FleetConfig,
        session: Session,
        control: FleetControl,
        summary: FleetSummary,
        *,
        progress_of: Callable[[str | None], Progress],
    ) -> None:
        self.config, self._control, self._summary = config, control, summary
        self.turns = Turns(config.max_active)
        self._started_s = time.monotonic()
        self._lost: BlizzardError | None = None
        self._emit: Emit = progress_of(None).see
        self._file_at_start = _identity(config.path)
        control.grace_s = config.process.stop_grace_s or 0.0
        self.members = {
            member.name: Member(
                member,
                session,
                self.turns,
                progress_of(member.name),
                grace_s=control.grace_s,
                lost_spark=self._lose_spark,
                ended=control.nudge,
                may_start=lambda: not control.is_stopping,
            )
            for member in config.members
        }
        control.members = lambda: tuple(member.control for member in self.members.values())
        self.metrics = FleetMetrics((member.metrics for member in self.members.values()), self._states)

    def run(self, *, follows: bool) -> bool:
        """Until it is stopped, or with `follows` False until every pipeline is drained once. False: a pipeline did not
        end in time, and its thread is still there."""
        self._summary.pipelines = {name: member.summary for name, member in self.members.items()}
        self._tell_what_is_shared()
        with self._textfile():
            for member in self.members.values():
                if self._control.is_stopping and not member.control.is_stopping:
                    member.control.stop()  # the signal came before there was anybody to tell
                member.start(follows=follows)
            self._wait(follows=follows)
            return self._end()

    def _wait(self, *, follows: bool) -> None:
        while True:
            self._control.wait(_LOOK_S)
            if has_ended() and self._lost is None:
                self._lose_spark(spark_gone())
            over = all(member.is_over for member in self.members.values())
            if over and (not follows or self._control.is_stopping):
                return
            if self._control.must_cancel():
                return

    def _end(self) -> bool:
        """Judge what each pipeline has done. One that hangs is given up."""
        until = time.monotonic() + _GIVING_UP_S
        for member in self.members.values():
            member.wait(max(0.0, until - time.monotonic()))
        stuck = [member for member in self.members.values() if not member.is_over]
        for member in stuck:
            error = Temporary("it did not end in time, and was given up. Run again.", kind=Kind.INTERRUPTED)
            self._emit(Warned(message=f"pipeline {member.name}: {error} [{error.kind}]"))
            member.mark_failed(error)
        self._summary.seconds = time.monotonic() - self._started_s
        self._summary.judge(was_stopped=self._control.is_stopping)
        if self._lost is not None:
            self._summary.fail(self._lost)
        return not stuck

    def _lose_spark(self, error: BlizzardError) -> None:
        """Every later batch would fail: end, so that a new process gets a new session."""
        if self._lost is None:  # others lose it too
            self._lost = error
            self._control.stop()

    def _tell_what_is_shared(self) -> None:
        served, at_once = count(len(self.members), "pipeline"), self.config.max_active
        self._emit(Noted(message=f"{served} in one process; {at_once} may read at once"))
        if is_connect(self.config.process.spark_conf):
            self._emit(Noted(message="Spark Connect has no scheduler pools: the server takes all jobs in one queue"))

    @contextmanager
    def _textfile(self) -> Iterator[None]:
        path = self.config.process.metrics.textfile
        try:
            yield
        finally:
            if path is not None:
                try:
                    write_textfile(path, self.metrics.text())
                except OSError as e:
                    self._emit(Warned(message=f"the metrics could not be written to {path}: {e.strerror}"))

    # What it tells.

    @property
    def state(self) -> str:
        return "stopping" if self._control.is_stopping else "running"

    @property
    def uptime_s(self) -> float:
        return round(time.monotonic() - self._started_s, 1)

    @property
    def config_changed(self) -> bool:
        return _identity(self.config.path) != self._file_at_start

    def rows(self) -> list[dict[str, Any]]:
        return [member.row() for member in self.members.values()]

    def count_states(self) -> dict[str, int]:
        found = Counter(member.state for member in self.members.values())
        return {state: found[state] for state in STATES}

    @property
    def failing(self) -> list[str]:
        return [name for name, member in self.members.items() if member.failures]

    @property
    def is_healthy(self) -> bool:
        """One that fails is no reason to restart the others. If all do, a restart may help."""
        working = [m for m in self.members.values() if m.state not in ("paused", "stopping", "stopped")]
        return not working or any(member.failures < UNHEALTHY_AFTER for member in working)

    @property
    def is_ready(self) -> bool:
        return all(member.has_looked for member in self.members.values())

    def _states(self) -> dict[str, tuple[str, int]]:
        return {name: (member.state, member.failures) for name, member in self.members.items()}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
