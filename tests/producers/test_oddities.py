"""What first runs on real buckets met, one test each: odd files, odd framings, data that changes after the sample."""

from __future__ import annotations

import bz2
import lzma
import re
import shlex
from collections.abc import Callable

import pytest

from tests.producers.conftest import FirstCommand, FirstRun
from tests.producers.corpus import PRODUCERS
from tests.producers.made import Record, array, array_of_lines, compact, concatenated, lines, pretty, zipped

RECORDS: list[Record] = [
    {"id": number, "at": f"2026-01-31T22:58:{number % 60:02d}.123456789Z", "who": {"name": f"Zoë {number}"}}
    for number in range(40)
]
NDJSON = lines(RECORDS)


def arrived(run: FirstRun, records: int = len(RECORDS)) -> None:
    """Every record is a row, and every value is right."""
    assert run.code == 0, run.err
    assert (run.summary["records"], run.summary["bad_records"], run.summary["bad_files"]) == (records, 0, 0), run.err
    assert len(run.records) == records
    assert run.unaccounted() == []


# files


def test_bzip2(first_command: FirstCommand) -> None:
    arrived(first_command({"a.json.bz2": bz2.compress(NDJSON)}))


def test_xz(first_command: FirstCommand) -> None:
    arrived(first_command({"a.json.xz": lzma.compress(NDJSON)}))


def test_names_that_lie_about_compression(first_command: FirstCommand) -> None:
    halves = lines(RECORDS[:20]), lines(RECORDS[20:])
    arrived(first_command({"a.json": zipped(halves[0]), "b.json.gz": halves[1]}))


def test_two_gzip_members(first_command: FirstCommand) -> None:
    arrived(first_command({"a.json.gz": zipped(lines(RECORDS[:7])) + zipped(lines(RECORDS[7:]))}))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16(first_command: FirstCommand, encoding: str) -> None:
    """Never eaten line by line: the file waits until the run is told how to read it."""
    content = ("\ufeff" + NDJSON.decode()).encode(encoding)
    held = first_command({"a.json": content})
    assert held.code != 0
    assert "source.encoding" in held.err
    assert [path.name for path in held.folder.iterdir()] == ["src"]
    arrived(first_command({"a.json": content}, "--set", "source.encoding=utf-16"))


def test_a_picture_named_json(first_command: FirstCommand) -> None:
    """It is held with its reason, and nothing of it is read."""
    picture = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\n\n{}\n"
    run = first_command({"a.json": NDJSON, "b.json": picture}, readable={"a.json"})
    assert run.code == 0, run.err
    assert (run.summary["records"], run.summary["bad_records"], run.summary["held_files"]) == (40, 0, 1), run.err
    assert run.unaccounted() == []
    assert "b.json" in run.err
    assert "PNG" in run.err


def test_log_gz(first_command: FirstCommand) -> None:
    """Names that say nothing of JSON: the run ends as no success, and says what reads them."""
    files = {"app.log.gz": zipped(NDJSON)}
    nothing = first_command(files, pattern=None)
    assert (nothing.code, nothing.summary["error_kind"]) == (2, "no_file_matches")
    assert "1 .log.gz" in nothing.err
    assert [path.name for path in nothing.folder.iterdir()] == ["src"]
    arrived(first_command(files, *advice(nothing), pattern=None))


@pytest.mark.parametrize("unnamed", [name for name, producer in PRODUCERS.items() if producer.pattern])
def test_the_advice_for_names_without_json_reads_all_of_them(first_command: FirstCommand, unnamed: str) -> None:
    producer = PRODUCERS[unnamed]
    nothing = first_command(producer.files(), key=producer.key, pattern=None)
    assert (nothing.code, nothing.summary["error_kind"]) == (2, "no_file_matches")
    run = first_command(producer.files(), *advice(nothing), key=producer.key, pattern=None)
    arrived(run, len(run.records))


