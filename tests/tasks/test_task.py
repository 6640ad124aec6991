"""One task on real files, without Spark: what it gathers, cuts, counts and reports."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.bad import BadPolicy
from blizzard.core.reasons import Reason
from blizzard.core.types import BatchResult, BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.tasks.task import run_task
from tests.ingesting import line
from tests.tasks.specs import make_spec

TICKET = BatchTicket(sequence=1, planned_ms=0, table_id="t")
BOM = b"\xef\xbb\xbf"


def run(
    folder: Path, files: dict[str, bytes], *, start: dict[str, int] | None = None, records: str = "fail", **budget: Any
) -> TaskReport:
    slices = []
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        info = path.stat()
        at = (start or {}).get(name, 0)
        slices.append(Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=at))
    spec = make_spec(
        folder,
        compression="none",
        table_root=str(folder),
        bad=BadPolicy(records=records),
        block_bytes=budget.pop("block_bytes", 1 << 20),
    )
    given_budget: dict[str, Any] = {"output_bytes": 1 << 30, "max_records": None, "seconds": None} | budget
    return run_task(spec, TaskPlan(slot=0, slices=tuple(slices), budget=Budget(**given_budget)), TICKET)


def ids(folder: Path, report: TaskReport) -> list[int]:
    return [i for f in report.files for i in pq.read_table(folder / f.path)["id"].to_pylist()]


def test_small_files_are_parsed_together_and_reported_apart(tmp_path: Path) -> None:
    files = {
        "a": line(0) + line(1),
        "bom": BOM + line(2),
        "cut": line(3) + line(4).rstrip(b"\n"),
        "empty": b"",
        "crlf": line(5).replace(b"\n", b"\r\n"),
        "z": line(6),
    }
    report = run(tmp_path, files)
    assert report.failure is None
    assert ids(tmp_path, report) == list(range(7))
    assert [(s.path, s.to_record, s.rows, s.blank, s.finished) for s in report.slices] == [
        ("a", 2, 2, 0, True),
        ("bom", 1, 1, 0, True),
        ("cut", 2, 2, 0, True),
        ("empty", 0, 0, 0, True),
        ("crlf", 1, 1, 0, True),
        ("z", 1, 1, 0, True),
    ]


def test_blank_lines_are_counted_for_the_file_they_are_in(tmp_path: Path) -> None:
    report = run(tmp_path, {"a": line(0) + b"\n", "bom": BOM + b"\n", "b": b" \r\n" + line(1), "c": line(2)})
    assert ids(tmp_path, report) == [0, 1, 2]
    assert [(s.to_record, s.rows, s.blank) for s in report.slices] == [(2, 1, 1), (1, 0, 1), (2, 1, 1), (1, 1, 0)]


def test_a_bad_line_among_gathered_files_is_named_by_its_own_file_and_line(tmp_path: Path) -> None:
    report = run(tmp_path, {"a": line(0) * 3, "b": line(1) + b"\n" + b"oops\n" + line(2), "c": line(3)})
    assert report.failure is not None
    assert (report.failure.path, report.failure.line) == ("b", 3)
    assert report.files == ()


def test_two_files_are_never_read_as_one_line(tmp_path: Path) -> None:
    """Halves of an object at the end of one file and the start of the next are two bad lines, not a record."""
    report = run(tmp_path, {"a": line(0) + b'{"id":1,', "b": b'"name":"x"}\n'})
    assert report.failure is not None
    assert (report.failure.path, report.failure.line) == ("a", 2)


def test_a_byte_order_mark_is_allowed_only_at_the_start_of_a_file(tmp_path: Path) -> None:
    report = run(tmp_path, {"a": BOM + line(0), "b": line(1) + BOM + line(2)})
    assert report.failure is not None
    assert (report.failure.path, report.failure.line) == ("b", 2)


def test_a_resumed_slice_does_not_take_its_first_line_for_the_first_of_the_file(tmp_path: Path) -> None:
    report = run(tmp_path, {"a": line(0) + BOM + line(1)}, start={"a": 1})
    assert report.failure is not None
    assert report.failure.line == 2


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), min_size=1, max_size=8),
    st.integers(16, 400),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_any_cut_of_any_files_at_any_block_size_reads_every_line_once(
    tmp_path_factory: Any, shapes: list[tuple[int, bool, bool]], block_bytes: int, limit: int, rng: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("task")
    files, expected, next_id = {}, [], 0
    for number, (count, blanks, final_newline) in enumerate(shapes):
        content = b""
        for _ in range(count):
            content += (b"\n" if blanks and rng.random() < 0.3 else b"") + line(next_id)
            expected.append(next_id)
            next_id += 1
        files[f"f{number}"] = content if final_newline else content.rstrip(b"\n")
    start: dict[str, int] = {}
    found: list[int] = []
    done: set[str] = set()
    while len(done) < len(files):
        left = {name: content for name, content in files.items() if name not in done}
        report = run(folder, left, start=start, block_bytes=block_bytes, max_records=limit)
        assert report.failure is None
        assert sum(s.to_record - s.from_record for s in report.slices) <= limit
        found += ids(folder, report)
        for s in report.slices:
            assert s.to_record - s.from_record == s.rows + s.blank
            start[s.path] = s.to_record
            if s.finished:
                done.add(s.path)
    assert found == expected


@given(st.integers(16, 400), st.sampled_from(["quarantine", "drop"]))
@settings(max_examples=20, deadline=None)
def test_why_lines_are_bad_is_reported_with_the_first_of_each(
    tmp_path_factory: pytest.TempPathFactory, block_bytes: int, records: str
) -> None:
    folder = tmp_path_factory.mktemp("reasons")
    files = {
        "a": line(0) + b'{"id":"7"}\n\n{"id":1.5}\n',
        "b": b'{"id":"8"}\n{"id":"9"}\n{"id":\n' + line(1),
        "c": b'{"id":1,"name":"%s"}\n' % (b"x" * 2_000_000),
    }
    report = run(folder, files, records=records, block_bytes=block_bytes)
    text = Reason(kind="bad_value", column="id", expected="long", cause="number_in_text")
    met = {(reason.kind, reason.cause): (m.records, m.path, m.line) for reason, m in report.reasons.met.items()}
    assert met == {
        ("bad_value", "number_in_text"): (3, "a", 2),
        ("bad_value", "fraction"): (1, "a", 4),
        ("not_json", ""): (1, "b", 3),
        ("too_long", ""): (1, "c", 1),
    }
    assert report.reasons.met[text].message.startswith('id: "7" is not a valid long')
    assert report.reasons.records == sum(s.bad for s in report.slices) == 6
    assert BatchResult(reports=(report, report)).reasons.records == 12
