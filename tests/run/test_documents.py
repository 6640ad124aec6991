"""Documents in the shape of real ones through whole runs: each is a row that Python's json agrees with, or it is in
quarantine with its bytes; with a schema that was given, with one that was inferred, and with one that grew."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.core.events import unheard
from blizzard.errors import SchemaError
from blizzard.run.assemble import Assembly
from blizzard.run.infer import InferredSchema, infer_from_sample
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, quote_name
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.evolve import has_rescued_column
from blizzard.schema.infer import infer_schema
from blizzard.tasks.policy import ParsePolicy, Unknown
from tests.flows.documents import CLEAR_TIMES, INTEGERS, NAMES, SAMPLES, Members, Sample, compact, parse, stored
from tests.flows.in_process import Flow
from tests.ingesting import write

ADD = {"parsing": ParsePolicy(unknown=Unknown.REPORT)}
BOM = b"\xef\xbb\xbf"
KB, MB = 1 << 10, 1 << 20

every_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def shown(value: Any) -> str:
    """Text that tells apart what Python calls equal: 0.0 and -0.0, 1 and true, 1 and 1.0."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def columns_of_records(flow: Flow) -> DeltaSchema:
    schema = flow.open().schema
    return {**schema, "fields": [f for f in schema["fields"] if f["name"] != "_rescued_data"]}


def without_column(value: Any, data_type: DeltaType | None, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, Any]]:
    """Fields that this type has no place for, and what they hold."""
    match data_type:
        case {"type": "struct", "fields": fields} if isinstance(value, Members):
            types = {f["name"]: f["type"] for f in fields}
            for name, item in value:
                yield from without_column(item, types.get(name), (*path, name))
        case {"type": "array", "elementType": element} if isinstance(value, list):
            for item in value:
                yield from without_column(item, element, (*path, "element"))
        case {"type": "map", "valueType": of} if isinstance(value, Members):
            for _, item in value:
                yield from without_column(item, of, (*path, "value"))
        case None if value is not None:
            yield path, value


def _holds_a_value(value: Any) -> bool:
    if isinstance(value, Members):
        return any(_holds_a_value(item) for _, item in value)
    return any(map(_holds_a_value, value)) if isinstance(value, list) else value is not None


def fields_without_column(lines: list[bytes], schema: DeltaSchema) -> set[ColumnPath]:
    """Those that held more than `[]`, `{}` and null."""
    found = (item for line in lines for item in without_column(parse(line), schema))
    return {path for path, value in found if _holds_a_value(value)}


def table_rows(flow: Flow) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(flow.table)).to_pyarrow_table().to_pylist()
    return rows


def run_and_compare(flow: Flow, content: bytes, bad: dict[int, str], **settings: Any) -> None:
    """One plain file. `bad`: the index of the line, and the kind. Every line that is not blank is accounted for."""
    write(flow.src / "a.ndjson", content)
    summary = flow.run(**settings)
    check_rows(flow, content, bad)
    records = sum(bool(line.strip(b" \t\r")) for line in content.removeprefix(BOM).split(b"\n"))
    assert (summary.records, summary.bad_records, summary.bad_files) == (records - len(bad), len(bad), 0)
    assert len(table_rows(flow)) + len(flow.quarantined()) == records


def check_rows(flow: Flow, content: bytes, bad: dict[int, str]) -> None:
    """The table has the good lines in their order, and the quarantine the others, byte by byte where they were."""
    lines = content.split(b"\n")
    good = [line for i, line in enumerate(lines) if i not in bad and line.removeprefix(BOM).strip(b" \t\r")]
    schema = columns_of_records(flow)
    parsed = [parse(line.removeprefix(BOM)) for line in good]
    expected = [stored(record, schema) for record in parsed]
    found = table_rows(flow)
    rescued = [row.pop("_rescued_data", None) for row in found]
    if has_rescued_column(flow.open().schema):
        for record, rest in zip(parsed, rescued, strict=True):
            kept_values = [] if rest is None else [item for _, item in parse(rest.encode())]
            wanted = [item for _, item in without_column(record, schema)]
            assert sorted(map(compact, kept_values)) == sorted(map(compact, wanted))
    assert found == expected
    assert shown(found) == shown(expected)
    kept = flow.quarantined()
    assert {row["line"] - 1: row["error_kind"] for row in kept} == bad
    for row in kept:
        assert row["complete"]
        assert row["raw"] == lines[row["line"] - 1]
        assert content[row["byte_offset"] :].startswith(row["raw"])


