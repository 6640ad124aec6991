"""Ledgers folded onto an older position: the same position as the payload's, or none at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.batch import next_position, seal
from blizzard.core.codec import fence_app_id
from blizzard.core.fold import CannotFold, fold_ledgers
from blizzard.core.log import CheckpointFacts, CommitFacts, Txn
from blizzard.core.paths import Path
from blizzard.core.plan import Limits, is_drained, plan_batch
from blizzard.core.position import Marks, Position
from blizzard.core.recover import Resume
from blizzard.core.types import BatchResult, DataFile, QuarantinedBatch, Slice, SliceReport, SourceFile, TaskReport
from blizzard.testing.positions import changed
from tests.core.test_codec import example
from tests.core.test_recover import decide, foreign, refusal, table

LINES = 10
START = example(sequence=0, delta_version=0, marks=Marks())


def read(piece: Slice, lines: int) -> SliceReport:
    to = min(LINES, piece.from_record + lines)
    return SliceReport(
        path=piece.path,
        size_bytes=piece.size_bytes,
        etag=piece.etag,
        from_record=piece.from_record,
        to_record=to,
        finished=to == LINES,
        rows=to - piece.from_record,
    )


def history(start: Position, names: list[str], amounts: list[int]) -> list[tuple[CommitFacts, Position]]:
    """Commits as the driver makes them, oldest first, with the state each one holds."""
    listing = [SourceFile(path=name, size_bytes=5, etag="e") for name in sorted(set(names))]
    position, made = start, []
    for number, amount in enumerate(amounts):
        if is_drained(position.marks, listing):
            break
        plan = plan_batch(position.marks, listing, Limits(max_files=3), slots=2)
        slices = tuple(read(piece, amount) for piece in plan.slices)
        rows = sum(s.rows for s in slices)
        files = (DataFile(path=f"{number}.parquet", size_bytes=1, rows=rows, stats="{}", modified_ms=0),)
        bad = (DataFile(path=f"bad-{number}.parquet", size_bytes=1, rows=0, stats="{}", modified_ms=0),)
        left = (QuarantinedBatch(name=f"b{number - 2}", sequence=number - 1, rows=3),) if number >= 2 else ()
        result = BatchResult(reports=(TaskReport(slot=0, slices=slices, files=files, quarantine=bad),), dropped=left)
        version = start.on.delta_version + 1 + number
        position = changed(
            next_position(position, plan, result, batch_id=f"b{number}", now_ms=version), delta_version=version - 1
        )
        made.append((commit_of(version, position, result), position))
    return made


def commit_of(version: int, position: Position, result: BatchResult) -> CommitFacts:
    checkpoint = seal(position, result)
    return CommitFacts(
        version=version,
        timestamp_ms=version,
        operation="WRITE",
        mode="Append",
        txns=(
            Txn(app_id=checkpoint.app_id, version=position.sequence),
            Txn(app_id=checkpoint.fence_app_id, version=position.sequence),
        ),
        user_metadata=checkpoint.ledger,
    )


def damaged(commit: CommitFacts) -> CommitFacts:
    payload, fence = commit.txns
    return replace(commit, txns=(replace(payload, app_id=payload.app_id[:-9] + "AAAAAAAA="), fence))


def meaning(position: Position, names: list[str]) -> dict[str, Any]:
    """What the state says about every file, however it is written down."""
    source = position.marks
    return {name: LINES if source.is_finished(name) else source.records_read(name) for name in names}


names = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=10)


@given(names, st.lists(st.integers(1, LINES), min_size=1, max_size=12), st.data())
def test_the_fold_of_any_part_of_a_history_means_what_the_payload_says(
    names: list[str], amounts: list[int], data: st.DataObject
) -> None:
    made = history(START, names, amounts)
    base = data.draw(st.integers(0, len(made) - 1))
    others = [foreign(100 + i) for i in range(2)]
    folded = fold_ledgers(made[base][1], [*(commit for commit, _ in made[base + 1 :]), *others])
    expected = made[-1][1]
    assert meaning(folded, names) == meaning(expected, names)
    assert (folded.sequence, folded.run_id, folded.batch_id) == (
        expected.sequence,
        expected.run_id,
        expected.batch_id,
    )
    assert folded.quarantine.pending == expected.quarantine.pending


def test_a_damaged_payload_is_rebuilt_from_the_one_before_and_the_ledgers() -> None:
    made = history(START, list("abcdefgh"), [4] * 5)
    commits = [commit for commit, _ in made[:-2]] + [damaged(commit) for commit, _ in made[-2:]]
    fence = made[-1][1].sequence
    recovery = decide(table(*commits, fence=fence))
    assert isinstance(recovery, Resume)
    assert recovery.path == "ledgers"
    assert meaning(recovery.position, list("abcdefgh")) == meaning(made[-1][1], list("abcdefgh"))


@pytest.mark.parametrize("mistake", ["gap", "no ledger", "other ledger", "kind", "from"])
def test_anything_missing_or_contradicting_is_refused(mistake: str) -> None:
    made = history(START, list("abcdef"), [4] * 4)
    commits = [commit for commit, _ in made]
    broken = commits[2]
    metadata = broken.user_metadata or ""
    match mistake:
        case "gap":
            commits = [commits[0], *commits[2:]]
        case "no ledger":
            commits[2] = replace(broken, user_metadata=None)
        case "other ledger":
            commits[2] = replace(broken, user_metadata=commits[1].user_metadata)
        case "kind":
            commits[2] = replace(broken, user_metadata=metadata.replace('"records"', '"kind":"edit","records"'))
        case "from":
            commits[2] = replace(broken, user_metadata=metadata.replace('"from":', '"from":1'))
    with pytest.raises(CannotFold):
        fold_ledgers(made[0][1], commits[1:])
    all_damaged = [commits[0], *map(damaged, commits[1:])]
    decision = decide(table(*all_damaged, fence=made[-1][1].sequence))
    assert refusal(decision) == "damaged_checkpoint"


def in_checkpoint(position: Position, **changes: Any) -> CheckpointFacts:
    commit = commit_of(7, position, BatchResult())
    return replace(CheckpointFacts(version=9, txns=commit.txns), **changes)


def test_a_position_whose_commit_is_cleaned_up_is_found_in_the_delta_checkpoint() -> None:
    position = example(add_path="a.parquet")
    facts = table(foreign(12), checkpoint=in_checkpoint(position), active_adds=frozenset(["a.parquet"]))
    assert decide(facts) == Resume(position=position, version=9, path=Path.DELTA_CHECKPOINT)
    assert decide(replace(facts, fence=None)) == Resume(position=position, version=9, path=Path.DELTA_CHECKPOINT)


def test_it_is_refused_where_its_data_is_no_longer_part_of_the_table() -> None:
    facts = table(foreign(12), checkpoint=in_checkpoint(example(add_path="a.parquet")))
    assert refusal(decide(facts)) == "table_rewritten"


def test_a_payload_older_than_the_fence_is_never_used() -> None:
    facts = table(foreign(12), checkpoint=in_checkpoint(example(sequence=6, add_path=None)), fence=7)
    assert refusal(decide(facts)) == "position_not_found"
    only_fence = CheckpointFacts(version=9, txns=(Txn(app_id=fence_app_id("p"), version=7),))
    assert refusal(decide(table(foreign(12), checkpoint=only_fence))) == "position_not_found"


def test_another_tables_checkpoint_is_refused() -> None:
    facts = table(foreign(12), checkpoint=in_checkpoint(example(table_id="other", add_path=None)))
    assert refusal(decide(facts)) == "table_replaced"
