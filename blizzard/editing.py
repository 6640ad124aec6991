"""Changing a position by hand: a file is read again, or left out. A commit like any other, without data.

It takes the pipeline's next sequence, so that a run at the same time is fenced or fences it, and what it changed is in
the log for everyone to see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

import orjson

from blizzard.core.batch import renewed_state, seal
from blizzard.core.codec import CodecError, decode_state, encode_state
from blizzard.core.history import Superseded, ledgers_of
from blizzard.core.late import as_looked_at
from blizzard.core.ledger import LedgerEntry, decode_ledger
from blizzard.core.log import CommitFacts, fence_version, pipelines_of, states_in
from blizzard.core.recover import IMPORTED, Fresh, Refuse, Resume, decide_recovery
from blizzard.core.state import FINISHED, CheckpointState, FileProgress, RecordsRead, SourceState, prune_finished
from blizzard.core.types import BatchResult, SourceFile, find_file
from blizzard.delta.commit import commit_batch
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.job import Job, SystemClock, open_existing
from blizzard.ports import CommitRequest, Quarantine
from blizzard.progress import SilentProgress
from blizzard.starting import state_to_go_on_from
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import locate

_EXPORT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One file's new place in the position, and what that means."""

    path: str
    progress: FileProgress
    sentence: str
    entry: LedgerEntry | None = None  # for the ledger: else a file that is left out would be a late one


def plan_reset(job: Job, path: str, from_record: int | None) -> Edit:
    """The file is read again: from where it broke, or from the record that is given."""
    table, file = open_existing(job.config), _listed(job, path)
    known = _newest_entry(table.scan_back(), job.pipeline, path)
    if from_record is None:
        from_record = _where_it_stands(_current(job, table).source_state, known, path)
    if from_record < 0:
        raise ConfigError("--from-record must be at least 0", kind="usage")
    progress = RecordsRead(records=from_record, size_bytes=file.size_bytes, etag=file.etag)
    return Edit(path=path, progress=progress, sentence=f"{path} will be read again, from record {from_record:,} on")


def _where_it_stands(state: SourceState, known: LedgerEntry | None, path: str) -> int:
    """The first record that is not in the table. Its ledger may be gone; then the position knows, unless it is past."""
    broke = known is not None and known.broken is not None
    if known is not None and (broke or not known.finished):
        return known.to_record
    if state.is_finished(path):
        whole = f"was ingested whole, {known.to_record:,} lines" if known is not None else "was ingested, or left out"
        raise ConfigError(
            f"{path} {whole}. Reading it again doubles its records: say --from-record 0 if that is what you want, or a"
            f" later record to read only what comes after it.",
            kind="usage",
        )
    return state.records_read(path)


def plan_skip(job: Job, path: str) -> Edit:
    """A file that is there; or one that is gone before all of it was read, of which the rest is given up."""
    file = find_file(job.source.list(), path)
    named = _current(job, open_existing(job.config)).source_state.in_progress.get(path)
    version = file or named
    if version is None:
        raise _no_such_file(path)
    records = named.records if named is not None else 0
    entry = LedgerEntry(
        path=path,
        size_bytes=version.size_bytes or 0,
        etag=version.etag or "",
        from_record=records,
        to_record=records,
        finished=True,
        bad=0,
        broken="skipped",
    )
    sentence = f"{path} will not be read, or not any further"
    return Edit(path=path, progress=FINISHED, sentence=sentence, entry=entry)


