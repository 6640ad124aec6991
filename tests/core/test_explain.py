"""Why recovery decides what it decides: each sentence says what is in the log, and nothing that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.explain import explain_recovery
from blizzard.core.kinds import Kind
from blizzard.core.log import CheckpointFacts, CommitFacts, TableFacts, Txn
from blizzard.core.paths import Path
from blizzard.core.position import Marks, RecordsRead, Seen
from blizzard.core.recover import Fresh, Recovery, Resume
from blizzard.core.refuse import Refuse
from tests.core.logs import DAMAGED, facts, fence, ledger_of, own, payload
from tests.core.test_codec import EXAMPLE, example

FRESH = Fresh(marks=Marks(), start_from=None)
WHOLE = own(4, ledger_of(3))
DAMAGED_COMMIT = facts(4, Txn(app_id=DAMAGED, version=3), fence(3))
CHECKPOINT = CheckpointFacts(version=9, txns=(payload(3), fence(3), payload(8, pipeline="q")))


def table(*commits: CommitFacts, **changes: Any) -> TableFacts:
    fields: dict[str, Any] = {"version": 7, "table_id": "t", "has_data": True, "fence": 3} | changes
    return TableFacts(commits=commits, **fields)


def explained(known: TableFacts, recovery: Recovery = FRESH) -> tuple[str, ...]:
    return explain_recovery(known, recovery, "p")


# what is known; which sentence, by its place; what it says
FACTS: dict[str, tuple[TableFacts, int, str]] = {
    "the table": (table(), 0, "The table is at version 7, its id is t."),
    "no commit was read": (table(), 1, "No JSON commit could be looked at."),
    "the newest commits were read": (
        table(facts(7), facts(6), WHOLE),
        1,
        "Looked at 3 JSON commits, versions 7 to 4.",
    ),
    "all commits were read": (
        table(facts(1), facts(0)),
        1,
        "Looked at 2 JSON commits, versions 1 to 0, the first one of the table.",
    ),
    "no fence": (table(fence=None), 2, "The snapshot shows no fence for pipeline p."),
    "a fence": (table(), 2, "The snapshot shows the fence at 3 for pipeline p."),
    "the fence of a pipeline that has only made the table": (
        table(fence=0),
        2,
        "The snapshot shows the fence at 0 for pipeline p.",
    ),
    "a sound commit": (
        table(facts(5), WHOLE),
        3,
        "The newest commit of the pipeline is version 4, sequence 3; its payload is sound.",
    ),
    "the newest of two": (
        table(own(6, ledger_of(4)), WHOLE),
        3,
        "The newest commit of the pipeline is version 6, sequence 4; its payload is sound.",
    ),
    "a damaged commit": (
        table(DAMAGED_COMMIT),
        3,
        "The newest commit of the pipeline is version 4, sequence 3; its payload is missing or damaged.",
    ),
    "a damaged commit above a sound one": (
        table(replace(DAMAGED_COMMIT, version=5, txns=(fence(4),)), WHOLE),
        3,
        "The newest commit of the pipeline is version 5, sequence 4; its payload is missing or damaged.",
    ),
    "the commit that made the table": (
        table(facts(1), facts(0, fence(0))),
        3,
        "Version 0 made the table for this pipeline; it has committed nothing since.",
    ),
    "nothing since": (table(WHOLE), 4, "Since then 0 commits of other writers, none of which takes data away."),
    "harmless commits since": (
        table(facts(6, operation="OPTIMIZE"), facts(5), WHOLE, facts(3, operation="RESTORE")),
        4,
        "Since then 2 commits of other writers, none of which takes data away.",
    ),
    "rewrites since": (
        table(facts(7, operation="RESTORE"), facts(6), facts(5, operation="", removes_rows=True), WHOLE),
        4,
        "Since then the table was rewritten: version 7 (RESTORE), version 5 (unnamed).",
    ),
    "not the pipeline's": (table(own(5, ledger_of(3, pipeline="q"))), 3, "None of these commits is the pipeline's."),
    "a Delta checkpoint": (
        table(facts(10), checkpoint=CHECKPOINT),
        3,
        "None of these commits is the pipeline's, so the Delta checkpoint of version 9 was read: 3 Txns.",
    ),
    "a position in the Delta checkpoint": (
        table(facts(10), checkpoint=CHECKPOINT),
        4,
        "It holds the pipeline's position: sequence 3, mark c; in progress: a (5 records read); finished after the"
        " mark: z.",
    ),
    "a Delta checkpoint of others": (
        table(facts(10), checkpoint=CheckpointFacts(version=9, txns=(payload(8, pipeline="q"),))),
        4,
        "It holds no position of the pipeline.",
    ),
    "a Delta checkpoint that was not needed": (
        table(WHOLE, checkpoint=CHECKPOINT),
        3,
        "The newest commit of the pipeline is version 4, sequence 3; its payload is sound.",
    ),
}


@pytest.mark.parametrize(("known", "place", "sentence"), FACTS.values(), ids=FACTS)
def test_what_was_found(known: TableFacts, place: int, sentence: str) -> None:
    assert explained(known)[place] == sentence


@pytest.mark.parametrize(
    ("known", "sentences"),
    [(table(WHOLE), 6), (table(), 5), (table(checkpoint=CHECKPOINT), 6)],
    ids=["in the log", "nowhere", "in a Delta checkpoint"],
)
def test_nothing_more_is_said(known: TableFacts, sentences: int) -> None:
    assert len(explained(known)) == sentences


UNMARKED = example(marks=Marks(files={"a": RecordsRead(records=1), "b": RecordsRead(records=0)}))
HELD = replace(UNMARKED, seen=Seen(held_back={"a": "other_kind: x", "b": "other_kind: x"}))

DECISIONS: dict[str, tuple[Recovery, str]] = {
    "resume from the log": (
        Resume(position=EXAMPLE, version=4),
        "Decision: resume at sequence 8 from the newest commit of the pipeline; mark c, 1 file in progress.",
    ),
    "resume without a mark": (
        Resume(position=UNMARKED, version=4),
        "Decision: resume at sequence 8 from the newest commit of the pipeline; mark none, 2 files in progress.",
    ),
    "a file that is held back before it was begun is not in progress": (
        Resume(position=HELD, version=4),
        "Decision: resume at sequence 8 from the newest commit of the pipeline; mark none, 1 file in progress, 1 held"
        " back.",
    ),
    "resume from a Delta checkpoint": (
        Resume(position=EXAMPLE, version=4, path=Path.DELTA_CHECKPOINT),
        "Decision: resume at sequence 8 from a Delta checkpoint, because the commit it came in is no longer in the"
        " log; mark c, 1 file in progress.",
    ),
    "begin": (FRESH, "Decision: begin at the first file."),
    "begin where the user says": (
        Fresh(marks=Marks(last_committed_file="m"), start_from="after:m"),
        "Decision: begin after the file m.",
    ),
    "begin where another program stopped": (
        Fresh(marks=Marks(last_committed_file="m"), start_from="adopt"),
        "Decision: begin where the Rust program stopped.",
    ),
    "refuse": (
        Refuse(kind=Kind.TABLE_REWRITTEN, message="Do this."),
        "Decision: refuse (table_rewritten). Do this.",
    ),
}


@pytest.mark.parametrize(("recovery", "sentence"), DECISIONS.values(), ids=DECISIONS)
def test_the_last_sentence_is_the_decision(recovery: Recovery, sentence: str) -> None:
    assert explained(table(WHOLE), recovery)[-1] == sentence
