"""What a wish to commit becomes: nothing of it may be left out on the way into the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blizzard.core.codec import decode_position
from blizzard.core.commit import CommitRequest, Intent
from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.types import BatchResult, DataFile, SliceReport, TaskReport
from tests.core.logs import took
from tests.core.test_codec import EXAMPLE, example

FILE = DataFile(path="f.parquet", size_bytes=9, rows=4, stats="{}", modified_ms=1)
RESULT = BatchResult(
    reports=(
        TaskReport(
            slot=0,
            files=(FILE,),
            slices=(SliceReport(path="a", size_bytes=10, etag="e", from_record=0, to_record=4, finished=True, rows=4),),
        ),
    )
)
REQUEST = CommitRequest.of(Intent(position=EXAMPLE, planned_ms=5).sealed(), (FILE,))


def ledger_in(intent: Intent) -> Ledger:
    ledger = decode_ledger(intent.sealed().ledger)
    assert ledger is not None
    return ledger


@pytest.mark.parametrize(
    ("changes", "is_rollback"),
    [
        ({}, False),
        ({"files": ()}, False),
        ({"removes": ({"path": "a"},)}, True),
        ({"metadata": {"id": "t"}}, True),
        ({"metadata": {}}, True),
        ({"removes": ({"path": "a"},), "metadata": {"id": "t"}}, True),
    ],
    ids=["adds", "nothing at all", "removes", "a schema put back", "an empty schema put back", "both"],
)
def test_a_request_that_takes_away_is_for_one_version_only(changes: dict[str, Any], is_rollback: bool) -> None:
    assert replace(REQUEST, **changes).is_rollback == is_rollback


def test_a_request_carries_both_txns_the_ledger_and_the_files() -> None:
    sealed = Intent(position=EXAMPLE, planned_ms=5, result=RESULT).sealed()
    request = CommitRequest.of(sealed, RESULT.files)
    assert decode_position(request.app_id) == EXAMPLE
    assert request.fence_app_id == "blizzard-fence:p"
    assert (request.sequence, request.last_updated_ms) == (EXAMPLE.sequence, EXAMPLE.taken_at_ms)
    assert request.ledger == sealed.ledger
    assert request.files == (FILE,)
    assert not request.is_rollback


INTENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a batch": ({}, {"kind": "batch", "rolled_back_to": None, "superseded": ()}),
    "another kind": ({"kind": "renewal"}, {"kind": "renewal"}),
    "a rollback": (
        {"kind": "rollback", "rolled_back_to": 4, "superseded": (5, 6)},
        {"kind": "rollback", "rolled_back_to": 4, "superseded": (5, 6)},
    ),
    "a rollback to the beginning": ({"kind": "rollback", "rolled_back_to": 0}, {"rolled_back_to": 0}),
    "what was read": ({"result": RESULT}, {"records": 4, "entries": (took("a", end=4),)}),
    "what was read late": (
        {"result": RESULT, "late": frozenset({"a"})},
        {"entries": (took("a", end=4, late=True),)},
    ),
    "what a person said": (
        {"kind": "edit", "edited": (took("s", end=0, broken="skipped"),)},
        {"records": 0, "entries": (took("s", end=0, broken="skipped"),)},
    ),
    "both": (
        {"result": RESULT, "edited": (took("s"),)},
        {"records": 4, "entries": (took("a", end=4), took("s"))},
    ),
    "files of bad records": ({"position": example(pending=("q.parquet",))}, {"quarantine": ("q.parquet",)}),
}


@pytest.mark.parametrize(("wish", "told"), INTENTS.values(), ids=INTENTS)
def test_the_ledger_tells_what_was_wished(wish: dict[str, Any], told: dict[str, Any]) -> None:
    ledger = ledger_in(replace(Intent(position=EXAMPLE, planned_ms=5), **wish))
    assert {name: getattr(ledger, name) for name in told} == told


def test_the_ledger_says_whose_it_is() -> None:
    ledger = ledger_in(Intent(position=EXAMPLE, planned_ms=5))
    assert (ledger.pipeline, ledger.sequence, ledger.run_id, ledger.batch_id) == ("p", 7, "r", "b")
    assert (ledger.base_version, ledger.source) == (EXAMPLE.on.delta_version, EXAMPLE.source)
