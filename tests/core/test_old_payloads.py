"""What older versions of blizzard wrote decodes for ever, and says what it said then.

`payloads/README.md` says which version wrote which file, and how. The expected values come from the decoders of those
versions, so that this test does not compare today's code with itself.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.core.codec import (
    PREFIX,
    BadChecksum,
    decode_position,
    encode_position,
    fence_app_id,
    head_app_id,
    head_number,
    quarantine_app_id,
)
from blizzard.core.history import ledgers_of
from blizzard.core.ledger import Ledger, decode_ledger, encode_ledger, ledger_versions
from blizzard.core.log import CommitFacts, TableFacts, Txn, fence_version
from blizzard.core.position import FileProgress, Finished, Position, RustPosition
from blizzard.core.quarantine import QuarantineFacts, Settled, chain_of, judge_quarantine
from blizzard.core.recover import Resume, decide_recovery
from blizzard.core.types import NO_FILTERS, SourceIdentity

FOLDER = Path(__file__).parent / "payloads"

# Written out by hand: a file that is deleted or renamed is missed. Only ever add to this.
_OF_EVERY_VERSION = (
    *("a-mark-for-each-region", "adopted", "after-a-name", "cleaned", "every-field", "fresh", "held-and-late"),
    *("imported", "in-progress", "many-files", "quarantine-pending", "replay", "rollback", "unusual-names"),
)
_WITH_HEADS = ("carried-quarantine-head", "compared-names", "first-quarantine-head", "reads-again")
PAYLOADS = [
    *(f"1-first-release/{name}" for name in _OF_EVERY_VERSION),
    *(f"2-quarantine-heads/{name}" for name in (*_OF_EVERY_VERSION, *_WITH_HEADS)),
    "3-removed-path/rollback-with-both-witnesses",
    "3-removed-path/rollback-with-witness",
]
RUST_PAYLOADS = ["rust/as-documented", "rust/before-its-first-commit", "rust/not-yet-pruned"]
_VERSIONS_WITH_LOGS = ("1-first-release", "2-quarantine-heads")
LEDGERS = [f"{version}/ledgers" for version in _VERSIONS_WITH_LOGS]
_LOGS = ("real-log", "real-log-of-an-adoption", "real-log-of-an-import", "real-log-of-regions")
LOGS = [f"{version}/{name}" for version in _VERSIONS_WITH_LOGS for name in _LOGS]
QUARANTINE_LOGS = [f"{version}/real-log-of-quarantine" for version in _VERSIONS_WITH_LOGS]

# What a field that came later says where an older version wrote nothing of it.
_CAME_LATER: dict[str, Any] = {
    "quarantine_head": None,
    "settled_names": None,
    "names_compared_ms": None,
    "reads_again": False,
    "removed_path": None,
    "since_ms": None,
    "chosen_before": [],
    "dropped": [],
}


def kept(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def decoded(app_id: str) -> Position:
    position = decode_position(app_id)
    assert isinstance(position, Position)
    assert (position.framing, position.paused) == ("lines", None)
    return position


def json_of(app_id: str) -> bytes:
    return base64.b64decode(app_id.removeprefix(PREFIX))


def _progress(progress: FileProgress) -> Any:
    return "Finished" if isinstance(progress, Finished) else _without_reading(asdict(progress))


def _without_reading(fields: dict[str, Any]) -> dict[str, Any]:
    """What older versions wrote of a file was counted in lines of UTF-8, and is for ever."""
    assert (fields["framing"], fields["encoding"]) == ("lines", "utf-8")
    assert {fields.get("filtered", 0), fields.get("unrouted", 0)} == {0}  # every record was for the table
    newer = ("framing", "encoding", "filtered", "unrouted")
    return {name: value for name, value in fields.items() if name not in newer}


def said_of_source(source: SourceIdentity) -> dict[str, Any]:
    """No older version had filters."""
    fields = asdict(source)
    assert fields.pop("filters") == asdict(NO_FILTERS)
    return fields


def said(position: Position) -> dict[str, Any]:
    """All of a position under the names that older versions had for its fields."""
    on, begun, seen = position.on, position.begun, position.seen
    quarantine, head, cleaned = position.quarantine, position.quarantine.head, position.cleaned
    return {
        "pipeline": position.pipeline,
        "sequence": position.sequence,
        "run_id": position.run_id,
        "batch_id": position.batch_id,
        "taken_at_ms": position.taken_at_ms,
        "table_id": on.table_id,
        "delta_version": on.delta_version,
        "add_path": on.add_path,
        "removed_path": on.removed_path,
        "source": said_of_source(position.source),
        "schema_fingerprint": on.schema_fingerprint,
        "source_state": {
            "files": {path: _progress(progress) for path, progress in position.marks.files.items()},
            "last_committed_file": position.marks.last_committed_file,
            "prefix_marks": dict(position.marks.prefix_marks),
            "marks_per": position.marks.marks_per,
        },
        "start_from": begun.start_from,
        "since_ms": begun.since_ms,
        "chosen_before": list(map(said_of_source, position.chosen_before)),
        "reads_again": begun.reads_again,
        "pending_quarantine": list(quarantine.pending),
        "replayed": dict(quarantine.replayed),
        "rolled_back": None if quarantine.rolled_back is None else list(quarantine.rolled_back),
        "dropped": list(quarantine.dropped),
        "quarantine_head": None if head is None else asdict(head),
        "held_back": dict(seen.held_back),
        "list_from": dict(seen.list_from),
        "relist_watermark_ms": seen.relist_watermark_ms,
        "relist_names": seen.relist_names,
        "young_names": seen.young_names,
        "settled_names": seen.settled_names,
        "names_compared_ms": seen.names_compared_ms,
        "late_from_ms": seen.late_from_ms,
        "cleaned_through": cleaned.done_through,
        "cleaning_through": cleaned.due_through,
    }


def said_by_rust(position: RustPosition) -> dict[str, Any]:
    return {
        "files": {path: _progress(progress) for path, progress in position.marks.files.items()},
        "last_committed_file": position.marks.last_committed_file,
        "delta_version": position.delta_version,
    }


def said_in_ledger(ledger: Ledger) -> dict[str, Any]:
    fields = asdict(replace(ledger, dropped={}))
    assert not ledger.dropped  # no older version had a word for it, nor counted what went into quarantine
    assert fields.pop("dropped") == {}
    assert fields.pop("quarantined") is None
    assert fields.pop("began_ms") is None
    assert fields.pop("paused") is None  # no older version knew of a pause
    lists = {name: list(fields[name]) for name in ("quarantine", "superseded")}
    entries = list(map(_without_reading, fields["entries"]))
    return fields | lists | {"entries": entries, "source": said_of_source(ledger.source)}


def expected_of_ledger(says: dict[str, Any]) -> dict[str, Any]:
    """The first release did not count cut records: unknown where there are bad ones, and none where there are not. No
    older version filtered records."""
    entries = [{"cut": None if entry["bad"] else 0} | entry for entry in says["entries"]]
    return says | {"entries": entries}


def facts_of(commit: dict[str, Any]) -> CommitFacts:
    return CommitFacts(
        version=commit["version"],
        timestamp_ms=0,
        operation="WRITE",
        txns=tuple(Txn(app_id=txn["app_id"], version=txn["version"]) for txn in commit["txns"]),
        user_metadata=commit["user_metadata"],
    )


def newest_first(log: list[dict[str, Any]]) -> tuple[CommitFacts, ...]:
    return tuple(facts_of(commit) for commit in reversed(log))


def position_app_ids(commit: dict[str, Any]) -> list[str]:
    return [txn["app_id"] for txn in commit["txns"] if txn["app_id"].startswith(PREFIX)]


def test_no_file_is_gone_and_none_is_forgotten_here() -> None:
    listed = {*PAYLOADS, *RUST_PAYLOADS, *LEDGERS, *LOGS, *QUARANTINE_LOGS}
    assert {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json")} == listed
    assert len(listed) == 34 + 3 + 2 + 8 + 2


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_says_what_it_said_to_the_version_that_wrote_it(name: str) -> None:
    payload = kept(name)
    assert said(decoded(payload["app_id"])) == _CAME_LATER | payload["says"]


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_written_again_is_the_same_json(name: str) -> None:
    """Fields that came later are left out where they say nothing, so that an older version can still read it."""
    app_id = kept(name)["app_id"]
    position = decoded(app_id)
    again = encode_position(position)
    assert decoded(again) == position
    assert json_of(again) == json_of(app_id)
    assert again == app_id


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_with_one_changed_value_is_not_believed(name: str) -> None:
    """The files are protected by the checksum that their own version wrote."""
    raw = json_of(kept(name)["app_id"])
    changed = raw.replace(b'"delta_version":', b'"delta_version":1', 1)
    with pytest.raises(BadChecksum):
        decode_position(PREFIX + base64.b64encode(changed).decode())


@pytest.mark.parametrize("name", RUST_PAYLOADS)
def test_a_payload_of_the_rust_program_says_what_is_written_beside_it(name: str) -> None:
    payload = kept(name)
    position = decode_position(payload["app_id"])
    assert isinstance(position, RustPosition)
    assert said_by_rust(position) == payload["says"]


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_says_what_it_said_and_is_written_the_same_again(name: str) -> None:
    for kept_ledger in kept(name):
        check_ledger(kept_ledger["user_metadata"], kept_ledger["says"])


def check_ledger(user_metadata: str, says: dict[str, Any]) -> None:
    ledger = decode_ledger(user_metadata)
    assert ledger is not None
    assert said_in_ledger(ledger) == expected_of_ledger(says)
    assert encode_ledger(ledger) == user_metadata
    names = [(entry["path"], (entry["size_bytes"], entry["etag"])) for entry in says["entries"]]
    assert ledger_versions(user_metadata, says["pipeline"], set()) == names


@pytest.mark.parametrize("name", LOGS)
def test_every_commit_of_a_real_log_says_what_it_said(name: str) -> None:
    log = kept(name)
    for commit in log:
        app_ids = position_app_ids(commit)
        assert len(app_ids) == len(commit["positions"])
        for app_id, says in zip(app_ids, commit["positions"], strict=True):
            position = decode_position(app_id)
            if isinstance(position, Position):
                assert said(position) == _CAME_LATER | says
                assert encode_position(position) == app_id
            else:
                assert position.delta_version == says["delta_version"]
                assert said_by_rust(position)["files"] == says["source_state"]["files"]
        if commit["ledger"] is not None:
            check_ledger(commit["user_metadata"], commit["ledger"])
    assert any(commit["ledger"] for commit in log)


@pytest.mark.parametrize("name", LOGS)
def test_the_fence_of_a_real_log_is_found_and_is_the_sequence_of_its_position(name: str) -> None:
    fenced = 0
    for commit in kept(name):
        for says in commit["positions"]:
            if "pipeline" in says:
                assert fence_app_id(says["pipeline"]) in [txn["app_id"] for txn in commit["txns"]]
                assert fence_version(facts_of(commit), says["pipeline"]) == says["sequence"]
                fenced += 1
    assert fenced > 0


@pytest.mark.parametrize("name", LOGS)
def test_a_run_goes_on_from_a_real_log(name: str) -> None:
    log = kept(name)
    says = log[-1]["positions"][-1]
    facts = TableFacts(
        version=log[-1]["version"],
        table_id=says["table_id"],
        has_data=True,
        fence=says["sequence"],
        commits=newest_first(log),
    )
    recovery = decide_recovery(facts, pipeline=says["pipeline"], source=None, start_from=None)
    assert isinstance(recovery, Resume)
    assert said(recovery.position) == _CAME_LATER | says


@pytest.mark.parametrize("version", _VERSIONS_WITH_LOGS)
def test_the_ledgers_of_a_real_log_count_but_for_what_was_rolled_back(version: str) -> None:
    counted = [ledger.sequence for _, ledger in ledgers_of(newest_first(kept(f"{version}/real-log")), "p")]
    assert counted == [12, 11, 10, 9, 8, 7, 6, 4, 3, 2, 1]
    chain = chain_of(newest_first(kept(f"{version}/real-log")), pipeline="p", sequence=12)
    assert [link.sequence for link in chain.links if link.files] == [1, 2, 9, 12]
    assert dict(chain.links[1].replayed) == {"through": "1"}


def quarantine_txns(version: str) -> tuple[Position, dict[str, list[int]]]:
    """The newest position of the table, and every version that each Txn of its quarantine table had."""
    (app_id,) = position_app_ids(kept(f"{version}/real-log")[-1])
    txns: dict[str, list[int]] = {}
    for commit in kept(f"{version}/real-log-of-quarantine"):
        for txn in commit["txns"]:
            txns.setdefault(txn["app_id"], []).append(txn["version"])
    return decoded(app_id), txns


@pytest.mark.parametrize("version", _VERSIONS_WITH_LOGS)
def test_the_txn_of_a_real_quarantine_is_the_sequence_that_it_has_settled(version: str) -> None:
    position, txns = quarantine_txns(version)
    assert txns[quarantine_app_id("p", position.on.table_id)] == [1, 2, 6, 9, 12]


def test_the_head_of_a_real_quarantine_is_the_number_of_its_batch() -> None:
    position, txns = quarantine_txns("2-quarantine-heads")
    batches = {
        says["sequence"]: says["batch_id"] for c in kept("2-quarantine-heads/real-log") for says in c["positions"]
    }
    heads = txns[head_app_id("p", position.on.table_id)]
    assert heads == [head_number(batches[sequence]) for sequence in (1, 2, 6, 9, 12)]


def test_the_first_release_wrote_no_head() -> None:
    position, txns = quarantine_txns("1-first-release")
    assert head_app_id("p", position.on.table_id) not in txns


@pytest.mark.parametrize("version", _VERSIONS_WITH_LOGS)
def test_a_real_quarantine_is_in_step_with_its_table(version: str) -> None:
    position, txns = quarantine_txns(version)
    head = position.quarantine.head
    facts = QuarantineFacts(
        table_id="of an older version" if head is None else head.table_id,
        sequence=txns[quarantine_app_id("p", position.on.table_id)][-1],
        head=txns.get(head_app_id("p", position.on.table_id), [None])[-1],
    )
    assert judge_quarantine(position, facts) == Settled()


def test_app_ids_are_spelled_as_ever() -> None:
    assert fence_app_id("p:q ü") == "blizzard-fence:p:q ü"
    assert quarantine_app_id("p", "t") == "blizzard-dlq:p:t"
    assert head_app_id("p", "t") == "blizzard-dlq-head:p:t"
    assert head_number("ef0702e30cfeeb52") == 7603547465709082376  # as a version with heads wrote it
