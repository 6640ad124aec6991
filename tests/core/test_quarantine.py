"""Whether a quarantine is in step with a position, by the batches that both name."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from blizzard.core.codec import UnknownField, decode_json, decode_position, encode_position, head_number
from blizzard.core.fields import CodecError, WrongType
from blizzard.core.position import Position, QuarantineHead
from blizzard.core.quarantine import Misaligned, QuarantineFacts, Settled, Unsettled, judge_quarantine, lead_quarantine
from tests.core.test_codec import app_id, example


def at(batch_id: str | None, sequence: int | None, table_id: str | None = "q") -> QuarantineFacts:
    return QuarantineFacts(
        table_id=table_id, sequence=sequence, head=None if batch_id is None else head_number(batch_id)
    )


def own(previous: str | None = "b5") -> Position:
    """Sequence 7, batch b, with bad records of its own."""
    head = QuarantineHead(batch_id="b", sequence=7, previous=previous, table_id="q")
    return example(pending=("x",), head=head)


def carried() -> Position:
    """Sequence 7 without bad records; those of sequence 5 were the last."""
    return example(head=QuarantineHead(batch_id="b5", sequence=5, previous="b2", table_id="q"))


CASES: list[tuple[Position, QuarantineFacts, Any]] = [
    (own(), at("b", 7), Settled()),
    (own(), at("b5", 5), Unsettled()),
    (own(), at("b2", 2), "quarantine_behind"),
    (own(), at("c7", 7), "quarantine_ahead"),
    (own(), at("c9", 9), "quarantine_ahead"),
    (own(), at(None, None, table_id=None), "quarantine_moved"),
    (own(), at(None, None, table_id="new"), "quarantine_moved"),
    (own(), at("b", 7, table_id="new"), Settled()),  # realigned there
    (own(), at(None, 5), "quarantine_behind"),  # an older version's copy of it
    (own(previous=None), at(None, None), Unsettled()),
    (own(previous=None), at(None, 6), Unsettled()),  # an older version settled up to there
    (own(previous=None), at(None, 7), "quarantine_ahead"),
    (own(previous=None), at(None, None, table_id="new"), "quarantine_moved"),
    (own(previous=None), at("c3", 3), "quarantine_behind"),
    (carried(), at("b5", 5), Settled()),
    (carried(), at("b2", 2), "quarantine_behind"),
    (carried(), at("c6", 6), "quarantine_ahead"),
    (carried(), at(None, None, table_id=None), "quarantine_moved"),
    (example(), at(None, None, table_id=None), Settled()),
    (example(), at(None, 7), Settled()),
    (example(), at(None, 8), "quarantine_ahead"),
    (example(), at("c2", 2), "quarantine_ahead"),
    (example(pending=("x",)), at(None, 6), Unsettled()),
    (example(pending=("x",)), at(None, 7), Settled()),
    (example(pending=("x",)), at(None, 8), "quarantine_ahead"),
    (example(rolled_back=(3, 6)), at(None, None), Settled()),
    (example(rolled_back=(3, 6)), at(None, 6), Unsettled()),
]


@pytest.mark.parametrize(("position", "facts", "expected"), CASES)
def test_in_step_or_not(position: Position, facts: QuarantineFacts, expected: Any) -> None:
    judgement = judge_quarantine(position, facts)
    assert (judgement.kind if isinstance(judgement, Misaligned) else judgement) == expected


def test_only_what_changes_the_quarantine_becomes_its_head() -> None:
    before = QuarantineHead(batch_id="b5", sequence=5, table_id="q")
    assert lead_quarantine(example(head=before)).quarantine.head == before
    changes = ({"pending": ("x",)}, {"replayed": {"through": "6"}}, {"rolled_back": (3, 6)}, {"dropped": ("b2",)})
    for change in changes:
        after = lead_quarantine(example(head=before, **change))
        assert after.quarantine.head == QuarantineHead(batch_id="b", sequence=7, previous="b5", table_id="q")
        assert lead_quarantine(after) == after
    assert lead_quarantine(example(rolled_back=(3, 6))).quarantine.head is None
    assert lead_quarantine(example(rolled_back=(3, 6)), exists=True).quarantine.head is not None


def test_a_payload_without_a_head_is_what_older_versions_wrote() -> None:
    assert "quarantine_head" not in decode_json(encode_position(example()))
    assert decode_position(encode_position(example())) == example()
    assert decode_position(encode_position(own())) == own()


def test_a_payload_that_drops_batches_is_refused_by_older_versions_and_no_other_is() -> None:
    dropping = example(pending=("x",), dropped=("b2", "sequence:1"))
    fields = decode_json(encode_position(dropping))
    assert (fields["schema_version"], fields["dropped"]) == (3, ["b2", "sequence:1"])
    assert decode_position(encode_position(dropping)) == dropping
    plain = decode_json(encode_position(example(pending=("x",))))
    assert (plain["schema_version"], "dropped" in plain) == (2, False)


@pytest.mark.parametrize("dropped", [None, [], [""], [1], "b2", {"b2": 1}, [["b2"]]])
def test_names_of_dropped_batches_that_make_no_sense_are_refused(dropped: Any) -> None:
    fields = decode_json(encode_position(example(dropped=("b2",)))) | {"dropped": dropped}
    with pytest.raises(WrongType):
        decode_position(app_id(orjson.dumps(fields)))


@pytest.mark.parametrize(
    ("head", "error"),
    [(b"3", WrongType), (b'{"batch_id":"b","sequence":0,"previous":null,"table_id":null}', WrongType)],
)
def test_a_head_that_makes_no_sense_is_refused(head: bytes, error: type[CodecError]) -> None:
    whole = base64.b64decode(encode_position(example())[len("blizzard:") :])
    with pytest.raises(error):
        decode_position(app_id(whole[:-1] + b',"quarantine_head":' + head + b"}"))
    with pytest.raises(UnknownField):
        decode_position(app_id(whole[:-1] + b',"quarantine_head":{"batch":"b"}}'))


def test_a_head_is_a_version_that_delta_can_hold() -> None:
    numbers = {head_number(f"{i:016x}") for i in range(1000)}
    assert len(numbers) == 1000
    assert all(0 < number < 2**63 for number in numbers)
    assert head_number(None) == 0
