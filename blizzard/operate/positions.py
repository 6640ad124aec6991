"""Changing a position by hand: a file is read again, or left out. A commit like any other, without data.

It takes the pipeline's next sequence, so that a run at the same time is fenced or fences it, and what it changed is in
the log for everyone to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import orjson

from blizzard.core.batch import renewed_position
from blizzard.core.codec import CodecError, decode_position, encode_position
from blizzard.core.history import ledgers_of
from blizzard.core.judge import Judged, Own, judge_history, judge_position
from blizzard.core.kinds import Kind
from blizzard.core.late import as_looked_at
from blizzard.core.ledger import SKIPPED, LedgerEntry
from blizzard.core.log import CommitFacts, History, fence_version, payloads, standings_of
from blizzard.core.position import FINISHED, Cleaned, FileProgress, Marks, Position, RecordsRead, prune_finished
from blizzard.core.quarantine import head_after_import
from blizzard.core.recover import IMPORTED, Fresh, Resume, decide_recovery
from blizzard.core.refuse import Refuse, describe_position
from blizzard.core.rollback import check_sources
from blizzard.core.types import SourceFile, find_file
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.operate.rollback import plan_going_back
from blizzard.operate.status import find_position
from blizzard.run.assemble import Job, SystemClock
from blizzard.run.commit import Committing, Intent, new_batch_id, new_run_id
from blizzard.run.ports import Quarantine
from blizzard.run.settle import settle, settle_replaced
from blizzard.run.starting import decide_start
from blizzard.service.progress import SilentProgress
from blizzard.source.listing import list_source
from blizzard.source.uri import location_of
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import locate

_EXPORT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One file's new place in the position, and what that means."""

    before: Position  # the position that was looked at
    path: str
    progress: FileProgress
    sentence: str
    entry: LedgerEntry | None = None  # for the ledger: else a file that is left out would be a late one


def plan_reset(job: Job, table: DeltaRsTable, path: str, from_record: int | None) -> Edit:
    """The file is read again: from where it broke, or from the record that is given."""
    before, file = _current(job, table), _listed(job, path)
    if from_record is None:
        known = _newest_reading(table.scan_back(), job.pipeline, path)
        from_record = _where_it_stands(before.marks, known, path)
    if from_record < 0:
        raise ConfigError("--from-record must be at least 0", kind=Kind.USAGE)
    progress = RecordsRead(records=from_record, size_bytes=file.size_bytes, etag=file.etag)
    sentence = f"{path} will be read again, from record {from_record:,} on"
    return Edit(before=before, path=path, progress=progress, sentence=sentence)


def _where_it_stands(marks: Marks, known: LedgerEntry | None, path: str) -> int:
    """The first record that is not in the table. Its ledger may be gone; then the position knows, unless it is past."""
    broke = known is not None and known.broken is not None
    if known is not None and (broke or not known.finished):
        return known.to_record
    if marks.is_finished(path):
        whole = f"was ingested whole, {known.to_record:,} lines" if known is not None else "was ingested, or left out"
        raise ConfigError(
            f"{path} {whole}. Reading it again doubles its records: say --from-record 0 if that is what you want, or a"
            f" later record to read only what comes after it.",
            kind=Kind.USAGE,
        )
    return marks.records_read(path)


def plan_skip(job: Job, table: DeltaRsTable, path: str) -> Edit:
    """A file that is there; or one that is gone before all of it was read, of which the rest is given up."""
    before, file = _current(job, table), find_file(job.source.list(), path)
    named = before.marks.in_progress.get(path)
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
        broken=SKIPPED,
    )
    sentence = f"{path} will not be read, or not any further"
    return Edit(before=before, path=path, progress=FINISHED, sentence=sentence, entry=entry)


