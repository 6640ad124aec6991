"""Which records of a source are looked at: spread over the files, bounded, and never stopped by a bad one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.config.load import make_config
from blizzard.config.request import Request
from blizzard.core.events import Event, Noted, Warned
from blizzard.errors import BadData, SchemaError
from blizzard.run.assemble import Assembly
from blizzard.run.infer import InferredSchema, infer_from_sample
from blizzard.source.listing import list_source
from blizzard.source.sample import Sample
from blizzard.source.spread import SampleLimits, rounds, sample_limits, spread
from blizzard.source.uri import locate_source
from blizzard.tasks.records import read_undeclared
from tests.source.framed import FRAMED, framed


class Notes:
    def __init__(self) -> None:
        self.said: list[str] = []

    def see(self, event: Event) -> None:
        match event:
            case Noted():
                self.said.append(event.message)
            case Warned():
                self.said.append(f"warning: {event.message}")
            case _:
                raise AssertionError(event)


def lines(name: str, *numbers: int) -> bytes:
    return b"".join(b'{"%s":%d}\n' % (name.encode(), n) for n in numbers)


def write(folder: Path, **files: bytes) -> None:
    """Files `a.ndjson`, or `b.ndjson.gz` for `b_gz`, compressed."""
    for name, content in files.items():
        stem, _, compression = name.partition("_")
        data = {"gz": gzip.compress, "zst": lambda b: pa.compress(b, "zstd", asbytes=True)}.get(compression, bytes)(
            content
        )
        (folder / f"{stem}.ndjson{'.' + compression if compression else ''}").write_bytes(data)


def sample(
    folder: Path,
    *,
    files: int | None = 20,
    records: int = 10_000,
    max_record_bytes: int = 1000,
    limits: SampleLimits | None = None,
    now_s: Callable[[], float] = lambda: 0.0,
) -> Sample:
    location = locate_source(str(folder))
    return Sample(
        source=location,
        listing=list_source(location),
        compression="auto",
        max_record_bytes=max_record_bytes,
        limits=limits or sample_limits(records, files),
        parse=read_undeclared,
        now_s=now_s,
    )


def infer(folder: Path, notes: Notes | None = None, **options: Any) -> InferredSchema | None:
    given = {"source.path": str(folder), **{f"schema.{key}": value for key, value in options.items()}}
    assembly = Assembly(request=Request(config=make_config(given)))
    sampled = assembly.sample(assembly.source.list())
    return infer_from_sample(sampled, assembly.config.schema.hints, (notes or Notes()).see)


def inferred(folder: Path, **options: Any) -> InferredSchema:
    found = infer(folder, **options)
    assert found is not None
    return found


@given(st.integers(0, 200), st.integers(1, 200))
def test_the_files_looked_at_are_spread_evenly_first_and_last_included(total: int, count: int) -> None:
    chosen = spread(total, count)
    assert len(chosen) == len(set(chosen)) == min(total, count)
    assert chosen == sorted(chosen)
    assert chosen[:1] == [0][:total]
    if total and count > 1:
        assert chosen[-1] == total - 1
    steps = {b - a for a, b in pairwise(chosen)}
    assert not steps or max(steps) - min(steps) <= 1


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    files=st.integers(1, 8) | st.none(),
    records=st.integers(1, 30),
)
@example(sizes=[5, 3, 0], files=3, records=8)  # the second has just its share: the first must get what it leaves
def test_as_many_records_as_asked_for_are_read_if_the_files_have_them(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], files: int | None, records: int
) -> None:
    folder = tmp_path_factory.mktemp("src")
    write(folder, **{f"f{i:02d}": lines("n", *[i] * size) for i, size in enumerate(sizes)})
    reading = sample(folder, files=files, records=records)
    found = [record["n"] for record in reading.read()]
    assert len(found) == reading.records
    assert all(found.count(i) <= size for i, size in enumerate(sizes))
    looked_at = {i for chosen in rounds(len(sizes), reading.limits) for i in chosen}
    # If none of them has a record, the first of the others that has one is taken.
    there = sum(sizes[i] for i in looked_at) or next((size for size in sizes if size), 0)
    assert len(found) == min(records, there)
    assert bool(found) == any(sizes)  # empty ones at the chosen places do not hide the others
    chosen = reading.chosen
    share = min(records // len(chosen), 9)
    assert all(found.count(i) >= min(sizes[i], share) for i in chosen)


@given(total=st.integers(0, 3000), files=st.integers(1, 50), most=st.integers(1, 2000), records=st.integers(1, 100))
def test_rounds_look_at_each_file_once_and_at_no_more_than_allowed(
    total: int, files: int, most: int, records: int
) -> None:
    limits = SampleLimits(records=records, files=files, most_files=most)
    found = list(rounds(total, limits))
    looked_at = [i for chosen in found for i in chosen]
    assert len(looked_at) == len(set(looked_at)) == min(total, max(most, min(files, records)))
    assert all(found)
    if total:
        assert found[0] == spread(total, min(files, records))


def test_many_tiny_files_give_as_many_records_as_one_large_one(tmp_path: Path) -> None:
    """CloudTrail writes a file for a few calls: 20 of 117 files gave a sample of 21 records."""
    write(tmp_path, **{f"f{i:03d}": lines("n", i) for i in range(117)})
    reading = sample(tmp_path, files=None)
    assert sorted(record["n"] for record in reading.read()) == list(range(117))
    assert reading.files == 117
    few = sample(tmp_path, files=None, records=50)
    found = [record["n"] for record in few.read()]
    assert len(found) == 50
    assert {0, 116} <= set(found)
    assert max(b - a for a, b in pairwise(sorted(found))) <= 6


def test_one_large_file_among_tiny_ones_gives_what_they_lack(tmp_path: Path) -> None:
    write(tmp_path, a=lines("a", *range(500)), b=lines("b", 1), c=b"\n" + lines("c", 1))
    reading = sample(tmp_path, records=100)
    found = [record["a"] for record in reading.read() if "a" in record]
    assert found == list(range(98))
    assert (reading.records, reading.files) == (100, 3)


def test_the_bytes_that_are_read_are_bounded_and_no_chosen_file_is_left_out(tmp_path: Path) -> None:
    large = b'{"n":%d,"x":"' + b"x" * 300_000 + b'"}\n'
    write(tmp_path, **{f"f{i}": b"".join(large % i for _ in range(20)) for i in range(4)})
    limits = SampleLimits(records=1000, files=4, bytes=4_000_000)
    reading = sample(tmp_path, limits=limits, max_record_bytes=10**6)
    found = [record["n"] for record in reading.read()]
    assert set(found) == {0, 1, 2, 3}
    assert 4_000_000 / 300_000 - 1 <= len(found) <= 4_000_000 / 300_000 + 4


def test_the_time_is_bounded_but_what_is_chosen_first_is_always_read(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{i:03d}": lines("n", i) for i in range(200)})
    clock = iter(range(0, 10_000, 30))
    reading = sample(tmp_path, files=None, now_s=lambda: float(next(clock)))
    assert len(list(reading.read())) == 20


def test_what_a_short_file_leaves_is_read_from_those_after_it(tmp_path: Path) -> None:
    write(tmp_path, a=lines("a", 1), b=lines("b", *range(50)), c=lines("c", *range(50)))
    assert [next(iter(r)) for r in sample(tmp_path, records=21).read()] == ["a"] + ["b"] * 10 + ["c"] * 10


def test_fewer_records_than_files_are_spread_as_well(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{i}": lines("n", i, i) for i in range(9)})
    assert [record["n"] for record in sample(tmp_path, records=3).read()] == [0, 4, 8]


def test_a_bad_line_is_counted_and_passed_over(tmp_path: Path) -> None:
    bad = [
        b"nonsense",
        b"[1]",
        b'{"a":1',
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"long":"%s"}' % (b"x" * 2000),
    ]
    write(tmp_path, a=b"\xef\xbb\xbf" + lines("a", 1) + b"\n \t\r\n" + b"\n".join(bad) + b"\n" + lines("a", 2))
    reading = sample(tmp_path)
    assert list(reading.read()) == [{"a": 1}, {"a": 2}]
    assert (reading.records, reading.bad_lines, reading.files) == (2, len(bad), 1)
    assert reading.first_bad_line is not None
    assert reading.first_bad_line.startswith("a.ndjson line 4: not JSON")


def test_a_file_full_of_bad_lines_is_left_when_its_share_is_used_up(tmp_path: Path) -> None:
    write(tmp_path, a=b"x\n" * 500, b=lines("b", *range(500)))
    reading = sample(tmp_path, records=10)
    assert len(list(reading.read())) == 5
    assert reading.bad_lines == 5


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_a_file_that_cannot_be_decoded_is_passed_over_and_told(tmp_path: Path, compression: str) -> None:
    write(
        tmp_path,
        **{"a": lines("a", 1), f"b_{compression}": lines("b", *range(3000)), f"c_{compression}": lines("c", 1)},
    )
    damaged = tmp_path / f"b.ndjson.{compression}"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (tmp_path / "d.ndjson.gz").write_bytes(b"this is no gzip")
    notes = Notes()
    found = infer(tmp_path, notes)
    assert found is not None
    assert found.ddl.startswith("a BIGINT")
    assert found.ddl.endswith("c BIGINT")
    assert (found.files, found.skipped_files, found.skipped_lines) == (2, 2, 0)
    assert any(f"without b.ndjson.{compression}: " in note for note in notes.said)
    assert any(
        "without d.ndjson.gz: the file is neither gzip, as its name says, nor JSON text" in note for note in notes.said
    )
    assert "(2 files skipped)" in found.sentence


def test_what_was_done_is_told(tmp_path: Path) -> None:
    write(tmp_path, a=lines("a", 1) + b'{"b":[],"a":"x"}\n', b_gz=b"?\n" + lines("a", 2), c_zst=lines("c", 3), d=b"")
    notes = Notes()
    found = infer(tmp_path, notes, sample_files=3)
    assert found is not None
    assert notes.said[0] == "sampling 3 of 4 files for a schema"
    assert any(
        note.startswith("warning: 1 line of the sample skipped; the first: b.ndjson.gz line 1: ") for note in notes.said
    )
    assert 'a is a STRING, for it held number (1) and string ("x")' in notes.said
    assert "left out, as no value was seen: b" in notes.said
    assert found.sentence == "inferred schema from 3 records of 3 files (1 line skipped)"
    assert found.to_dict() == {
        "ddl": "a STRING",
        "schema": {"type": "struct", "fields": [{"name": "a", "type": "string", "nullable": True, "metadata": {}}]},
        "records": 3,
        "files": 3,
        "skipped_lines": 1,
        "skipped_files": 0,
        "left_out": ["b"],
        "remarks": ['a is a STRING, for it held number (1) and string ("x")'],
        "formats": {},
    }


def test_numbers_are_not_rounded_on_the_way(tmp_path: Path) -> None:
    big = b"%d" % 2**63
    write(tmp_path, a=b'{"d":%s,"s":%s,"m":1e400,"f":1E2,"i":-0}\n' % (big, b"1" * 5000))
    assert inferred(tmp_path).ddl == "d DECIMAL(38,0), s STRING, m STRING, f DOUBLE, i BIGINT"


def test_the_same_source_gives_the_same_schema(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{i}": orjson.dumps({f"k{i}": i, "x": i / 2}) + b"\n" for i in range(30)})
    assert inferred(tmp_path) == inferred(tmp_path)
    assert inferred(tmp_path).files == 30
    assert inferred(tmp_path, sample_files=20).files == 20
    assert inferred(tmp_path, sample_files=99).ddl.count("BIGINT") == 30


def test_hints_add_and_decide(tmp_path: Path) -> None:
    write(tmp_path, a=lines("a", 1))
    assert inferred(tmp_path, hints="a INT, b DATE").ddl == "a INT, b DATE"


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_source_without_a_line_has_no_schema(tmp_path: Path, content: bytes) -> None:
    assert infer(tmp_path, hints="a INT") is None
    write(tmp_path, a=content, b_gz=content)
    assert infer(tmp_path, hints="a INT") is None


def test_a_source_of_which_nothing_is_of_use_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, a=b"x\ny\n")
    (tmp_path / "b.ndjson.gz").write_bytes(b"no gzip")
    with pytest.raises(
        BadData, match=r"2 lines and 1 file looked at, none could be used. The first: a.ndjson line 1: "
    ) as error:
        infer(tmp_path)
    assert error.value.kind == "nothing_to_infer_from"


def test_names_that_cannot_stand_together_are_an_error_that_names_them(tmp_path: Path) -> None:
    write(tmp_path, a=lines("ä", 1), b=lines("Ä", 1))
    with pytest.raises(SchemaError, match=r"named more than once \(`ä`, `Ä`\)"):
        infer(tmp_path)


@pytest.mark.parametrize("shape", sorted(set(FRAMED) - {"siblings"}))
def test_records_of_every_framing_are_sampled(tmp_path: Path, shape: str) -> None:
    records: list[dict[str, Any]] = [{"id": n, "name": "a"} for n in range(300)]
    write(tmp_path, a=framed(shape, records), b_gz=framed(shape, records))
    found = inferred(tmp_path)
    assert found.ddl == "id BIGINT, name STRING"


def test_a_frame_that_breaks_in_a_sample_is_told_and_stops_nothing(tmp_path: Path) -> None:
    write(tmp_path, a=b'[{"id":1},{"id":2} x]', b=b'[{"id":3}]')
    notes = Notes()
    assert infer(tmp_path, notes) is not None
    assert any("a.ndjson" in said and "instead of a comma" in said for said in notes.said)
