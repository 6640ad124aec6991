"""Compares the whole listing with all ledgers that are left: what became of each file, and what a person should check.

Every listed file is in one of: waiting, ingested, broken, skipped, unfinished, rewritten, never_ingested, unclear,
taken_over, in_rows. Only files that `after:NAME` left out are in none. Every file that a ledger names and that is not
listed is in one of: gone, skipped. Files that are not part of the source, because they match no pattern or a filter
leaves them out, are not listed, but counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.balance import Balance, InQuarantine, balance_of, dropped_rows, put_in
from blizzard.core.history import every_ledger
from blizzard.core.kinds import CommitKind
from blizzard.core.late import Past
from blizzard.core.ledger import SKIPPED, Ledger, LedgerEntry
from blizzard.core.log import CommitFacts, positions_in
from blizzard.core.look import Listed, settled_in
from blizzard.core.overflow import is_named
from blizzard.core.position import FOR_A_PERSON, Position
from blizzard.core.types import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Names of files, sorted. `problems` are those that a person should check."""

    listed: int
    ingested: int  # whole, and unchanged since
    waiting: tuple[str, ...] = ()  # after the mark, in progress or held back: the next run reads them
    partial: tuple[str, ...] = ()  # waiting, and some of their lines are committed
    held: tuple[str, ...] = ()  # waiting, held back by the last run or too young for the next
    unreadable: tuple[str, ...] = ()  # held back for a reason that does not go away by waiting
    broken: tuple[str, ...] = ()  # given up: all of it, or the rest, could not or should not be read
    unfinished: tuple[str, ...] = ()  # the position takes them for done, the newest ledger does not
    skipped: tuple[str, ...] = ()  # they, or their rest, were left out: by a person, or gone before they could be read
    never_ingested: tuple[str, ...] = ()  # the mark has passed them, and no ledger knows them
    unclear: tuple[str, ...] = ()  # the mark has passed them, and the ledgers that would know are gone
    taken_over: tuple[str, ...] = ()  # an imported or adopted position says that they are done
    in_rows: tuple[str, ...] = ()  # no ledger is left that knows them; the table has rows of them
    twice: tuple[str, ...] = ()  # some lines are in more than one commit of this pipeline
    read_by_others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by other pipelines of this table
    is_read_again: bool = False  # on purpose: --reads-again
    rewritten: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # ingested, and no longer in the source
    # From the rows, if the table says which file a row is from.
    rows_missing: tuple[str, ...] = ()  # ingested with rows, and the table has none of them
    rows_unknown: tuple[str, ...] = ()  # the table has rows of them, and no ledger of any pipeline knows them
    bad_records: int = 0  # by the ledgers that are left
    filtered_records: int = 0  # records that the table does not take
    unrouted_records: int = 0  # how many of them no target of the pipeline takes
    quarantined: int | None = None  # rows of the quarantine table, broken files included
    balance: Balance | None = None  # records = rows + quarantined + dropped
    # Sequences whose bad records are not all there, and sequences with bad records but without a commit, or whose
    # records had to leave.
    quarantine_missing: tuple[int, ...] = ()
    quarantine_unknown: tuple[int, ...] = ()
    oldest_version: int | None = None  # of the ledgers that are left
    # What is in the folder and is not part of the source: it matches no pattern, or a filter leaves it out.
    unmatched_by_suffix: Mapping[str, int] = field(default_factory=dict)
    filtered: int = 0

    @property
    def problems(self) -> dict[str, Sequence[str] | Sequence[int]]:
        found = {name: tuple(getattr(self, name)) for name in PROBLEMS}
        if self.is_read_again:
            found.pop("read_by_others")
        return {name: names for name, names in found.items() if names}


PROBLEMS = (
    *("unreadable", "broken", "unfinished", "never_ingested", "unclear", "twice", "read_by_others", "rewritten"),
    *("rows_missing", "rows_unknown", "quarantine_missing", "quarantine_unknown"),
)


@dataclass(slots=True)
class _Known:
    """What the ledgers say about one file. They are read newest first."""

    newest: LedgerEntry
    rows: int = 0
    is_twice: bool = False
    taken: list[tuple[int, int]] = field(default_factory=list)

    @property
    def version(self) -> tuple[int, str]:
        return self.newest.size_bytes, self.newest.etag


