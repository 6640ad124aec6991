"""Plans a rollback to an older position: which files to remove and which slices are read again, or why it is refused.

Everything is judged on one version of the table, and must be committed on that version and no other. Otherwise a file
that somebody rewrote meanwhile would keep its rows while the position forgets them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.core.judge import Held, Judged, Own, judge_position
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.ledger import SKIPPED, LedgerEntry
from blizzard.core.log import History, positions_in
from blizzard.core.overflow import names_of
from blizzard.core.position import Marks, Position, Seen
from blizzard.core.recover import StartFrom
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, find_file


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Commit the position of `target` and remove `files`, on the version that all of this was read from."""

    target: Position  # as it was committed; the rollback gets the next sequence
    # All sequences after the target, also those that were taken back before. Empty: the target is the newest sequence,
    # and the rollback only removes rows that were taken back before and are in the table again.
    superseded: tuple[int, ...]
    files: tuple[Mapping[str, Any], ...]  # the Adds to remove
    entries: tuple[LedgerEntry, ...]  # what will be read again
    records: int
    first_version: int  # the oldest commit that is taken back
    removed_path: str | None = None  # a file that is not part of the table after this, and was before
    # Bad records of commits that stay, which the commits taken back had dropped from quarantine. They do not come back.
    dropped: int = 0

    @property
    def source_files(self) -> tuple[str, ...]:
        return tuple(sorted({entry.path for entry in self.entries}))


def plan_rollback(
    history: History, judged: Judged, *, current: Position, to: int, proven_out: Collection[int] = ()
) -> RollbackPlan | Refuse:
    """`proven_out` are sequences of which a search of the table found no row."""
    if not 0 <= to <= current.sequence or (to == current.sequence and judged.fits(to, judged.now)):
        return _no_target(to, f"the newest sequence is {current.sequence}")
    later = {s: own for s, own in judged.own.items() if s > to}
    missing = set(range(to + 1, current.sequence + 1)) - set(later)
    if missing:
        return _no_target(to, f"the commit of sequence {min(missing)} is no longer in the log")
    unread = next((own for own in judged.own.values() if own.sequence > to and own.ledger is None), None)
    if unread is not None:
        return Refuse(
            kind=Kind.ROLLBACK_LEDGER,
            message=(
                f"sequence {unread.sequence} (version {unread.commit.version}) has no ledger to go back by. Nothing was"
                f" changed. Restore _delta_log/{unread.commit.version:020d}.json from a backup."
            ),
        )
    back = judged.superseded_by(to)
    if back is not None:
        return _no_target(to, f"version {back.commit.version} has taken it back, and its rows are gone")
    target = _target(history, judged, current, to)
    if isinstance(target, Refuse):
        return target
    taken_back = [later[s] for s in sorted(later) if judged.superseded_by(s) is None]
    leaving = _find_leaving(judged, current, to, set(proven_out))
    if isinstance(leaving, Refuse):
        return leaving
    refusal = find_replay(taken_back) or _find_changed(judged, leaving, to) or _find_cleaned(taken_back, current)
    if refusal is not None:
        return refusal
    return RollbackPlan(
        target=target,
        superseded=tuple(range(to + 1, current.sequence + 1)),
        files=tuple(add for own in leaving for add in own.actions.adds.values()),
        entries=entries_of_all(taken_back),
        records=sum(own.ledger.records for own in leaving if own.ledger is not None),
        first_version=min((own.commit.version for own in later.values()), default=judged.newest + 1),
        removed_path=next((path for own in (*leaving, *taken_back) for path in own.actions.adds), None),
        dropped=_count_dropped(taken_back),
    )


def _count_dropped(taken_back: Sequence[Own]) -> int:
    """The records of commits that are taken back too are read again."""
    ledgers = [own.ledger for own in taken_back if own.ledger is not None]
    read_again = {name for ledger in ledgers for name in names_of(ledger.batch_id, ledger.sequence)}
    return sum(rows for ledger in ledgers for name, rows in ledger.dropped.items() if name not in read_again)


def entries_of_all(commits: Sequence[Own]) -> tuple[LedgerEntry, ...]:
    return tuple(entry for own in commits if own.ledger is not None for entry in own.ledger.entries)


def find_replay(taken_back: Sequence[Own]) -> Refuse | None:
    replays = (own for own in taken_back if own.ledger is not None and own.ledger.kind == CommitKind.REPLAY)
    replayed = next(replays, None)
    if replayed is None:
        return None
    return Refuse(
        kind=Kind.ROLLBACK_REPLAY,
        message=(
            f"sequence {replayed.sequence} is a replay of records from quarantine: they would be gone from the table"
            f" and from quarantine. Nothing was changed. Roll back to sequence {replayed.sequence} or a later one; if a"
            f" RESTORE has taken its rows away, RESTORE the table to version {replayed.commit.version} first."
        ),
    )


