"""Goes back to an older position: removes what later batches added; the next run reads their slices again.

One commit removes the files and sets the position, if the plan is still the same on the version committed on. Then the
quarantine follows; if this process dies first, the next run does that. A crash leaves the table before or after the
rollback, never between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
import pyarrow.compute as pc

from blizzard.core.batch import rolled_back_position
from blizzard.core.clock import Clock
from blizzard.core.commit import Intent
from blizzard.core.events import Emit
from blizzard.core.judge import Judged, judge_history
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.lists import count
from blizzard.core.log import CommitFacts, FileActions, History, fence_version, pipelines_of
from blizzard.core.position import Position
from blizzard.core.recover import Fresh, Resume, decide_recovery
from blizzard.core.refuse import Refuse
from blizzard.core.rollback import RollbackPlan, check_sources, plan_rollback
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.errors import Refused
from blizzard.operate.status import find_position
from blizzard.run.assemble import Assembly
from blizzard.run.commit import Committing, new_batch_id, new_run_id
from blizzard.run.ports import Mirror, NoMirror, Quarantine, TableWithFiles
from blizzard.run.settle import settle
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.source.chosen import chosen_by
from blizzard.source.listing import list_source
from blizzard.source.uri import SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What a rollback would do, on `version` of the table."""

    current: Position
    plan: RollbackPlan
    version: int
    later_columns: tuple[str, ...]  # columns that were added since then
    metadata: dict[str, Any] | None  # to put the schema back

    @property
    def sentences(self) -> list[str]:
        plan = self.plan
        files = plan.source_files
        named = ", ".join(files[:5]) + (", …" if len(files) > 5 else "")
        if not plan.superseded:
            return [
                f"pipeline {self.current.pipeline} stays at sequence {self.current.sequence}: "
                f"{count(plan.records, 'record')} taken back before it will leave the table again, in"
                f" {count(len(plan.files), 'Parquet file')}"
            ]
        lines = [
            f"pipeline {self.current.pipeline}: sequence {self.current.sequence} goes back to {plan.target.sequence}",
            f"to be taken back: {count(len(plan.superseded), 'commit')};"
            f" out of the table: {count(plan.records, 'record')}, in {count(len(plan.files), 'Parquet file')}",
            f"to be read again by the next run, from where it stood then: {count(len(files), 'source file')}:"
            f" {named or 'none'}",
            "the bad records of these commits leave the quarantine table",
        ]
        if plan.dropped:
            lines.append(
                f"{count(plan.dropped, 'older bad record')} that these commits dropped from the full quarantine do not"
                f" come back (quarantine.overflow: drop_oldest); their source files may still have them"
            )
        if self.later_columns and self.metadata is None:
            lines.append(
                f"columns added since then stay: {', '.join(self.later_columns)} (--with-schema takes them back too)"
            )
        elif self.later_columns:
            lines.append(f"the schema goes back as well: {', '.join(self.later_columns)} leave the table")
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """What was taken back, or would be, if it is not `done`."""

    pipeline: str
    to: int  # the sequence to go back to
    superseded: tuple[int, ...]  # sequences that are taken back
    records: int  # rows that leave the table
    parquet_files: int
    source_files: tuple[str, ...]  # to be read again by the next run
    later_columns: tuple[str, ...]  # columns that were added since then
    dropped_records: int  # older bad records that do not come back
    sentences: tuple[str, ...]  # the same in words
    done: bool = False
    sequence: int | None = None  # of the rollback itself, if it is done
    delta_version: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the command shows it with --json."""
        hidden = {"sentences"} if self.done else {"sentences", "sequence", "delta_version"}
        return {name: value for name, value in asdict(self).items() if name not in hidden}


def roll_back(assembly: Assembly, *, to: int, with_schema: bool, applies: bool) -> RolledBack:
    """Goes back to a sequence; without `applies` it only says what that would do."""
    table = assembly.open_for_commit()
    pipeline, scan_commits = assembly.pipeline_of(table), assembly.config.checkpoint.scan_commits
    source = assembly.on(table, pipeline).source
    target = find_position(table, pipeline, to)

    def listing() -> Sequence[SourceFile]:
        return list_for(source.location, target)

    rollback = prepare_rollback(
        table,
        pipeline=pipeline,
        source=source.identity,
        to=to,
        listing=listing(),
        with_schema=with_schema,
        scan_commits=scan_commits,
    )
    shown = _rolled_back(rollback, pipeline, to)
    if not applies:
        return shown
    sequence, version = apply_rollback(
        table,
        rollback,
        assembly.quarantine,
        list_source=listing,
        scan_commits=scan_commits,
        clock=assembly.clock,
        emit=assembly.emit,
        mirror=assembly.mirror,
    )
    return replace(shown, done=True, sequence=sequence, delta_version=version)


def _rolled_back(rollback: Rollback, pipeline: str, to: int) -> RolledBack:
    plan = rollback.plan
    return RolledBack(
        pipeline=pipeline,
        to=to,
        superseded=tuple(plan.superseded),
        records=plan.records,
        parquet_files=len(plan.files),
        source_files=tuple(plan.source_files),
        later_columns=rollback.later_columns,
        dropped_records=plan.dropped,
        sentences=tuple(rollback.sentences),
    )


def prepare_rollback(
    table: TableWithFiles,
    *,
    pipeline: str,
    source: SourceIdentity,
    to: int,
    listing: Sequence[SourceFile],
    with_schema: bool,
    scan_commits: int = 100,
) -> Rollback:
    """Checks everything that must hold, on the table as it is now. Raises Refused if something does not."""
    current = position_to_leave(table, pipeline=pipeline, source=source, scan_commits=scan_commits)
    history = table.history(pipeline, to)
    if current is None or history is None:
        raise Refused(f"pipeline {pipeline!r} has committed nothing to this table", kind=Kind.ROLLBACK_TARGET)
    plan = plan_going_back(table, history, current, to)
    refusal = check_sources(plan, listing)
    if refusal is not None:
        raise Refused(refusal.message, kind=refusal.kind)
    if table.is_append_only and plan.files:
        raise Refused(
            "the table is append-only (delta.appendOnly): nothing may be removed from it. Nothing was changed. If you"
            " may, set the property to false, roll back, and set it again.",
            kind=Kind.APPEND_ONLY,
        )
    then = table.schema_at(plan.first_version - 1)
    later = () if then is None else _later_columns(then, table.schema)
    metadata = None
    if with_schema and later:
        assert then is not None
        _require_nobody_uses(later, history.commits, plan)
        metadata = table.metadata_action(_fitting(then, table.schema))
    elif with_schema and then is None:
        raise Refused(
            f"the schema of version {plan.first_version - 1} can no longer be read: the commits or checkpoints it rests"
            f" on are gone. Leave --with-schema out, and the columns stay.",
            kind=Kind.ROLLBACK_SCHEMA,
        )
    return Rollback(current=current, plan=plan, version=table.version, later_columns=later, metadata=metadata)


def list_for(location: SourceLocation, *positions: Position | None) -> Sequence[SourceFile]:
    """What the source shows, and what one of these positions chose: the pattern or the filters may have been changed
    between them, and a file that was read then is still there."""
    others = [location.reading(p.source, p.begun.since_ms) for p in positions if p is not None]
    return list_source(location, chosen=chosen_by(location, *others))


def position_to_leave(
    table: TableWithFiles, *, pipeline: str, source: SourceIdentity | None, scan_commits: int
) -> Position | None:
    """The newest position, even if the table no longer holds what it says: going back is the way out of that."""
    facts = table.observe(pipeline, scan_commits=scan_commits)
    recovery = decide_recovery(facts, pipeline=pipeline, source=source, start_from=None)
    match recovery:
        case Fresh():
            return None
        case Resume(position=position):
            return position
        case Refuse(kind=Kind.TABLE_REWRITTEN) if (found := pipelines_of(facts.commits).get(pipeline)) is not None:
            _, position = found
            newest = max(fence_version(c, pipeline) or 0 for c in facts.commits)
            # If the newest payload is damaged, an older position must not be taken for the newest.
            if position.sequence != newest or (source is not None and position.source != source):
                raise Refused(recovery.message, kind=recovery.kind)
            return position
        case Refuse(kind=kind, message=message):
            raise Refused(message, kind=kind)


def plan_going_back(table: TableWithFiles, history: History, current: Position, to: int) -> RollbackPlan:
    judged = judge_history(history, current.pipeline)
    plan = plan_rollback(history, judged, current=current, to=to)
    if isinstance(plan, Refuse) and plan.kind == Kind.ROLLBACK_FILES:
        out = _proven_out(table, judged, to)
        plan = plan_rollback(history, judged, current=current, to=to, proven_out=out) if out else plan
    if isinstance(plan, Refuse):
        raise Refused(plan.message, kind=plan.kind)
    return plan


def _proven_out(table: TableWithFiles, judged: Judged, after: int) -> set[int]:
    """Later sequences of which the table holds no row any more: somebody has deleted them on purpose. Only sequences
    whose files all had the sequence in a column of their rows."""
    column = table.sequence_column
    if column is None:
        return set()
    said = {
        s
        for s, own in judged.own.items()
        if s > after and all(_says(add, column, s) for add in own.actions.adds.values())
    }
    for values in table.read_column(column):
        said.difference_update(value for value in pc.unique(values).to_pylist() if value is not None)
    return said


def _says(add: Mapping[str, Any], column: str, sequence: int) -> bool:
    try:
        stats = orjson.loads(add["stats"])
        return bool(stats["minValues"][column] == stats["maxValues"][column] == sequence)
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return False


def _later_columns(then: DeltaSchema, now: DeltaSchema) -> tuple[str, ...]:
    known = {field["name"] for field in then["fields"]}
    if fingerprint(then) == fingerprint(now):
        return ()
    added = tuple(field["name"] for field in now["fields"] if field["name"] not in known)
    return added or ("fields inside of columns",)


def _fitting(then: DeltaSchema, now: DeltaSchema) -> DeltaSchema:
    """The old schema, if its columns are unchanged in the new one; else raises."""
    now_by_name = {field["name"]: field for field in now["fields"]}
    for field in then["fields"]:
        if now_by_name.get(field["name"]) != field:
            raise Refused(
                f"column {field['name']} was changed since then, and not only columns added: the schema cannot be put"
                f" back by a rollback. Leave --with-schema out.",
                kind=Kind.ROLLBACK_SCHEMA,
            )
    return then


def _require_nobody_uses(
    later: tuple[str, ...], history: Sequence[tuple[CommitFacts, FileActions]], plan: RollbackPlan
) -> None:
    removed = {add["path"] for add in plan.files}
    for commit, actions in history:
        kept = sorted(actions.adds.keys() - removed)
        if kept and commit.version >= plan.first_version:
            raise Refused(
                f"version {commit.version} ({commit.operation or 'unnamed'}) added files that stay in the table and may"
                f" use the later columns ({', '.join(later)}), so the schema cannot be put back. Leave --with-schema"
                f" out, and the columns stay.",
                kind=Kind.ROLLBACK_SCHEMA,
            )


def apply_rollback(
    table: TableWithFiles,
    rollback: Rollback,
    quarantine: Quarantine,
    *,
    list_source: Callable[[], Sequence[SourceFile]],
    scan_commits: int,
    clock: Clock,
    emit: Emit,
    mirror: Mirror | None = None,
) -> tuple[int, int]:
    """The sequence and the version it was committed in."""
    # First what the last commit left pending.
    settle(quarantine, table, rollback.current, since=rollback.version)
    planned_ms = clock.now_ms()
    current = rollback.current
    on = replace(current.on, delta_version=rollback.version, schema_fingerprint=table.schema_fingerprint)
    before = replace(current, run_id=new_run_id(), on=on)
    after = rolled_back_position(before, rollback.plan, batch_id=new_batch_id(), now_ms=planned_ms)
    intent = Intent(
        position=after,
        planned_ms=planned_ms,
        kind=CommitKind.ROLLBACK,
        rolled_back_to=rollback.plan.target.sequence,
        superseded=rollback.plan.superseded,
        removes=rollback.plan.files,
        metadata=rollback.metadata,
    )

    def look_again() -> None:
        """The table and the source may have changed."""
        again = prepare_rollback(
            table,
            pipeline=after.pipeline,
            source=current.source,
            to=rollback.plan.target.sequence,
            listing=list_source(),
            with_schema=rollback.metadata is not None,
            scan_commits=scan_commits,
        )
        if (again.plan, again.metadata) != (rollback.plan, rollback.metadata):
            raise Refused(
                "the table changed meanwhile; nothing was rolled back. Run again.", kind=Kind.ROLLBACK_CHANGED
            )

    committing = Committing(table=table, quarantine=quarantine, clock=clock, emit=emit, mirror=mirror or NoMirror())
    return committing.commit_edit(intent, look_again=look_again)
