"""The recovery decision, path by path: resume, start fresh, or refuse with a reason."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.changed import check_in_progress
from blizzard.core.codec import encode_position, fence_app_id
from blizzard.core.log import CommitFacts, TableFacts, Txn
from blizzard.core.outcome import Landed, NotLanded, TakenByOther, TakenByOurselves, decide_commit_outcome
from blizzard.core.position import Marks, Position, RecordsRead
from blizzard.core.recover import (
    Fresh,
    Recovery,
    Resume,
    StartFrom,
    decide_recovery,
)
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, SourceIdentity
from tests.core.test_codec import RUST_JSON, example

SOURCE = SourceIdentity(root="file:///s", pattern="*")


def commit(version: int, position: Position | None = None, **changes: Any) -> CommitFacts:
    txns: tuple[Txn, ...] = ()
    if position is not None:
        txns = (
            Txn(app_id=encode_position(position), version=position.sequence),
            Txn(app_id=fence_app_id(position.pipeline), version=position.sequence),
        )
    facts = CommitFacts(version=version, timestamp_ms=version, operation="WRITE", mode="Append", txns=txns)
    return replace(facts, **changes)


def foreign(version: int, operation: str = "WRITE", mode: str = "Append") -> CommitFacts:
    return CommitFacts(version=version, timestamp_ms=version, operation=operation, mode=mode)


def table(*commits: CommitFacts, fence: int | None = 7, **changes: Any) -> TableFacts:
    newest_first = tuple(sorted(commits, key=lambda c: -c.version))
    facts = TableFacts(version=newest_first[0].version, table_id="t", has_data=True, fence=fence, commits=newest_first)
    return replace(facts, **changes)


def decide(facts: TableFacts | None, start_from: StartFrom | None = None, source: SourceIdentity = SOURCE) -> Recovery:
    return decide_recovery(facts, pipeline="p", source=source, start_from=start_from)


def refusal(recovery: Recovery) -> str:
    assert isinstance(recovery, Refuse), recovery
    assert recovery.message
    return recovery.kind


def test_no_table_starts_fresh() -> None:
    assert decide(None) == Fresh(marks=Marks(), start_from=None)


def test_the_newest_checkpoint_is_resumed() -> None:
    old, new = example(sequence=6, delta_version=5), example()
    assert decide(table(commit(6, old), commit(7, new))) == Resume(position=new, version=7)


def test_foreign_commits_are_passed_over() -> None:
    facts = table(commit(7, example()), *(foreign(v) for v in range(8, 200)))
    assert decide(facts) == Resume(position=example(), version=7)


def test_another_pipelines_checkpoint_is_not_ours() -> None:
    facts = table(commit(7, example()), commit(8, example(pipeline="q", sequence=1, delta_version=7)))
    assert decide(facts) == Resume(position=example(), version=7)


def test_an_expired_fence_is_settled_from_the_raw_log() -> None:
    assert isinstance(decide(table(commit(7, example()), fence=None)), Resume)


def test_a_table_made_by_us_and_never_written_is_fresh() -> None:
    made = commit(0, txns=(Txn(app_id=fence_app_id("p"), version=0),))
    assert isinstance(decide(table(made, fence=0, has_data=False)), Fresh)


def test_an_empty_table_of_others_is_fresh() -> None:
    assert isinstance(decide(table(foreign(0), fence=None, has_data=False)), Fresh)


def test_data_without_a_position_is_refused() -> None:
    assert refusal(decide(table(foreign(0), fence=None))) == "table_has_data"


def test_the_rust_programs_table_is_refused_and_named() -> None:
    rust = Txn(app_id="blizzard:" + base64.b64encode(RUST_JSON).decode(), version=1)
    decision = decide(table(commit(0, txns=(rust,)), fence=None))
    assert refusal(decision) == "table_has_data"
    assert isinstance(decision, Refuse)
    assert "Rust" in decision.message


def test_start_from_begins_on_a_table_with_data() -> None:
    decision = decide(table(foreign(0), fence=None), StartFrom(after="m"))
    assert decision == Fresh(marks=Marks(last_committed_file="m"), start_from="after:m")
    assert isinstance(decide(table(foreign(0), fence=None), StartFrom(after=None)), Fresh)


def test_start_from_is_rejected_where_the_pipeline_has_begun() -> None:
    assert refusal(decide(table(commit(7, example())), StartFrom(after=None))) == "start_from_rejected"


def test_a_fence_whose_commit_is_gone_is_refused_even_with_start_from() -> None:
    assert refusal(decide(table(foreign(9)))) == "position_not_found"
    assert refusal(decide(table(foreign(9)), StartFrom(after=None))) == "position_not_found"


def test_another_source_is_refused() -> None:
    other = SourceIdentity(root="file:///other", pattern="*")
    assert refusal(decide(table(commit(7, example())), source=other)) == "other_source"
    pattern = SourceIdentity(root="file:///s", pattern="*.gz")
    assert refusal(decide(table(commit(7, example())), source=pattern)) == "other_source"


@pytest.mark.parametrize(
    ("operation", "mode"),
    [
        ("RESTORE", ""),
        ("REPLACE TABLE", ""),
        ("REPLACE TABLE AS SELECT", ""),
        ("CREATE OR REPLACE TABLE", ""),
        ("CREATE OR REPLACE TABLE AS SELECT", ""),
        ("CLONE", ""),
        ("TRUNCATE", ""),
        ("WRITE", "Overwrite"),
    ],
)
def test_a_rewritten_table_is_refused(operation: str, mode: str) -> None:
    facts = table(commit(7, example()), foreign(8, operation, mode), foreign(9))
    assert refusal(decide(facts)) == "table_rewritten"


def test_a_rewrite_between_plan_and_commit_is_refused() -> None:
    facts = table(foreign(7, "RESTORE", ""), commit(8, example()))
    assert refusal(decide(facts)) == "table_rewritten"


@pytest.mark.parametrize("operation", ["OPTIMIZE", "MERGE", "DELETE", "UPDATE", "VACUUM END", "SET TBLPROPERTIES"])
def test_ordinary_work_by_others_is_survived(operation: str) -> None:
    assert isinstance(decide(table(commit(7, example()), foreign(8, operation, ""))), Resume)


def test_a_rewrite_before_the_plan_is_history() -> None:
    assert isinstance(decide(table(foreign(5, "RESTORE", ""), commit(7, example()))), Resume)


def test_another_table_id_is_refused() -> None:
    assert refusal(decide(table(commit(7, example()), table_id="other"))) == "table_replaced"


def test_a_log_shorter_than_its_checkpoint_says_is_refused() -> None:
    assert refusal(decide(table(commit(6, example(delta_version=6))))) == "log_rewritten"


def test_a_fence_ahead_of_the_newest_payload_is_refused() -> None:
    assert refusal(decide(table(commit(7, example()), fence=8))) == "stale_checkpoint"


@pytest.mark.parametrize(
    "txns",
    [
        (Txn(app_id=fence_app_id("p"), version=7),),
        (Txn(app_id=fence_app_id("p"), version=7), Txn(app_id="blizzard:!!", version=7)),
        (Txn(app_id=fence_app_id("p"), version=7), Txn(app_id=encode_position(example(sequence=6)), version=7)),
        (Txn(app_id=encode_position(example()), version=7),),
    ],
)
def test_a_damaged_newest_checkpoint_is_refused_and_not_skipped(txns: tuple[Txn, ...]) -> None:
    facts = table(commit(6, example(sequence=6, delta_version=5)), commit(7, txns=txns))
    assert refusal(decide(facts)) == "damaged_checkpoint"


def listed(size: int = 9, etag: str = "e") -> list[SourceFile]:
    return [SourceFile(path="a", size_bytes=size, etag=etag)]


def test_a_file_in_progress_must_be_the_same_file() -> None:
    position = Marks(files={"a": RecordsRead(records=5, size_bytes=9, etag="e")}, last_committed_file="b")
    assert check_in_progress(position, listed()) is None
    for listing in (listed(size=10), listed(etag="f"), []):
        refused = check_in_progress(position, listing)
        assert refused is not None
        assert refused.kind == "source_changed"
        assert "5 records" in refused.message


def test_a_file_that_nothing_was_taken_of_may_change_or_go() -> None:
    position = Marks(files={"a": RecordsRead(records=0)}, last_committed_file="b")
    assert check_in_progress(position, []) is None


def test_our_own_commit_is_found_by_its_payload() -> None:
    position = example()
    outcome = decide_commit_outcome(
        [foreign(8), commit(7, position)], app_id=encode_position(position), position=position
    )
    assert outcome == Landed(version=7)


def test_a_free_sequence_has_not_landed() -> None:
    position = example()
    assert decide_commit_outcome([foreign(7)], app_id=encode_position(position), position=position) == NotLanded()


def test_a_sequence_taken_by_another_run_is_fenced() -> None:
    position, other = example(), example(run_id="other", batch_id="x")
    outcome = decide_commit_outcome([commit(7, other)], app_id=encode_position(position), position=position)
    assert outcome == TakenByOther(version=7, sequence=position.sequence, run_id="other")


def test_a_later_sequence_of_another_run_is_fenced_too() -> None:
    position, other = example(), example(run_id="other", sequence=9)
    between = example(run_id="third", sequence=8)
    outcome = decide_commit_outcome(
        [commit(9, other), commit(8, between)], app_id=encode_position(position), position=position
    )
    assert outcome == TakenByOther(version=9, sequence=9, run_id="other")  # all of one commit


def test_a_sequence_taken_by_ourselves_with_another_batch_is_not_a_fence() -> None:
    position, earlier = example(), example(batch_id="earlier")
    outcome = decide_commit_outcome([commit(7, earlier)], app_id=encode_position(position), position=position)
    assert outcome == TakenByOurselves(version=7)