def apply_edit(job: Job, edit: Edit) -> tuple[int, int]:
    """The sequence and the version the change was committed in."""
    table = job.open_table()
    before = _position(job, table)
    held_back = {path: why for path, why in before.held_back.items() if path != edit.path}
    # What was about to be archived or deleted is looked at again: the file may be one of it.
    before = replace(before, held_back=held_back, cleaning_through=before.cleaned_through)
    edited = () if edit.entry is None else (edit.entry,)
    return _commit(table, replace(before, source_state=_with(before.source_state, edit)), edited=edited)


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
    table: DeltaRsTable,
    content: bytes,
    *,
    quarantine: Quarantine,
    source_access: Access = NO_ACCESS,
    replaces: bool,
    is_trusted: bool = False,
) -> tuple[int, int]:
    """Go on in this table from an exported position, under the pipeline's next sequence here. Unless it `is_trusted`,
    an older position of the same table must be one whose data the table holds, and nothing that came after it."""
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
    current = pipelines_of(facts.commits).get(state.pipeline)
    if current is not None:
        quarantine.settle(current[1])  # what the position that is replaced left pending
    before = replace(
        state,
        run_id=os.urandom(6).hex(),
        table_id=table.table_id,
        add_path=None,
        delta_version=table.version,
        schema_fingerprint=table.schema_fingerprint,
    )
    if state.table_id != table.table_id:
        now_ms = open_store(locate(state.source.root, what="source"), source_access).now_ms()
        moved = replace(
            before, sequence=here, start_from=IMPORTED, held_back={}, cleaned_through=here, cleaning_through=here
        )
        return _commit(table, as_looked_at(moved, now_ms))
    mismatch = None if is_trusted else _find_mismatch(table, state, here, current[1] if current is not None else None)
    if mismatch is not None:
        raise Refused(
            f"the position is of this table, but {mismatch}. Nothing was changed. If you know that the table holds what"
            f" the sequences up to {state.sequence} ingested and nothing else, and that the sources of what came after"
            f" are there, add --unverified.",
            kind="import_mismatch",
        )
    # An older position of this very table: what came after it no longer counts, and its bad records come again.
    return _commit(
        table, replace(before, sequence=max(here, state.sequence)), goes_back_over=range(state.sequence + 1, here + 1)
    )


def _find_mismatch(
    table: DeltaRsTable, state: CheckpointState, here: int, current: CheckpointState | None
) -> str | None:
    """Why this older position does not fit the table as it is now."""
    if not table.holds(state.add_path):
        return (
            f"{state.add_path}, which sequence {state.sequence} added, is not part of it now: the table was restored to"
            f" another version than that, or compacted since"
        )
    if current is not None and state.sequence < current.cleaning_through:
        return f"the source files of sequences up to {current.cleaning_through} were archived or deleted (after_ingest)"
    missing, superseded = set(range(state.sequence + 1, here + 1)), Superseded()
    active = set(table.active_files()) if missing else set()
    for commit in table.scan_back() if missing else ():
        sequence = fence_version(commit, state.pipeline)
        if sequence is not None and sequence <= state.sequence:
            break
        ledger, actions = decode_ledger(commit.user_metadata), table.file_actions(commit.version)
        if sequence is None or ledger is None or actions is None:
            continue
        missing.discard(sequence)
        if superseded.meets(ledger):
            continue
        if ledger.kind == "replay":
            return f"sequence {sequence} put records from quarantine into it, which would then be in neither place"
        left = sorted(active.intersection(map(unquote, actions.adds)))
        if left:
            return f"{left[0]}, which sequence {sequence} added, is part of it"
    if missing:
        return f"the commit of sequence {min(missing)} is gone from the log, and with it what was added there"
    return None


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


def _commit(
    table: DeltaRsTable,
    before: CheckpointState,
    *,
    goes_back_over: range = range(0),
    edited: tuple[LedgerEntry, ...] = (),
) -> tuple[int, int]:
    clock = SystemClock()
    planned_ms = clock.now_ms()
    after = renewed_state(before, batch_id=os.urandom(8).hex(), now_ms=planned_ms)
    if goes_back_over:
        after = replace(after, rolled_back=(goes_back_over[0], goes_back_over[-1]))
    checkpoint = seal(after, BatchResult(), kind="edit", superseded=tuple(goes_back_over), edited=edited)
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


def _current(job: Job, table: DeltaRsTable) -> CheckpointState:
    recovery = state_to_go_on_from(
        table,
        pipeline=job.pipeline,
        source=job.source.identity,
        scan_commits=job.config["checkpoint.scan_commits"],
    )
    if isinstance(recovery, Fresh):
        raise _no_position(job.pipeline)
    return recovery.state


def _position(job: Job, table: DeltaRsTable) -> CheckpointState:
    state = _current(job, table)
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
        raise _no_such_file(path)
    return file


def _no_such_file(path: str) -> ConfigError:
    return ConfigError(f"there is no file {path} in the source; names are those of blizzard files", kind="usage")


def _newest_entry(commits: Iterable[CommitFacts], pipeline: str, path: str) -> LedgerEntry | None:
    for _, ledger in ledgers_of(commits, pipeline):
        for entry in ledger.entries:
            if entry.path == path:
                return entry
    return None
