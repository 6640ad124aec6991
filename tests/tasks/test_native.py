"""What only the native parser can get wrong: where a block ends, memory, panics, and what it does when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from blizzard import native
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.native_reader import NativeReader
from blizzard.tasks.parse import ParserDisagrees, ParserMissing, RecordParser
from blizzard.tasks.parsed import FastBlock
from blizzard.tasks.policy import ParsePolicy, Unknown
from tests.tasks.contract import PARSERS, by_parser, by_reference, needs_native
from tests.tasks.fuzzing import check

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
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3 [1] ['before', 'and what comes after']\n", "", 0)


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
