"""A task with several threads: the same rows, reports and errors as with one, in the same order, and no thread left."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.bad import BadPolicy
from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.faults import reach
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.decode import open_stream
from blizzard.source.lines import Block
from blizzard.tasks import framed, reading
from blizzard.tasks.ahead import ReadAhead
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsings import BlockParser, ParsedBlocks
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_task
from blizzard.tasks.write import ParquetRoller
from tests.ingesting import line
from tests.tasks.specs import make_spec

TICKET = BatchTicket(sequence=1, planned_ms=0, table_id="t")
EVERYTHING = Budget(output_bytes=1 << 30, max_records=None, seconds=None)


@pytest.fixture(autouse=True)
def no_thread_stays_behind() -> Iterator[None]:
    yield
    assert threads() == []


def threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith(("blizzard-read", "blizzard-parse"))
    ]


def open_files(folder: Path) -> list[str]:
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return [name for name in names if name.startswith(str(folder))]


def write_slices(folder: Path, files: dict[str, bytes], starts: dict[str, int] | None = None) -> tuple[Slice, ...]:
    slices = []
    for name, content in files.items():
        (folder / name).write_bytes(content)
        info = (folder / name).stat()
        os.utime(folder / name, ns=(0, 0))  # old: a cut one is broken, not still being written
        start = (starts or {}).get(name, 0)
        slices.append(Slice(path=name, size_bytes=info.st_size, etag="0", from_record=start))
    return tuple(slices)


def run(spec: TaskSpec, slices: tuple[Slice, ...], count: int, budget: Budget = EVERYTHING) -> TaskReport:
    return run_task(spec, TaskPlan(slot=0, slices=slices, budget=budget, threads=count), TICKET)


def all_of(spec: TaskSpec, report: TaskReport) -> dict[str, Any]:
    """What the report says, and what is in the files it names. Only their names and times may differ."""
    rows = [pq.read_table(f"{spec.table_root}/{file.path}").to_pylist() for file in report.files]
    bad = [pq.read_table(f"{spec.quarantine_root}/{file.path}") for file in report.quarantine]
    said = replace(report, files=(), quarantine=())
    return {"report": said, "rows": rows, "bad": [table.drop_columns(["quarantined_at"]).to_pylist() for table in bad]}


LINES = [
    line(1),
    line(22222),
    line(3) + line(4) + line(5),
    b"\n",
    b" \r\n",
    b"oops\n",
    b'{"id":1.5}\n',
    b'{"id":7,"other":1}\n',
    b'{"id":8,"name":"' + b"x" * 90 + b'"}\n',
    b'{"id":9,"name":"' + b"y" * 200 + b'"}\n',
]


@st.composite
def files_of(draw: st.DrawFn) -> dict[str, bytes]:
    files = {}
    for i in range(draw(st.integers(1, 4))):
        content = b"".join(draw(st.lists(st.sampled_from(LINES), max_size=25)))
        content = b"\xef\xbb\xbf" + content if draw(st.booleans()) else content
        content = content.removesuffix(b"\n") if draw(st.booleans()) else content
        if draw(st.booleans()):
            files[f"{i}.ndjson"] = content
            continue
        packed = gzip.compress(content, compresslevel=0, mtime=0)  # stored as it is: damage shows where it is
        place = draw(st.integers(3, len(packed)))
        how = draw(st.sampled_from(["whole", "whole", "cut", "damaged"]))
        damaged = packed[: place - 1] + bytes([packed[place - 1] ^ 0xFF]) + packed[place:]
        files[f"{i}.ndjson.gz"] = {"whole": packed, "cut": packed[:place], "damaged": damaged}[how]
    return files


@settings(max_examples=150, deadline=None)
@given(
    files=files_of(),
    starts=st.lists(st.integers(0, 6), min_size=4, max_size=4),
    count=st.integers(2, 4),
    block_bytes=st.integers(1, 400),
    max_bytes=st.sampled_from([1, 100, 1 << 20]),
    max_records=st.none() | st.integers(1, 40),
    output_bytes=st.sampled_from([1, 900, 3000, 1 << 30]),
    target_bytes=st.sampled_from([1, 500, 1 << 30]),
    bad=st.builds(
        BadPolicy,
        records=st.sampled_from(["quarantine", "drop", "fail"]),
        files=st.sampled_from(["quarantine", "retry", "fail"]),
        max_records=st.none() | st.integers(0, 5),
    ),
    unknown=st.sampled_from(list(Unknown)),
)
def test_any_number_of_threads_gives_the_same(
    *,
    tmp_path_factory: Any,
    files: dict[str, bytes],
    starts: list[int],
    count: int,
    block_bytes: int,
    max_bytes: int,
    max_records: int | None,
    output_bytes: int,
    target_bytes: int,
    bad: BadPolicy,
    unknown: Unknown,
) -> None:
    folder = tmp_path_factory.mktemp("same")
    slices = write_slices(folder, files, dict(zip(files, starts, strict=False)))
    layout = TableLayout(schema=load_schema("id BIGINT, name STRING"))
    if unknown is Unknown.RESCUE:
        layout = TableLayout(schema=load_schema("id BIGINT, name STRING, _rescued_data STRING"))
    spec = make_spec(
        folder,
        block_bytes=block_bytes,
        max_record_bytes=150,
        target_file_bytes=target_bytes,
        bad=bad,
        layout=layout,
        parsing=ParsePolicy(unknown=unknown),
    )
    budget = Budget(output_bytes=output_bytes, max_records=max_records, seconds=None)
    alone = all_of(spec, run(spec, slices, 1, budget))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "AHEAD_BYTES", max_bytes)
        together = all_of(spec, run(spec, slices, count, budget))
    assert together == alone
    assert threads() == []


def test_a_file_that_changes_while_it_is_read_counts_as_changed_though_it_was_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = write_slices(tmp_path, {"a.ndjson": b"".join(map(line, range(40)))})
    real = reach

    def disturb(point: str) -> None:
        os.utime(tmp_path / "a.ndjson", ns=(1, 1))
        real(point)

    monkeypatch.setattr(reading, "reach", disturb)
    for count in (1, 3):
        os.utime(tmp_path / "a.ndjson", ns=(0, 0))
        report = run(make_spec(tmp_path), slices, count, replace(EVERYTHING, max_records=2))
        assert report.failure is not None
        assert report.failure.kind == "source_changed"


class Broken(Exception):
    pass


def break_reader(patch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, stream: Any) -> None:
            self.stream, self.reading, self.reads = stream, stream.reading, 0

        def read(self, size: int, /) -> bytes:
            self.reads += 1
            if self.reads == 5:
                raise Broken
            return bytes(self.stream.read(size))

    class Opened:
        def __init__(self, *given: Any) -> None:
            self.real = open_stream(*given)

        def __enter__(self) -> Stream:
            return Stream(self.real.__enter__())

        def __exit__(self, *error: Any) -> Any:
            return self.real.__exit__(*error)

    patch.setattr(framed, "open_stream", Opened)


def break_parser(patch: pytest.MonkeyPatch) -> None:
    real = BlockParser.parse

    def parse(self: BlockParser, block: Block, needed: Collection[int]) -> ParsedBlocks:
        if block.first_line > 20:
            raise Broken
        return real(self, block, needed)

    patch.setattr(BlockParser, "parse", parse)


def break_encoder(patch: pytest.MonkeyPatch) -> None:
    real = ParquetRoller.write

    def write(self: ParquetRoller, table: pa.Table) -> None:
        if table["id"][0].as_py() > 20:
            raise Broken
        real(self, table)

    patch.setattr(ParquetRoller, "write", write)


def interrupt(patch: pytest.MonkeyPatch) -> None:
    real, visits = reach, iter(range(100))

    def stop(point: str) -> None:
        if next(visits) == 3:
            raise KeyboardInterrupt
        real(point)

    patch.setattr(reading, "reach", stop)


@pytest.mark.parametrize(
    ("breaks", "error"),
    [
        (break_reader, Broken),
        (break_parser, Broken),
        (break_encoder, Broken),
        (interrupt, KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_whatever_fails_ends_all_threads_after_the_blocks_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: Any, error: type[BaseException], max_bytes: int
) -> None:
    slices = write_slices(tmp_path, {"a.ndjson": b"".join(map(line, range(100)))})
    written: dict[int, list[int]] = {}
    for count in (1, 2, 4):
        with monkeypatch.context() as patch:
            patch.setattr(reading, "AHEAD_BYTES", max_bytes)
            seen = written.setdefault(count, [])
            real = ParquetRoller.write

            def note(self: ParquetRoller, table: pa.Table, seen: list[int] = seen, real: Any = real) -> None:
                seen.extend(table["id"].to_pylist())
                real(self, table)

            patch.setattr(ParquetRoller, "write", note)
            breaks(patch)
            with pytest.raises(error):
                run(make_spec(tmp_path), slices, count)
        assert threads() == []
        assert open_files(tmp_path) == []
    assert written[1]
    assert written[2] == written[4] == written[1]


def test_what_is_read_and_parsed_ahead_is_bounded(tmp_path: Path) -> None:
    """With nobody who asks for them, a handful of blocks is read and parsed, not the file."""
    content = b"".join(map(line, range(10_000)))
    block_bytes, read = 1000, []

    def blocks() -> Iterator[Block]:
        for start in range(0, len(content), block_bytes):
            read.append(start)
            part = content[start : start + block_bytes]
            yield Block(data=part, lines=1, first_line=start, first_byte=start, last=False)

    parsed = []

    parser = RecordParser(load_schema("id BIGINT, name STRING"), parser="reference")

    def parse(block: Block) -> ParsedBlocks:
        parsed.append(len(block.data))
        return {0: parser.parse(block.data, first_of_file=False)}

    stepping = ReadAhead(blocks(), [parse] * 3, is_wanted=lambda block: True, max_bytes=5 * block_bytes)
    with stepping as handed_out:
        for _ in range(3):
            next(handed_out)
    assert 3 <= len(read) <= 3 + 5
    assert len(parsed) <= len(read)
