"""Changes a position by hand: a file is read again, or left out. It is a commit without data.

It takes the pipeline's next sequence, so it and a run at the same time fence each other. The log shows what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from blizzard.core.batch import renewed_position
from blizzard.core.commit import Intent
from blizzard.core.events import Emit
from blizzard.core.framing import LINES, UTF8
from blizzard.core.history import ledgers_of
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.ledger import SKIPPED, LedgerEntry
from blizzard.core.lists import count
from blizzard.core.log import CommitFacts
from blizzard.core.position import FINISHED, FileProgress, Marks, Position, RecordsRead, prune_finished
from blizzard.core.recover import Fresh
from blizzard.core.types import SourceFile, find_file
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.operate.framings import find_reading, reading_of
from blizzard.run.assemble import Assembly
from blizzard.run.clock import SystemClock
from blizzard.run.commit import Committing, new_batch_id, new_run_id
from blizzard.run.ports import Mirror, NoMirror, Quarantine
from blizzard.run.recover import decide_start
from blizzard.run.settle import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The new progress of one file, and a sentence that says what that means."""

    before: Position  # the position that was looked at
    path: str
    progress: FileProgress
    sentence: str
    entry: LedgerEntry | None = None  # for the ledger: without it a file that is left out would count as late


def plan_reset(assembly: Assembly, table: DeltaRsTable, path: str, from_record: int | None) -> Edit:
    """The file will be read again: from where it broke, or from the given record."""
    assembly = assembly.on(table, assembly.pipeline_of(table))
    before, file = _current(assembly, table), _listed(assembly, path)
    known = _newest_reading(table.scan_back(), before.pipeline, path)
    if from_record is None:
        from_record = _where_it_stands(before.marks, known, path)
    if from_record < 0:
        raise ConfigError("--from-record must be at least 0", kind=Kind.USAGE)
    begun = before.marks.in_progress_of(path)
    framing, encoding = LINES, UTF8
    if from_record:
        framing, encoding = reading_of(begun, known) or find_reading(assembly, table, before, file)
    progress = RecordsRead(
        records=from_record, size_bytes=file.size_bytes, etag=file.etag, framing=framing, encoding=encoding
    )
    as_what = "" if framing == LINES else f", counted as {framing}"
    sentence = f"{path} will be read again, from record {from_record:,} on{as_what}"
    return Edit(before=before, path=path, progress=progress, sentence=sentence)


def _where_it_stands(marks: Marks, known: LedgerEntry | None, path: str) -> int:
    """The first record that is not in the table. The position knows it, if it names the file; else the ledger of the
    last reading says where the file broke."""
    if path in marks.in_progress:
        return marks.records_read(path)
    broke = known is not None and known.broken is not None
    if known is not None and (broke or not known.finished):
        return known.to_record
    if marks.is_finished(path):
        whole = (
            f"was ingested whole, {count(known.to_record, 'line')}" if known is not None else "was ingested or left out"
        )
        raise ConfigError(
            f"{path} {whole}. Reading it again doubles its records: say --from-record 0 if that is what you want, or a"
            f" later record to read only what comes after it.",
            kind=Kind.USAGE,
        )
    return marks.records_read(path)


def plan_skip(assembly: Assembly, table: DeltaRsTable, path: str) -> Edit:
    """The file will not be read, or not further. It may also be gone before all of it was read."""
    assembly = assembly.on(table, assembly.pipeline_of(table))
    before, file = _current(assembly, table), find_file(assembly.source.list(), path)
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
        framing=named.framing if records and named is not None else LINES,
        encoding=named.encoding if records and named is not None else UTF8,
    )
    sentence = f"{path} will not be read, or not any further"
    return Edit(before=before, path=path, progress=FINISHED, sentence=sentence, entry=entry)


def apply_edit(assembly: Assembly, table: DeltaRsTable, edit: Edit, plan_again: Callable[[], Edit]) -> tuple[int, int]:
    """The sequence and the version of the commit. `table` is the one that the edit was planned on."""
    committing = committing_on(table, assembly.quarantine, assembly.emit, assembly.mirror)
    settle(committing.quarantine, table, edit.before, since=table.version)
    held_back = {path: why for path, why in edit.before.seen.held_back.items() if path != edit.path}
    before = replace(
        on_this_version(edit.before, table),
        seen=replace(edit.before.seen, held_back=held_back),
        # Decide again what is archived or deleted: this file may be among it.
        cleaned=replace(edit.before.cleaned, due_through=edit.before.cleaned.done_through),
        marks=_with(edit.before.marks, edit),
    )
    intent = edit_intent(before, committing, edited=() if edit.entry is None else (edit.entry,))

    def look_again() -> None:
        if plan_again() != edit:
            raise changed_meanwhile()

    return committing.commit_edit(intent, look_again=look_again)


def committing_on(table: DeltaRsTable, quarantine: Quarantine, emit: Emit, mirror: Mirror | None = None) -> Committing:
    return Committing(table=table, quarantine=quarantine, clock=SystemClock(), emit=emit, mirror=mirror or NoMirror())


def on_this_version(position: Position, table: DeltaRsTable) -> Position:
    """The position on this version of the table, with a new run id for the command."""
    on = replace(position.on, delta_version=table.version, schema_fingerprint=table.schema_fingerprint)
    return replace(position, run_id=new_run_id(), on=on)


def edit_intent(
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
    superseded = tuple(goes_back_over)
    return Intent(position=after, planned_ms=planned_ms, kind=CommitKind.EDIT, superseded=superseded, edited=edited)


def changed_meanwhile() -> Refused:
    return Refused(
        "the table or the source changed meanwhile. Nothing was done. Run again.", kind=Kind.POSITION_CHANGED
    )


def no_position(pipeline: str) -> ConfigError:
    return ConfigError(
        f"pipeline {pipeline!r} has no position in this table; blizzard status shows which have", kind=Kind.USAGE
    )


def _current(assembly: Assembly, table: DeltaRsTable) -> Position:
    pipeline = assembly.pipeline_of(table)
    recovery = decide_start(
        table,
        pipeline=pipeline,
        source=assembly.source.identity,
        scan_commits=assembly.config.checkpoint.scan_commits,
    )
    if isinstance(recovery, Fresh):
        raise no_position(pipeline)
    return recovery.position


def _with(marks: Marks, edit: Edit) -> Marks:
    files = dict(marks.files) | {edit.path: edit.progress}
    return prune_finished(replace(marks, files=files))


def _listed(assembly: Assembly, path: str) -> SourceFile:
    file = find_file(assembly.source.list(), path)
    if file is None:
        raise _no_such_file(path)
    return file


def _no_such_file(path: str) -> ConfigError:
    return ConfigError(f"there is no file {path} in the source; blizzard files shows the names", kind=Kind.USAGE)


def _newest_reading(commits: Iterable[CommitFacts], pipeline: str, path: str) -> LedgerEntry | None:
    """The ledger entry of the last time that the file was read. The entry of a skip counts only if no earlier ledger is
    gone, or if it says how many records had been read."""
    skipped, first = None, None
    for _, ledger in ledgers_of(commits, pipeline):
        first = ledger.sequence
        for entry in ledger.entries:
            if entry.path == path and entry.broken != SKIPPED:
                return entry
            skipped = skipped or (entry if entry.path == path else None)
    return skipped if first == 1 or (skipped is not None and skipped.to_record) else None
