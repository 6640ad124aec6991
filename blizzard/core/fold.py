"""Rebuilds a position from an older one and the ledgers of the commits since, if the newest payload cannot be read.

A ledger says what its commit took from which file. Applied in order and without a gap, they give a position that says
the same. If anything is missing or contradicts, there is no result, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from blizzard.core.kinds import STANDING, CommitKind
from blizzard.core.ledger import Ledger, LedgerEntry, decode_ledger
from blizzard.core.log import CommitFacts, fence_version
from blizzard.core.position import ForQuarantine, Marks, Position, apply_reports, prune_finished
from blizzard.core.quarantine import lead_quarantine
from blizzard.core.types import SliceReport


class CannotFold(Exception):
    """The ledgers do not lead from one position to the other."""


def fold_ledgers(position: Position, commits: Iterable[CommitFacts]) -> Position:
    """The position after these commits, given oldest first. Commits of other writers are skipped."""
    passed = {position.sequence: position}  # by sequence: a rollback goes back to one of them
    for commit in commits:
        sequence = fence_version(commit, position.pipeline)
        if sequence is not None:
            position = _after(position, _ledger_of(commit, position, sequence), passed)
            passed[sequence] = position
    return position


def _ledger_of(commit: CommitFacts, position: Position, sequence: int) -> Ledger:
    ledger = decode_ledger(commit.user_metadata)
    if sequence != position.sequence + 1:
        raise CannotFold(f"version {commit.version} has sequence {sequence} where {position.sequence + 1} should be")
    if ledger is None:
        raise CannotFold(f"version {commit.version} has no ledger")
    if (ledger.pipeline, ledger.sequence, ledger.source) != (position.pipeline, sequence, position.source):
        raise CannotFold(f"the ledger of version {commit.version} is not that of sequence {sequence}")
    if ledger.kind not in (CommitKind.BATCH, CommitKind.ROLLBACK, *STANDING):
        raise CannotFold(f"version {commit.version} is a commit of kind {ledger.kind}, which ledgers do not describe")
    return ledger


def _after(position: Position, ledger: Ledger, passed: Mapping[int, Position]) -> Position:
    rolled_back = None
    if ledger.kind == CommitKind.ROLLBACK:
        target = passed.get(ledger.rolled_back_to if ledger.rolled_back_to is not None else -1)
        if target is None or (not ledger.superseded and target is not position):
            raise CannotFold(f"sequence {ledger.sequence} goes back to sequence {ledger.rolled_back_to}")
        # The quarantine's head does not go back: the rollback itself takes records out, and so becomes the next head.
        kept = replace(target.quarantine, head=position.quarantine.head)
        position = replace(target, sequence=position.sequence, quarantine=kept, framing=position.framing)
        rolled_back = (min(ledger.superseded), max(ledger.superseded)) if ledger.superseded else None
    for entry in ledger.entries:
        _check_entry(entry, position.marks, ledger.sequence)
    taken = apply_reports(position.marks, map(_report, ledger.entries))
    after = replace(
        position,
        sequence=ledger.sequence,
        run_id=ledger.run_id,
        batch_id=ledger.batch_id,
        on=replace(position.on, delta_version=ledger.base_version),
        # The mark stays: only the lost payload said where it moved to. Finished files above it are named instead.
        marks=prune_finished(taken),
        quarantine=ForQuarantine(
            pending=ledger.quarantine,
            rolled_back=rolled_back,
            dropped=tuple(ledger.dropped),
            head=position.quarantine.head,
        ),
        paused=ledger.paused,
    )
    return lead_quarantine(after)


def _check_entry(entry: LedgerEntry, marks: Marks, sequence: int) -> None:
    if entry.late and entry.from_record == 0 and not marks.records_read(entry.path):
        return  # the mark had passed it, and nobody had read it
    if marks.is_finished(entry.path) or marks.records_read(entry.path) != entry.from_record:
        raise CannotFold(f"sequence {sequence} took {entry.path} from record {entry.from_record}, where none was left")
    begun = marks.in_progress_of(entry.path)
    if begun is not None and (begun.framing, begun.encoding) != (entry.framing, entry.encoding):
        raise CannotFold(f"sequence {sequence} read {entry.path} in another way than its first records were read")


def _report(entry: LedgerEntry) -> SliceReport:
    return SliceReport(
        path=entry.path,
        size_bytes=entry.size_bytes,
        etag=entry.etag,
        from_record=entry.from_record,
        to_record=entry.to_record,
        finished=entry.finished,
        rows=0,  # of no interest here
        bad=entry.bad,
        broken=entry.broken,
        framing=entry.framing,
        encoding=entry.encoding,
    )
