"""What became of a commit, by what the log holds after the version that it was planned on."""

from __future__ import annotations

import base64

import pytest

from blizzard.core.codec import PREFIX, encode_position
from blizzard.core.log import CommitFacts, Txn
from blizzard.core.outcome import (
    Landed,
    NotLanded,
    Outcome,
    TakenByOther,
    TakenByOurselves,
    decide_commit_outcome,
)
from tests.core.logs import DAMAGED, facts, fence, payload
from tests.core.test_codec import RUST_JSON, example

WANTED = example(sequence=8, batch_id="mine", run_id="me")
MINE = Txn(app_id=encode_position(WANTED), version=8)
DAMAGED_TXN = Txn(app_id=DAMAGED, version=8)
RUST_TXN = Txn(app_id=PREFIX + base64.b64encode(RUST_JSON).decode(), version=8)


def by(version: int, sequence: int, run_id: str, pipeline: str = "p") -> CommitFacts:
    return facts(version, payload(sequence, run_id=run_id, pipeline=pipeline), fence(sequence, pipeline))


CASES: dict[str, tuple[list[CommitFacts], Outcome]] = {
    "nothing came": ([], NotLanded()),
    "only others' commits": ([facts(8), facts(9, Txn(app_id="spark-job", version=99))], NotLanded()),
    "ours came": ([facts(8, MINE, fence(8))], Landed(version=8)),
    "ours came after others": ([facts(8), facts(9, MINE, fence(8)), facts(10)], Landed(version=9)),
    "ours came, and another run went on": ([facts(8, MINE, fence(8)), by(9, 9, "other")], Landed(version=8)),
    "ours counts wherever it is": ([by(8, 9, "other"), facts(9, MINE, fence(8))], Landed(version=9)),
    "ours came among other payloads": ([facts(8, DAMAGED_TXN, payload(3), MINE, fence(8))], Landed(version=8)),
    "another run has the number": (
        [facts(8), by(9, 8, "other")],
        TakenByOther(version=9, sequence=8, run_id="other"),
    ),
    "another run has a later number": ([by(8, 9, "other")], TakenByOther(version=8, sequence=9, run_id="other")),
    "another run has an earlier number": ([by(8, 7, "other")], NotLanded()),
    "the first one is told": (
        [by(8, 7, "x"), by(9, 8, "y"), by(10, 9, "z")],
        TakenByOther(version=9, sequence=8, run_id="y"),
    ),
    "this run has the number, with another batch": ([by(8, 8, "me")], TakenByOurselves(version=8)),
    "this run has a later number": ([by(8, 9, "me")], TakenByOurselves(version=8)),
    "another pipeline has the same number": ([by(8, 8, "other", pipeline="q")], NotLanded()),
    "another pipeline of this run": ([by(8, 8, "me", pipeline="q")], NotLanded()),
    "a pipeline whose name begins like ours": ([by(8, 8, "other", pipeline="p2")], NotLanded()),
    "a fence without a payload": ([facts(8, fence(8))], TakenByOther(version=8, sequence=8, run_id=None)),
    "a fence with a damaged payload": (
        [facts(8, DAMAGED_TXN, fence(8))],
        TakenByOther(version=8, sequence=8, run_id=None),
    ),
    "a damaged payload before a sound one": (
        [facts(8, DAMAGED_TXN, payload(8, run_id="me"), fence(8))],
        TakenByOurselves(version=8),
    ),
    "a fence with another pipeline's payload of this run": (
        [facts(8, payload(8, run_id="me", pipeline="q"), fence(8))],
        TakenByOther(version=8, sequence=8, run_id=None),
    ),
    "a fence with the Rust program's payload": (
        [facts(8, RUST_TXN, fence(8))],
        TakenByOther(version=8, sequence=8, run_id=None),
    ),
    "a payload without a fence takes no number": ([facts(8, payload(8, run_id="other"))], NotLanded()),
}


@pytest.mark.parametrize(("commits", "outcome"), CASES.values(), ids=CASES)
def test_outcome(commits: list[CommitFacts], outcome: Outcome) -> None:
    assert decide_commit_outcome(commits, app_id=MINE.app_id, position=WANTED) == outcome
