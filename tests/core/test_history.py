"""Which ledgers of a log count: those of the pipeline, in its own commits, that no later one took back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blizzard.core.history import Superseded, ledgers_of, rolled_back_to
from blizzard.core.ledger import encode_ledger
from blizzard.core.log import CommitFacts
from tests.core.logs import facts, fence, ledger_of, own


def back(sequence: int, *superseded: int, pipeline: str = "p") -> CommitFacts:
    """In the version of the same number: a rollback that took these back."""
    to = min(superseded) - 1
    ledger = ledger_of(sequence, kind="rollback", rolled_back_to=to, superseded=superseded, pipeline=pipeline)
    return own(sequence, ledger)


def batch(sequence: int, pipeline: str = "p", version: int | None = None) -> CommitFacts:
    return own(sequence if version is None else version, ledger_of(sequence, pipeline=pipeline))


def with_text(sequence: int, text: str | None) -> CommitFacts:
    return facts(sequence, fence(sequence), user_metadata=text)


COPIED = facts(9, user_metadata=encode_ledger(ledger_of(3)))
COPIED_ROLLBACK = replace(back(4, 1, 2, 3), txns=())

# commits, newest first; what counts of pipeline p, and of all pipelines, as version and sequence
CASES: dict[str, tuple[list[CommitFacts], list[tuple[int, int]], list[tuple[int, int]]]] = {
    "nothing": ([], [], []),
    "batches": ([batch(2), batch(1)], [(2, 2), (1, 1)], [(2, 2), (1, 1)]),
    "other writers": ([facts(3), batch(2), facts(1, user_metadata="a note")], [(2, 2)], [(2, 2)]),
    "two pipelines": (
        [batch(2, "q", version=3), batch(1, version=2), batch(1, "q", version=1)],
        [(2, 1)],
        [(3, 2), (2, 1), (1, 1)],
    ),
    "a rollback leaves out what it took back": ([back(4, 2, 3), batch(3), batch(2), batch(1)], [(4, 4), (1, 1)], []),
    "a rollback that was taken back has no say": (
        [back(5, 3, 4), back(4, 3), batch(3), batch(2)],
        [(5, 5), (2, 2)],
        [],
    ),
    "a rollback that was taken back gives back what it took": (
        [back(5, 4), back(4, 2, 3), batch(3), batch(2)],
        [(5, 5), (3, 3), (2, 2)],
        [],
    ),
    "a rollback of another pipeline takes nothing of this one": (
        [back(4, 2, 3, pipeline="q"), batch(3), batch(2)],
        [(3, 3), (2, 2)],
        [(4, 4), (3, 3), (2, 2)],
    ),
    "a ledger that was copied into another writer's commit": ([COPIED, batch(3)], [(3, 3)], []),
    "a rollback's ledger that was copied takes nothing back": ([COPIED_ROLLBACK, batch(3)], [(3, 3)], []),
    "a ledger of another sequence than the fence": (
        [facts(4, fence(4), user_metadata=encode_ledger(ledger_of(3)))],
        [],
        [],
    ),
    "a ledger under another pipeline's fence": (
        [facts(4, fence(4, "q"), user_metadata=encode_ledger(ledger_of(4)))],
        [],
        [],
    ),
    "no ledger, or a damaged one": ([with_text(3, None), with_text(2, "{"), with_text(1, '{"blizzard":1}')], [], []),
}


@pytest.mark.parametrize(("commits", "of_p", "of_all"), CASES.values(), ids=CASES)
def test_what_counts(commits: list[CommitFacts], of_p: list[tuple[int, int]], of_all: list[tuple[int, int]]) -> None:
    assert [(commit.version, ledger.sequence) for commit, ledger in ledgers_of(commits, "p")] == of_p
    counted = [(commit.version, ledger.sequence) for commit, ledger in ledgers_of(commits)]
    assert counted == (of_all or of_p)  # the same, where there is no other pipeline
    assert all(ledger.pipeline == "p" for _, ledger in ledgers_of(commits, "p"))


def test_what_is_taken_back_is_kept_apart_by_pipeline() -> None:
    taken_back = Superseded()
    rollback = ledger_of(4, kind="rollback", rolled_back_to=1, superseded=(2, 3))
    assert not taken_back.meets(rollback)
    answers = {(name, n): taken_back.meets(ledger_of(n, pipeline=name)) for name in ("p", "q") for n in (1, 2, 3, 4)}
    assert [at for at, is_taken_back in answers.items() if is_taken_back] == [("p", 2), ("p", 3)]


@pytest.mark.parametrize(
    ("commit", "to"),
    [
        (back(4, 2, 3), 1),
        (back(4, 1, 2, 3), 0),
        (batch(4), None),
        (back(4, 2, 3, pipeline="q"), None),
        (facts(4), None),
        (with_text(4, "{"), None),
    ],
    ids=["a rollback", "to the beginning", "a batch", "of another pipeline", "another writer's", "damaged"],
)
def test_where_a_commit_went_back_to(commit: CommitFacts, to: int | None) -> None:
    assert rolled_back_to(commit, "p") == to
