"""One pipeline of a fleet: an operation in a thread of its own, with its own control, that outlives its failures.

What fails here stays here. Only a dead Spark session ends the others too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from blizzard.config.fleet import FleetMember
from blizzard.config.load import Config
from blizzard.config.request import Request, make_request
from blizzard.core.events import Committed, Event, Failed, OfTarget, StandsAt
from blizzard.core.position import Position
from blizzard.errors import BlizzardError, SparkGone, failure_of
from blizzard.report.facts import LivePaths
from blizzard.report.live import LiveReport
from blizzard.report.targets import LiveTargets
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.run.ports import Ingestor, Reader
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.follow import wait_out_all
from blizzard.service.logs import CURRENT_PIPELINE
from blizzard.service.metrics import Metrics
from blizzard.service.operation import Operation
from blizzard.service.progress import Progress
from blizzard.service.router import Answer
from blizzard.service.target_metrics import TargetMetrics
from blizzard.service.turns import InTurn, ReadsInTurn, Turns
from blizzard.spark.session import PooledSession, Session, settings_of
from blizzard.store.uri import locate, show_uri
from blizzard.tasks.spec import TaskSpec
from blizzard.text.trace import trace_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAssembly(Assembly):
    """The parts of a pipeline that reads in its turn."""

    turns: Turns
    does: Callable[[str], None]

    def ingestor(self, spec: TaskSpec) -> Ingestor:
        plain = Assembly.ingestor(self, spec)
        is_one_of_several = self.looks is not None  # then their reader waits for its turn
        return plain if is_one_of_several else InTurn(ingestor=plain, turns=self.turns, does=self.does)

    def reader(self, ingestors: Mapping[str, Ingestor]) -> Reader:
        plain = Assembly.reader(self, ingestors)
        return ReadsInTurn(reader=plain, turns=self.turns, does=self.does) if self.config.targets else plain


class Member(Operation):
    """`lost_spark` is called if the session has died, `ended` whenever its thread has nothing more to do. `may_start`
    says whether one that was stopped may be started again."""

    pause_after = staticmethod(wait_out_all)

    def __init__(
        self,
        member: FleetMember,
        session: Session,
        turns: Turns,
        progress: Progress,
        *,
        grace_s: float,
        lost_spark: Callable[[BlizzardError], None],
        ended: Callable[[], None],
        may_start: Callable[[], bool],
    ) -> None:
        self.name, self._config, self._progress = member.name, member.config, progress
        self._lost_spark, self._ended, self._may_start = lost_spark, ended, may_start
        self._activity, self._is_checked, self._follows = "waiting", False, True
        self._thread: threading.Thread | None = None
        self._is_over, self._lock = False, threading.Lock()
        self._stands_at: dict[str, StandsAt | Committed] = {}  # by target
        self._quarantined: int | None = None
        assembly = FleetAssembly(
            # Its places are looked at by its own thread: a store may not answer.
            request=Request(config=member.config, pipeline=member.name, spark_settings=settings_of(None)),
            session=PooledSession(session, member.name),
            turns=turns,
            does=self._does,
        )
        told = Stream(self._see, progress.see)
        super().__init__(assembly, None, Summary(pipeline=member.name), RunControl(grace_s), emit=told)

    # Its thread.

    def start(self, *, follows: bool) -> None:
        self._follows = follows
        self._thread = threading.Thread(target=self._go, name=f"blizzard-{self.name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Its thread has nothing more to do."""
        return self._is_over

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _go(self) -> None:
        CURRENT_PIPELINE.set(self.name)
        goes_on = True
        while goes_on:
            ended_well = self._work_to_its_end()
            with self._lock:  # from here on it is too late for a pause: nobody would commit it
                goes_on = ended_well and self._control.wish is not None
                self._is_over = not goes_on
        self._ended()

    def _work_to_its_end(self) -> bool:
        try:
            self.work(follows=self._follows)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:  # a panic in Rust is not an Exception
            self._end_badly(failure_of(e))
            return False
        else:
            if self._following.error is not None:  # it was stopped while it waited to try again
                self.mark_failed(self._following.error)
            return True
        finally:
            self._does("waiting")

    def _end_badly(self, error: BlizzardError) -> None:
        if self._following.error is not error:
            self._following.failed(error)
        self._emit(Failed(kind=error.kind))
        self._progress.line("error", f"{error} [{error.kind}]", kind=error.kind)
        self.mark_failed(error)
        if isinstance(error, SparkGone):
            self._lost_spark(error)

    def mark_failed(self, error: BlizzardError) -> None:
        summary = self.summary
        summary.status, summary.exit_code = "failed", error.exit_code
        summary.error_kind, summary.error = error.kind, str(error)

    def _run_once(self, summary: Summary) -> None:
        self._does("working")
        is_well = False
        try:
            self._check_request()
            super()._run_once(summary)
            self._count_quarantined()
            is_well = True
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:  # a panic in Rust: an error of this cycle, like any other
            if trace := trace_of(e):
                self._progress.line("error", "the cycle has failed", traceback="\n".join(trace))
            known = failure_of(e)
            if known is e:
                raise
            raise known from e
        finally:
            self._is_checked &= is_well  # what was wrong with its places may have been mended
            self._does("waiting")

    def _assembly_to_pause(self) -> Assembly:
        """Without a look at the source: that may be what is in trouble."""
        if self._is_checked:
            return self._assembly
        request = Request(config=self._with_paths(), pipeline=self.name, spark_settings=settings_of(None))
        return replace(self._assembly, request=request)

    def _check_request(self) -> None:
        if self._is_checked:
            return
        request = make_request(self._with_paths(), pipeline=self.name, spark_settings=settings_of(None))
        self._assembly = replace(self._assembly, request=request)
        self._live_report = LiveReport(self._assembly)
        self._live_targets = LiveTargets(self._assembly, self.name)
        self._is_checked = True

    def _with_paths(self) -> Config:
        """Where the tables are that a catalog names, the session says."""
        assert self._assembly.session is not None
        return resolve_table(self._config, self._assembly.session)

    def _count_quarantined(self) -> None:
        counted: int | None = None
        with suppress(BlizzardError, OSError, ValueError):  # only a number on a page
            for name, target in self._assembly.targets().items():
                position = self._position_of(name)
                if position is not None:
                    counted = (counted or 0) + target.quarantine.count(self.name, position.on.table_id)
        self._quarantined = counted

    def _does(self, activity: str) -> None:
        self._activity = activity

    def _see(self, event: Event) -> None:
        target, event = (event.target, event.event) if isinstance(event, OfTarget) else ("", event)
        if isinstance(event, StandsAt | Committed):
            self._stands_at[target] = event

    # What may be asked of it.

    def pause(self) -> Answer:
        return self._if_not_over(super().pause)

    def commit_now(self) -> Answer:
        return self._if_not_over(super().commit_now)

    def _if_not_over(self, ask: Callable[[], Answer]) -> Answer:
        with self._lock:
            if self._is_over:
                how = "POST …/resume starts it again, and blizzard pause works meanwhile."
                return self._cannot(f"is {self.state} in this process, and nobody would commit this. {how}")
            return ask()

    def resume(self) -> Answer:
        """One that was stopped is started again."""
        with self._lock:
            if self._is_over and not (self._follows and self._may_start()):
                return self._cannot("has ended, and so does this process. Start it again.")
            if self._is_over:
                self._begin_anew()
            elif self._control.is_stopping:
                return self._cannot("is stopping. Resume it when it is stopped.")
            return super().resume()

    def _cannot(self, why: str) -> Answer:
        return Answer.json({"error": f"pipeline {self.name!r} {why}", "state": self.state}, 409)

    def _begin_anew(self) -> None:
        self._control = RunControl(self._control.grace_s)
        if not self._may_start():  # the process was asked to end meanwhile, and only the old control was told
            self._control.stop()
        self._is_over = False
        summary = self.summary
        summary.status, summary.exit_code, summary.error_kind, summary.error = "running", 0, None, None
        self.start(follows=True)

    @property
    def control(self) -> RunControl:
        return self._control

    # What it tells.

    @property
    def summary(self) -> Summary:
        return self._following.total

    @property
    def metrics(self) -> Metrics | TargetMetrics:
        return self._metrics

    @property
    def failures(self) -> int:
        return self._following.failures

    @property
    def is_healthy(self) -> bool:
        return self._following.is_healthy

    @property
    def has_looked(self) -> bool:
        """It has done its first cycle, well or not; or nobody wants it to."""
        return self._following.cycles > 0 or self.state in ("paused", "stopping", "stopped", "failed")

    @property
    def state(self) -> str:
        error = self._following.error
        if self._is_over:
            return "stopped" if error is None or self._control.is_stopping else "failed"
        if self._control.is_stopping:
            return "stopping"
        wish, wish_failed = self._control.wish, self._control.wish_failed
        if wish is not None and not wish_failed:
            return wish.value
        if wish is None and self._control.is_paused:
            return "paused"
        if error is not None:
            return "failed" if self._following.needs_person else "retrying"
        return "running"

    @property
    def _waits_for(self) -> str | None:
        match self.state, self._activity:
            case "stopped", _ if not self._follows:
                return None  # all is read, and the process ends with the last one
            case (("paused" | "stopped"), _):
                return "a resume"
            case "failed", "waiting":
                return "a person; tried again by itself, or at once by a resume"
            case "retrying", "waiting":
                return "the next try"
            case _, "queued":
                return "its turn to read"
            case "running", "waiting":
                return "new files"
            case _:
                return None

    def _position_of(self, target: str) -> Position | None:
        match self._stands_at.get(target):
            case StandsAt(newest=position) | Committed(position=position):
                return position if position.sequence else None
            case _:
                return None

    @property
    def _source_shown(self) -> str:
        return show_uri(locate(self._config.source_path, what="source"))

    @property
    def _tables_shown(self) -> dict[str, str]:
        """A name in a catalog is shown as it was given, until the session has said where that table is."""
        if self._is_checked or not self._config.commits_by_spark:
            return super()._tables_shown
        return {name: request.config.table_path for name, request in self._assembly.request.of_targets().items()}

    def row(self) -> dict[str, Any]:
        """Made without a look at a store, however often somebody asks."""
        following, metrics = self._following, self._metrics
        files, stored_bytes = metrics.backlog or (None, None)
        next_s = following.next_try_s if self.state in ("failed", "retrying") and not self._is_over else None
        status = super().status()
        del status["total"]
        return status | {
            "activity": self._activity,
            "waits_for": self._waits_for,
            "error_kind": None if following.error is None else str(following.error.kind),
            "needs_person": following.needs_person,
            "next_try_at_ms": None if next_s is None else int(next_s * 1000),
            "lag_seconds": metrics.behind_s,
            "backlog_files": files,
            "backlog_bytes": stored_bytes,
            "throughput_bytes_per_second": _rounded(metrics.throughput_bytes_s),
            "quarantined_records": self._quarantined,
        }

    def status(self) -> dict[str, Any]:
        return self.row() | {"total": self.summary.to_dict()}

    def newest_checkpoint(self) -> dict[str, Any]:
        """As this process knows it: no log is read. With several targets, also that of each."""
        tables = self._tables_shown
        told = {"pipeline": self.name, "table": ", ".join(tables.values()), **self._checkpoint_of("")}
        if not self._config.targets:
            return told
        return told | {
            "targets": {name: {"table": table, **self._checkpoint_of(name)} for name, table in tables.items()}
        }

    def _checkpoint_of(self, target: str) -> dict[str, Any]:
        position, stands_at = self._position_of(target), self._stands_at.get(target)
        if position is None or stands_at is None:
            nothing = dict.fromkeys(("sequence", "delta_version", "committed_at_ms", "mark"))
            return nothing | {"in_progress": 0, "held": 0}
        return {
            "sequence": position.sequence,
            "delta_version": stands_at.version,
            "committed_at_ms": position.taken_at_ms,
            "mark": position.marks.last_committed_file,
            "in_progress": len(position.marks.in_progress),
            "held": len(position.seen.held_back),
        }

    def report(self) -> Answer:
        base = f"/pipelines/{self.name}"
        return self.page(LivePaths(actions=base, status=base, page=f"{base}/report"), fleet="/")


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
