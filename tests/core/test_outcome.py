"""What became of a commit, by what the log holds after the version that it was planned on."""

from __future__ import annotations

import base64

import pytest

from blizzard.core.codec import PREFIX, encode_position
from blizzard.core.kinds import CommitKind
from blizzard.core.log import CommitFacts, Txn
from blizzard.core.outcome import (
    Landed,
    NotLanded,
    Outcome,
    TakenByOther,
    TakenByOurselves,
    TakenByPause,
    decide_commit_outcome,
)
from blizzard.core.position import Paused
from tests.core.logs import DAMAGED, facts, fence, ledger_of, own, payload
from tests.core.test_codec import RUST_JSON, example

WANTED = example(sequence=8, batch_id="mine", run_id="me")
MINE = Txn(app_id=encode_position(WANTED), version=8)
DAMAGED_TXN = Txn(app_id=DAMAGED, version=8)
RUST_TXN = Txn(app_id=PREFIX + base64.b64encode(RUST_JSON).decode(), version=8)


def by(version: int, sequence: int, run_id: str, pipeline: str = "p") -> CommitFacts:
    return facts(version, payload(sequence, run_id=run_id, pipeline=pipeline), fence(sequence, pipeline))


def kind(version: int, sequence: int, kind: CommitKind, pipeline: str = "p") -> CommitFacts:
    paused = Paused(at_ms=1) if kind == CommitKind.PAUSE else None
    ledger = ledger_of(sequence, kind=kind, paused=paused, pipeline=pipeline, run_id="other")
    return own(version, ledger, run_id="other", paused=paused)


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
    "a pause has the number": ([kind(8, 8, CommitKind.PAUSE)], TakenByPause(version=8)),
    "a pause has a later number": ([facts(8), kind(9, 9, CommitKind.PAUSE)], TakenByPause(version=9)),
    "a pause has an earlier number": ([kind(8, 7, CommitKind.PAUSE)], NotLanded()),
    "a pause of another pipeline": ([kind(8, 8, CommitKind.PAUSE, pipeline="q")], NotLanded()),
    "a resume has the number": ([kind(8, 8, CommitKind.RESUME)], TakenByPause(version=8)),
    "a pause and its end": (
        [kind(9, 9, CommitKind.RESUME), kind(8, 8, CommitKind.PAUSE)],
        TakenByPause(version=8),
    ),
    "a pause that was renewed, and edited": (
        [kind(10, 10, CommitKind.EDIT), kind(9, 9, CommitKind.RENEWAL), kind(8, 8, CommitKind.PAUSE)],
        TakenByPause(version=8),
    ),
    "a pause and a rollback under it": (
        [kind(8, 8, CommitKind.PAUSE), kind(9, 9, CommitKind.ROLLBACK)],
        TakenByPause(version=8),
    ),
    "ours came, and a pause after it": ([kind(9, 9, CommitKind.PAUSE), facts(8, MINE, fence(8))], Landed(version=8)),
    "this run has the number, and a pause came after it": (
        [kind(9, 9, CommitKind.PAUSE), by(8, 8, "me")],
        TakenByPause(version=9),
    ),
    "another run has the number, and a pause came after it": (
        [kind(9, 9, CommitKind.PAUSE), kind(8, 8, CommitKind.BATCH)],
        TakenByOther(version=9, sequence=9, run_id="other"),
    ),
    "a pause and its end, and another run read since": (
        [kind(8, 8, CommitKind.PAUSE), kind(9, 9, CommitKind.RESUME), kind(10, 10, CommitKind.BATCH)],
        TakenByOther(version=8, sequence=8, run_id="other"),
    ),
    "a pause, and a replay since": (
        [kind(8, 8, CommitKind.PAUSE), kind(9, 9, CommitKind.REPLAY)],
        TakenByOther(version=8, sequence=8, run_id="other"),
    ),
    "a pause, and a commit since of which nobody knows what it is": (
        [kind(8, 8, CommitKind.PAUSE), by(9, 9, "other")],
        TakenByOther(version=8, sequence=8, run_id="other"),
    ),
    "an edit without a pause before it": (
        [kind(8, 8, CommitKind.EDIT), kind(9, 9, CommitKind.PAUSE)],
        TakenByOther(version=8, sequence=8, run_id="other"),
    ),
    "the ledger of a pause without its fence": (
        [facts(8, user_metadata=kind(8, 8, CommitKind.PAUSE).user_metadata)],
        NotLanded(),
    ),
}


@pytest.mark.parametrize(("commits", "outcome"), CASES.values(), ids=CASES)
def test_outcome(commits: list[CommitFacts], outcome: Outcome) -> None:
    assert decide_commit_outcome(commits, app_id=MINE.app_id, position=WANTED) == outcome
