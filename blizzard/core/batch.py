"""Makes the next position from the reports of a batch. Reports that do not add up are never committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from blizzard.core.codec import encode_position, fence_app_id
from blizzard.core.framing import LINES, framing_of_pipeline, is_framing
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import Ledger, LedgerEntry, encode_ledger, entries_of
from blizzard.core.look import Look
from blizzard.core.position import (
    GIVEN_UP,
    Begun,
    CleanedThrough,
    ForQuarantine,
    Marks,
    PlannedOn,
    Position,
    RecordsRead,
    advance_mark,
    apply_reports,
    entry_bytes,
    prune_finished,
)
from blizzard.core.quarantine import lead_quarantine
from blizzard.core.recover import ADOPTED, Fresh, Resume
from blizzard.core.rollback import RollbackPlan
from blizzard.core.types import BatchPlan, BatchResult, SourceIdentity

# Reasons why files are held back are for people. They must not make a payload too large.
_HELD_BYTES = 32 * 1024
_UNREAD_BYTES = 64 * 1024
_REASON_BYTES = 80


class InconsistentReport(Exception):
    """A report that contradicts its plan or itself. This is a defect: the run stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Who writes: what every position of this run carries."""

    pipeline: str
    run_id: str
    source: SourceIdentity
    table_id: str
    schema_fingerprint: str
    framing: str | None = None  # as it was configured; None: it was not


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPosition:
    """A position with everything its commit needs."""

    position: Position
    app_id: str
    fence_app_id: str
    ledger: str


def position_before(recovery: Resume | Fresh, identity: RunIdentity, *, version: int, timestamp_ms: int) -> Position:
    """The position a run starts from, on the version it looked at. Sequence 0: nothing is committed yet."""
    fresh = Position(
        pipeline=identity.pipeline,
        sequence=0,
        run_id=identity.run_id,
        batch_id="",
        taken_at_ms=timestamp_ms,
        source=identity.source,
        marks=replace(recovery.marks, marks_per=identity.source.marks_per),
        on=PlannedOn(table_id=identity.table_id, delta_version=version, schema_fingerprint=identity.schema_fingerprint),
    )
    match recovery:
        case Fresh(start_from=start_from, reads_again=reads_again, since_ms=since_ms):
            # The Rust program read lines, and a pipeline that goes on from there does too.
            framing = framing_of_pipeline(identity.framing, LINES if start_from == ADOPTED else None)
            begun = Begun(start_from=start_from, reads_again=reads_again, since_ms=since_ms)
            return replace(fresh, begun=begun, framing=framing)
        case Resume(position=before):
            return replace(
                fresh,
                sequence=before.sequence,
                on=replace(
                    before.on,
                    table_id=fresh.on.table_id,
                    delta_version=fresh.on.delta_version,
                    schema_fingerprint=fresh.on.schema_fingerprint,
                ),
                chosen_before=before.chosen_before,
                begun=before.begun,
                seen=before.seen,
                quarantine=ForQuarantine(head=before.quarantine.head),
                cleaned=before.cleaned,
                framing=framing_of_pipeline(identity.framing, before.framing),
                paused=before.paused,
            )


def next_position(
    previous: Position,
    plan: BatchPlan,
    result: BatchResult,
    *,
    batch_id: str,
    now_ms: int,
    held: Mapping[str, str] | None = None,
    look: Look | None = None,
) -> Position:
    """The position after the batch. The next batch may be planned on it at once, but it counts only when committed.
    `held` are files that cannot be read now, with the reasons. `look` is the listing that the plan was made from."""
    check_result(plan, result)
    taken = apply_reports(previous.marks, result.slices)
    taken = _name_unread(taken, result.unread)
    marks = prune_finished(advance_mark(taken, plan.frontier))
    young, settled = previous.seen.young_names, previous.seen.settled_names
    if look is not None:
        young, settled = look.digests(previous, marks)
    after = replace(
        previous,
        sequence=previous.sequence + 1,
        batch_id=batch_id,
        taken_at_ms=max(now_ms, previous.taken_at_ms),  # never before the previous commit
        marks=marks,
        on=_with_witness(previous.on, result),
        quarantine=ForQuarantine(
            pending=tuple(f.path for f in result.quarantine),
            dropped=tuple(batch.name for batch in result.dropped),
            head=previous.quarantine.head,
        ),
        seen=replace(
            previous.seen,
            held_back=_held_back(held or {}, marks),
            list_from=previous.seen.list_from if look is None else look.list_from(marks),
            young_names=young,
            settled_names=settled,
        ),
    )
    return lead_quarantine(after)


def _with_witness(on: PlannedOn, result: BatchResult) -> PlannedOn:
    return replace(on, add_path=result.files[0].path, removed_path=None) if result.files else on


def _name_unread(marks: Marks, unread: Iterable[str]) -> Marks:
    """Name the files that could not be read, so that a person sees them, as far as there is room. Files without room,
    and young files, are named only if the mark passes them (see `advance_mark`)."""
    files, room = dict(marks.files), _UNREAD_BYTES - sum(map(entry_bytes, marks.files))
    for path in unread:
        room -= 0 if path in files else entry_bytes(path)
        if room < 0:
            break
        files.setdefault(path, RecordsRead(records=0))
    return replace(marks, files=files)


def _held_back(held: Mapping[str, str], marks: Marks) -> dict[str, str]:
    """Why named files are held back. Reasons to put a file into quarantine unread are kept even without room."""
    kept, room = {}, _HELD_BYTES
    named = [(path, held[path]) for path in marks.in_progress if path in held]
    for path, why in sorted(named, key=lambda item: (item[1] not in GIVEN_UP, item[0])):
        room -= entry_bytes(path) + _REASON_BYTES
        if room > 0 or why in GIVEN_UP:
            kept[path] = _cut(why)
    return kept


def _cut(why: str) -> str:
    """A reason that was cut says so."""
    whole = why.encode()
    return why if len(whole) <= _REASON_BYTES else whole[: _REASON_BYTES - 3].decode(errors="ignore") + "…"


def renewed_position(previous: Position, *, batch_id: str, now_ms: int) -> Position:
    """The same position under the next sequence: nothing was read of the source."""
    return replace(
        previous,
        sequence=previous.sequence + 1,
        batch_id=batch_id,
        taken_at_ms=max(now_ms, previous.taken_at_ms),
        quarantine=ForQuarantine(head=previous.quarantine.head),
    )


def rolled_back_position(current: Position, plan: RollbackPlan, *, batch_id: str, now_ms: int) -> Position:
    """The target's position under the next sequence."""
    after, target = renewed_position(current, batch_id=batch_id, now_ms=now_ms), plan.target
    taken_back = (min(plan.superseded), max(plan.superseded)) if plan.superseded else None
    after = replace(
        after,
        source=target.source,  # the marks mean nothing for other files
        chosen_before=target.chosen_before,
        marks=target.marks,
        seen=target.seen,  # where listing begins goes back too
        on=replace(
            after.on,
            add_path=target.on.add_path,
            removed_path=plan.removed_path,
            settings_fingerprint=target.on.settings_fingerprint,
            transform=target.on.transform,
        ),
        begun=replace(after.begun, start_from=target.begun.start_from, since_ms=target.begun.since_ms),
        cleaned=CleanedThrough(
            done_through=min(current.cleaned.done_through, target.sequence),
            due_through=min(current.cleaned.due_through, target.sequence),
        ),
        quarantine=replace(after.quarantine, rolled_back=taken_back),
    )
    return lead_quarantine(after)


