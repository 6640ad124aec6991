"""Looks at several targets: where each stands, and how far it is behind the others. Changes nothing, needs no Spark.

Only the logs and the source are asked. How the last run ended for a target is in no log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from blizzard.core.kinds import Word
from blizzard.core.lag import Behind, find_behind
from blizzard.core.late import EVERYTHING
from blizzard.core.look import Listed
from blizzard.core.paths import Path
from blizzard.core.pause import find_pause
from blizzard.core.pause_json import pause_to_json
from blizzard.core.plan import count_backlog
from blizzard.core.position import Marks, Paused
from blizzard.core.recover import Fresh
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError, known_failure
from blizzard.operate.status import TableStatus, table_status
from blizzard.run.assemble import Assembly
from blizzard.run.recover import decide_start


class State(Word):
    """Of a target, as far as the log knows."""

    FRONT = "front"  # as far as any other target
    BEHIND = "behind"
    NEW = "new"  # nothing of this pipeline is committed to it
    REFUSED = "refused"  # the next start would refuse
    UNKNOWN = "unknown"  # it cannot be looked at, or no source is given


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    table: str
    required: bool | None  # None: the policy does not ask for that
    state: State
    behind: Behind | None = None
    # What it would miss if it were removed now.
    backlog_files: int | None = None
    backlog_bytes: int | None = None
    waiting_files: int = 0  # source files that after_ingest leaves where they are, for this target
    begins: str | None = None  # of a new one: where
    status: TableStatus | None = None  # None: there is no table yet, or it cannot be read
    error: BlizzardError | None = None

    def to_dict(self) -> dict[str, Any]:
        behind, error = self.behind, self.error
        plain: dict[str, Any] = {
            "required": self.required,
            "state": self.state,
            "behind_files": None if behind is None else behind.files,
            "behind_bytes": None if behind is None else behind.stored_bytes,
            "backlog_files": self.backlog_files,
            "backlog_bytes": self.backlog_bytes,
            "waiting_files": self.waiting_files,
            "begins": self.begins,
            "table": self.table,
        }
        if self.status is not None:
            plain |= asdict(self.status)
        if error is not None:
            plain |= {"exit_code": error.exit_code, "error_kind": error.kind, "error": str(error)}
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsStatus:
    pipeline: str | None  # None: no source is given, so it is not known which one is meant
    commit_policy: str
    targets: dict[str, TargetStatus]

    @property
    def paused(self) -> Paused | None:
        """One log that says so is enough, for all targets."""
        tables = [target.status for target in self.targets.values() if target.status is not None]
        of_it = [one.paused for table in tables for one in table.pipelines if one.pipeline == self.pipeline]
        return find_pause(of_it)

    def head(self) -> dict[str, Any]:
        paused = None if self.paused is None else pause_to_json(self.paused)
        return {"pipeline": self.pipeline, "commit_policy": self.commit_policy, "paused": paused}

    def to_dict(self) -> dict[str, Any]:
        return self.head() | {"targets": {name: target.to_dict() for name, target in self.targets.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was found of one target by itself."""

    status: TableStatus | None = None
    marks: Marks | None = None  # None: it is not known where it stands
    listed: Listed | None = None
    backlog: tuple[int, int] | None = None
    begins: str | None = None
    is_refused: bool = False
    error: BlizzardError | None = None


def targets_status(assembly: Assembly, *, explain: bool = False) -> TargetsStatus:
    config, targets = assembly.config, assembly.targets()
    pipeline = assembly.pipeline_of_targets() if config.source.path is not None else None
    seen = {name: _see(target, pipeline, explain) for name, target in targets.items()}
    return TargetsStatus(
        pipeline=pipeline,
        commit_policy=config.commit_policy,
        targets={
            name: _status(target, seen[name], [one.marks for other, one in seen.items() if other != name])
            for name, target in targets.items()
        },
    )


def is_required(assembly: Assembly) -> bool | None:
    """None: the policy does not ask for that."""
    return assembly.config.required if assembly.config.policy_of_targets.kind == "required" else None


def _see(target: Assembly, pipeline: str | None, explain: bool) -> _Seen:
    try:
        table = target.find_table()
        if table is None and pipeline is not None:
            return _see_new(target, None, pipeline, None)
        status = table_status(target, explain=explain)
        return _see_table(target, table, pipeline, status)
    except Exception as e:
        failure = known_failure(e)
        if failure is None:
            raise
        return _Seen(error=failure)


def _see_table(target: Assembly, table: DeltaRsTable | None, pipeline: str | None, status: TableStatus) -> _Seen:
    if table is None or pipeline is None:
        return _Seen(status=status)
    found = next((one for one in status.pipelines if one.pipeline == pipeline), None)
    position = table.newest_position(pipeline)
    if found is None or position is None:
        if table.fence(pipeline):  # its position is lost, and the status says so
            return _Seen(status=status, is_refused=True)
        return _see_new(target, table, pipeline, status)
    assert found.backlog_files is not None
    assert found.backlog_bytes is not None
    return _Seen(
        status=status,
        marks=position.marks,
        listed=target.on(table, pipeline).source.look(EVERYTHING),
        backlog=(found.backlog_files, found.backlog_bytes),
        is_refused=found.recovery == Path.REFUSED,
    )


def _see_new(target: Assembly, table: DeltaRsTable | None, pipeline: str, status: TableStatus | None) -> _Seen:
    on = target.on(table, pipeline)
    listed = on.source.look(EVERYTHING)
    try:
        found = decide_start(
            table,
            pipeline=pipeline,
            source=on.source.identity,
            scan_commits=target.config.checkpoint.scan_commits,
            start_from=on.request.start_from,
            listing=listed.files,
        )
    except BlizzardError as e:
        return _Seen(status=status, error=e, is_refused=True)
    begins = found.start_from if isinstance(found, Fresh) else None
    return _Seen(
        status=status,
        marks=found.marks,
        listed=listed,
        backlog=count_backlog(found.marks, listed.files),
        begins=begins or "beginning",
    )


def _status(target: Assembly, seen: _Seen, others: Iterable[Marks | None]) -> TargetStatus:
    known = [marks for marks in others if marks is not None]
    behind = None
    if seen.marks is not None and seen.listed is not None:
        behind = find_behind(seen.marks, known, seen.listed.files)
    cleans = target.config.after_ingest.action != "none"
    return TargetStatus(
        table=target.request.table_shown,
        required=is_required(target),
        state=_state(seen, behind),
        behind=behind,
        backlog_files=None if seen.backlog is None else seen.backlog[0],
        backlog_bytes=None if seen.backlog is None else seen.backlog[1],
        waiting_files=behind.files if behind is not None and cleans else 0,
        begins=seen.begins,
        status=seen.status,
        error=seen.error,
    )


def _state(seen: _Seen, behind: Behind | None) -> State:
    if seen.is_refused:
        return State.REFUSED
    if seen.begins is not None:
        return State.NEW
    if behind is None:
        return State.UNKNOWN
    return State.BEHIND if behind.files else State.FRONT
