"""One task on framed files: resumed at any record, with threads, with every parser, and its bad records."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard import native
from blizzard.core.bad import BadPolicy
from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.tasks.task import run_task
from tests.source.framed import FRAMED, framed
from tests.tasks.specs import make_spec

TICKET = BatchTicket(sequence=1, planned_ms=0, table_id="t")
PARSERS = [
    "reference",
    "pyarrow",
    pytest.param("native", marks=pytest.mark.skipif(not native.is_available(), reason="")),
]


def run(
    folder: Path,
    files: dict[str, bytes],
    *,
    framing: str = "auto",
    start: dict[str, tuple[int, str]] | None = None,
    threads: int = 1,
    max_records: int | None = None,
    **changes: Any,
) -> TaskReport:
    slices = []
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        info = path.stat()
        at, known = (start or {}).get(name, (0, framing))
        piece = Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=at, framing=known)
        slices.append(piece)
    given_changes: dict[str, Any] = {"table_root": str(folder), "bad": BadPolicy(), "block_bytes": 64} | changes
    budget = Budget(output_bytes=1 << 30, max_records=max_records, seconds=None)
    plan = TaskPlan(slot=0, slices=tuple(slices), budget=budget, threads=threads)
    return run_task(make_spec(folder, **given_changes), plan, TICKET)


def ids(folder: Path, report: TaskReport) -> list[int]:
    return [i for f in report.files for i in pq.read_table(folder / f.path)["id"].to_pylist()]


def quarantined(folder: Path, report: TaskReport) -> list[dict[str, Any]]:
    return [row for f in report.quarantine for row in pq.read_table(folder / "quarantine" / f.path).to_pylist()]


def records(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i} }}]"} for i in range(first, first + count)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", sorted(FRAMED))
def test_every_framing_gives_the_same_rows(tmp_path: Path, shape: str, threads: int) -> None:
    framing = FRAMED[shape][0]
    files = {"a.json": framed(shape, records(9)), "b.json.gz": gzip.compress(framed(shape, records(400, 9)))}
    setting = framing if shape == "siblings" else "auto"
    report = run(tmp_path, files, framing=setting, threads=threads, block_bytes=512)
    assert ids(tmp_path, report) == list(range(409))
    assert [(s.framing, s.rows, s.bad, s.blank, s.finished) for s in report.slices] == [
        (framing, 9, 0, 0, True),
        (framing, 400, 0, 0, True),
    ]
    assert report.siblings.counts == ({("meta",): 2, ("next",): 2} if shape == "siblings" else {})


def test_files_of_all_framings_are_read_together(tmp_path: Path) -> None:
    files = {
        f"{n}.json": framed(shape, records(5, 5 * n)) for n, shape in enumerate(sorted(set(FRAMED) - {"siblings"}))
    }
    report = run(tmp_path, files, block_bytes=1 << 20)
    assert ids(tmp_path, report) == list(range(5 * len(files)))
    assert {s.framing for s in report.slices} == {"lines", "concatenated", "array", "array:Records"}


@pytest.mark.parametrize("shape", sorted(FRAMED))
def test_a_file_is_resumed_at_any_record(tmp_path: Path, shape: str) -> None:
    content, framing = framed(shape, records(7)), FRAMED[shape][0]
    for first in range(8):
        report = run(tmp_path, {"a.json": content}, start={"a.json": (first, framing)}, max_records=3)
        assert ids(tmp_path, report) == list(range(first, min(7, first + 3)))
        (piece,) = report.slices
        assert (piece.from_record, piece.to_record) == (first, min(7, first + 3))
        assert piece.framing == framing
        if piece.to_record == 7 and first < 7:
            continue  # whether the end was seen depends on where blocks end
        assert piece.finished == (first == 7)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(set(FRAMED) - {"siblings"})),
    st.integers(0, 30),
    st.integers(8, 300),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_any_cuts_of_a_file_read_every_record_once(
    tmp_path_factory: Any, shape: str, count: int, block_bytes: int, limit: int, threads: int
) -> None:
    folder = tmp_path_factory.mktemp("task")
    content = framed(shape, records(count))
    found: list[int] = []
    at: tuple[int, str] = (0, "auto")
    while True:
        report = run(
            folder, {"a": content}, start={"a": at}, max_records=limit, block_bytes=block_bytes, threads=threads
        )
        assert report.failure is None
        (piece,) = report.slices
        found += ids(folder, report)
        if piece.finished:
            break
        at = (piece.to_record, piece.framing)
    assert found == list(range(count))


ODD = b"""[
 {"id": 1, "name": "one"},
 {"id": 2,
  "name": "a
newline"},
 7, "eight", null, [9], {"id": "ten"}, {"id": 11,
 "name": "eleven"}, tru
, {"id":12,,"name":"x"},{"id": 13, "name": "thirteen"}
]"""


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("block_bytes", [3, 50, 1 << 20])
@pytest.mark.parametrize("natively", [True, False])
def test_bad_elements_go_to_quarantine_with_their_bytes_and_their_place(
    tmp_path: Path, parser: str, block_bytes: int, natively: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not natively:
        monkeypatch.setattr(native, "has_frame_scanner", lambda: False)
    report = run(tmp_path, {"a.json": ODD}, parser=parser, block_bytes=block_bytes)
    assert ids(tmp_path, report) == [1, 11, 13]
    (piece,) = report.slices
    assert (piece.framing, piece.to_record, piece.rows, piece.bad, piece.finished) == ("array", 11, 3, 8, True)
    bad = quarantined(tmp_path, report)
    assert [(row["line"], row["error_kind"]) for row in bad] == [
        (2, "not_json"),
        (3, "not_object"),
        (4, "not_object"),
        (5, "not_object"),
        (6, "not_object"),
        (7, "bad_value"),
        (9, "not_json"),
        (10, "not_json"),
    ]
    for row in bad:
        assert ODD[row["byte_offset"] : row["byte_offset"] + len(row["raw"])] == row["raw"]
    assert bad[0]["raw"] == b'{"id": 2,\n  "name": "a\nnewline"}'
    assert bad[-2]["raw"] == b"tru"


def test_a_newline_in_a_string_never_becomes_a_value(tmp_path: Path) -> None:
    for parser in ("reference", "pyarrow", *(["native"] if native.is_available() else [])):
        report = run(tmp_path, {"a": b'{"id":1,"name":"x\ny"}{"id":2}'}, framing="concatenated", parser=parser)
        assert ids(tmp_path, report) == [2]
        (row,) = quarantined(tmp_path, report)
        assert (row["error_kind"], row["raw"]) == ("not_json", b'{"id":1,"name":"x\ny"}')


def test_a_record_over_the_limit_is_bad_with_its_place_and_size(tmp_path: Path) -> None:
    content = b'[{"id":1},{"id":2,"name":"' + b"x" * 5000 + b'"},{"id":3}]'
    report = run(tmp_path, {"a.json": content}, max_record_bytes=1000)
    assert ids(tmp_path, report) == [1, 3]
    (row,) = quarantined(tmp_path, report)
    assert (row["line"], row["error_kind"], row["byte_offset"], row["raw_bytes"]) == (2, "too_long", 10, 5018)
    assert content[10:].startswith(row["raw"])


@pytest.mark.parametrize("policy", ["quarantine", "retry", "fail"])
def test_a_broken_frame_is_a_broken_file_like_a_damaged_gzip(tmp_path: Path, policy: str) -> None:
    files = {
        "a.json": framed("array", records(5)),
        "b.json": framed("array", records(5, 5))[:-1] + b'{"id":99}]',
        "c.json": framed("pretty", records(5, 10))[:-1] + b"]}",
        "d.json": framed("firehose", records(5, 15)),
    }
    report = run(tmp_path, files, bad=BadPolicy(files=policy))
    if policy == "fail":
        assert report.failure is not None
        assert (report.failure.kind, report.failure.path) == ("corrupt", "b.json")
        assert "after record 5, at byte" in report.failure.message
        return
    assert ids(tmp_path, report) == [0, 1, 2, 3, 4, 15, 16, 17, 18, 19]
    broken = {s.path: s.broken for s in report.slices}
    if policy == "retry":
        assert [path for path, _ in report.unreadable] == ["b.json", "c.json"]
        assert broken == {"a.json": None, "d.json": None}
        return
    assert broken == {
        "a.json": None,
        "b.json": "corrupt after record 5",
        "c.json": "corrupt after record 5",
        "d.json": None,
    }
    assert [(row["source_file"], row["error_kind"]) for row in quarantined(tmp_path, report)] == [
        ("b.json", "corrupt"),
        ("c.json", "corrupt"),
    ]


def test_a_file_that_ends_early_may_still_be_arriving(tmp_path: Path) -> None:
    report = run(tmp_path, {"a.json": framed("array", records(5))[:-1], "b.json": framed("array", records(2, 5))})
    assert ids(tmp_path, report) == [5, 6]
    assert [path for path, _ in report.unreadable] == ["a.json"]


def test_what_was_recorded_holds_whatever_the_file_looks_like(tmp_path: Path) -> None:
    """Its first lines were read by an older version, which called each of them bad."""
    content = framed("array in lines", records(3))
    report = run(tmp_path, {"a.json": content}, start={"a.json": (2, "lines")})
    assert ids(tmp_path, report) == [2]
    (piece,) = report.slices
    assert (piece.framing, piece.to_record, piece.bad) == ("lines", 5, 2)


def test_a_wrapper_that_is_a_column_stays_one_record(tmp_path: Path) -> None:
    layout = TableLayout(schema=load_schema("id BIGINT, records ARRAY<STRUCT<id:BIGINT>>"))
    content = b'{"id":1,"Records":[{"id":7}]}\n{"Records":[{"id":8}]}\n'
    report = run(tmp_path, {"a.json": content, "b.json": b'{"Records":[{"id":8}],"id":2}\n'}, layout=layout)
    assert [s.framing for s in report.slices] == ["lines", "lines"]
    assert ids(tmp_path, report) == [1, None, 2]


@pytest.mark.parametrize("kind", ["BIGINT", "TIMESTAMP", "STRUCT<a:BIGINT>", "MAP<STRING,STRING>"])
def test_a_column_that_cannot_hold_the_array_is_a_field_of_the_records(tmp_path: Path, kind: str) -> None:
    """Else one record with a field `records` would turn all later files into one bad record each."""
    layout = TableLayout(schema=load_schema(f"id BIGINT, records {kind}"))
    report = run(tmp_path, {"a.json": b'{"Records":[{"id":1},{"id":2}]}'}, layout=layout)
    assert [s.framing for s in report.slices] == ["array:Records"]
    assert ids(tmp_path, report) == [1, 2]


def test_a_file_whose_first_event_looks_like_a_wrapper_is_read_line_by_line(tmp_path: Path) -> None:
    report = run(tmp_path, {"a.json": b'{"Records":[{"id":1}]}\n{"id":2}\n{"id":3}\n'})
    assert [(s.framing, s.rows, s.broken) for s in report.slices] == [("lines", 3, None)]


def test_a_bad_record_that_stops_the_run_is_named_by_its_number(tmp_path: Path) -> None:
    report = run(tmp_path, {"a.json": b'[{"id":1},{"id":"x"}]'}, bad=BadPolicy(records="fail"))
    assert report.failure is not None
    assert (report.failure.counts, report.failure.line) == ("record", 2)
