"""A ledger is what blizzard writes, and nothing else: any field that it would not have written makes it none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blizzard.core.ledger import Ledger, LedgerEntry, decode_ledger, encode_ledger, ledger_versions
from blizzard.core.types import SourceIdentity
from tests.core.forged import forged_ledgers, sound_ledger

FORGED = list(forged_ledgers())


def decoded(fields: dict[str, Any]) -> Ledger | None:
    return decode_ledger(json.dumps(fields))


def test_the_sound_one_is_a_ledger() -> None:
    ledger = decoded(sound_ledger())
    assert ledger is not None
    assert (ledger.sequence, len(ledger.entries), ledger.entries[0].cut) == (3, 2, 1)
    assert encode_ledger(ledger) == encode_ledger(ledger)
    assert decode_ledger(encode_ledger(ledger)) == ledger


@pytest.mark.parametrize(("what", "fields"), FORGED, ids=[what for what, _ in FORGED])
def test_a_ledger_with_one_wrong_field_is_none(what: str, fields: dict[str, Any]) -> None:
    assert decoded(fields) is None, what
    superseded: set[int] = set()
    assert ledger_versions(json.dumps(fields), "p", superseded) is None, what
    assert superseded == set()


def test_there_are_enough_of_them() -> None:
    assert len(FORGED) > 300


def test_names_and_versions_alone_are_those_of_the_ledger() -> None:
    superseded: set[int] = set()
    assert ledger_versions(json.dumps(sound_ledger()), "p", superseded) == [
        ("a.ndjson", (10, "e1")),
        ("d/b.ndjson", (20, "e2")),
    ]
    assert superseded == {2}
    assert ledger_versions(json.dumps(sound_ledger()), "p", {3}) == []
    assert ledger_versions(json.dumps(sound_ledger()), "q", set()) is None


@pytest.mark.parametrize("word", ["filtered", "unrouted"])
def test_filtered_records_are_said_only_where_there_are_any(word: str) -> None:
    fields = sound_ledger()
    fields["files"][1] |= {"filtered": 1, word: 1}
    ledger = decoded(fields)
    assert ledger is not None
    assert [getattr(entry, word) for entry in ledger.entries] == [0, 1]
    assert [word in file for file in json.loads(encode_ledger(ledger))["files"]] == [False, True]
    assert decode_ledger(encode_ledger(ledger)) == ledger


@pytest.mark.parametrize(("filtered", "unrouted", "is_sound"), [(3, 3, True), (2, 3, False), (0, 1, False)])
def test_only_what_is_filtered_can_be_for_no_target(filtered: int, unrouted: int, is_sound: bool) -> None:
    fields = sound_ledger()
    fields["files"][0] |= {"to": 9, "bad": 0, "cut": 0, "filtered": filtered, "unrouted": unrouted}
    assert (decoded(fields) is not None) is is_sound


def test_a_record_for_no_target_that_the_quarantine_had_no_room_for_is_cut_too() -> None:
    """Its source file must not be deleted."""
    fields = sound_ledger()
    fields["files"][0] |= {"to": 9, "bad": 0, "filtered": 2, "unrouted": 2, "cut": 2}
    ledger = decoded(fields)
    assert ledger is not None
    assert ledger.entries[0].cut == 2
    assert decode_ledger(encode_ledger(ledger)) == ledger


def test_whether_bad_records_were_cut_is_said_only_where_there_are_any() -> None:
    """A ledger of an older version has none of it: then nobody knows."""
    entry = {"path": "a", "size_bytes": 1, "etag": "e", "from_record": 0, "to_record": 3, "finished": True}
    written = Ledger(
        pipeline="p",
        sequence=1,
        run_id="r",
        batch_id="b",
        base_version=0,
        source=SourceIdentity(root="file:///src", pattern="default"),
        records=3,
        entries=(LedgerEntry(**entry, bad=0), LedgerEntry(**entry, bad=2), LedgerEntry(**entry, bad=2, cut=None)),  # type: ignore[arg-type]
    )
    text = encode_ledger(written)
    assert ["cut" in file for file in json.loads(text)["files"]] == [False, True, False]
    assert decode_ledger(text) == written
