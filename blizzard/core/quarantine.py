"""Decides whether the quarantine table fits a position, and which of its records belong to the table's history.

If a batch_id is known, it decides and not the sequence number: in a restored table the same numbers come again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from blizzard.core.codec import head_number
from blizzard.core.history import Superseded
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.ledger import LedgerEntry, decode_ledger
from blizzard.core.log import CommitFacts, fence_version, positions_in
from blizzard.core.overflow import batch_name
from blizzard.core.position import Position, QuarantineHead


def changes_quarantine(position: Position) -> bool:
    """Whether the commit of this position puts records into quarantine or takes some out."""
    return _adds_or_takes(position) or position.quarantine.rolled_back is not None


def _adds_or_takes(position: Position) -> bool:
    """Whether there is a record to add or to take out. A rollback may find none."""
    named = position.quarantine
    return bool(named.pending or named.replayed or named.dropped)


def lead_quarantine(position: Position, *, exists: bool = False) -> Position:
    """The position with this commit as the quarantine's head, if it changes the quarantine. The rollback of a pipeline
    that never had a bad record changes nothing there, unless the quarantine knows the pipeline (`exists`)."""
    before = position.quarantine.head
    if not changes_quarantine(position) or (before is not None and before.batch_id == position.batch_id):
        return position
    if before is None and not exists and not _adds_or_takes(position):
        return position
    head = QuarantineHead(
        batch_id=position.batch_id,
        sequence=position.sequence,
        previous=None if before is None else before.batch_id,
        table_id=None if before is None else before.table_id,
    )
    return replace(position, quarantine=replace(position.quarantine, head=head))


def name_quarantine(position: Position, table_id: str) -> Position:
    """The position with the id of the quarantine table that its head is in."""
    head = position.quarantine.head
    return (
        position
        if head is None
        else replace(position, quarantine=replace(position.quarantine, head=replace(head, table_id=table_id)))
    )


def newest_of(imported: Position, current: Position | None, table_id: str) -> Position | None:
    """The newer of the two positions of this table: what it left pending in the quarantine must still be done. The
    imported one may be newer, if the newest payload in the log is damaged."""
    if imported.on.table_id != table_id:
        return current
    return imported if current is None or imported.sequence > current.sequence else current


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFacts:
    """What a quarantine table says about one pipeline and table. All None: there is no quarantine table."""

    table_id: str | None = None
    sequence: int | None = None  # the newest that was settled
    head: int | None = None  # head_number of the batch settled last; None: an older version settled it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The quarantine holds what the position says, or the position says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """The quarantine is one step behind: the changes of this position's commit must still be made there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misaligned:
    """The quarantine and the position do not belong together. `kind` is stable, `message` says why."""

    kind: Kind
    message: str


def judge_quarantine(position: Position, facts: QuarantineFacts) -> Settled | Unsettled | Misaligned:
    named, found, settled_through = position.quarantine.head, facts.head or 0, facts.sequence or 0
    if named is None:
        return _judge_by_number(position, facts)
    if found == head_number(named.batch_id):
        return Settled()
    is_moved = named.table_id is not None and named.table_id != facts.table_id
    is_next = named.batch_id == position.batch_id and found == head_number(named.previous)
    if is_next and not is_moved and (found or settled_through < position.sequence):
        return Unsettled()
    if facts.table_id is None or (is_moved and not found and not settled_through):
        where = "there is none here" if facts.table_id is None else f"this one is {facts.table_id}, and new to it"
        return Misaligned(
            kind=Kind.QUARANTINE_MOVED,
            message=f"the bad records up to sequence {named.sequence} are in quarantine table {named.table_id or ''};"
            f" {where}",
        )
    if settled_through >= named.sequence:
        return _ahead(settled_through, named.sequence)
    return Misaligned(
        kind=Kind.QUARANTINE_BEHIND,
        message=f"it has settled sequence {settled_through} of this pipeline, the position counts on sequence"
        f" {named.sequence}: an older copy of the quarantine table was put back, or another table settles into it too",
    )