def _find_leaving(judged: Judged, current: Position, to: int, proven_out: set[int]) -> list[Own] | Refuse:
    """The commits whose rows are in the table now and must not be there after the rollback."""
    now, wanted = judged.now, judged.rows_after(to)
    held = judged.rows_after(now.sequence) if isinstance(now, Held) else None
    if held is None or wanted is None:
        refusal = judge_position(judged, current.sequence)
        return refusal or _no_target(to, "the log no longer says what the table holds")
    if wanted - held:
        version = judged.fitting_version(to)
        return Refuse(
            kind=Kind.ROLLBACK_FILES,
            message=(
                f"the table does not hold the rows of sequence {to} now: it holds what it held after sequence"
                f" {now.sequence if isinstance(now, Held) else '?'}. Nothing was changed. RESTORE the table to version"
                f" {version}, then roll back; or roll back to a sequence that it holds."
            ),
        )
    return [judged.own[s] for s in sorted(held - wanted) if s in judged.own and s not in proven_out]


def _target(history: History, judged: Judged, current: Position, to: int) -> Position | Refuse:
    if to == 0:
        if history.oldest != 0:
            return _no_target(to, "the beginning of the log is gone")
        start = StartFrom.parse(current.begun.start_from or "beginning")
        if start is None:
            return _no_target(
                to, f"the pipeline began with {current.begun.start_from}, which is not a position of its own"
            )
        empty = Marks(last_committed_file=start.after, marks_per=current.source.marks_per)
        return replace(
            current,
            sequence=0,
            marks=empty,
            on=replace(current.on, add_path=None),
            seen=Seen(late_from_ms=current.seen.late_from_ms),
        )
    commit = judged.own.get(to)
    if commit is None:
        return _no_target(to, "its commit is no longer in the log")
    for position in positions_in(commit.commit.txns):
        if position.pipeline == current.pipeline and position.sequence == to:
            return position
    return _no_target(to, f"its payload, in version {commit.commit.version}, cannot be read")


def _find_changed(judged: Judged, leaving: Sequence[Own], to: int) -> Refuse | None:
    """Refuses if a file to remove is no longer in the table as it was added: its rows are in another file then."""
    for own in leaving:
        gone = sorted(path for path, add in own.actions.adds.items() if not judged.files.holds(add))
        if gone:
            version = judged.fitting_version(to)
            return Refuse(
                kind=Kind.ROLLBACK_FILES,
                message=(
                    f"{gone[0]}, which version {own.commit.version} (sequence {own.sequence}) added, was changed or"
                    f" replaced since (OPTIMIZE, UPDATE, DELETE, MERGE): its rows can no longer be identified."
                    f" Nothing was changed. RESTORE the table to version {version}, which takes back what anybody wrote"
                    f" since then, and roll back; or, in a table with the provenance column sequence, DELETE the rows"
                    f" of the sequences after {to}, and roll back."
                ),
            )
    return None


def _find_cleaned(taken_back: Sequence[Own], current: Position) -> Refuse | None:
    """Refuses if source files of these are, or may soon be, archived or deleted. Some may still be there."""
    cleaned = [
        own for own in taken_back if own.sequence <= current.cleaned.due_through and own.ledger and own.ledger.entries
    ]
    if not cleaned:
        return None
    return Refuse(
        kind=Kind.ROLLBACK_SOURCE,
        message=(
            f"the source files of sequence {cleaned[-1].sequence} have been archived or deleted after their ingest, or"
            f" are about to be (after_ingest), so that its records could not be read again. Nothing was changed. Roll"
            f" back to sequence {cleaned[-1].sequence} or a later one."
        ),
    )


def check_sources(plan: RollbackPlan, listing: Sequence[SourceFile]) -> Refuse | None:
    """Refuses if a source file that must be read again is gone or has changed."""
    for entry in plan.entries:
        if entry.broken == SKIPPED and entry.to_record == 0:
            continue  # nothing was read of it
        file = find_file(listing, entry.path)
        if file is None:
            what = "is no longer in the source"
        elif (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            what = "is no longer the file that was ingested (other size or etag)"
        else:
            continue
        return Refuse(
            kind=Kind.ROLLBACK_SOURCE,
            message=(
                f"{entry.path} {what}, so that its records could not be read again. Nothing was changed. Put the"
                f" original back, or roll back to a later sequence."
            ),
        )
    return None


def _no_target(to: int, why: str) -> Refuse:
    return Refuse(
        kind=Kind.ROLLBACK_TARGET,
        message=f"sequence {to} cannot be gone back to: {why}. See blizzard checkpoint list.",
    )