def audit(
    listed: Listed,
    position: Position,
    commits: Iterable[CommitFacts],
    rows_of: Mapping[str, int] | None = None,
    quarantine: InQuarantine | None = None,
) -> Audit:
    """`commits` are all that are left, newest first. `rows_of` counts the table's rows by source file."""
    seen = list(commits)
    every = [(ledger, counts) for _, ledger, counts in every_ledger(seen)]
    ours = [ledger for ledger, counts in every if counts and ledger.pipeline == position.pipeline]
    others = [ledger for ledger, counts in every if counts and ledger.pipeline != position.pipeline]
    ever = [ledger for ledger, _ in every if ledger.pipeline == position.pipeline]
    known: dict[str, _Known] = {}
    for ledger in ours:
        _take(known, ledger)
    by_name = {file.path: file for file in listed.files}
    there = {path: k for path, k in known.items() if path in by_name and k.version == _version(by_name[path])}
    is_settled, source = settled_in(position), position.marks
    passed = {path: k.newest for path, k in there.items() if is_settled(path)}
    done = {path: entry for path, entry in passed.items() if entry.finished}
    not_listed = {path: k.newest for path, k in known.items() if path not in by_name}
    unknown = {path: file for path, file in by_name.items() if path not in known and is_settled(path)}
    is_complete = bool(seen) and seen[-1].version == 0
    read_by_others = _read_by_others(known, position.source.root, others)
    foreign = {entry.path for ledger in others for entry in ledger.entries}
    held = {path: why for path, why in position.seen.held_back.items() if path in by_name} | dict(listed.held)
    return Audit(
        listed=len(by_name),
        ingested=sum(entry.broken is None for entry in done.values()),
        waiting=_sorted(p for p in by_name if not source.is_finished(p)),
        partial=_sorted(p for p, progress in source.in_progress.items() if progress.records and p in by_name),
        held=_sorted(p for p in held if not source.is_finished(p)),
        unreadable=_sorted(p for p, why in held.items() if why.startswith(FOR_A_PERSON) and not source.is_finished(p)),
        broken=_sorted(p for p, entry in done.items() if entry.broken not in (None, SKIPPED)),
        unfinished=_sorted(passed.keys() - done.keys()),
        skipped=_sorted(p for p, entry in (done | not_listed).items() if entry.broken == SKIPPED),
        **_judge_unknown(unknown, position, seen, rows_of or {}),
        twice=_sorted(p for p, k in known.items() if k.is_twice),
        read_by_others=read_by_others,
        is_read_again=position.begun.reads_again or _reads_again(read_by_others, seen),
        rewritten=_sorted(p for p in known if p in by_name and p not in there and not _is_to_be_read(p, position)),
        gone=_sorted(p for p, entry in not_listed.items() if entry.broken != SKIPPED),
        rows_missing=_sorted(p for p, k in known.items() if rows_of is not None and k.rows and p not in rows_of),
        rows_unknown=_sorted(p for p in rows_of or () if p not in known and p not in foreign) if is_complete else (),
        bad_records=sum(entry.bad for ledger in ours for entry in ledger.entries),
        filtered_records=sum(entry.filtered for ledger in ours for entry in ledger.entries),
        unrouted_records=sum(entry.unrouted for ledger in ours for entry in ledger.entries),
        **({} if quarantine is None else _judge_quarantine(quarantine, position, ours, ever)),
        oldest_version=seen[-1].version if seen else None,
        unmatched_by_suffix=listed.left_out.by_suffix,
        filtered=listed.left_out.filtered,
    )


def _take(known: dict[str, _Known], ledger: Ledger) -> None:
    lines = sum(_good(entry) for entry in ledger.entries)
    blank = max(0, lines - ledger.records)  # the ledger does not say in which file
    for entry in ledger.entries:
        file = known.setdefault(entry.path, _Known(newest=entry))
        if any(entry.from_record < to and start < entry.to_record for start, to in file.taken):
            file.is_twice = True
        file.taken.append((entry.from_record, entry.to_record))
        if entry.broken is None:
            file.rows += max(0, _good(entry) - blank)