def joined(sample: Sample) -> bytes:
    return b"".join(line + b"\n" for line in sample.lines)


def lost_fields(flow: Flow, sample: Sample, bad: dict[int, str]) -> set[ColumnPath]:
    good = [line for i, line in enumerate(sample.lines) if i not in bad]
    return fields_without_column(good, columns_of_records(flow))


def infer(flow: Flow) -> InferredSchema:
    config = make_config({"source.path": str(flow.src), "table.path": str(flow.table)})
    sampled = Assembly(request=Request(config=config)).sample(flow.source.list())
    inferred = infer_from_sample(sampled, None, unheard)
    assert inferred is not None
    assert parse_ddl(inferred.ddl) == inferred.schema
    return inferred


@every_sample
def test_with_the_schema_that_somebody_wrote(flow: Flow, sample: Sample) -> None:
    flow.ddl = sample.ddl
    run_and_compare(flow, joined(sample), sample.bad | sample.bad_for_all)


@every_sample
@pytest.mark.parametrize("unknown", [Unknown.REPORT, Unknown.IGNORE])
def test_the_size_of_blocks_makes_no_difference(flow: Flow, sample: Sample, unknown: Unknown) -> None:
    """Blocks of about a line: what the fast path takes and what the reference takes fall differently."""
    flow.ddl = sample.ddl
    spec = {"block_bytes": 64, "parsing": ParsePolicy(unknown=unknown)}
    run_and_compare(flow, joined(sample), sample.bad | sample.bad_for_all, spec=spec)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES.values() if s is not NAMES], ids=[n for n in SAMPLES if n != "names"]
)
def test_with_an_inferred_schema_nothing_is_bad_and_no_field_is_left_out(flow: Flow, sample: Sample) -> None:
    write(flow.src / "a.ndjson", joined(sample))
    flow.ddl = infer(flow).ddl
    run_and_compare(flow, joined(sample), sample.bad_for_all)
    assert lost_fields(flow, sample, sample.bad_for_all) == set()


def test_inference_names_every_field_that_cannot_be_a_column(flow: Flow) -> None:
    write(flow.src / "a.ndjson", joined(NAMES))
    inferred = infer(flow)
    long_name = "long" * 64  # a report of new columns cuts it, so that it is not added; a schema may hold it
    for path in NAMES.never_columns - {(long_name,)}:
        assert any(f"{path[-1]!r} cannot be the name of a column" in remark for remark in inferred.remarks)


@every_sample
def test_with_a_schema_that_grows_every_field_with_a_value_becomes_a_column(flow: Flow, sample: Sample) -> None:
    flow.ddl = sample.seed
    bad = sample.bad_for_seed | sample.bad_for_all
    run_and_compare(flow, joined(sample), bad, spec=ADD)
    assert lost_fields(flow, sample, bad) == sample.never_columns
    told = " ".join(flow.told.warnings)
    assert not sample.never_columns or "go to _rescued_data" in told


@pytest.mark.parametrize("sample", [INTEGERS, CLEAR_TIMES], ids=["integers", "times"])
def test_a_column_gets_the_type_that_keeps_its_values(flow: Flow, sample: Sample) -> None:
    """Grown and inferred ones alike. The rows are compared above, but as far as their types go."""
    flow.ddl = sample.seed
    write(flow.src / "a.ndjson", joined(sample))
    flow.run(spec=ADD)
    wanted = {field["name"]: field["type"] for field in parse_ddl(sample.ddl)["fields"]}
    for schema in (flow.open().schema, infer(flow).schema):
        assert wanted.items() <= {field["name"]: field["type"] for field in schema["fields"]}.items()


