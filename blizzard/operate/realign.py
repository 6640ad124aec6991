"""Brings a quarantine table and its table into step again, after one of them was put back from a copy.

Never deletes a record: it may be the last copy, if a history was lost or the table was copied. Records of batches that
are not part of the table's history are marked as orphans. Missing records are added from the files that commits named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from blizzard.core.batch import RunIdentity, position_before
from blizzard.core.codec import head_app_id, head_number
from blizzard.core.kinds import Kind
from blizzard.core.overflow import is_named
from blizzard.core.position import Marks, Position
from blizzard.core.quarantine import (
    Chain,
    Link,
    Misaligned,
    Settled,
    UnknownReplay,
    Unsettled,
    chain_of,
    judge_quarantine,
)
from blizzard.core.recover import Fresh
from blizzard.core.types import SourceIdentity
from blizzard.delta import log
from blizzard.errors import BlizzardError, Refused, Temporary
from blizzard.operate.rollback import position_to_leave
from blizzard.quarantine.files import check_below
from blizzard.quarantine.head import facts_of
from blizzard.quarantine.realigning_commit import QuarantineView, add_missing, commit_marks, count_batches, find_marks
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.ports import TableWithFiles
from blizzard.tasks.quarantine import read_footer

_ATTEMPTS = 5
_MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Realigned:
    """What was done."""

    was_in_step: bool = False
    orphaned: int = 0  # records marked: they are not part of the table's history
    live_again: int = 0  # records whose mark was taken away
    added: int = 0  # records that were missing
    lost: tuple[str, ...] = ()  # slices whose bad records cannot be found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    link: Link
    there: tuple[str, ...]  # its files that can still be read
    is_lost: bool  # some of its files cannot be read


def realign(
    table: TableWithFiles, quarantine: DeltaRsQuarantine, *, pipeline: str, scan_commits: int = 100
) -> Realigned:
    """Make the quarantine hold the bad records of the table's history, with its newest position as the head. All other
    records become orphans."""
    cause: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            return _realign(table, quarantine, _position(table, pipeline, scan_commits))
        except BlizzardError:
            raise
        except Exception as e:  # somebody else may have written to it: look again
            cause = e
    raise Temporary(
        f"the quarantine table at {quarantine.root} could not be realigned ({cause}). Run again.",
        kind=Kind.QUARANTINE_FAILED,
    ) from cause


def _position(table: TableWithFiles, pipeline: str, scan_commits: int) -> Position:
    """The newest, even if the table does not hold what it says. That is repaired later, and needs a quarantine that is
    in step."""
    table.refresh()
    position = position_to_leave(table, pipeline=pipeline, source=None, scan_commits=scan_commits)
    if position is not None:
        return position
    nobody = SourceIdentity(root="", pattern="")
    identity = RunIdentity(pipeline=pipeline, run_id="", source=nobody, table_id=table.table_id, schema_fingerprint="")
    fresh = Fresh(marks=Marks(), start_from=None)
    return position_before(fresh, identity, version=table.version, timestamp_ms=0)


def _realign(table: TableWithFiles, quarantine: DeltaRsQuarantine, position: Position) -> Realigned:
    handle = quarantine.open()
    match judge_quarantine(position, facts_of(handle, position.pipeline, position.on.table_id)):
        case Settled():
            return Realigned(was_in_step=True)
        case Unsettled():
            quarantine.settle(position)
            return Realigned(was_in_step=True)
        case Misaligned():
            pass
    handle = quarantine.open_or_create()
    chain = _chain(table, position)
    view = QuarantineView(
        quarantine=quarantine, table=handle, chain=chain, pipeline=position.pipeline, table_id=position.on.table_id
    )
    missing = list(_missing(view, _settled_through(view)))
    lost = tuple(_slices(m.link for m in missing if m.is_lost))
    if lost and not quarantine.accepts_loss:
        raise _lost(quarantine.root, lost, before=min(m.link.sequence for m in missing if m.is_lost) - 1)
    files = [name for m in missing for name in m.there]
    given_up = {m.link.sequence: len(m.link.files) - len(m.there) for m in missing if m.is_lost}
    marks, last = find_marks(view), quarantine.head_stamp(position, given_up)
    if marks or not files:
        commit_marks(view, marks, None if files else last)
    # The last commit sets the head. Until then runs refuse, and another realign goes on from here.
    added = add_missing(view, files, last) if files else 0
    return Realigned(orphaned=marks.orphaned, live_again=marks.live_again, added=added, lost=lost)


def _chain(table: TableWithFiles, position: Position) -> Chain:
    try:
        return chain_of(table.scan_back(), pipeline=position.pipeline, sequence=position.sequence)
    except UnknownReplay as e:
        raise Refused(
            f"{e}, so it is not known which records it took out of quarantine. Restore that commit from a backup.",
            kind=Kind.DAMAGED_CHECKPOINT,
        ) from e


def _settled_through(view: QuarantineView) -> int:
    """Up to this sequence the quarantine misses nothing of the table's history. Its log shows it: the newest commit
    whose head is part of the history; 0 if another history took records out since: by a replay, a rollback, or because
    the quarantine was full."""
    heads = {head_number(link.batch_id): link.sequence for link in view.chain.links}
    app_id, replay = head_app_id(view.pipeline, view.table_id), f"blizzard-replay:{view.pipeline}"
    for commit in log.scan_back(view.quarantine.store, int(view.table.version())):
        txns = {txn.app_id: txn.version for txn in commit.txns}
        if txns.get(app_id) in heads:
            return heads[txns[app_id]]
        if replay in txns:
            return 0
    return 0


def _missing(view: QuarantineView, settled_through: int) -> Iterator[_Missing]:
    found = count_batches(view)
    for link in view.chain.links:
        if link.sequence <= settled_through or not link.files:
            continue
        if is_named(link.batch_id, link.sequence, view.chain.let_go):
            continue  # a later commit let it go
        present = found[link.sequence, link.batch_id] + found[link.sequence, link.run_id]
        rows = {name: _row_count(view.quarantine, name) for name in link.files}
        there = tuple(name for name, count in rows.items() if count is not None)
        is_whole = len(there) == len(link.files)
        named = sum(e.bad + (e.broken is not None) for e in link.slices)
        expected = sum(count or 0 for count in rows.values()) if is_whole else max(1, named)
        if present < expected:
            yield _Missing(link=link, there=there, is_lost=not is_whole)


def _row_count(quarantine: DeltaRsQuarantine, name: str) -> int | None:
    check_below(quarantine.store, name)
    try:
        return read_footer(quarantine.store, name).rows
    except FileNotFoundError:
        return None


def _slices(links: Iterable[Link]) -> Iterator[str]:
    for link in links:
        if not link.slices:
            yield f"records that failed again in the replay of sequence {link.sequence}"
        for entry in link.slices:
            yield f"{entry.path} records {entry.from_record:,} to {entry.to_record:,} (sequence {link.sequence})"


def _lost(root: str, lost: tuple[str, ...], *, before: int) -> Refused:
    more = f"; and {len(lost) - _MAX_NAMED:,} more" if len(lost) > _MAX_NAMED else ""
    return Refused(
        f"bad records of these slices are neither in the quarantine table at {root} nor in a file beside it, unless"
        f" they were purged or replayed: {'; '.join(lost[:_MAX_NAMED])}{more}. Nothing was changed. If they are in"
        f" another quarantine table, set quarantine.path back to it; if you have a backup of the Parquet files, put"
        f" them back. To go on without these records add --accept-quarantine-loss. If their source files are still"
        f" there, they can be read again right after that, each once, before another run: blizzard checkpoint rollback"
        f" --to {before} --yes. If that is not possible, the command says so.",
        kind=Kind.QUARANTINE_LOST,
    )