def _judge_by_number(position: Position, facts: QuarantineFacts) -> Settled | Unsettled | Misaligned:
    """A position of an older version, or one that never had a bad record."""
    settled_through = facts.sequence or 0
    if facts.head or settled_through > position.sequence:
        return _ahead(settled_through, position.sequence)
    if not changes_quarantine(position) or settled_through == position.sequence:
        return Settled()
    is_empty_rollback = facts.sequence is None and not _adds_or_takes(position)
    return Settled() if is_empty_rollback else Unsettled()


def _ahead(settled_through: int, sequence: int) -> Misaligned:
    return Misaligned(
        kind=Kind.QUARANTINE_AHEAD,
        message=f"it has settled sequence {settled_through} of this pipeline in a batch that the position (sequence"
        f" {sequence}) does not know: an older copy of the table was put back, two copies of the table share this"
        f" quarantine, or another writer overwrote a commit of the table",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one commit that counts did to the quarantine."""

    sequence: int
    batch_id: str
    run_id: str
    files: tuple[str, ...] = ()  # of its bad records
    replayed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # which records it took out
    slices: tuple[LedgerEntry, ...] = ()  # where its bad records came from


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The commits of a pipeline that count, oldest first, as far back as the log goes: from sequence `begins_at` on."""

    links: tuple[Link, ...]
    begins_at: int
    dropped: frozenset[str] = frozenset()  # names of batches that had to leave the quarantine
    let_go: frozenset[str] = frozenset()  # the same, also by commits that were taken back: it is no fault if they left

    def liveness(self) -> Callable[[int, str | None, str], bool]:
        """A test whether a record in quarantine (sequence, batch_id, run_id) came from one of these commits and none of
        them dropped it. Records older than the log are believed. An older version wrote no batch_id; then the run_id
        decides."""
        by_sequence = {link.sequence: link for link in self.links}

        def is_live(sequence: int, batch_id: str | None, run_id: str) -> bool:
            if batch_name(batch_id, sequence) in self.dropped:
                return False
            link = by_sequence.get(sequence)
            if link is None:
                return sequence < self.begins_at
            return link.run_id == run_id if batch_id is None else link.batch_id == batch_id

        return is_live

    def settled_through(self, head: int | None) -> int:
        """The sequence of the commit that this head stands for. 0: none of these."""
        return next((link.sequence for link in self.links if head and head_number(link.batch_id) == head), 0)


class UnknownReplay(Exception):
    """A replay whose payload cannot be read: which records it took is not known."""


def chain_of(commits: Iterable[CommitFacts], *, pipeline: str, sequence: int) -> Chain:
    """From the commits of a table, newest first; `sequence` is the pipeline's newest."""
    links, superseded, begins_at, oldest = [], Superseded(), sequence + 1, None
    dropped, let_go = set[str](), set[str]()
    for commit in commits:
        oldest, ledger = commit.version, decode_ledger(commit.user_metadata)
        if ledger is None or ledger.pipeline != pipeline or ledger.sequence > sequence:
            continue
        if fence_version(commit, pipeline) != ledger.sequence:
            continue  # somebody else's commit, whatever its metadata says
        begins_at = min(begins_at, ledger.sequence)
        let_go.update(ledger.dropped)
        if superseded.meets(ledger):
            continue
        dropped.update(ledger.dropped)
        positions = {position.batch_id: position for position in positions_in(commit.txns)}
        is_replay = ledger.kind == CommitKind.REPLAY
        if is_replay and ledger.batch_id not in positions:
            raise UnknownReplay(f"version {commit.version} is a replay whose payload cannot be read")
        link = Link(
            sequence=ledger.sequence,
            batch_id=ledger.batch_id,
            run_id=ledger.run_id,
            files=ledger.quarantine,
            replayed=positions[ledger.batch_id].quarantine.replayed if is_replay else MappingProxyType({}),
            slices=tuple(e for e in ledger.entries if e.bad or e.unrouted or e.broken is not None),
        )
        links.append(link)
    return Chain(
        links=tuple(reversed(links)),
        begins_at=0 if oldest == 0 else begins_at,
        dropped=frozenset(dropped),
        let_go=frozenset(let_go),
    )