@pytest.mark.parametrize("seed", ["id STRING", "entities STRUCT<hashtags: ARRAY<STRUCT<text: STRING>>>"])
def test_all_kinds_of_documents_in_one_source_make_one_table(flow: Flow, seed: str) -> None:
    """Many files and tasks: what each of them saw is unified before any row is written."""
    flow.ddl = seed
    good, bad = [], []
    for name, sample in SAMPLES.items():
        write(flow.src / f"{name}.ndjson", joined(sample))
        good += [line for i, line in enumerate(sample.lines) if i not in sample.bad_for_all]
        bad += [(sample.lines[i], kind) for i, kind in sample.bad_for_all.items()]
    summary = flow.run(spec=ADD, slots=5)
    schema, rows = columns_of_records(flow), table_rows(flow)
    for row in rows:
        row.pop("_rescued_data")
    assert sorted(map(shown, rows)) == sorted(shown(stored(parse(line), schema)) for line in good)
    assert sorted((row["raw"], row["error_kind"]) for row in flow.quarantined()) == sorted(bad)
    assert fields_without_column(good, schema) == NAMES.never_columns
    assert summary.records + summary.bad_records == sum(len(sample.lines) for sample in SAMPLES.values())


@every_sample
def test_a_schema_inferred_from_the_first_record_grows_and_what_it_cannot_hold_is_kept(
    flow: Flow, sample: Sample
) -> None:
    first = {name: value for name, value in json.loads(sample.lines[0]).items() if value is not None}
    flow.ddl = to_ddl(infer_schema([first]).schema)
    write(flow.src / "a.ndjson", joined(sample))
    flow.run(spec=ADD)
    kept = {row["line"] - 1: row["error_kind"] for row in flow.quarantined()}
    assert sample.bad_for_all.items() <= kept.items()
    assert {kind for i, kind in kept.items() if i not in sample.bad_for_all} <= {"bad_value", "duplicate_key"}
    check_rows(flow, joined(sample), kept)
    assert len(table_rows(flow)) + len(kept) == len(sample.lines)


def nested(depth: int, inner: bytes = b"1") -> bytes:
    """`depth` levels of arrays and objects in turn."""
    opening = b"".join(b'{"k":' if i % 2 else b"[" for i in range(depth))
    closing = b"".join(b"}" if i % 2 else b"]" for i in reversed(range(depth)))
    return opening + inner + closing


@pytest.mark.parametrize("ddl", ["id BIGINT", "id BIGINT, x STRING"])
def test_nesting_is_good_up_to_500_levels_where_no_column_is_made_of_it(flow: Flow, ddl: str) -> None:
    flow.ddl = ddl
    lines = [b'{"id":%d,"x":%s}' % (i, nested(depth)) for i, depth in enumerate([400, 499, 500, 1_000, 100_000, 1])]
    lines.append(b'{"id":6,"x":"' + b"[{" * 2_000 + b'"}')
    run_and_compare(flow, b"\n".join(lines), {2: "too_deep", 3: "too_deep", 4: "too_deep"})


def test_a_column_that_grows_out_of_deep_nesting_keeps_the_rest_as_text(flow: Flow) -> None:
    flow.ddl = "id BIGINT"
    lines = [b'{"id":%d,"x":%s}' % (depth, nested(depth)) for depth in (400, 1_000, 400)]
    run_and_compare(flow, b"\n".join(lines), {1: "too_deep"}, spec=ADD)
    assert any(field["name"] == "x" for field in flow.open().schema["fields"])


def test_nothing_is_inferred_from_nesting_that_no_table_can_hold(flow: Flow) -> None:
    write(flow.src / "a.ndjson", b'{"id":1,"x":%s}\n' % nested(400))
    with pytest.raises(SchemaError, match="nested more than 30 deep"):
        infer(flow)


