"""The whole listing held against all ledgers that are left: what was never ingested, twice, changed, or is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.core.history import ledgers_of
from blizzard.core.ledger import Ledger
from blizzard.core.log import CommitFacts, states_in
from blizzard.core.look import settled_in
from blizzard.core.state import CheckpointState, SourceState
from blizzard.core.types import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Names of files, sorted. Only the first two of these are as they should be."""

    listed: int
    ingested: int  # finished, and as they were then
    waiting: tuple[str, ...] = ()  # after the mark, in progress or held back: the next run takes them up
    never_ingested: tuple[str, ...] = ()  # the mark has passed them, and no ledger knows them
    unclear: tuple[str, ...] = ()  # the mark has passed them, and the ledgers that would know are gone
    twice: tuple[str, ...] = ()  # some lines are in more than one commit
    rewritten: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # ingested, and no longer in the source
    # From the table itself, where it says which file a row is from.
    rows_missing: tuple[str, ...] = ()  # ingested with rows, and the table has none of them
    rows_unknown: tuple[str, ...] = ()  # the table has rows of them, and no ledger knows them
    oldest_version: int | None = None  # of the ledgers that are left

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        names = ("never_ingested", "unclear", "twice", "rewritten", "rows_missing", "rows_unknown")
        return {name: found for name in names if (found := getattr(self, name))}


@dataclass(slots=True)
class _Known:
    """What the ledgers say of one file, the newest first."""

    version: tuple[int, str]
    is_finished: bool
    rows: int = 0
    is_twice: bool = False
    taken: list[tuple[int, int]] = field(default_factory=list)


def audit(
    listing: Sequence[SourceFile],
    state: CheckpointState,
    commits: Iterable[CommitFacts],
    rows_of: Mapping[str, int] | None = None,
) -> Audit:
    """`commits` are all that are left, newest first; `rows_of` counts the table's rows by the file they are from."""
    known: dict[str, _Known] = {}
    seen = list(commits)
    oldest_state: SourceState | None = None
    for commit in seen:
        for found in states_in(commit.txns):
            if found.pipeline == state.pipeline:
                oldest_state = found.source_state
    for _, ledger in ledgers_of(seen, state.pipeline):
        _take(known, ledger)
    is_complete = bool(seen) and seen[-1].version == 0
    is_settled = settled_in(state)
    by_name = {file.path: file for file in listing}
    unknown = [path for path in by_name if path not in known and is_settled(path)]
    unclear = {p for p in unknown if not is_complete and (oldest_state is None or oldest_state.is_finished(p))}
    rewritten = [p for p, k in known.items() if p in by_name and k.version != _version(by_name[p])]
    done = [p for p, k in known.items() if k.is_finished and p in by_name and p not in rewritten]
    return Audit(
        listed=len(listing),
        ingested=len(done),
        waiting=tuple(sorted(p for p in by_name if not state.source_state.is_finished(p))),
        never_ingested=tuple(sorted(set(unknown) - unclear)),
        unclear=tuple(sorted(unclear)),
        twice=tuple(sorted(p for p, k in known.items() if k.is_twice)),
        rewritten=tuple(sorted(rewritten)),
        gone=tuple(sorted(p for p in known if p not in by_name)),
        rows_missing=tuple(sorted(p for p, k in known.items() if rows_of is not None and k.rows and p not in rows_of)),
        rows_unknown=tuple(sorted(p for p in rows_of or () if p not in known)) if is_complete else (),
        oldest_version=seen[-1].version if seen else None,
    )


def _take(known: dict[str, _Known], ledger: Ledger) -> None:
    for entry in ledger.entries:
        version = (entry.size_bytes, entry.etag)
        file = known.setdefault(entry.path, _Known(version=version, is_finished=entry.finished))
        if any(entry.from_record < to and start < entry.to_record for start, to in file.taken):
            file.is_twice = True
        file.taken.append((entry.from_record, entry.to_record))
        file.rows += entry.to_record - entry.from_record - entry.bad if entry.broken is None else 0


def _version(file: SourceFile) -> tuple[int, str]:
    return file.size_bytes, file.etag
