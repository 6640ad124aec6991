"""Finds what a target that was away has missed: files that another target has ingested and that are gone by now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from blizzard.core.history import ledgers_of
from blizzard.core.ledger import SKIPPED, LedgerEntry, entry_of_skipped
from blizzard.core.log import CommitFacts, positions_in
from blizzard.core.look import Listed
from blizzard.core.position import Marks, Position
from blizzard.core.types import find_file

# A ledger must stay small. What is beyond this is counted, and not named.
MAX_NAMED = 2_000
# How many own ledgers are asked whether a missed file was said before.
_LEDGERS_BACK = 100


def find_missed(
    position: Position, listed: Listed, own: Iterable[CommitFacts], others: Iterable[Iterable[CommitFacts]]
) -> Sequence[LedgerEntry]:
    """As entries that say that the files were left out. `own` is the log of this target, `others` are those of the
    others, each backwards. They are read back to where the other had nothing that this target does not know.

    What one of the newest own ledgers says already is not said again. A pipeline that is new here begins with what is
    there, and has missed nothing. A listing that is not full shows only what comes after the mark, and so do these
    files."""
    missed: dict[str, LedgerEntry] = {}
    if position.sequence == 0:
        return ()
    for commits in others:
        for commit, ledger in ledgers_of(commits, position.pipeline):
            if (ledger.source.root, ledger.source.pattern) != (position.source.root, position.source.pattern):
                continue
            if all(_has_all_of(position.marks, then) for then in _positions(commit, position.pipeline)):
                break
            for entry in ledger.entries:
                if entry.finished and entry.to_record and not _is_known(entry.path, position, listed):
                    missed.setdefault(entry.path, entry_of_skipped(entry.path, entry.size_bytes, entry.etag))
    if missed:
        for _, ledger in islice(ledgers_of(own, position.pipeline), _LEDGERS_BACK):
            for entry in ledger.entries:
                if entry.broken == SKIPPED:
                    missed.pop(entry.path, None)
    return [missed[path] for path in sorted(missed)]


def _positions(commit: CommitFacts, pipeline: str) -> Sequence[Position | None]:
    """None: the commit has none that can be read."""
    return [found for found in positions_in(commit.txns) if found.pipeline == pipeline] or [None]


def _has_all_of(marks: Marks, other: Position | None) -> bool:
    """Whether every file that the other position had taken up is passed or named here. Names in one ledger say less: a
    late file, or a part of the source with its own mark, comes in any order."""
    if other is None:
        return False
    names = [*other.marks.files, *other.marks.prefix_marks.values()]
    if other.marks.last_committed_file is not None:
        names.append(other.marks.last_committed_file)
    return all(marks.is_passed(name) or name in marks.files for name in names)


def _is_known(path: str, position: Position, listed: Listed) -> bool:
    marks = position.marks
    return marks.is_passed(path) or path in marks.files or find_file(listed.files, path) is not None
