"""A trial reads as a task does, counts the same, is bounded, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.trial import Trial
from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.tasks.dry_run import read_without_writing
from blizzard.tasks.task import run_task
from tests.ingesting import line, write
from tests.tasks.specs import make_spec

MIXED = line(0) + b"\noops\n" + b'{"id":"x"}\n' + b'{"id":2,"more":1}\n' + line(3)


def slices_of(folder: Path, files: dict[str, bytes]) -> tuple[Slice, ...]:
    found = []
    for name, content in files.items():
        info = write(folder / name, content).stat()
        found.append(Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0))
    return tuple(found)


def trial(folder: Path, files: dict[str, bytes], records: int | None = None, rows: int = 3, **changes: Any) -> Trial:
    spec = make_spec(folder, block_bytes=1 << 20, **changes)
    return read_without_writing(spec, slices_of(folder, files), max_records=records, rows=rows)


@pytest.mark.parametrize("records", [None, 1000])
def test_it_counts_what_a_task_counts_and_writes_nothing(tmp_path: Path, records: int | None) -> None:
    files = {"a.ndjson": MIXED, "b.ndjson.gz": MIXED * 10, "c.ndjson": b""}
    found = trial(tmp_path, files, records)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    plan = TaskPlan(
        slot=0,
        slices=slices_of(tmp_path, files),
        budget=Budget(output_bytes=1 << 40, max_records=None, seconds=None),
    )
    real = run_task(make_spec(tmp_path, block_bytes=1 << 20), plan, BatchTicket(sequence=1, planned_ms=0, table_id="t"))
    assert [(s.path, s.rows, s.bad, s.blank) for s in found.result.slices] == [
        (s.path, s.rows, s.bad, s.blank) for s in real.slices
    ]
    assert found.result.reasons == real.reasons
    assert found.result.undeclared == real.undeclared
    assert found.is_whole
    assert [row["id"] for row in found.first_rows] == [0, 2, 3]
    assert found.filled == {("id",): 33, ("name",): 22}


def test_it_is_bounded_and_spread_over_the_files(tmp_path: Path) -> None:
    files = {f"{i}.ndjson": line(i) * 100 for i in range(4)}
    files["1.ndjson"] = line(1)  # what it lacks goes to the others
    found = trial(tmp_path, files, 41)
    assert [(s.path, s.rows) for s in found.result.slices] == [
        ("0.ndjson", 11),
        ("1.ndjson", 1),
        ("2.ndjson", 15),
        ("3.ndjson", 14),
    ]
    assert (found.records, found.is_whole) == (41, False)


def test_of_many_files_only_some_are_opened(tmp_path: Path) -> None:
    found = trial(tmp_path, {f"{i:03d}.ndjson": line(i) for i in range(200)}, 1000)
    assert len(found.result.slices) == 50
    assert found.result.slices[-1].path == "199.ndjson"
    assert not found.is_whole


@pytest.mark.parametrize("policy", [BadPolicy(records="fail"), BadPolicy(max_records=1), BadPolicy(files="fail")])
def test_no_limit_on_bad_data_ends_it(tmp_path: Path, policy: BadPolicy) -> None:
    files = {"a.ndjson": MIXED, "b.ndjson.gz": b"cut" * 99, "c.ndjson": MIXED}
    slices = list(slices_of(tmp_path, files))
    whole = (tmp_path / "b.ndjson.gz").read_bytes()
    (tmp_path / "b.ndjson.gz").write_bytes(whole[:-4] + b"\0\0\0\0")
    info = (tmp_path / "b.ndjson.gz").stat()
    slices[1] = Slice(path="b.ndjson.gz", size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0)
    found = read_without_writing(make_spec(tmp_path, bad=policy), slices, max_records=100, rows=0)
    assert (found.result.rows, found.result.bad) == (6, 4)
    assert [s.broken is not None for s in found.result.slices] == [False, True, False]


def test_how_much_a_stored_byte_is_is_known_only_of_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = line(1) * 5000
    plain = trial(tmp_path, {"a.ndjson": content}, 10)
    assert plain.growth == 1.0
    packed = trial(tmp_path, {"a.ndjson.gz": content})
    stored = (tmp_path / "a.ndjson.gz").stat().st_size
    assert packed.growth == pytest.approx(len(content) / stored)
    # A large one is not read to its end only to know that.
    monkeypatch.setattr("blizzard.tasks.dry_run._MEASURED_S", 1e-9)
    large = trial(tmp_path, {"a.ndjson.gz": line(1) * 100_000}, 10)
    assert large.growth is None
    assert large.bytes_per_s is not None
    assert packed.bytes_per_s is None  # too little to say


def test_values_inside_of_structs_are_counted_too(tmp_path: Path) -> None:
    layout = TableLayout(schema=load_schema("id BIGINT, s STRUCT<a: INT, b: STRUCT<c: INT>>, l ARRAY<INT>"))
    found = trial(tmp_path, {"a.ndjson": b'{"id":1,"s":{"a":1}}\n{"s":{"b":{}}}\n{"l":[]}\n'}, layout=layout)
    assert found.filled == {("id",): 1, ("s",): 2, ("s", "a"): 1, ("s", "b"): 1, ("s", "b", "c"): 0, ("l",): 1}
