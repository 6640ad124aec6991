"""Changing a position by hand: a file is read again, or left out. A commit like any other, without data.

It takes the pipeline's next sequence, so that a run at the same time is fenced or fences it, and what it changed is in
the log for everyone to see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import orjson

from blizzard.core.batch import renewed_state, seal
from blizzard.core.codec import CodecError, decode_state, encode_state
from blizzard.core.history import ledgers_of
from blizzard.core.late import LatePolicy, as_looked_at
from blizzard.core.ledger import LedgerEntry
from blizzard.core.log import CommitFacts, fence_version, states_in
from blizzard.core.recover import IMPORTED, Fresh, Refuse, Resume, decide_recovery
from blizzard.core.state import FINISHED, CheckpointState, FileProgress, RecordsRead, SourceState, prune_finished
from blizzard.core.types import BatchResult, SourceFile, find_file
from blizzard.delta.commit import commit_batch
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.job import Job, SystemClock, open_existing
from blizzard.ports import CommitRequest
from blizzard.progress import SilentProgress
from blizzard.starting import state_to_go_on_from

_EXPORT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One file's new place in the position, and what that means."""

    path: str
    progress: FileProgress
    sentence: str


def plan_reset(job: Job, path: str, from_record: int | None) -> Edit:
    """The file is read again: from where it broke, or from the record that is given."""
    table, file = open_existing(job.config), _listed(job, path)
    known = _newest_entry(table.scan_back(), job.pipeline, path)
    if from_record is None:
        if known is not None and known.finished and known.broken is None:
            raise ConfigError(
                f"{path} was ingested whole, {known.to_record:,} lines. Reading it again doubles its records: say"
                f" --from-record 0 if that is what you want, or a later record to read only what comes after it.",
                kind="usage",
            )
        from_record = 0 if known is None else known.to_record
    if from_record < 0:
        raise ConfigError("--from-record must be at least 0", kind="usage")
    progress = RecordsRead(records=from_record, size_bytes=file.size_bytes, etag=file.etag)
    return Edit(path=path, progress=progress, sentence=f"{path} will be read again, from record {from_record:,} on")


def plan_skip(job: Job, path: str) -> Edit:
    _listed(job, path)
    return Edit(path=path, progress=FINISHED, sentence=f"{path} will not be read, or not any further")


def apply_edit(job: Job, edit: Edit) -> tuple[int, int]:
    """The sequence and the version the change was committed in."""
    table = job.open_table()
    before = _position(job, table)
    return _commit(table, replace(before, source_state=_with(before.source_state, edit)))


