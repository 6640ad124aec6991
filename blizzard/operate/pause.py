"""Pauses and resumes a pipeline. Each is a commit without data, so it lasts, and every run knows of it.

It takes the pipeline's next sequence. A run that is reading finds that taken, and ends as paused. If the run commits
first, this looks again and takes the sequence after that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from blizzard.core.batch import renewed_position
from blizzard.core.clock import Clock
from blizzard.core.commit import Intent
from blizzard.core.events import Emit
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.pause import MAX_REASON_CHARS, next_pause
from blizzard.core.position import Paused, Position
from blizzard.core.recover import Fresh
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError, ConfigError, Fenced, Refused, Temporary, known_failure
from blizzard.run.assemble import Assembly
from blizzard.run.commit import Committing, new_batch_id, new_run_id
from blizzard.run.ports import Mirror, NoMirror, Quarantine, Table
from blizzard.run.recover import decide_start
from blizzard.run.settle import settle

# How often another run may commit first. A look and a commit take far less time than a batch.
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseDone:
    """How the pipeline stands now. `changed`: a commit has made it so; else it stood like this before."""

    pipeline: str
    paused: Paused | None
    changed: bool
    sequence: int
    delta_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """What is needed to pause or resume one pipeline of one table."""

    table: Table
    quarantine: Quarantine
    pipeline: str
    clock: Clock
    emit: Emit
    mirror: Mirror = field(default_factory=NoMirror)
    scan_commits: int = 100

    @classmethod
    def through(cls, assembly: Assembly, table: Table, pipeline: str) -> Pausing:
        return cls(
            table=table,
            quarantine=assembly.quarantine,
            pipeline=pipeline,
            clock=assembly.clock,
            emit=assembly.emit,
            mirror=assembly.mirror,
            scan_commits=assembly.config.checkpoint.scan_commits,
        )

    def pause(self, reason: str | None = None) -> PauseDone:
        """A pipeline that is paused stays so since when it was; another reason takes the place of the one it had."""
        return self._commit(CommitKind.PAUSE, lambda now: next_pause(now, reason=reason, at_ms=self.clock.now_ms()))

    def resume(self) -> PauseDone:
        return self._commit(CommitKind.RESUME, lambda _: None)

    def _commit(self, kind: CommitKind, wanted: Callable[[Paused | None], Paused | None]) -> PauseDone:
        for _ in range(_ATTEMPTS):
            self.table.refresh()
            position = self._newest()
            settle(self.quarantine, self.table, position, since=self.table.version)
            paused = wanted(position.paused)
            if paused == position.paused:
                return self._done(paused, position.sequence, self.table.version, changed=False)
            try:
                sequence, version = self._committing.commit_edit(self._intent(kind, position, paused))
            except Fenced:
                continue  # a run, or another person, was faster
            except Temporary as e:
                if e.kind != Kind.SCHEMA_CHANGED:
                    raise
                continue
            return self._done(paused, sequence, version, changed=True)
        raise Temporary(
            f"pipeline {self.pipeline!r} was neither paused nor resumed: others committed {_ATTEMPTS} times before this"
            f" command could. Nothing was changed. Run again.",
            kind=Kind.COMMIT_FAILED,
        )

    def _newest(self) -> Position:
        """As recovery finds it, and refused where a run is refused."""
        try:
            found = decide_start(self.table, pipeline=self.pipeline, source=None, scan_commits=self.scan_commits)
        except Refused as e:
            if e.kind != Kind.TABLE_HAS_DATA:
                raise
            raise nothing_to_pause(self.pipeline) from e
        if isinstance(found, Fresh):
            raise nothing_to_pause(self.pipeline)
        return found.position

    @property
    def _committing(self) -> Committing:
        return Committing(
            table=self.table, quarantine=self.quarantine, clock=self.clock, emit=self.emit, mirror=self.mirror
        )

    def _intent(self, kind: CommitKind, position: Position, paused: Paused | None) -> Intent:
        planned_ms = self.clock.now_ms()
        on = replace(position.on, delta_version=self.table.version, schema_fingerprint=self.table.schema_fingerprint)
        before = replace(position, run_id=new_run_id(), on=on, paused=paused)
        after = renewed_position(before, batch_id=new_batch_id(), now_ms=planned_ms)
        return Intent(position=after, planned_ms=planned_ms, kind=kind)

    def _done(self, paused: Paused | None, sequence: int, version: int, *, changed: bool) -> PauseDone:
        return PauseDone(
            pipeline=self.pipeline, paused=paused, changed=changed, sequence=sequence, delta_version=version
        )


def pause_each(
    assembly: Assembly, pipeline: str, act: Callable[[Pausing], PauseDone]
) -> dict[str, PauseDone | BlizzardError]:
    """Pause or resume in the log of every target that has a position, or say what went wrong there. One log that says
    so is enough for a run, but the next run may have other targets."""
    done: dict[str, PauseDone | BlizzardError] = {}
    for name, target in assembly.targets().items():
        try:
            table = target.place().open()
            if table is not None and table.fence(pipeline):
                done[name] = act(Pausing.through(target, table, pipeline))
        except Exception as e:
            failure = known_failure(e)
            if failure is None:
                raise
            done[name] = failure
    return done


def nothing_to_pause(pipeline: str) -> ConfigError:
    """Its first commit decides which source it reads and where it begins, after checks that only a run can make. A
    pause before that would be a position that nobody has checked."""
    return ConfigError(
        f"pipeline {pipeline!r} has committed nothing to this table, so there is no position that a pause could be part"
        f" of. It reads nothing as long as nobody starts it; after its first commit it can be paused. blizzard status"
        f" shows the pipelines of the table.",
        kind=Kind.USAGE,
    )


def reason_of(text: str | None) -> str | None:
    """What a person gave as the reason, if it can be part of a position. None: there is none."""
    reason = (text or "").strip()
    try:
        reason.encode()
    except UnicodeEncodeError as e:
        raise ConfigError("the reason is not valid text", kind=Kind.USAGE) from e
    if len(reason) > MAX_REASON_CHARS:
        raise ConfigError(
            f"the reason has {len(reason):,} characters; a position has room for {MAX_REASON_CHARS}", kind=Kind.USAGE
        )
    return reason or None


def pipeline_to_pause(assembly: Assembly, table: DeltaRsTable, given: str | None) -> str:
    """The given one; else the only one of the table; else the one that reads the configured source. The source may be
    what is in trouble, so it is looked at last."""
    if given is not None:
        return given
    names = sorted(table.standings(scan_commits=assembly.config.checkpoint.scan_commits))
    if len(names) == 1:
        return names[0]
    if names and assembly.config.source.path is not None:
        return assembly.pipeline_of(table)
    raise ConfigError(f"--pipeline is missing; the table has: {', '.join(names) or 'none'}", kind=Kind.USAGE)