def advice(run: FirstRun) -> list[str]:
    """The words that a message says to add."""
    found = re.search(r"to read .*: (--set .*) \[no_file_matches\]", run.err)
    assert found is not None, run.err
    return shlex.split(found[1])


def test_byte_order_mark_crlf_and_blank_lines(first_command: FirstCommand) -> None:
    content = b"\xef\xbb\xbf\r\n" + NDJSON.replace(b"\n", b"\r\n\r\n") + b"\r\n  \r\n"
    arrived(first_command({"a.json": content, "b.ndjson": b"\xef\xbb\xbf\n"}))


def test_no_newline_at_the_end(first_command: FirstCommand) -> None:
    arrived(first_command({"a.json": NDJSON.rstrip(b"\n")}))


def test_nine_digits(first_command: FirstCommand) -> None:
    """The time is a TIMESTAMP, and it is said that digits were cut."""
    run = first_command({"a.json": NDJSON})
    arrived(run)
    assert [column["type"] for column in run.landed.schema["fields"] if column["name"] == "at"] == ["timestamp"]
    assert run.summary["cut_timestamps"] == {"at": 40}


def test_many_tiny_files(first_command: FirstCommand) -> None:
    """Each holds one record, and some a field of their own: the sample has seen them all."""
    files = {f"{i:03d}.json": lines([{"id": i} | ({f"only_{i}": 1.5} if i % 30 == 7 else {})]) for i in range(120)}
    run = first_command(files)
    arrived(run, 120)
    assert "inferred schema from 120 records of 120 files" in run.err
    assert run.summary["added_columns"] == []


# framings