def _good(entry: LedgerEntry) -> int:
    """Rows and blank lines."""
    return entry.to_record - entry.from_record - entry.bad - entry.filtered


def _judge_unknown(
    unknown: Mapping[str, SourceFile],
    position: Position,
    commits: Iterable[CommitFacts],
    rows_of: Mapping[str, int],
) -> dict[str, Any]:
    """A file that no commit can have taken is late, as in a run. The others are sorted by what may have taken them."""
    past = Past(position)
    past.look_for(dict(unknown), commits)
    late = {p for p in unknown if not past.may_hold(p)}
    if past.is_complete and position.seen.late_from_ms:
        late |= {p for p, file in unknown.items() if file.seen_ms >= position.seen.late_from_ms}
    rest = unknown.keys() - late
    in_rows = {p for p in rest if p in rows_of}
    taken_over = rest - in_rows if past.is_complete else set()
    return {
        "never_ingested": _sorted(late),
        "in_rows": _sorted(in_rows),
        "taken_over": _sorted(taken_over),
        "unclear": _sorted(rest - in_rows - taken_over),
    }


def _read_by_others(known: Mapping[str, _Known], root: str, others: Iterable[Ledger]) -> dict[str, tuple[str, ...]]:
    """Files of which another pipeline of this table took some of the same lines. One source may be inside another, so
    full paths are compared."""
    here = {f"{root.rstrip('/')}/{path}": path for path in known}
    found: dict[str, set[str]] = {}
    for ledger in others:
        for entry in ledger.entries:
            path = here.get(f"{ledger.source.root.rstrip('/')}/{entry.path}")
            if path is None:
                continue
            if any(entry.from_record < to and start < entry.to_record for start, to in known[path].taken):
                found.setdefault(path, set()).add(ledger.pipeline)
    return {path: tuple(sorted(found[path])) for path in sorted(found)}


def _reads_again(read_by_others: Mapping[str, tuple[str, ...]], commits: Iterable[CommitFacts]) -> bool:
    """Whether each of the others began with --reads-again."""
    reads_again = {name: False for names in read_by_others.values() for name in names}
    for commit in commits if reads_again else ():
        for position in positions_in(commit.txns):
            if position.pipeline in reads_again:
                reads_again[position.pipeline] |= position.begun.reads_again
    return bool(reads_again) and all(reads_again.values())


def _judge_quarantine(
    quarantine: InQuarantine, position: Position, ledgers: Sequence[Ledger], ever: Sequence[Ledger]
) -> dict[str, Any]:
    """`ledgers` of this pipeline that count, newest first; `ever`: also those that were taken back."""
    missing, alive, is_replayed = [], set[int](), False
    # A commit that was taken back may never have been settled: then the records that it dropped are still there.
    let_go, dropped = (dropped_rows(some, quarantine.unsettled) for some in (ever, ledgers))
    for ledger in ledgers:
        name = ledger.batch_id, ledger.sequence
        alive |= set() if is_named(*name, dropped) else {ledger.sequence}
        expected = 0 if is_named(*name, let_go) else put_in(ledger, keeps_all=quarantine.keeps_all)
        is_explained = is_replayed or quarantine.was_purged or ledger.sequence == quarantine.unsettled
        if quarantine.rows.get(ledger.sequence, 0) < expected and not is_explained:
            missing.append(ledger.sequence)
        is_replayed |= ledger.kind == CommitKind.REPLAY  # it may have taken any earlier record
    first, last = position.quarantine.rolled_back or (1, 0)  # the next run may still have to take these out
    oldest = min((ledger.sequence for ledger in ledgers), default=None)
    unknown = [
        s for s in quarantine.rows if oldest is not None and s >= oldest and s not in alive and not first <= s <= last
    ]
    return {
        "quarantined": sum(quarantine.rows.values()),
        "balance": balance_of(ledgers, let_go, quarantine),
        "quarantine_missing": tuple(sorted(missing)),
        "quarantine_unknown": tuple(sorted(unknown)),
    }


def _is_to_be_read(path: str, position: Position) -> bool:
    """Whether the file will be read from its first line, whatever was read before."""
    progress = position.marks.in_progress.get(path)
    return progress is not None and progress.records == 0


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _version(file: SourceFile) -> tuple[int, str]:
    return file.size_bytes, file.etag
