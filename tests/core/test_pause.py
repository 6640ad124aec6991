"""A pause as a value: how positions and ledgers write it, who reads it, and what changes it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from blizzard.core.batch import RunIdentity, position_before, renewed_position, seal
from blizzard.core.codec import UnknownField, decode_json, decode_position, encode_position
from blizzard.core.fields import MissingField, WrongType
from blizzard.core.fold import fold_ledgers
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import decode_ledger, encode_ledger
from blizzard.core.log import CommitFacts
from blizzard.core.pause import describe_pause, find_pause, next_pause, pause_in_log
from blizzard.core.position import Paused
from blizzard.core.recover import Resume
from blizzard.core.types import BatchResult
from tests.core.forged import sound_ledger
from tests.core.logs import DAMAGED, Log, facts, fence, ledger_of, took
from tests.core.test_codec import app_id, example

WHY = Paused(at_ms=86_400_000, reason="moving house")
PAUSED = example(paused=WHY)


def forged(paused: Any, version: int = 3) -> str:
    """A payload with its own checksum that says this of a pause."""
    from blizzard.core.codec import checksum_of

    fields = decode_json(encode_position(PAUSED)) | {"paused": paused, "schema_version": version}
    fields.pop("checksum")
    return app_id(orjson.dumps(fields | {"checksum": checksum_of(fields)}))


def test_an_older_release_refuses_a_paused_position_and_reads_it_again_after_the_resume() -> None:
    fields = decode_json(encode_position(PAUSED))
    assert (fields["schema_version"], fields["paused"]) == (3, {"at_ms": 86_400_000, "reason": "moving house"})
    assert decode_position(encode_position(PAUSED)) == PAUSED
    assert encode_position(replace(PAUSED, paused=None)) == encode_position(example())
    assert decode_json(encode_position(example()))["schema_version"] == 2


@pytest.mark.parametrize(
    ("paused", "error"),
    [
        (None, WrongType),
        (True, WrongType),
        ({}, MissingField),
        ({"at_ms": 1}, MissingField),
        ({"at_ms": "1", "reason": None}, WrongType),
        ({"at_ms": -1, "reason": None}, WrongType),
        ({"at_ms": 1, "reason": 7}, WrongType),
        ({"at_ms": 1, "reason": None, "until": 2}, UnknownField),
    ],
)
def test_a_pause_that_blizzard_would_not_write_is_refused(paused: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_position(forged(paused))


def test_a_pause_in_a_version_that_older_releases_read_is_refused() -> None:
    with pytest.raises(UnknownField):
        decode_position(forged({"at_ms": 1, "reason": None}, version=2))


@pytest.mark.parametrize(
    ("kind", "paused"), [(CommitKind.PAUSE, WHY), (CommitKind.RESUME, None), (CommitKind.RENEWAL, None)]
)
def test_a_ledger_says_what_it_is_and_an_older_release_takes_it_for_a_renewal(
    kind: CommitKind, paused: Paused | None
) -> None:
    ledger = ledger_of(3, kind=kind, paused=paused)
    text = encode_ledger(ledger)
    assert decode_ledger(text) == ledger
    assert json.loads(text)["kind"] == "renewal"


NO_COMMAND: list[Any] = ["", "batch", "edit", None, 7, [], {}]
NO_PAUSE: list[Any] = [None, True, 7, "x", [], {}, {"at_ms": "1", "reason": None}, {"at_ms": 1, "reason": 7}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "pause"},
        {"kind": "resume"},
        {"kind": "batch", "command": "pause"},
        {"kind": "edit", "command": "resume"},
        *({"kind": "renewal", "command": command} for command in NO_COMMAND),
        *({"paused": paused} for paused in NO_PAUSE),
    ],
    ids=str,
)
def test_a_ledger_that_says_it_as_blizzard_never_does_is_none(wrong: dict[str, Any]) -> None:
    assert decode_ledger(json.dumps(sound_ledger() | {"kind": "renewal", "command": "pause"})) is not None
    assert decode_ledger(json.dumps(sound_ledger() | wrong)) is None


@pytest.mark.parametrize("kind", [CommitKind.PAUSE, CommitKind.RENEWAL, CommitKind.EDIT, CommitKind.ROLLBACK])
def test_every_ledger_says_whether_the_pipeline_is_paused_after_it(kind: CommitKind) -> None:
    ledger = decode_ledger(seal(PAUSED, BatchResult(), kind=kind).ledger)
    assert ledger is not None
    assert (ledger.kind, ledger.paused) == (kind, WHY)
    assert '"paused"' not in seal(example(), BatchResult(), kind=kind).ledger


def test_a_run_begins_with_the_pause_that_it_finds_and_a_renewal_keeps_it() -> None:
    identity = RunIdentity(
        pipeline="p", run_id="r2", source=PAUSED.source, table_id="t", schema_fingerprint="f", framing=None
    )
    position = position_before(Resume(position=PAUSED, version=7), identity, version=9, timestamp_ms=5)
    assert position.paused == WHY
    assert renewed_position(position, batch_id="b", now_ms=6).paused == WHY


# -- in the log -------------------------------------------------------------------------------------------------------


def a_pause(log: Log, paused: Paused = WHY) -> Log:
    return log.own(kind=CommitKind.PAUSE, paused=paused, added=(), position={"paused": paused})


def a_resume(log: Log) -> Log:
    return log.own(kind=CommitKind.RESUME, added=())


def without_payload(commit: CommitFacts) -> CommitFacts:
    return replace(commit, txns=(replace(commit.txns[0], app_id=DAMAGED), *commit.txns[1:]))


def test_the_newest_commit_says_whether_it_is_paused() -> None:
    log = Log().own(took("a"))
    assert pause_in_log(log.newest_first(), "p", None) is None
    assert pause_in_log(a_pause(log).newest_first(), "p", None) == WHY
    assert pause_in_log(log.foreign().newest_first(), "p", None) == WHY
    assert pause_in_log(log.newest_first(), "q", None) is None
    assert pause_in_log(a_resume(log).newest_first(), "p", WHY) is None


def test_what_was_before_the_commits_counts_only_if_none_of_them_is_the_pipelines() -> None:
    assert pause_in_log((), "p", WHY) == WHY
    assert pause_in_log((facts(0, fence(0)),), "p", WHY) == WHY
    assert pause_in_log(Log().own(took("a")).newest_first(), "p", WHY) is None


def test_without_payloads_the_ledgers_say_it() -> None:
    log = a_pause(Log().own(took("a")))
    assert pause_in_log(map(without_payload, log.newest_first()), "p", None) == WHY
    log.own(kind=CommitKind.EDIT, paused=WHY, added=())
    assert pause_in_log(map(without_payload, log.newest_first()), "p", None) == WHY
    a_resume(log)
    assert pause_in_log(map(without_payload, log.newest_first()), "p", WHY) is None


def test_a_commit_of_which_nothing_can_be_read_says_nothing() -> None:
    log = a_pause(Log().own(took("a"))).own(took("b"))
    newest, *older = log.newest_first()
    assert pause_in_log([replace(without_payload(newest), user_metadata="{}"), *older], "p", None) == WHY


def test_ledgers_that_are_folded_pause_and_resume() -> None:
    log = Log().own(took("a"))
    base = example(sequence=1, delta_version=0)
    a_pause(log)
    folded = fold_ledgers(base, [c for c, _ in log.commits[1:]])
    assert (folded.sequence, folded.paused, folded.marks) == (2, WHY, base.marks)
    log.own(kind=CommitKind.RENEWAL, paused=WHY, added=())
    assert fold_ledgers(base, [c for c, _ in log.commits[1:]]).paused == WHY
    a_resume(log)
    assert fold_ledgers(base, [c for c, _ in log.commits[1:]]).paused is None


@pytest.mark.parametrize("is_paused_now", [True, False])
def test_a_rollback_that_is_folded_goes_back_to_the_marks_and_not_to_the_pause(is_paused_now: bool) -> None:
    log = Log().own(took("a"))
    if is_paused_now:
        a_pause(log.own(took("d")))
        back_to, base = 1, example(sequence=1, delta_version=0)
    else:
        a_resume(a_pause(log))
        back_to, base = 2, example(sequence=1, delta_version=0)
    superseded = tuple(range(back_to + 1, log.sequence + 1))
    paused = WHY if is_paused_now else None
    log.own(kind=CommitKind.ROLLBACK, rolled_back_to=back_to, superseded=superseded, paused=paused, added=())
    folded = fold_ledgers(base, [c for c, _ in log.commits[1:]])
    assert folded.paused == paused
    assert folded.marks == base.marks


# -- words and decisions ----------------------------------------------------------------------------------------------


def test_one_table_that_is_paused_pauses_the_pipeline() -> None:
    """A pipeline that writes to several tables has a position in each."""
    later = Paused(at_ms=WHY.at_ms + 1, reason="later")
    assert find_pause([]) is None
    assert find_pause([None, None]) is None
    assert find_pause([None, WHY]) == WHY
    assert find_pause([later, None, WHY]) == WHY


def test_a_pause_that_is_asked_for_again_has_begun_when_it_began() -> None:
    assert next_pause(None, reason=None, at_ms=5) == Paused(at_ms=5)
    assert next_pause(WHY, reason=None, at_ms=5) == WHY
    assert next_pause(WHY, reason="another", at_ms=5) == replace(WHY, reason="another")


def test_a_pause_in_words() -> None:
    assert describe_pause(WHY) == "paused since 1970-01-02T00:00:00Z (moving house)"
    assert describe_pause(Paused(at_ms=0)) == "paused since 1970-01-01T00:00:00Z"