FRAMINGS: dict[str, Callable[[list[Record]], bytes]] = {
    "lines": lines,
    "concatenated": concatenated,
    "concatenated with spaces": lambda records: " ".join(map(compact, records)).encode(),
    "pretty": lambda records: "\n".join(map(pretty, records)).encode(),
    "pretty without a newline between": lambda records: concatenated(records, pretty),
    "array": array,
    "array of lines": array_of_lines,
    "array of lines, commas first": lambda records: array(records, "\n,"),
    "array, pretty": lambda records: pretty(records).encode(),
    "two arrays": lambda records: array(records[:3]) + b"\n" + array(records[3:]),
    "at a key": lambda records: b'{"Records":' + array(records) + b"}",
    "at a key, pretty": lambda records: pretty({"Records": records}).encode(),
    "at a key, several documents": lambda records: b"".join(b'{"Records":[' + lines([r]) + b"]}" for r in records),
    "record separators": lambda records: b"".join(b"\x1e" + lines([record]) for record in records),
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing(first_command: FirstCommand, framing: str) -> None:
    """Also where most batches end inside the file, and the next one goes on there."""
    files = {"a.json": FRAMINGS[framing](RECORDS)}
    arrived(first_command(files, key="Records"))
    small = first_command(files, "--set", "limits.max_records=7", key="Records")
    arrived(small)
    assert small.summary["commits"] == 6


def test_a_bucket_of_all_framings(first_command: FirstCommand) -> None:
    files = {f"{i}.json": frame(RECORDS) for i, frame in enumerate(FRAMINGS.values())}
    empty = {"empty-array.json": b"[]\n", "empty-records.json": b'{"Records":[]}', "blank.json": b"\n\n"}
    arrived(first_command(files | empty, key="Records"), len(files) * len(RECORDS))


def test_text_that_looks_like_an_end(first_command: FirstCommand) -> None:
    odd = ["}{", "]", "},{", '"', "\\", '\\"}', "[{", "\n}\n", "\x1e"]
    records = [{"a": text, "b": {text: [text]}} for text in odd]
    files = {f"{i}.json": frame(records) for i, frame in enumerate(FRAMINGS.values())}
    run = first_command(files, "--hints", "b MAP<STRING, ARRAY<STRING>>", key="Records")
    arrived(run, len(files) * len(odd))


def test_an_object_keyed_by_numbers(first_command: FirstCommand) -> None:
    """One object whose members are the records is no table of a thousand columns: the message says what to do."""
    content = compact({str(i): {"name": f"n{i}", "price": i / 4} for i in range(1_264)}).encode()
    run = first_command({"a.json": content})
    assert (run.code, run.summary["error_kind"]) == (2, "schema")
    assert '"0" and 1,263 more' in run.err
    assert [path.name for path in run.folder.iterdir()] == ["src"]
    assert len(run.err) < 3_000


# data that changes after the sample


def test_lines_that_are_not_json(first_command: FirstCommand) -> None:
    """What Python's json.dumps, a hand-made format or a crash leaves behind: kept as it is, in quarantine."""
    bad = [b'{"id":NaN}', b'{"id":1,}', b"{'id':1}", b'{"id":1} # note', b'{"id":01}', b'{"id":1', b'{"id":"\xff"}']
    run = first_command({"a.json": NDJSON + b"\n".join(bad) + b"\n"}, readable=set())
    assert run.code == 0, run.err
    assert (run.summary["records"], run.summary["bad_records"]) == (40, len(bad))
    kept = sorted((row["raw"], row["error_kind"]) for row in run.landed.quarantined)
    assert kept == sorted((line, "not_utf8" if b"\xff" in line else "not_json") for line in bad)


def test_a_field_named_as_the_rescued_column(first_command: FirstCommand) -> None:
    """Rows that Auto Loader has rescued from and that were written out again: the field is rescued like any other that
    no column may take."""
    held = ['{"x":1}', {"x": 1}, True, None]
    arrived(first_command({"a.json": lines({"id": i, "_rescued_data": value} for i, value in enumerate(held))}), 4)


def test_unsigned_ids(first_command: FirstCommand) -> None:
    ids: list[Record] = [{"id": number} for number in (1, 2**63 - 1, 2**63, 2**64 - 1)]
    run = first_command({"a.json": lines(ids)})
    arrived(run, 4)
    assert run.landed.schema["fields"][0]["type"] == "decimal(38,0)"


def test_unsigned_ids_after_the_sample(first_command: FirstCommand) -> None:
    """They follow the policy for bad records, and the message names the column."""
    ids: list[Record] = [*({"id": number} for number in range(50)), {"id": 2**64 - 1}]
    run = first_command({"a.json": lines(ids)}, "--set", "schema.sample_records=10")
    assert run.code == 0, run.err
    assert run.unaccounted() == []
    assert (run.summary["records"], run.summary["bad_records"]) == (50, 1)
    assert "id" in run.err


def labelled(count: int) -> bytes:
    return lines({"id": i, "labels": {"app": "x", f"release-{i}": "1", f"team-{i}": None}} for i in range(count))


def test_labels_that_grow_after_the_sample(first_command: FirstCommand) -> None:
    run = first_command({"a.json": labelled(150)}, "--set", "schema.sample_records=20")
    arrived(run, 150)


def test_labels_that_grow_without_end(first_command: FirstCommand) -> None:
    """A sample of few keys made them fields; thousands more are too many columns, and the message says what helps."""
    files, sampled = {"a.json": labelled(2_500)}, ("--set", "schema.sample_records=3")
    run = first_command(files, *sampled)
    assert run.code != 0 or run.unaccounted() == []
    assert "MAP<STRING" in run.err
    arrived(first_command(files, *sampled, "--hints", "labels MAP<STRING, STRING>"), 2_500)


def test_name_beside_another_spelling_of_it(first_command: FirstCommand) -> None:
    """Where both are in one record nothing says which one counts: such records are in quarantine."""
    records: list[Record] = [{"id": i, "name": "a"} | ({"Name": "b"} if i % 10 == 3 else {}) for i in range(40)]
    run = first_command({"a.json": lines(records)})
    assert run.code == 0, run.err
    assert run.unaccounted() == []
    assert (run.summary["records"], run.summary["bad_records"]) == (36, 4)
    assert {(row["error_kind"], row["column"]) for row in run.landed.quarantined} <= {("duplicate_key", "Name")}