def seal(
    position: Position,
    result: BatchResult,
    *,
    kind: CommitKind = CommitKind.BATCH,
    rolled_back_to: int | None = None,
    superseded: tuple[int, ...] = (),
    late: Collection[str] = (),
    edited: tuple[LedgerEntry, ...] = (),
    began_ms: int | None = None,
) -> SealedPosition:
    """Everything the commit of this position carries beside its data files. `late` are files of the result that the
    mark had passed before. `edited` is what a person said about files. `began_ms`: when the result was planned."""
    ledger = Ledger(
        pipeline=position.pipeline,
        sequence=position.sequence,
        run_id=position.run_id,
        batch_id=position.batch_id,
        base_version=position.on.delta_version,
        source=position.source,
        records=sum(f.rows for f in result.files),
        entries=entries_of(result.slices, late) + edited,
        quarantine=position.quarantine.pending,
        quarantined=sum(f.rows for f in result.quarantine) if result.quarantine else None,
        dropped={batch.name: batch.rows for batch in result.dropped},
        kind=kind,
        rolled_back_to=rolled_back_to,
        superseded=superseded,
        paused=position.paused,
        began_ms=began_ms,
    )
    return SealedPosition(
        position=position,
        app_id=encode_position(position),
        fence_app_id=fence_app_id(position.pipeline),
        ledger=encode_ledger(ledger),
    )


def find_passed(before: Marks, result: BatchResult) -> frozenset[str]:
    """Files of the result that the mark had passed before anything was taken of them: late, or held back."""
    named = before.in_progress
    return frozenset(
        s.path for s in result.slices if s.path in named and named[s.path].records == 0 and before.is_passed(s.path)
    )


def check_result(plan: BatchPlan, result: BatchResult) -> None:
    planned = {s.path: s for s in plan.slices}
    seen: set[str] = set()
    for report in result.slices:
        piece = planned.get(report.path)
        if piece is None or report.path in seen:
            raise InconsistentReport(f"{report.path} was reported but not planned, or reported twice")
        seen.add(report.path)
        if (report.from_record, report.size_bytes, report.etag) != (
            piece.from_record,
            piece.size_bytes,
            piece.etag,
        ):
            raise InconsistentReport(f"{report.path} was read from another place than planned")
        is_same = (report.framing, report.encoding) == (piece.framing, piece.encoding)
        if not is_framing(report.framing) or (piece.from_record and not is_same):
            raise InconsistentReport(f"{report.path} was read in another way than its first records were read")
        if report.to_record - report.from_record != report.rows + report.bad + report.blank + report.filtered:
            raise InconsistentReport(f"{report.path}: lines read and records counted differ")
        if report.unrouted > report.filtered:
            raise InconsistentReport(f"{report.path}: more records are for no target than the table leaves out")
    if sum(f.rows for f in result.files) != result.rows:
        raise InconsistentReport("the Parquet files do not hold as many rows as were read")
    for_quarantine = result.bad + result.unrouted + sum(r.broken is not None for r in result.slices)
    if sum(f.rows for f in result.quarantine) > for_quarantine:
        raise InconsistentReport("there are more rows for the quarantine than bad records and broken files")
    if not any(r.finished or r.to_record > r.from_record for r in result.slices):
        raise InconsistentReport("the batch read nothing, so the next one would be the same")
