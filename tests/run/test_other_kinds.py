"""Files in any compression and encoding, and of other kinds, on real Delta tables: each is read once, or held back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from blizzard.core.position import RecordsRead
from blizzard.errors import BadData
from tests.flows.in_process import Flow
from tests.flows.replaying import newest_position
from tests.ingesting import ids, line, write, write_ids
from tests.source.codecs import COMPRESS, NAMES
from tests.source.test_recognise import KINDS


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def lines(first: int, last: int) -> str:
    return b"".join(map(line, range(first, last))).decode()


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_held_back_and_the_others_are_read(flow: Flow, kind: str, slots: int) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    write(flow.src / "b.ndjson", KINDS[kind])
    os.utime(flow.src / "b.ndjson", (1_700_000_000, 1_700_000_000))  # not because it may still be arriving
    write_ids(flow.src / "c.ndjson", 3, 6)
    summary = flow.run(slots=slots)
    assert (ids(flow.table), summary.held_files, summary.bad_files) == ([*range(6)], 1, 0)
    assert flow.quarantined() == []
    (said,) = [warning for warning in flow.told.warnings if "held back" in warning]
    assert f"1 file held back until somebody acts, and tried by every run: b.ndjson (other_kind: {kind}, not" in said
    position = newest_position(flow)
    assert (position.marks.files, position.marks.is_finished("b.ndjson")) == (
        {"b.ndjson": RecordsRead(records=0)},
        False,
    )
    assert position.seen.held_back["b.ndjson"].startswith(f"other_kind: {kind}"[:80])


@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_the_next_run_goes_on_once_it_is_gone_or_right(flow: Flow, way: str) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    write(flow.src / "b.ndjson", KINDS["a Parquet file"])
    flow.run()
    before = newest_position(flow)
    for _ in range(2):  # nothing else is new
        with pytest.raises(BadData, match=r"b\.ndjson \(other_kind: a Parquet file") as error:
            flow.run()
        assert (error.value.kind, newest_position(flow)) == ("unreadable_files", before)
    if way == "removed":
        (flow.src / "b.ndjson").unlink()
    else:
        write_ids(flow.src / "b.ndjson", 10, 12)
    write_ids(flow.src / "c.ndjson", 3, 6)
    assert flow.run().held_files == 0
    assert ids(flow.table) == [*range(6), *([10, 11] if way == "replaced" else [])]
    assert flow.run().commits == 0


def test_it_stops_the_run_if_broken_files_do(flow: Flow) -> None:
    write(flow.src / "a.ndjson", KINDS["a PNG image"])
    with pytest.raises(BadData, match=r"a\.ndjson: a PNG image, not lines of JSON") as error:
        flow.run(bad=BadPolicy(files="fail"))
    assert (error.value.kind, error.value.exit_code) == ("other_kind", 5)


def test_files_of_every_compression_are_read_side_by_side_under_any_name(flow: Flow) -> None:
    for i, (codec, compress) in enumerate(COMPRESS.items()):
        content = compress(lines(10 * i, 10 * i + 10).encode())
        flow.src.mkdir(exist_ok=True)
        (flow.src / f"{i}.ndjson").write_bytes(content)
        (flow.src / f"wrong name of {codec}.ndjson.gz").write_bytes(compress(lines(100 + i, 101 + i).encode()))
    (flow.src / "plain.ndjson.gz").write_bytes(lines(200, 201).encode())
    assert flow.run().held_files == 0
    assert ids(flow.table) == [*range(50), *range(100, 105), 200]


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize("encoding", ["auto", "utf-16", "latin-1"])
def test_a_file_is_resumed_in_the_middle_whatever_it_is_made_of(flow: Flow, codec: str, encoding: str) -> None:
    text = lines(0, 1000).encode("utf-8" if encoding == "auto" else encoding)
    flow.src.mkdir(parents=True)
    (flow.src / "a.ndjson").write_bytes(COMPRESS[codec](text))
    spec = {"block_bytes": 256, "encoding": encoding}
    for _ in range(3):
        flow.run(limits=Limits(max_records=170), max_batches=1, spec=spec)
    assert len(ids(flow.table)) == 510
    flow.run(limits=Limits(max_records=170), spec=spec)
    assert ids(flow.table) == list(range(1000))


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_damaged_file_of_any_codec_takes_nothing_else_down(flow: Flow, codec: str) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    whole = COMPRESS[codec](lines(10, 2000).encode())
    name = "b.ndjson" if NAMES[codec].endswith((".bz2", ".xz", ".lz4")) else f"b{NAMES[codec][1:]}"
    (flow.src / name).write_bytes(whole[:-20])
    os.utime(flow.src / name, (1_700_000_000, 1_700_000_000))
    write_ids(flow.src / "c.ndjson", 3, 6)
    flow.run(spec={"block_bytes": 256})
    assert ids(flow.table) == list(range(6))
    assert [(row["source_file"], row["error_kind"]) for row in flow.quarantined()] == [(name, "truncated")]


def test_utf_16_is_held_back_until_the_setting_is_made(flow: Flow) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    write(flow.src / "b.ndjson", lines(3, 6).encode("utf-16"))
    assert flow.run().held_files == 1
    assert (ids(flow.table), flow.quarantined()) == ([0, 1, 2], [])
    reason = "wrong_encoding: text in UTF-16; to read it set source.encoding=utf-16"
    assert newest_position(flow).seen.held_back == {"b.ndjson": reason}
    write_ids(flow.src / "c.ndjson", 6, 9)
    assert flow.run(spec={"encoding": "utf-16"}).held_files == 1  # now c is the one in another encoding
    assert (ids(flow.table), flow.quarantined()) == ([*range(6)], [])
    flow.run()
    assert ids(flow.table) == list(range(9))


def test_bad_lines_of_another_encoding_are_quarantined_as_utf_8(flow: Flow) -> None:
    text = line(0).decode() + '{"id":"é"}\n' + line(1).decode() + '{"name":"half \ud800 pair"}\n' + line(2).decode()
    content = b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass")
    write(flow.src / "a.ndjson", content)
    flow.run(spec={"encoding": "utf-16"})
    assert ids(flow.table) == [0, 1, 2]
    wrong, half = flow.quarantined()
    assert (wrong["line"], wrong["error_kind"], wrong["raw"]) == (2, "bad_value", '{"id":"é"}'.encode())
    assert (half["line"], half["error_kind"], half["raw"]) == (4, "not_utf8", b'{"name":"half \xed\xa0\x80 pair"}')
    assert "half of a surrogate pair" in half["message"]
    # Offsets are those of the text in UTF-8, without the byte order mark.
    whole = text.encode("utf-8", "surrogatepass")
    for row in (wrong, half):
        assert whole[row["byte_offset"] :].startswith(row["raw"])


def test_latin_1_is_bad_lines_that_name_the_setting_which_reads_them(flow: Flow) -> None:
    content = '{"id":1,"name":"é"}\n{"id":2,"name":"e"}\n'.encode("latin-1")
    write(flow.src / "a.ndjson", content)
    flow.run()
    (row,) = flow.quarantined()
    assert (row["error_kind"], ids(flow.table)) == ("not_utf8", [2])
    assert "source.encoding=latin-1" in row["message"]
    write(flow.src / "b.ndjson", content.replace(b"2", b"3"))
    flow.run(spec={"encoding": "latin-1"})
    assert ids(flow.table) == [1, 2, 3]
    assert len(flow.quarantined()) == 1
