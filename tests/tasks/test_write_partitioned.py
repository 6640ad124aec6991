"""Partitioned writing: every row in the files of its own partition, few files open, little in memory."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.types import DataFile
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import parse_partition_by
from blizzard.schema.layout import TableLayout, apply_layout
from blizzard.store import open_store
from blizzard.tasks import write as write_module
from blizzard.tasks.partitioned import PartitionedWriter, open_writer
from blizzard.tasks.partitions import partition_folder, split_rows
from blizzard.tasks.write import ParquetRoller


def layout(ddl: str, partition_by: str) -> TableLayout:
    return apply_layout(parse_ddl(ddl), partition_by=parse_partition_by(partition_by) if partition_by else ())


def writer(folder: Path, of: TableLayout, **changes: Any) -> Any:
    options: dict[str, Any] = {
        "store": open_store(str(folder)),
        "name_prefix": "f",
        "indexed_columns": 32,
        "target_bytes": 1 << 30,
        "codec": "snappy",
    }
    return open_writer(of, **(options | changes))


def table(of: TableLayout, records: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(records, schema=to_arrow(of.schema))


def found(folder: Path, files: tuple[DataFile, ...]) -> dict[tuple[tuple[str, str | None], ...], list[int]]:
    """The ids of each partition, in the order of its files."""
    ids: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for file in files:
        # One file, not a folder: pyarrow would fill in columns from the names of folders.
        content = pq.ParquetFile(folder / file.path).read()
        assert content.num_rows == file.rows == json.loads(file.stats)["numRecords"]
        ids.setdefault(file.partition_values, []).extend(content["id"].to_pylist())
    return ids


PAIR = layout("id BIGINT, a STRING, b INT, c STRING", "a, b")


def test_without_partitions_it_is_the_plain_writer(tmp_path: Path) -> None:
    assert isinstance(writer(tmp_path, layout("id INT", "")), ParquetRoller)
    assert isinstance(writer(tmp_path, PAIR), PartitionedWriter)


def test_rows_go_to_their_partition_in_order(tmp_path: Path) -> None:
    out = writer(tmp_path, PAIR)
    records: list[dict[str, Any]] = [
        {"id": i, "a": ["x", "y", None, ""][i % 4], "b": [1, None, 2][i % 3], "c": "c"} for i in range(240)
    ]
    for start in range(0, 240, 60):
        out.write(table(PAIR, records[start : start + 60]))
    assert out.written_bytes > 0
    files = out.close()
    wanted: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for record in records:
        key = (("a", record["a"] or None), ("b", None if record["b"] is None else str(record["b"])))
        wanted.setdefault(key, []).append(record["id"])
    assert found(tmp_path, files) == wanted
    assert len(files) == 9  # the empty text is null to Delta
    assert out.written_bytes == sum(f.size_bytes for f in files)
    assert out.files == list(files)


@given(st.lists(st.tuples(st.sampled_from(["x", "y", "", None]), st.integers(0, 3) | st.none()), min_size=1), st.data())
def test_splitting_loses_no_row_and_keeps_the_order(values: list[tuple[str | None, int | None]], data: Any) -> None:
    records = [{"id": i, "a": a, "b": b} for i, (a, b) in enumerate(values)]
    cut = data.draw(st.integers(0, len(values)))
    chunks = pa.concat_tables([table(PAIR, records[:cut]), table(PAIR, records[cut:])])
    parts = list(split_rows(chunks, ("a", "b")))
    wanted: dict[Any, list[int]] = {}
    for i, (a, b) in enumerate(values):
        wanted.setdefault((("a", a or None), ("b", None if b is None else str(b))), []).append(i)
    assert {key: part["id"].to_pylist() for key, part in parts} == wanted
    assert len(parts) == len(wanted)
    assert all(part.column_names == ["id", "c"] for _, part in parts)


def test_nested_values_stay_with_their_row(tmp_path: Path) -> None:
    of = layout("id BIGINT, p INT, s STRUCT<l: ARRAY<STRING>, n: INT>, m MAP<STRING, BIGINT>", "p")
    records: list[dict[str, Any]] = [
        {"id": i, "p": i % 3, "s": {"l": [str(i)] * (i % 4), "n": i} if i % 5 else None, "m": [("k", i)]}
        for i in range(100)
    ]
    out = writer(tmp_path, of)
    out.write(table(of, records))
    read = [row for f in out.close() for row in pq.ParquetFile(tmp_path / f.path).read().to_pylist()]
    assert sorted(read, key=lambda r: r["id"]) == [{k: v for k, v in r.items() if k != "p"} for r in records]


def test_partition_columns_are_neither_in_the_files_nor_in_their_statistics(tmp_path: Path) -> None:
    of = layout("p INT, id BIGINT, " + ", ".join(f"c{i} STRING" for i in range(40)), "p")
    out = writer(tmp_path, of)
    out.write(table(of, [{"p": 1, "id": 5} | {f"c{i}": str(i) for i in range(40)}]))
    (file,) = out.close()
    stats = json.loads(file.stats)
    first_32 = ["id", *(f"c{i}" for i in range(31))]
    assert [*stats["minValues"]] == [*stats["maxValues"]] == [*stats["nullCount"]] == first_32
    assert stats["minValues"] == {"id": 5} | {f"c{i}": str(i) for i in range(31)}
    assert "p" not in pq.ParquetFile(tmp_path / file.path).schema_arrow.names


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ((("a", "DE"), ("day", "2024-05-01")), "a=DE/day=2024-05-01"),
        ((("a", "1.5_x-"),), "a=1.5_x-"),
        ((("a", None),), ""),
        ((("a", "DE"), ("b", None)), ""),
        ((("a", "x y"),), ""),
        ((("a", "é"),), ""),
        ((("a", "50%"),), ""),
        ((("a", "x/y"),), ""),
        ((("a", "x\n"),), ""),
        ((("a", "__HIVE_DEFAULT_PARTITION__"),), ""),
        ((("a", "x" * 300),), ""),
        ((("a b", "x"),), ""),
        ((("_a", "x"),), ""),  # folders with such names are hidden from some tools
    ],
)
def test_a_folder_is_made_of_plain_names_only(values: Any, folder: str) -> None:
    assert partition_folder(values) == folder


def test_files_are_where_their_path_says(tmp_path: Path) -> None:
    out = writer(tmp_path, PAIR)
    out.write(table(PAIR, [{"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x y", "b": 1}, {"id": 3, "a": None, "b": 2}]))
    files = out.close()
    assert sorted(str(Path(f.path).parent) for f in files) == [".", ".", "a=x/b=1"]
    on_disk = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.parquet"))
    assert on_disk == sorted(f.path for f in files)


class Watched(ParquetRoller):
    """Counts how many files are open at once, over all rollers."""

    rollers: list[ParquetRoller]
    most = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rollers.append(self)

    def flush(self) -> None:
        super().flush()
        Watched.most = max(Watched.most, sum(r.is_open for r in self.rollers))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr("blizzard.tasks.partitioned.ParquetRoller", Watched)
    monkeypatch.setattr(write_module, "_ROW_GROUP_BYTES", 20_000)
    Watched.rollers, Watched.most = [], 0
    return Watched


@pytest.mark.parametrize("max_open", [1, 5, 64])
def test_many_partitions_keep_few_files_open_and_every_row(
    tmp_path: Path, watched: type[Watched], max_open: int
) -> None:
    of = layout("id BIGINT, a INT", "a")
    out = writer(tmp_path, of, max_open=max_open)
    chance = random.Random(5)
    # A few partitions have most of the rows, hundreds have one or two.
    records = [{"id": i, "a": int(chance.expovariate(0.05))} for i in range(6_000)]
    most_buffered = 0
    for start in range(0, len(records), 500):
        out.write(table(of, records[start : start + 500]))
        held = sum(t.nbytes for r in watched.rollers for t in r._buffer)
        most_buffered = max(most_buffered, held + out._unsplit_bytes)
    files = out.close()
    wanted: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for record in records:
        wanted.setdefault((("a", str(record["a"])),), []).append(record["id"])
    assert found(tmp_path, files) == wanted
    assert len(wanted) > 100
    assert watched.most == max_open
    assert most_buffered <= 2 * 20_000
    assert not any(r.is_open for r in watched.rollers)
    assert max(Counter(f.path for f in files).values()) == 1


def test_a_partition_rolls_at_the_target_size(tmp_path: Path) -> None:
    of = layout("id BIGINT, a INT", "a")
    out = writer(tmp_path, of, target_bytes=4000)
    for start in range(0, 20_000, 500):
        out.write(table(of, [{"id": i, "a": i % 2} for i in range(start, start + 500)]))
    files = out.close()
    assert min(Counter(f.partition_values for f in files).values()) > 3
    assert found(tmp_path, files) == {(("a", "0"),): [*range(0, 20_000, 2)], (("a", "1"),): [*range(1, 20_000, 2)]}


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    out = writer(tmp_path, PAIR)
    out.write(table(PAIR, []))
    assert out.close() == ()
    assert list(tmp_path.iterdir()) == []


def test_what_is_abandoned_is_closed_and_named_by_nobody(tmp_path: Path, watched: type[Watched]) -> None:
    out = writer(tmp_path, PAIR)
    out.write(table(PAIR, [{"id": i, "a": "x", "b": i % 3} for i in range(5000)]))
    assert any(r.is_open for r in watched.rollers)
    out.abandon()
    assert not any(r.is_open for r in watched.rollers)


def test_every_folder_is_put_on_the_disk_before_a_commit_may_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("blizzard.store.local.sync", synced.append)
    out = writer(tmp_path, PAIR)
    out.write(table(PAIR, [{"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x", "b": 2}]))
    files = out.close()
    folders = {tmp_path, tmp_path / "a=x", tmp_path / "a=x/b=1", tmp_path / "a=x/b=2"}
    assert {Path(p) for p in synced} == folders | {tmp_path / f.path for f in files}
