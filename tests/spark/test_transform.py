"""Transforms in Spark's own workers: code by value, also in workers that are used again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import BadData
from tests.drivers import run
from tests.ingesting import ingest, rows, write, write_ids

pytestmark = pytest.mark.spark

MODULE = """
import importlib.util
import pyarrow as pa

FACTOR = {factor}

def times(values):
    return [value * FACTOR for value in values]

def clean(batch):
    found = importlib.util.find_spec("only_here_and_not_there") is not None
    ids = pa.array(times(batch["id"].to_pylist()), pa.int64())
    batch = batch.set_column(0, "id", ids)
    return batch.append_column("has_module", pa.array([found] * batch.num_rows, pa.bool_()))
"""


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, *, factor: int) -> Any:
    (folder / "only_here_and_not_there.py").write_text(MODULE.format(factor=factor))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "only_here_and_not_there", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("only_here_and_not_there").clean


def test_a_module_that_only_the_driver_has_travels_and_a_new_version_too(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    write_ids(tmp_path / "src/a.ndjson", 1, 4)
    first = ingest(spark, tmp_path, transform=load(modules, monkeypatch, factor=10))
    assert first.records == 3
    write_ids(tmp_path / "src/b.ndjson", 4, 6)
    ingest(spark, tmp_path, transform=load(modules, monkeypatch, factor=1000))
    assert [row["id"] for row in rows(tmp_path / "table")] == [10, 20, 30, 4000, 5000]
    assert {row["has_module"] for row in rows(tmp_path / "table")} == {False}, "no worker has a file of it"
    write_ids(tmp_path / "src/c.ndjson", 6, 7)
    load(modules, monkeypatch, factor=2)
    named = {"transform.python": "only_here_and_not_there:clean"}
    assert ingest(spark, tmp_path, options=named).records == 1
    assert rows(tmp_path / "table")[0] == {"id": 10, "name": "n1", "has_module": False}
    assert 12 in [row["id"] for row in rows(tmp_path / "table")]


def test_a_function_of_the_moment_can_be_given(spark: Any, tmp_path: Path) -> None:
    """As in a notebook: a closure over a value."""
    write_ids(tmp_path / "src/a.ndjson", 0, 6)
    threshold = 3

    def over(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.greater(batch["id"], threshold))

    summary = ingest(spark, tmp_path, transform=over)
    assert (summary.records, summary.filtered_records) == (2, 4)
    assert [row["id"] for row in rows(tmp_path / "table")] == [4, 5]


def test_sql_in_the_workers(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        write_ids(tmp_path / f"src/{number}.ndjson", 10 * number, 10 * number + 10)
    write(tmp_path / "src/z.ndjson", b'{"id":100,"name":"x"}\n{"id":101,"name":"n7"}\n')
    text = "SELECT id, CAST(substring(name, 2) AS INTEGER) AS n FROM records WHERE id % 2 = 1 OR name = 'x'"
    summary = ingest(spark, tmp_path, options={"transform.sql": text, "table.provenance": "source_line"})
    assert (summary.records, summary.filtered_records, summary.bad_records) == (21, 20, 1)
    found = {row["id"]: (row["n"], row["_source_line"]) for row in rows(tmp_path / "table")}
    assert found[101] == (7, 2)
    assert {i: found[i] for i in range(1, 40, 2)} == {i: (i, i % 10 + 1) for i in range(1, 40, 2)}


def test_a_function_that_breaks_its_word_stops_the_run_at_once(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)

    def forgets(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.drop_columns(["_blizzard_line"]) if batch.num_rows else batch

    with pytest.raises(BadData, match="forgets returned rows without the column _blizzard_line") as stopped:
        ingest(spark, tmp_path, transform=forgets)
    assert stopped.value.kind == Kind.TRANSFORM_FAILED


@pytest.mark.process
@pytest.mark.usefixtures("fast_drivers")
def test_a_later_run_with_sql_starts_spark_as_the_first_one_does(tmp_path: Path) -> None:
    """It begins to start it on a thread of its own, while DuckDB is loaded already."""
    given = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "table"), "--schema", "id BIGINT"]
    given += ["--set", "transform.sql=SELECT id * 10 AS id FROM records WHERE id <> 2"]
    for number in range(2):
        write_ids(tmp_path / f"src/{number}.ndjson", 3 * number, 3 * number + 3)
        finished = run(tmp_path, *given)
        assert finished.code == 0, finished.stderr
    assert sorted(row["id"] for row in rows(tmp_path / "table")) == [0, 10, 30, 40, 50]