def apply_edit(job: Job, table: DeltaRsTable, edit: Edit, plan_again: Callable[[], Edit]) -> tuple[int, int]:
    """The sequence and the version the change was committed in. The table is the one that the edit was planned on."""
    committing = _committing(table, job.quarantine(SilentProgress()))
    settle(committing.quarantine, table, edit.before, since=table.version)
    held_back = {path: why for path, why in edit.before.seen.held_back.items() if path != edit.path}
    before = replace(
        _renumbered(edit.before, table),
        seen=replace(edit.before.seen, held_back=held_back),
        # What was about to be archived or deleted is looked at again: the file may be one of it.
        cleaned=replace(edit.before.cleaned, due_through=edit.before.cleaned.done_through),
        marks=_with(edit.before.marks, edit),
    )
    intent = _edit_intent(before, committing, edited=() if edit.entry is None else (edit.entry,))

    def look_again() -> None:
        if plan_again() != edit:
            raise _changed_meanwhile()

    return committing.commit_edit(intent, look_again=look_again)


def export_position(
    table: DeltaRsTable, pipeline: str, *, sequence: int | None = None, scan_commits: int = 100
) -> bytes:
    """A position of a pipeline, the newest or an older one, as a file to keep or to move."""
    if sequence is not None:
        position = _position_of_sequence(table, pipeline, sequence)
    else:
        try:
            recovery = decide_start(table, pipeline=pipeline, source=None, scan_commits=scan_commits)
        except Refused as e:
            if e.kind != Kind.TABLE_HAS_DATA:
                raise
            raise _no_position(pipeline) from e
        if isinstance(recovery, Fresh):
            raise _no_position(pipeline)
        position = recovery.position
    exported = {
        "blizzard_position": _EXPORT_VERSION,
        "pipeline": pipeline,
        "table_id": table.table_id,
        "sequence": position.sequence,
        "app_id": encode_position(position),
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
    the table must hold exactly what the position says."""
    position = _exported_position(content)
    looked = _look(table, position, source_access, replaces=replaces, is_trusted=is_trusted)
    committing = _committing(table, quarantine)
    if looked.current is not None:
        settle_replaced(quarantine, table, looked.current)
    before = _renumbered(looked.position, table)
    before = replace(
        before,
        on=replace(before.on, add_path=None, table_id=table.table_id),
        quarantine=replace(before.quarantine, head=head_after_import(position, looked.current, table.table_id)),
    )
    intent = _edit_intent(before, committing, goes_back_over=looked.superseded)

    def look_again() -> None:
        again = _look(table, position, source_access, replaces=replaces, is_trusted=is_trusted)
        # By the store's clock, an import from elsewhere begins a moment later each time.
        if replace(again, position=looked.position) != looked:
            raise _changed_meanwhile()

    return committing.commit_edit(intent, look_again=look_again)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What an import found: the position to commit, with the sequence that stands here; the one it replaces; and what
    no longer counts."""

    position: Position
    current: Position | None
    superseded: range = range(0)


def _look(
    table: DeltaRsTable, position: Position, source_access: Access, *, replaces: bool, is_trusted: bool
) -> _Looked:
    # A table with data and no position of ours is what an import is for.
    facts = table.observe(position.pipeline, scan_commits=100)
    recovery = decide_recovery(facts, pipeline=position.pipeline, source=None, start_from=None)
    has_one = isinstance(recovery, Resume) or (isinstance(recovery, Refuse) and recovery.kind != Kind.TABLE_HAS_DATA)
    if has_one and not replaces:
        problem = f" (which cannot be used: {recovery.message})" if isinstance(recovery, Refuse) else ""
        raise ConfigError(
            f"pipeline {position.pipeline!r} has a position in this table already{problem}; add --replace to go on from"
            f" the imported one instead",
            kind=Kind.USAGE,
        )
    here = max((sequence for c in facts.commits if (sequence := fence_version(c, position.pipeline))), default=0)
    here = max(here, facts.fence or 0)
    found = standings_of(facts.commits, facts.checkpoint).get(position.pipeline)
    current = found.position if found is not None else None
    if position.on.table_id != table.table_id:
        return _moved_here(table, position, current, here, source_access, is_trusted=is_trusted)
    history = table.history(position.pipeline, position.sequence)
    judged = judge_history(history, position.pipeline) if history is not None else None
    back = judged.superseded_by(position.sequence) if judged is not None else None
    if back is not None:
        # Its bad records left the quarantine with it. No word of the user's brings them back.
        raise Refused(
            f"sequence {position.sequence} was taken back by version {back.commit.version}: its bad records are gone"
            f" from quarantine, whatever the table holds now. Nothing was changed. If its rows are part of the table"
            f" again, RESTORE the table to version {back.commit.version}: the next run then goes on by itself.",
            kind=Kind.IMPORT_MISMATCH,
        )
    if not is_trusted:
        _require_fit(table, history, judged, position, current, source_access)
    # An older position of this very table: what came after it no longer counts, and its bad records come again.
    return _Looked(
        position=replace(position, sequence=max(here, position.sequence)),
        current=current,
        superseded=range(position.sequence + 1, here + 1),
    )


def _moved_here(
    table: DeltaRsTable,
    position: Position,
    current: Position | None,
    here: int,
    source_access: Access,
    *,
    is_trusted: bool,
) -> _Looked:
    if not is_trusted:
        raise Refused(
            f"the position is of another table (id {position.on.table_id}; this one is {table.table_id}), and nothing"
            f" in this one's log says whether it holds the records of {position.source.root} up to that position"
            f" ({describe_position(position)}). Nothing was changed. If you know that it holds exactly those, add"
            f" --unverified.",
            kind=Kind.IMPORT_MISMATCH,
        )
    moved = replace(
        position,
        sequence=here,
        begun=replace(position.begun, start_from=IMPORTED),
        seen=replace(position.seen, held_back={}),
        cleaned=Cleaned(done_through=here, due_through=here),
    )
    now_ms = open_store(locate(position.source.root, what="source"), source_access).now_ms()
    return _Looked(position=as_looked_at(moved, now_ms), current=current)


def _require_fit(
    table: DeltaRsTable,
    history: History | None,
    judged: Judged | None,
    position: Position,
    current: Position | None,
    source_access: Access,
) -> None:
    """The same judgement as a run's, and where it goes back, that of a rollback that has nothing to remove."""
    own = judged.own.get(position.sequence) if judged is not None else None
    if history is None or judged is None or own is None or not _is_commit_of(own, position):
        raise _mismatch(
            position,
            f"the log holds no commit of sequence {position.sequence} with this position, so that nothing tells",
        )
    if current is None or position.sequence >= current.sequence:
        refusal = judge_position(judged, position.sequence)
        if refusal is not None:
            raise _mismatch(position, refusal.message.rstrip("."))
        return
    plan = plan_going_back(table, history, current, position.sequence)
    if plan.files:
        raise _mismatch(
            position,
            f"{plan.files[0]['path']}, which a later sequence added, is part of it. To remove what came later and put"
            f" the position back, in one commit: blizzard checkpoint rollback --to {position.sequence} --yes",
        )
    missing = check_sources(plan, list_source(location_of(position.source, source_access)))
    if missing is not None:
        raise Refused(missing.message, kind=missing.kind)


def _is_commit_of(own: Own, position: Position) -> bool:
    """Whether this very position was committed there; its payload may be damaged since."""
    return encode_position(position) in payloads(own.commit) or (
        own.ledger is not None and own.ledger.batch_id == position.batch_id
    )


def _mismatch(position: Position, why: str) -> Refused:
    return Refused(
        f"the position is of this table, but {why}. Nothing was changed. If you know that the table holds what the"
        f" sequences up to {position.sequence} ingested and nothing else, and that the sources of what came after are"
        f" there, add --unverified.",
        kind=Kind.IMPORT_MISMATCH,
    )


def _position_of_sequence(table: DeltaRsTable, pipeline: str, sequence: int) -> Position:
    position = find_position(table, pipeline, sequence)
    if position is not None:
        return position
    raise ConfigError(
        f"neither the log's JSON commits nor its Delta checkpoint hold sequence {sequence} of pipeline {pipeline!r};"
        f" see blizzard checkpoint list",
        kind=Kind.CHECKPOINT_NOT_FOUND,
    )


def exported_source_root(content: bytes) -> str:
    """Of the source that an exported position is about."""
    return locate(_exported_position(content).source.root, what="source")


def _exported_position(content: bytes) -> Position:
    try:
        fields = orjson.loads(content)
        if fields["blizzard_position"] != _EXPORT_VERSION:
            raise ConfigError("the file was exported by a newer version of blizzard", kind=Kind.USAGE)
        position = decode_position(fields["app_id"])
    except (orjson.JSONDecodeError, KeyError, TypeError, CodecError) as e:
        raise ConfigError(f"the file is not an exported position: {e}", kind=Kind.USAGE) from e
    if not isinstance(position, Position):
        raise ConfigError("the file holds a position of the Rust program, which cannot be imported", kind=Kind.USAGE)
    return position


def _committing(table: DeltaRsTable, quarantine: Quarantine) -> Committing:
    return Committing(table=table, quarantine=quarantine, clock=SystemClock(), progress=SilentProgress())


def _renumbered(position: Position, table: DeltaRsTable) -> Position:
    """As a command of its own would go on from it, on the version that it has looked at."""
    on = replace(position.on, delta_version=table.version, schema_fingerprint=table.schema_fingerprint)
    return replace(position, run_id=new_run_id(), on=on)


def _edit_intent(
    before: Position,
    committing: Committing,
    *,
    goes_back_over: range = range(0),
    edited: tuple[LedgerEntry, ...] = (),
) -> Intent:
    planned_ms = committing.clock.now_ms()
    after = renewed_position(before, batch_id=new_batch_id(), now_ms=planned_ms)
    if goes_back_over:
        taken_back = (goes_back_over[0], goes_back_over[-1])
        after = replace(after, quarantine=replace(after.quarantine, rolled_back=taken_back))
    return Intent(position=after, planned_ms=planned_ms, kind="edit", superseded=tuple(goes_back_over), edited=edited)


def _changed_meanwhile() -> Refused:
    return Refused(
        "the table or the source changed meanwhile; nothing was done. Run again.", kind=Kind.POSITION_CHANGED
    )


def _no_position(pipeline: str) -> ConfigError:
    return ConfigError(
        f"pipeline {pipeline!r} has no position in this table; blizzard status shows which have", kind=Kind.USAGE
    )


def _current(job: Job, table: DeltaRsTable) -> Position:
    recovery = decide_start(
        table,
        pipeline=job.pipeline,
        source=job.source.identity,
        scan_commits=job.config.checkpoint.scan_commits,
    )
    if isinstance(recovery, Fresh):
        raise _no_position(job.pipeline)
    return recovery.position


def _with(marks: Marks, edit: Edit) -> Marks:
    files = dict(marks.files) | {edit.path: edit.progress}
    return prune_finished(replace(marks, files=files))


def _listed(job: Job, path: str) -> SourceFile:
    file = find_file(job.source.list(), path)
    if file is None:
        raise _no_such_file(path)
    return file


def _no_such_file(path: str) -> ConfigError:
    return ConfigError(f"there is no file {path} in the source; names are those of blizzard files", kind=Kind.USAGE)


def _newest_reading(commits: Iterable[CommitFacts], pipeline: str, path: str) -> LedgerEntry | None:
    """What is known of the last time that the file was read. That somebody left it out afterwards says nothing of what
    is in the table: it counts only where no ledger is gone that could know of a reading."""
    skipped, first = None, None
    for _, ledger in ledgers_of(commits, pipeline):
        first = ledger.sequence
        for entry in ledger.entries:
            if entry.path == path and entry.broken != SKIPPED:
                return entry
            skipped = skipped or (entry if entry.path == path else None)
    return skipped if first == 1 or (skipped is not None and skipped.to_record) else None
