"""Going back to an older position: what later batches added is removed, and their slices are read again.

One commit does both, on the very version that was looked at. The quarantine follows after it, by whoever comes next if
this process dies; so a crash at any point leaves the table before the rollback or after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.core.batch import rolled_back_state, seal
from blizzard.core.log import CommitFacts, fence_version
from blizzard.core.recover import Fresh, Refuse
from blizzard.core.rollback import FileActions, RollbackPlan, check_sources, plan_rollback
from blizzard.core.state import CheckpointState
from blizzard.core.types import BatchResult, SourceFile, SourceIdentity
from blizzard.delta.commit import commit_batch
from blizzard.errors import Refused
from blizzard.ports import Clock, CommitRequest, Progress, Quarantine, TableWithFiles
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.starting import state_to_go_on_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What a rollback would do, on `version` of the table."""

    current: CheckpointState
    plan: RollbackPlan
    version: int
    later_columns: tuple[str, ...]  # those the table has been given since
    metadata: dict[str, Any] | None  # to put the schema back

    @property
    def sentences(self) -> list[str]:
        plan = self.plan
        files = plan.source_files
        named = ", ".join(files[:5]) + (", …" if len(files) > 5 else "")
        told = [
            f"pipeline {self.current.pipeline}: sequence {self.current.sequence} goes back to {plan.target.sequence}",
            f"{len(plan.superseded)} commits are taken back: {plan.records:,} records leave the table, in"
            f" {len(plan.files)} Parquet files",
            f"{len(files)} source files are read again by the next run, from where they stood then: {named or 'none'}",
            "the bad records of these commits leave the quarantine table",
        ]
        if self.later_columns and self.metadata is None:
            told.append(
                f"columns added since then stay: {', '.join(self.later_columns)} (--with-schema takes them back too)"
            )
        elif self.later_columns:
            told.append(f"the schema goes back as well: {', '.join(self.later_columns)} leave the table")
        return told


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
    """Everything that must hold, read from the table as it is now. Raises Refused where something does not."""
    recovery = state_to_go_on_from(table, pipeline=pipeline, source=source, scan_commits=scan_commits)
    if isinstance(recovery, Fresh):
        raise Refused(f"pipeline {pipeline!r} has committed nothing to this table", kind="rollback_target")
    if table.is_append_only:
        raise Refused("the table is append-only (delta.appendOnly): nothing may be removed from it", kind="append_only")
    history = _history(table, pipeline, to)
    plan = plan_rollback(history, current=recovery.state, to=to)
    refusal = plan if isinstance(plan, Refuse) else check_sources(plan, listing)
    if refusal is not None or isinstance(plan, Refuse):
        assert refusal is not None
        raise Refused(refusal.message, kind=refusal.kind)
    then = table.schema_at(plan.first_version - 1)
    later = () if then is None else _later_columns(then, table.schema)
    metadata = None
    if with_schema and later:
        assert then is not None
        _require_nobody_uses(later, history, plan)
        metadata = table.metadata_action(_fitting(then, table.schema))
    elif with_schema and then is None:
        raise Refused(
            f"the schema of version {plan.first_version - 1} can no longer be read: the commits or checkpoints it rests"
            f" on are gone. Leave --with-schema out, and the columns stay.",
            kind="rollback_schema",
        )
    return Rollback(current=recovery.state, plan=plan, version=table.version, later_columns=later, metadata=metadata)


def _history(table: TableWithFiles, pipeline: str, to: int) -> list[tuple[CommitFacts, FileActions]]:
    """Commits from the newest back to the one of sequence `to`, or as far as they go."""
    found = []
    for commit in table.scan_back():
        actions = table.file_actions(commit.version)
        if actions is None:
            break
        found.append((commit, actions))
        if to > 0 and fence_version(commit, pipeline) == to:
            break
    return found


def _later_columns(then: DeltaSchema, now: DeltaSchema) -> tuple[str, ...]:
    known = {field["name"] for field in then["fields"]}
    if fingerprint(then) == fingerprint(now):
        return ()
    added = tuple(field["name"] for field in now["fields"] if field["name"] not in known)
    return added or ("fields inside of columns",)


def _fitting(then: DeltaSchema, now: DeltaSchema) -> DeltaSchema:
    """The old schema, if what is in the table without the later columns fits it."""
    now_by_name = {field["name"]: field for field in now["fields"]}
    for field in then["fields"]:
        if now_by_name.get(field["name"]) != field:
            raise Refused(
                f"column {field['name']} was changed since then, and not only columns added: the schema cannot be put"
                f" back by a rollback. Leave --with-schema out.",
                kind="rollback_schema",
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
                kind="rollback_schema",
            )


def apply_rollback(
    table: TableWithFiles,
    rollback: Rollback,
    quarantine: Quarantine,
    *,
    list_source: Callable[[], Sequence[SourceFile]],
    scan_commits: int,
    clock: Clock,
    progress: Progress,
) -> tuple[int, int]:
    """The sequence and the version it was committed in."""
    quarantine.settle(rollback.current)  # what the last commit left pending comes first
    planned_ms = clock.now_ms()
    before = replace(
        rollback.current,
        run_id=os.urandom(6).hex(),
        delta_version=rollback.version,
        schema_fingerprint=table.schema_fingerprint,
    )
    after = rolled_back_state(before, rollback.plan, batch_id=os.urandom(8).hex(), now_ms=planned_ms)
    checkpoint = seal(
        after,
        BatchResult(),
        kind="rollback",
        rolled_back_to=rollback.plan.target.sequence,
        superseded=rollback.plan.superseded,
    )
    request = replace(CommitRequest.of(checkpoint, ()), removes=rollback.plan.files, metadata=rollback.metadata)

    def verify() -> None:
        """The table may be a later version by now, and the source another."""
        again = prepare_rollback(
            table,
            pipeline=after.pipeline,
            source=after.source,
            to=rollback.plan.target.sequence,
            listing=list_source(),
            with_schema=rollback.metadata is not None,
            scan_commits=scan_commits,
        )
        if (again.plan, again.metadata) != (rollback.plan, rollback.metadata):
            raise Refused("the table changed meanwhile; nothing was rolled back. Run again.", kind="rollback_changed")

    version = commit_batch(
        table, request, after, planned_ms=planned_ms, attempts=8, clock=clock, progress=progress, verify=verify
    )
    quarantine.settle(after)
    return after.sequence, version