BIG = {
    "one string": b'{"id":1,"name":"' + "né😀\\n".encode() * (10 * MB // 9) + b'"}',
    "an ignored field": b'{"id":2,"other":['
    + (b'{"k":[1,2.5,null,"' + b"v" * 1005 + b'"]},') * (10 * MB // KB)
    + b'0],"name":"n"}',
    "text of an object": b'{"id":3,"name":{"a": [' + (b'"' + b"x" * 1019 + b'" , ') * (10 * MB // KB) + b"1 ]}}",
    "spaces": b'{"id":4,' + b" " * 10 * MB + b'"name":"n"}',
}


@pytest.mark.parametrize("big", BIG.values(), ids=BIG)
def test_a_line_of_10_mb_is_a_row_beside_others(flow: Flow, big: bytes) -> None:
    lines = [b'{"id":10,"name":"before"}', big, b'{"id":11,"name":"after"}']
    run_and_compare(flow, b"\n".join(lines), {}, spec={"max_record_bytes": 16 * MB})


def test_a_bad_line_of_10_mb_is_kept_whole(flow: Flow) -> None:
    cut, wrong = BIG["one string"][:-2], b'{"id":"1",' + BIG["spaces"][8:]
    lines = [b'{"id":10}', cut, b'{"id":11}', wrong, b'{"id":12}']
    run_and_compare(flow, b"\n".join(lines), {1: "not_json", 3: "bad_value"}, spec={"max_record_bytes": 16 * MB})


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_a_line_over_the_limit_keeps_its_beginning_and_its_length(flow: Flow, ending: bytes) -> None:
    big = BIG["one string"]
    small = b'{"id":1}\n'
    write(flow.src / "a.ndjson", small + big + b"\n" + small + big + ending)
    summary = flow.run(spec={"max_record_bytes": 10 * MB - 100_000})
    assert (summary.records, summary.bad_records) == (2, 2)
    assert [row["id"] for row in table_rows(flow)] == [1, 1]
    second, offset = {"line": 2, "byte_offset": len(small)}, 2 * len(small) + len(big) + 1
    for row, place in zip(flow.quarantined(), [second, {"line": 4, "byte_offset": offset}], strict=True):
        assert {name: row[name] for name in place} == place
        assert (row["error_kind"], row["complete"], row["raw_bytes"]) == ("too_long", False, len(big))
        assert len(row["raw"]) == 64 * 1024
        assert big.startswith(row["raw"])


GOOD, BAD = b'{"id":%d,"name":"n"}', b'{"id":%d,"name":"n"'


def test_100_000_empty_lines_are_counted_and_are_no_records(flow: Flow) -> None:
    blank = b"\n" * 50_000
    content = blank + GOOD % 1 + b"\n" + blank + BAD % 2 + b"\n \t\r\n" + GOOD % 3 + b"\n\n"
    run_and_compare(flow, content, {100_001: "not_json"})


@pytest.mark.parametrize("start", [b"", BOM])
@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
@pytest.mark.parametrize("end", [True, False])
def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_record(
    flow: Flow, start: bytes, ending: bytes, end: bool
) -> None:
    lines = [GOOD % 0, BAD % 1, b"", b" \t", GOOD % 4 + b" \t", b'{"id":5,"name":"a\\r\\n"}', BAD % 6, GOOD % 7]
    content = start + ending.join(lines) + (ending if end else b"")
    run_and_compare(flow, content, {1: "not_json", 6: "not_json"})


STRANGE: dict[str, tuple[bytes, dict[int, str]]] = {
    "two marks": (BOM + BOM + GOOD % 1 + b"\n" + GOOD % 2, {0: "not_json"}),
    "a mark on line 2": (GOOD % 1 + b"\n" + BOM + GOOD % 2, {1: "not_json"}),
    "a bad line after the mark": (BOM + BAD % 1 + b"\n" + GOOD % 2, {0: "not_json"}),
    "only a mark": (BOM, {}),
    "a mark and blank lines": (BOM + b" \r\n\n", {}),
    "no newline": (GOOD % 1, {}),
    "no newline, bad": (BAD % 1, {0: "not_json"}),
    "empty": (b"", {}),
    "one newline": (b"\n", {}),
    "blank": (b"\n \n\t\r\n\r\n  ", {}),
    "other whitespace": (b"\x0b\n\xc2\xa0\n\x0c\n\xe2\x80\xa8\n" + GOOD % 1, dict.fromkeys(range(4), "not_json")),
    "a carriage return within": (GOOD % 1 + b"\r" + GOOD % 2 + b'\n{"id":\r3}', {0: "not_json"}),
    "two on a line": (GOOD % 1 + GOOD % 2 + b"\n" + GOOD % 3, {0: "not_json"}),
    "NUL": (GOOD % 1 + b"\n\x00\n" + GOOD % 2 + b"\x00\n" + GOOD % 3, {1: "not_json", 2: "not_json"}),
    "not objects": (b'[]\n1\n"x"\nnull\n{}\n' + GOOD % 1, dict.fromkeys(range(4), "not_object")),
    "pretty": (b'{\n  "id": 1\n}\n', dict.fromkeys(range(3), "not_json")),
    "an array of records": (
        b"[\n" + GOOD % 1 + b",\n" + GOOD % 2 + b"\n]",
        {0: "not_json", 1: "not_json", 3: "not_json"},
    ),
}


@pytest.mark.parametrize(("content", "bad"), STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("unknown", [Unknown.IGNORE, Unknown.REPORT])
def test_files_of_strange_shape(flow: Flow, content: bytes, bad: dict[int, str], unknown: Unknown) -> None:
    run_and_compare(flow, content, bad, spec={"parsing": ParsePolicy(unknown=unknown)}, framing="lines")


PARTS = [b'{"id":1,"na', b'me":"cut by members"}\n', b"", BAD % 2 + b"\n" + GOOD % 3, b"\n\n" + GOOD % 4]


def frame(content: bytes) -> bytes:
    compressed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return compressed


SKIPPABLE = b"\x5a\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"skip me"
COMPRESSED = {
    "members.ndjson.gz": b"".join(map(gzip.compress, PARTS)),
    "empty member first and last.ndjson.gz": b"".join(map(gzip.compress, [b"", *PARTS, b""])),
    "zeros after it.ndjson.gz": b"".join(map(gzip.compress, PARTS)) + bytes(512),
    "a member for each byte.ndjson.gz": b"".join(gzip.compress(bytes([byte])) for byte in b"".join(PARTS)),
    "frames.ndjson.zst": b"".join(map(frame, PARTS)),
    "empty frame first and last.ndjson.zst": b"".join(map(frame, [b"", *PARTS, b""])),
    "skippable frames.ndjson.zst": SKIPPABLE + SKIPPABLE.join(map(frame, PARTS)) + SKIPPABLE,
    "a frame for each byte.ndjson.zst": b"".join(frame(bytes([byte])) for byte in b"".join(PARTS)),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_files_of_many_members_or_frames_are_read_to_their_end(flow: Flow, name: str) -> None:
    flow.src.mkdir(parents=True)
    (flow.src / name).write_bytes(COMPRESSED[name])
    flow.run()
    check_rows(flow, b"".join(PARTS), {1: "not_json"})


@pytest.mark.parametrize("name", ["a.ndjson.gz", "a.ndjson.zst"])
def test_compressed_files_of_nothing_have_no_records(flow: Flow, name: str) -> None:
    compress = gzip.compress if name == "a.ndjson.gz" else frame
    flow.src.mkdir(parents=True)
    (flow.src / name).write_bytes(compress(b"") * 3)
    (flow.src / ("0" + name)).write_bytes(b"")
    summary = flow.run()
    assert (summary.files, summary.records, summary.bad_records, summary.bad_files) == (2, 0, 0, 0)


@every_sample
def test_what_has_no_column_is_rescued_as_it_was_written(flow: Flow, sample: Sample) -> None:
    flow.ddl = "none STRING, _rescued_data STRING"
    write(flow.src / "a.ndjson", joined(sample))
    flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.RESCUE)})
    bad = {i: kind for i, kind in sample.bad_for_all.items() if kind != "duplicate_key"}  # nothing declared is twice
    assert {row["line"] - 1: row["error_kind"] for row in flow.quarantined()} == bad
    good = [parse(line) for i, line in enumerate(sample.lines) if i not in bad]
    expected = [compact(Members((quote_name(name), value) for name, value in record)) for record in good]
    assert [row["_rescued_data"] for row in table_rows(flow)] == expected


@pytest.mark.parametrize("pair", ["i\u0131", "s\u017f", "\u03c3\u03c2"])
def test_names_that_spark_takes_for_the_same_do_not_both_become_fields_of_a_struct(flow: Flow, pair: str) -> None:
    """Neither could be asked for: AMBIGUOUS_REFERENCE_TO_FIELDS."""
    flow.ddl = "id BIGINT"
    write(flow.src / "a.ndjson", json.dumps({"id": 1, "s": {pair[0]: 1, pair[1]: 2}}).encode())
    flow.run(spec=ADD)
    (row,) = table_rows(flow)
    assert len(row["s"]) == 1


def test_fields_that_are_rescued_are_not_said_to_be_ignored(flow: Flow) -> None:
    flow.ddl = "id BIGINT, _rescued_data STRING"
    write(flow.src / "a.ndjson", b'{"id":1,"x":2}\n')
    flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.RESCUE)})
    assert not any("ignored" in warning for warning in flow.told.warnings)
    assert any("no column for these fields: x" in warning for warning in flow.told.warnings)
