"""How records are counted is part of positions and ledgers: older releases refuse what they would count otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from blizzard.core.batch import InconsistentReport, RunIdentity, check_result, position_before
from blizzard.core.codec import UnknownField, checksum_of, decode_json, decode_position, encode_position
from blizzard.core.fold import CannotFold, fold_ledgers
from blizzard.core.framing import MAX_KEY_BYTES, is_framing, key_of
from blizzard.core.ledger import decode_ledger
from blizzard.core.newer import refuse_newer
from blizzard.core.plan import Limits, plan_batch
from blizzard.core.position import Marks, RecordsRead, apply_reports
from blizzard.core.recover import ADOPTED, Fresh, Resume
from blizzard.core.types import BatchPlan, BatchResult, Budget, Slice, SliceReport, SourceFile, TaskPlan, TaskReport
from tests.core.test_codec import app_id, example
from tests.core.test_fold import START, commit_of


def in_progress(**reading: str) -> Marks:
    progress = RecordsRead(records=5, size_bytes=9, etag="e", **reading)
    return Marks(files={"a": progress, "b": RecordsRead(records=0)}, last_committed_file="c")


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"marks": in_progress()}, 2),
        ({"marks": in_progress(framing="lines", encoding="utf-8"), "framing": "lines"}, 2),
        ({"marks": in_progress(framing="array")}, 3),
        ({"marks": in_progress(encoding="utf-16")}, 3),
        ({"marks": in_progress(), "framing": "auto"}, 3),
        ({"marks": Marks(last_committed_file="c"), "framing": "array:k"}, 3),
    ],
)
def test_only_what_an_older_release_would_count_otherwise_has_version_3(changes: dict[str, Any], version: int) -> None:
    position = example(**changes)
    encoded = encode_position(position)
    assert decode_json(encoded)["schema_version"] == version
    assert decode_position(encoded) == position
    says_more = b"framing" in orjson.dumps(decode_json(encoded)) or b"encoding" in orjson.dumps(decode_json(encoded))
    assert says_more == (version == 3)


def sealed(**changes: Any) -> str:
    fields = {n: v for n, v in decode_json(encode_position(example())).items() if n != "checksum"} | changes
    return app_id(orjson.dumps(fields | {"checksum": checksum_of(fields)}))


VERSIONS = {"a": {"size": 9, "etag": "e", "framing": "array"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"framing": "array"},  # version 2 has none
        {"file_versions": VERSIONS},
        {"schema_version": 3, "framing": "rows"},
        {"schema_version": 3, "file_versions": {"a": VERSIONS["a"] | {"framing": "auto"}}},
        {"schema_version": 3, "file_versions": {"a": VERSIONS["a"] | {"records": 1}}},
    ],
)
def test_what_this_version_does_not_know_is_refused_as_newer(changes: dict[str, Any]) -> None:
    payload = sealed(**changes)
    with pytest.raises(UnknownField):
        decode_position(payload)
    refusal = refuse_newer([payload], "p", 7)
    assert refusal is not None
    assert refusal.kind == "newer_checkpoint"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((name, True) for name in ("lines", "concatenated", "array", "array:Records", "array:größe", "array:a b")),
        *((name, False) for name in ("auto", "", "array:", "Array", "rows", 'array:"', "array:\\", "array:\n")),
        ("array:" + "k" * MAX_KEY_BYTES, True),
        ("array:" + "k" * (MAX_KEY_BYTES + 1), False),
        ("array:\ud800", False),
    ],
)
def test_what_names_a_framing(text: str, expected: bool) -> None:
    assert is_framing(text) == expected


def test_the_key_of_a_framing() -> None:
    assert (key_of("array:a:b"), key_of("array"), key_of("lines")) == ("a:b", None, None)


def test_a_plan_goes_on_as_the_position_says_and_begins_as_the_setting_says() -> None:
    listing = [SourceFile(path=name, size_bytes=9, etag="e") for name in ("a", "b", "d")]
    plan = plan_batch(in_progress(framing="array", encoding="utf-16"), listing, Limits(), slots=1, framing="auto")
    assert {s.path: (s.from_record, s.framing, s.encoding) for s in plan.slices} == {
        "a": (5, "array", "utf-16"),
        "b": (0, "auto", "utf-8"),
        "d": (0, "auto", "utf-8"),
    }


IDENTITY = RunIdentity(pipeline="p", run_id="r", source=example().source, table_id="t", schema_fingerprint="f")


@pytest.mark.parametrize(
    ("found", "configured", "expected"),
    [
        (Fresh(marks=Marks(), start_from=None), None, "auto"),
        (Fresh(marks=Marks(), start_from=None), "lines", "lines"),
        (Fresh(marks=Marks(), start_from=ADOPTED), None, "lines"),  # the Rust program read lines
        (Fresh(marks=Marks(), start_from=ADOPTED), "array", "array"),
        (Resume(position=example(), version=6), None, "lines"),
        (Resume(position=example(framing="array"), version=6), None, "array"),
        (Resume(position=example(framing="auto"), version=6), "lines", "lines"),
    ],
)
def test_a_pipeline_keeps_the_framing_it_was_made_with(
    found: Resume | Fresh, configured: str | None, expected: str
) -> None:
    identity = replace(IDENTITY, framing=configured)
    assert position_before(found, identity, version=6, timestamp_ms=0).framing == expected


def report(**changes: Any) -> SliceReport:
    given: dict[str, Any] = {"path": "a", "size_bytes": 9, "etag": "e", "from_record": 0, "to_record": 2, "rows": 2}
    return SliceReport(**given | {"finished": False, "framing": "array"} | changes)


def test_marks_and_ledgers_take_the_framing_from_the_report() -> None:
    taken = apply_reports(Marks(), [report(encoding="utf-16")]).in_progress["a"]
    assert (taken.framing, taken.encoding) == ("array", "utf-16")
    position = replace(START, marks=Marks(), sequence=1)
    result = BatchResult(reports=(TaskReport(slot=0, slices=(report(encoding="utf-16"),)),))
    ledger = decode_ledger(commit_of(1, position, result).user_metadata)
    assert ledger is not None
    assert [(entry.framing, entry.encoding) for entry in ledger.entries] == [("array", "utf-16")]
    text = commit_of(1, position, result).user_metadata or ""
    assert decode_ledger(text.replace('"array"', '"rows"')) is None


@pytest.mark.parametrize(
    ("piece", "said"),
    [({"from_record": 1, "framing": "lines"}, {}), ({"from_record": 1, "framing": "array"}, {"encoding": "x"})],
)
def test_a_report_that_counts_otherwise_than_before_is_never_committed(piece: dict[str, Any], said: Any) -> None:
    planned = Slice(path="a", size_bytes=9, etag="e", **piece)
    budget = Budget(output_bytes=1, max_records=None, seconds=None)
    plan = BatchPlan(tasks=(TaskPlan(slot=0, slices=(planned,), budget=budget),), frontier=("a",))
    slices = (report(from_record=1, rows=1, **said),)
    with pytest.raises(InconsistentReport, match="read in another way"):
        check_result(plan, BatchResult(reports=(TaskReport(slot=0, slices=slices),)))
    undecided = (report(rows=2, framing="auto"),)
    with pytest.raises(InconsistentReport, match="read in another way"):
        check_result(
            BatchPlan(tasks=(TaskPlan(slot=0, slices=(replace(planned, from_record=0),), budget=budget),), frontier=()),
            BatchResult(reports=(TaskReport(slot=0, slices=undecided),)),
        )


def test_a_ledger_that_counts_otherwise_than_the_position_is_not_folded() -> None:
    base = replace(START, sequence=1, marks=in_progress(framing="array"))
    for framing in ("lines", "array"):
        after = replace(base, sequence=2, batch_id="b2")
        read = report(from_record=5, to_record=6, rows=1, framing=framing)
        commit = commit_of(5, after, BatchResult(reports=(TaskReport(slot=0, slices=(read,)),)))
        if framing == "lines":
            with pytest.raises(CannotFold, match="in another way"):
                fold_ledgers(base, [commit])
        else:
            folded = fold_ledgers(base, [commit]).marks.in_progress["a"]
            assert (folded.records, folded.framing) == (6, "array")


# As the first release with version 3 wrote it. It must decode to the same for ever.
WRITTEN = (
    b'{"schema_version":3,"source_state":{"files":{"a":{"RecordsRead":5},"b":{"RecordsRead":0}},"last_committed_file":"c"},'
    b'"delta_version":6,"pipeline":"p","sequence":7,"run_id":"r","batch_id":"b","taken_at_ms":1,"table_id":"t",'
    b'"add_path":"x.parquet","source":{"root":"file:///s","pattern":"*"},"file_versions":{"a":{"size":9,"etag":"e",'
    b'"framing":"array:Records","encoding":"utf-16"}},"schema_fingerprint":"f","start_from":null,"pending_quarantine":[],'
    b'"replayed":{},"rolled_back":null,"held_back":{},"list_from":{},"relist_watermark_ms":null,"relist_names":null,'
    b'"young_names":null,"prefix_marks":{},"late_from_ms":0,"cleaned_through":0,"cleaning_through":0,"framing":"auto",'
    b'"checksum":"d4d97e8b7ddb1a5e"}'
)


def test_a_payload_of_version_3_says_what_it_said_when_it_was_written() -> None:
    expected = example(marks=in_progress(framing="array:Records", encoding="utf-16"), framing="auto")
    assert decode_position(app_id(WRITTEN)) == expected
    assert encode_position(expected) == app_id(WRITTEN)
