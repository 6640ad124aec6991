"""Which source files may be archived or deleted, and why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.core.cleanable import find_ingested, is_whole
from blizzard.core.ledger import LedgerEntry
from blizzard.core.lists import first_of
from blizzard.core.log import CommitFacts
from blizzard.core.position import Marks, Position, RecordsRead
from blizzard.core.types import SourceIdentity
from tests.core.logs import facts, ledger_of, own, took
from tests.core.test_codec import example

ELSEWHERE = SourceIdentity(root="file:///elsewhere", pattern="*")
NOT_TO_THE_END = "it was not read to its end"
UNCOUNTED = "it has bad records, and its ledger does not say whether the quarantine has them whole"


def position(done: int = 0, due: int = 9, mark: str = "z", **files: Any) -> Position:
    marks = Marks(last_committed_file=mark, files={name: RecordsRead(records=n) for name, n in files.items()})
    return example(sequence=9, marks=marks, done_through=done, due_through=due)


def log(*ledgers: tuple[LedgerEntry, ...] | CommitFacts) -> list[CommitFacts]:
    """Sequence 1 first here; newest first, as they are read, in what comes back."""
    commits = [c if isinstance(c, CommitFacts) else own(i, ledger_of(i, *c)) for i, c in enumerate(ledgers, 1)]
    return list(reversed(commits))


def replay(version: int, *, puts_back: bool = True) -> CommitFacts:
    return own(version, ledger_of(version, kind="replay", quarantine=("q.parquet",) if puts_back else ()))


def bad(version: int, *entries: LedgerEntry) -> CommitFacts:
    return own(version, ledger_of(version, *entries, quarantine=("q.parquet",)))


def kept_first(lines: int) -> str:
    return f"no ledger that is left says what became of its {first_of(lines, 'line')}"


def kept_cut(records: int) -> str:
    return f"{records:,} of its bad records are too long for the quarantine, or it was full"


Found = list[tuple[str, str | None]]

# the position; commits, oldest first; which files are done with, oldest first, and why each stays, if it does
CASES: dict[str, tuple[Position, list[CommitFacts], Found]] = {
    "nothing was ingested": (position(), [], []),
    "whole files": (position(), log((took("a"), took("b")), (took("c"),)), [("a", None), ("b", None), ("c", None)]),
    "up to what is due": (position(due=1), log((took("a"),), (took("b"),)), [("a", None)]),
    "after what is done": (position(done=1), log((took("a"),), (took("b"),)), [("b", None)]),
    "nothing is due": (position(due=0), log((took("a"),)), []),
    "an empty file": (position(), log((took("a", 0, 0),)), [("a", None)]),
    "a file that is not finished": (position(a=3), log((took("a", 0, 3, finished=False),)), []),
    "a file that is to be read again": (position(a=0), log((took("a"),)), []),
    "a file that the position does not know": (position(mark="0"), log((took("a"),)), []),
    "a file in two pieces": (
        position(),
        log((took("a", 0, 3, finished=False),), (took("a", 3, 5),)),
        [("a", None)],
    ),
    "a file in two pieces, the first long done": (
        position(done=1),
        log((took("a", 0, 3, finished=False),), (took("a", 3, 5),)),
        [("a", None)],
    ),
    "two pieces in one ledger": (position(), log((took("a", 0, 3, finished=False), took("a", 3, 5))), [("a", None)]),
    "an end that had no lines": (
        position(),
        log((took("a", 0, 5, finished=False),), (took("a", 5, 5),)),
        [("a", None)],
    ),
    "the last piece is not due": (
        position(due=1),
        log((took("a", 0, 3, finished=False),), (took("a", 3, 5),)),
        [],
    ),
    "its first ledger is gone": (position(), log((took("a", 2000, 5000),)), [("a", kept_first(2000))]),
    "a ledger in the middle is gone": (
        position(),
        log((took("a", 0, 2, finished=False),), facts(2), (took("a", 3, 5),)),
        [("a", kept_first(3))],
    ),
    "its beginning was another version of it, by size": (
        position(),
        log((took("a", 0, 3, finished=False, size_bytes=9),), (took("a", 3, 5),)),
        [("a", kept_first(3))],
    ),
    "its beginning was another version of it, by etag": (
        position(),
        log((took("a", 0, 3, finished=False, etag="old"),), (took("a", 3, 5),)),
        [("a", kept_first(3))],
    ),
    "pieces that overlap": (
        position(),
        log((took("a", 0, 4, finished=False),), (took("a", 3, 5),)),
        [("a", None)],
    ),
    "an older ingest of the same name": (position(), log((took("a", 0, 9),), (took("a", 0, 5),)), [("a", None)]),
    "a piece that says nothing of what is open": (
        position(),
        log((took("a", 0, 3, finished=False),), (took("a", 4, 9),), (took("a", 3, 5),)),
        [("a", None)],
    ),
    "read once more since, which is not due": (position(due=1), log((took("a"),), (took("a"),)), []),
    "no ledger says that it was finished": (position(), log((took("a", 0, 3, finished=False),)), []),
    "another file of the first piece's ledger, long done": (
        position(done=1),
        log((took("a", 0, 3, finished=False), took("old")), (took("a", 3, 5),)),
        [("a", None)],
    ),
    "a broken file": (
        position(),
        log((took("a", 0, 3, broken="truncated"),)),
        [("a", NOT_TO_THE_END)],
    ),
    "a skipped file": (position(), log((took("a", 0, 0, broken="skipped"),)), [("a", NOT_TO_THE_END)]),
    "bad records that the quarantine has": (position(), log(bad(1, took("a", bad=2))), [("a", None)]),
    "bad records that it has not": (
        position(),
        log(bad(1, took("a", bad=2, cut=1))),
        [("a", kept_cut(1))],
    ),
    "cut records of two pieces": (
        position(),
        log(bad(1, took("a", 0, 3, finished=False, bad=2, cut=2)), bad(2, took("a", 3, 5, bad=1, cut=1))),
        [("a", kept_cut(3))],
    ),
    "bad records that nobody counted": (position(), log(bad(1, took("a", bad=2, cut=None))), [("a", UNCOUNTED)]),
    "bad records that nobody counted, in its first piece": (
        position(),
        log(bad(1, took("a", 0, 3, finished=False, bad=2, cut=None)), (took("a", 3, 5),)),
        [("a", UNCOUNTED)],
    ),
    "bad records that nobody counted, in its last piece": (
        position(),
        log((took("a", 0, 3, finished=False),), bad(2, took("a", 3, 5, bad=2, cut=None))),
        [("a", UNCOUNTED)],
    ),
    "a ledger of another source": (
        position(),
        log((took("a"),), own(2, ledger_of(2, took("b"), source=ELSEWHERE))),
        [("a", None)],
    ),
    "a ledger of another pipeline": (position(), log(own(1, ledger_of(1, took("a"), pipeline="q"))), []),
    "a batch that was taken back": (
        position(),
        log((took("a"),), (took("b"),), own(3, ledger_of(3, kind="rollback", rolled_back_to=1, superseded=(2,)))),
        [("a", None)],
    ),
}


@pytest.mark.parametrize(("known", "commits", "found"), CASES.values(), ids=CASES)
def test_what_is_done_with(known: Position, commits: list[CommitFacts], found: Found) -> None:
    assert [(file.entry.path, file.reason_to_keep) for file in find_ingested(known, commits)] == found


# commits, oldest first; in which sequences the quarantine has bad records of the file
QUARANTINED: dict[str, tuple[list[CommitFacts], list[int]]] = {
    "no bad records": (log((took("a"),)), []),
    "bad records": (log(bad(1, took("a", bad=1))), [1]),
    "bad records that the policy dropped": (log((took("a", bad=1),)), []),
    "another file's bad records": (log(bad(1, took("a"), took("b", bad=1))), []),
    "of both pieces": (
        log(bad(1, took("a", 0, 3, finished=False, bad=1)), bad(2, took("a", 3, 5, bad=1))),
        [2, 1],
    ),
    "put back by a replay": (log(bad(1, took("a", bad=1)), replay(2)), [1, 2]),
    "put back by two": (log(bad(1, took("a", bad=1)), replay(2), replay(3)), [1, 3, 2]),
    "a replay that put nothing back": (log(bad(1, took("a", bad=1)), replay(2, puts_back=False)), [1]),
    "a replay before it": (log(replay(1), bad(2, took("a", bad=1))), [2]),
}


@pytest.mark.parametrize(("commits", "sequences"), QUARANTINED.values(), ids=QUARANTINED)
def test_where_its_bad_records_are(commits: list[CommitFacts], sequences: list[int]) -> None:
    (of_a,) = [file for file in find_ingested(position(), commits) if file.entry.path == "a"]
    assert of_a.quarantined_by == sequences


@pytest.mark.parametrize(
    "newest", [took("c"), took("c", 2, 3, broken="truncated")], ids=["a whole file", "a broken file"]
)
def test_no_more_of_the_log_is_read_than_is_needed(newest: LedgerEntry) -> None:
    commits = iter(log((took("a"),), (took("b"),), (newest,), (took("d"),)))
    assert [f.entry.path for f in find_ingested(position(done=2), commits)] == ["c", "d"]
    assert [c.version for c in commits] == [1]  # sequence 2 was looked at, and showed that it is far enough


@pytest.mark.parametrize(
    ("entry", "whole"),
    [(took("a"), True), (took("a", finished=False), False), (took("a", broken="truncated"), False)],
    ids=["whole", "in progress", "broken"],
)
def test_whole(entry: LedgerEntry, whole: bool) -> None:
    assert is_whole(entry) == whole
