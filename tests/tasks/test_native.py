"""What only the native parser can get wrong: where a block ends, memory, panics, and what it does when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard import native
from blizzard.core.kinds import Kind
from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.errors import ConfigError
from blizzard.run.ingest import error_of_failure
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.native_reader import NativeReader
from blizzard.tasks.parse import ParserDisagrees, ParserMissing, RecordParser
from blizzard.tasks.parsed import FastBlock
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.task import run_task
from tests.tasks.contract import PARSERS, by_parser, by_reference, needs_native
from tests.tasks.fuzzing import check
from tests.tasks.specs import make_spec

SCHEMA: DeltaSchema = parse_ddl(
    "id BIGINT NOT NULL, name STRING, at TIMESTAMP, s STRUCT<a: DOUBLE, b: ARRAY<STRING>>, m MAP<STRING, INT>,"
    " price DECIMAL(10,2), ok BOOLEAN"
)
SAMPLE = (
    b'\xef\xbb\xbf{"id":1,"name":"J\xc3\xb6rg \\u00e9\\ud83d\\ude00 \\"x\\"","at":"2024-01-01T00:00:00.123456789Z"}\r\n'
    b'\n \t\n{"id":2,"s":{"a":1.5e3,"b":["x",null,"a longer text of more than sixteen bytes"]},"m":{"k":1,"l":-2}}\n'
    b'{"ID":3,"other":{"x":[1,2,{"y":"\\\\"}]},"price":"12.50","ok":false}\n{"id":4,"name":{"raw": [ 1.50 ]},"ok":null}'
)
CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("policy", [ParsePolicy(), ParsePolicy(unknown=Unknown.RESCUE, rescue_values=True)])
def test_a_block_that_ends_anywhere_is_read_as_the_reference_reads_it(policy: ParsePolicy, parser: str) -> None:
    reader = RecordParser(SCHEMA, policy, parser)
    for end in range(len(SAMPLE) + 1):
        block = SAMPLE[:end]
        expected = by_reference(SCHEMA, block, policy, first_of_file=True)
        assert by_parser(reader, block, first_of_file=True) == expected, block


@pytest.mark.parametrize("parser", PARSERS)
def test_a_block_that_begins_anywhere_is_read_as_the_reference_reads_it(parser: str) -> None:
    reader = RecordParser(SCHEMA, ParsePolicy(), parser)
    for start in range(len(SAMPLE)):
        block = SAMPLE[start:] + b"\n" + SAMPLE[3:]
        assert by_parser(reader, block) == by_reference(SCHEMA, block), block


@needs_native
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_the_fuzzer_kept_is_read_as_the_reference_reads_it(path: Path) -> None:
    check(path.read_bytes())


def test_the_corpus_is_there_and_small() -> None:
    assert 50 <= len(CORPUS) <= 400
    assert sum(path.stat().st_size for path in CORPUS) < 100_000


WITHOUT_MEMORY = """
import resource
from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.native_reader import NativeReader
from blizzard.schema.arrow import to_arrow
from blizzard.tasks.policy import ParsePolicy
schema = parse_ddl("a ARRAY<STRING>, b STRING")
reader = NativeReader(schema, ParsePolicy(), to_arrow(schema))
many = b'{"a":[' + b",".join([b'""'] * 20_000_000) + b']}\\n'
block = b'{"b":"before"}\\n' + many + b'{"b":"and what comes after"}\\n'
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, used + 40_000_000))
read = reader.read(block)
print(read.lines, [index for index, _, _ in read.doubtful], read.table["b"].to_pylist())
"""


@needs_native
@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited like this elsewhere")
def test_a_line_for_which_there_is_no_memory_is_doubtful_and_the_others_are_rows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3 [1] ['before', 'and what comes after']\n", "", 0)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("data_type", ["DOUBLE", "FLOAT"])
def test_an_exponent_as_long_as_the_zeros_before_it_counts_to_its_last_digit(data_type: str, parser: str) -> None:
    schema = parse_ddl(f"a {data_type}")
    block = b'{"a":0.%s1e700001}' % (b"0" * 700_000)
    assert by_parser(RecordParser(schema, None, parser), block) == by_reference(schema, block)


def differing(read: FastBlock) -> FastBlock:
    rows = read.table.to_pylist()
    rows[0]["name"] = "another"
    return replace(read, table=pa.Table.from_pylist(rows, schema=read.table.schema))


@needs_native
def test_a_row_that_differs_from_the_reference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NativeReader.read
    monkeypatch.setattr(NativeReader, "read", lambda self, data: differing(honest(self, data)))
    with pytest.raises(ParserDisagrees, match="in column name"):
        RecordParser(SCHEMA, None, "native").parse(b'{"id":1}\n', first_of_file=False)


@needs_native
def test_a_bad_line_that_was_taken_for_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NativeReader.read

    def read(self: NativeReader, data: bytes) -> FastBlock:
        return replace(honest(self, data.replace(b"}}", b"} ")))

    monkeypatch.setattr(NativeReader, "read", read)
    with pytest.raises(ParserDisagrees, match="the reference calls a line not_json"):
        RecordParser(SCHEMA, None, "native").parse(b'{"id":1}}\n', first_of_file=False)


@needs_native
def test_rows_are_compared_again_and_again() -> None:
    reader = NativeReader(SCHEMA, ParsePolicy(), RecordParser(SCHEMA)._schema)
    blocks = [reader.read(b'{"id":1}\n' * 1500) for _ in range(3)]
    assert [len(block.witnessed) for block in blocks] == [101, 1, 2]


def test_a_parser_that_was_asked_for_by_name_and_is_not_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(native, "_why_not", "No module named 'blizzard.native._native'")
    with pytest.raises(ParserMissing, match="No module named"):
        RecordParser(SCHEMA, None, "native")
    assert RecordParser(SCHEMA).name == "pyarrow"
    assert RecordParser(SCHEMA, None, "reference").name == "reference"


def task(folder: Path, parser: str = "auto") -> TaskReport:
    lines = b"".join(b'{"id":%d,"name":"n"}\n' % number for number in range(3000))
    (folder / "a.ndjson").write_bytes(lines)
    info = (folder / "a.ndjson").stat()
    piece = Slice(path="a.ndjson", size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0)
    spec = make_spec(folder, parser=parser, block_bytes=16_384)
    budget = Budget(output_bytes=1 << 30, max_records=None, seconds=None)
    ticket = BatchTicket(sequence=1, planned_ms=0, table_id="t")
    return run_task(spec, TaskPlan(slot=0, slices=(piece,), budget=budget), ticket)


@needs_native
def test_a_task_whose_native_parser_goes_wrong_late_is_read_again_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = NativeReader.read

    def read(self: NativeReader, data: bytes) -> FastBlock:
        found = honest(self, data)
        return differing(found) if b'"id":1000,' in data else found

    monkeypatch.setattr(NativeReader, "read", read)
    # The first row of a block is compared in every block, so that this one is met.
    monkeypatch.setattr(RecordParser, "_compare", comparing_the_first_row(RecordParser._compare))
    report = task(tmp_path)
    assert (report.parser, report.parser_defect) == ("pyarrow", "in column name")
    assert [(piece.rows, piece.finished) for piece in report.slices] == [(3000, True)]
    rows = pq.read_table(tmp_path / "table" / report.files[0].path)
    assert rows["id"].to_pylist() == list(range(3000))
    assert set(rows["name"].to_pylist()) == {"n"}
    # Nothing of the first attempt is among the files.
    assert [path.name for path in (tmp_path / "table").iterdir()] == [report.files[0].path]


def comparing_the_first_row(compare: Callable[[RecordParser, bytes, FastBlock], None]) -> object:
    def compare_more(self: RecordParser, content: bytes, fast: FastBlock) -> None:
        end = content.index(b"\n")
        compare(self, content, replace(fast, witnessed=[(0, 0, end)]))

    return compare_more


def test_a_task_that_lacks_the_parser_it_was_told_to_use_fails_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(native, "_why_not", "not built")
    failure = task(tmp_path, "native").failure
    assert failure is not None
    error = error_of_failure(failure)
    assert (error.kind, type(error)) == (Kind.WORKER_ENVIRONMENT, ConfigError)
    assert "(not built). Nothing of this batch was committed. Leave the key out" in str(error)