def export_position(
    table: DeltaRsTable, pipeline: str, *, sequence: int | None = None, scan_commits: int = 100
) -> bytes:
    """A position of a pipeline, the newest or an older one, as a file to keep or to move."""
    if sequence is not None:
        state = _state_of_sequence(table, pipeline, sequence)
    else:
        recovery = state_to_go_on_from(table, pipeline=pipeline, source=None, scan_commits=scan_commits)
        if isinstance(recovery, Fresh):
            raise _no_position(pipeline)
        state = recovery.state
    exported = {
        "blizzard_position": _EXPORT_VERSION,
        "pipeline": pipeline,
        "table_id": table.table_id,
        "sequence": state.sequence,
        "app_id": encode_state(state),
    }
    return orjson.dumps(exported, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def import_position(
    table: DeltaRsTable, content: bytes, *, replaces: bool, is_trusted: bool = False
) -> tuple[int, int]:
    """Go on in this table from an exported position, under the pipeline's next sequence here. Unless it `is_trusted`,
    an older position of the same table must be one whose data the table holds."""
    state = _exported_state(content)
    # A table with data and no position of ours is what an import is for.
    facts = table.observe(state.pipeline, scan_commits=100)
    recovery = decide_recovery(facts, pipeline=state.pipeline, source=None, start_from=None)
    has_one = isinstance(recovery, Resume) or (isinstance(recovery, Refuse) and recovery.kind != "table_has_data")
    if has_one and not replaces:
        problem = f" (which cannot be used: {recovery.message})" if isinstance(recovery, Refuse) else ""
        raise ConfigError(
            f"pipeline {state.pipeline!r} has a position in this table already{problem}; add --replace to go on from"
            f" the imported one instead",
            kind="usage",
        )
    here = max((sequence for c in facts.commits if (sequence := fence_version(c, state.pipeline))), default=0)
    here = max(here, facts.fence or 0)
    if state.table_id == table.table_id and not is_trusted and not table.holds(state.add_path):
        raise Refused(
            f"the position is of this table, but {state.add_path}, which sequence {state.sequence} added, is not part"
            f" of it now: the table was restored to another version than that, or compacted since. Nothing was changed."
            f" If you know that the table holds what the sequences up to {state.sequence} ingested and nothing else,"
            f" add --unverified.",
            kind="import_mismatch",
        )
    # An older position of this very table: what came after it no longer counts, and its bad records come again.
    later = range(state.sequence + 1, here + 1) if state.table_id == table.table_id else range(0)
    before = replace(
        state,
        sequence=here,
        run_id=os.urandom(6).hex(),
        table_id=table.table_id,
        add_path=None,
        delta_version=table.version,
        schema_fingerprint=table.schema_fingerprint,
        start_from=IMPORTED,
    )
    before = as_looked_at(before, SystemClock().now_ms(), LatePolicy()) if not later else before
    return _commit(table, before, goes_back_over=later)


def _state_of_sequence(table: DeltaRsTable, pipeline: str, sequence: int) -> CheckpointState:
    for commit in table.scan_back():
        for state in states_in(commit.txns):
            if (state.pipeline, state.sequence) == (pipeline, sequence):
                return state
    raise ConfigError(
        f"no commit in the log's JSON files holds sequence {sequence} of pipeline {pipeline!r}; see blizzard checkpoint"
        f" list",
        kind="checkpoint_not_found",
    )


def _exported_state(content: bytes) -> CheckpointState:
    try:
        fields = orjson.loads(content)
        if fields["blizzard_position"] != _EXPORT_VERSION:
            raise ConfigError("the file was exported by a newer version of blizzard", kind="usage")
        state = decode_state(fields["app_id"])
    except (orjson.JSONDecodeError, KeyError, TypeError, CodecError) as e:
        raise ConfigError(f"the file is not an exported position: {e}", kind="usage") from e
    if not isinstance(state, CheckpointState):
        raise ConfigError("the file holds a position of the Rust program, which cannot be imported", kind="usage")
    return state


def _commit(table: DeltaRsTable, before: CheckpointState, *, goes_back_over: range = range(0)) -> tuple[int, int]:
    clock = SystemClock()
    planned_ms = clock.now_ms()
    after = renewed_state(before, batch_id=os.urandom(8).hex(), now_ms=planned_ms)
    if goes_back_over:
        after = replace(after, rolled_back=(goes_back_over[0], goes_back_over[-1]))
    checkpoint = seal(after, BatchResult(), kind="edit", superseded=tuple(goes_back_over))
    version = commit_batch(
        table,
        CommitRequest.of(checkpoint, ()),
        checkpoint.state,
        planned_ms=planned_ms,
        attempts=8,
        clock=clock,
        progress=SilentProgress(),
    )
    return after.sequence, version


def _no_position(pipeline: str) -> ConfigError:
    return ConfigError(
        f"pipeline {pipeline!r} has no position in this table; blizzard status shows which have", kind="usage"
    )


def _position(job: Job, table: DeltaRsTable) -> CheckpointState:
    recovery = state_to_go_on_from(
        table,
        pipeline=job.pipeline,
        source=job.source.identity,
        scan_commits=job.config["checkpoint.scan_commits"],
    )
    match recovery:
        case Fresh():
            raise _no_position(job.pipeline)
        case Resume(state=state):
            job.quarantine(SilentProgress()).settle(state)
            return replace(
                state,
                run_id=os.urandom(6).hex(),
                delta_version=table.version,
                schema_fingerprint=table.schema_fingerprint,
            )


def _with(state: SourceState, edit: Edit) -> SourceState:
    files = dict(state.files) | {edit.path: edit.progress}
    return prune_finished(replace(state, files=files))


def _listed(job: Job, path: str) -> SourceFile:
    file = find_file(job.source.list(), path)
    if file is None:
        raise ConfigError(f"there is no file {path} in the source; names are those of blizzard files", kind="usage")
    return file


def _newest_entry(commits: Iterable[CommitFacts], pipeline: str, path: str) -> LedgerEntry | None:
    for _, ledger in ledgers_of(commits, pipeline):
        for entry in ledger.entries:
            if entry.path == path:
                return entry
    return None
