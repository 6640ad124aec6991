"""Which batches leave a full quarantine: whole ones, the oldest, as few as needed, and not more than a commit names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.codec import MAX_APP_ID_BYTES, encode_position
from blizzard.core.overflow import MAX_DROPPED_BYTES, Leaving, batch_name, choose_leaving, is_named
from blizzard.core.types import QuarantinedBatch
from tests.core.test_codec import example


def batch(sequence: int, rows: int, name: str | None = None) -> QuarantinedBatch:
    return QuarantinedBatch(name=name or f"b{sequence}", sequence=sequence, rows=rows)


# Rows of the batches 1, 2, 3 …, new rows, limit; the sequences that leave, and how many are over the limit then.
CASES: list[tuple[list[int], int, int, list[int], int]] = [
    ([], 3, 3, [], 0),
    ([], 0, 0, [], 0),
    ([2, 3], 5, 10, [], 0),
    ([2, 3], 6, 10, [1], 0),
    ([2, 3], 7, 10, [1], 0),
    ([2, 3], 8, 10, [1, 2], 0),
    ([2, 3], 10, 10, [1, 2], 0),
    ([1, 1, 1, 1], 1, 2, [1, 2, 3], 0),
    ([5, 1, 1], 1, 4, [1], 0),
    ([1, 5, 1], 1, 4, [1, 2], 0),
    ([9, 9], 1, 3, [1, 2], 0),  # somebody has lowered the limit
    ([0, 2], 1, 2, [1, 2], 0),
]


@pytest.mark.parametrize(("rows", "new_rows", "limit", "leaving", "over"), CASES)
def test_as_few_of_the_oldest_as_needed_leave(
    rows: list[int], new_rows: int, limit: int, leaving: list[int], over: int
) -> None:
    held = [batch(number, count) for number, count in enumerate(rows, start=1)]
    found = choose_leaving(reversed(held), new_rows=new_rows, limit=limit)
    assert ([b.sequence for b in found.batches], found.over) == (leaving, over)
    assert found.rows == sum(rows[s - 1] for s in leaving)


batches = st.lists(
    st.builds(batch, sequence=st.integers(1, 50), rows=st.integers(1, 9)), unique_by=lambda b: b.sequence, max_size=20
)


@given(held=batches, limit=st.integers(0, 60), data=st.data())
def test_what_stays_fits_and_nothing_leaves_without_need(
    held: list[QuarantinedBatch], limit: int, data: st.DataObject
) -> None:
    new_rows = data.draw(st.integers(0, limit))
    found = choose_leaving(held, new_rows=new_rows, limit=limit)
    oldest_first = sorted(held, key=lambda b: b.sequence)
    gone, stays = oldest_first[: len(found.batches)], oldest_first[len(found.batches) :]
    assert list(found.batches) == gone
    assert sum(b.rows for b in stays) + new_rows <= limit
    assert found.over == 0
    if gone:
        assert sum(b.rows for b in (gone[-1], *stays)) + new_rows > limit


def test_a_commit_names_no_more_batches_than_its_payload_has_room_for() -> None:
    held = [batch(number, 2, name=f"{number:016x}") for number in range(1, 5001)]
    found = choose_leaving(held, new_rows=10, limit=10)
    assert 500 < len(found.batches) < 5000
    assert found.batches == tuple(held[: len(found.batches)])
    assert found.over == 2 * (5000 - len(found.batches))
    named = tuple(b.name for b in found.batches)
    assert len(encode_position(example(dropped=named))) - len(encode_position(example())) < 2 * MAX_DROPPED_BYTES
    again = choose_leaving(held[len(found.batches) :], new_rows=10, limit=10)
    assert again.batches[0] == held[len(found.batches)]  # the next commit goes on


def test_a_name_that_no_payload_has_room_for_does_not_leave() -> None:
    found = choose_leaving([batch(1, 5, name="x" * MAX_APP_ID_BYTES)], new_rows=1, limit=1)
    assert found == Leaving(over=5)


def test_records_of_an_older_version_are_named_by_their_sequence() -> None:
    assert (batch_name("b7", 7), batch_name(None, 7)) == ("b7", "sequence:7")
    assert is_named("b7", 7, {"b7"})
    assert is_named("b7", 7, {"sequence:7"})
    assert not is_named("b7", 7, {"b8", "sequence:8", "sequence:77"})
