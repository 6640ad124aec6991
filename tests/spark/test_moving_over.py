"""From a Structured Streaming query to blizzard, as docs/from-structured-streaming.md has it: each record once."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

import blizzard
from tests.ingesting import DDL, ids, ingest, write_ids

pytestmark = pytest.mark.spark

take_away = runpy.run_path(str(Path(__file__).parents[2] / "jobs/take_away_read_files.py"))["main"]


def stream(spark: Any, folder: Path, **options: str) -> None:
    """Drains the source into the table, as the last run of the old job does."""
    reader = spark.readStream.schema(DDL).options(recursiveFileLookup="true", **options).json(str(folder / "src"))
    writer = reader.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()


def moved(folder: Path, *more: str) -> int:
    places = [str(folder / "src"), str(folder / "read"), "--checkpoint", str(folder / "checkpoint")]
    return int(take_away([*places, *more]))


def test_what_a_query_has_read_is_not_read_again_and_the_rest_is(spark: Any, tmp_path: Path) -> None:
    for i, name in enumerate(("2026/b.ndjson", "2026/d e%f.ndjson.gz", "c.ndjson")):
        write_ids(tmp_path / "src" / name, 10 * i, 10 * i + 10)
    interval = "spark.sql.streaming.fileSource.log.compactInterval"
    spark.conf.set(interval, "2")  # default 10: its log of files is compacted, as in every older query
    try:
        stream(spark, tmp_path, maxFilesPerTrigger="1")
    finally:
        spark.conf.unset(interval)
    assert (tmp_path / "checkpoint/sources/0/1.compact").exists()
    assert (tmp_path / "checkpoint/commits/2").exists()
    # What arrives now sorts before, between and after what was read, and one seems older than all of it.
    for i, name in enumerate(("2026/a.ndjson", "2026/c.ndjson", "z.ndjson"), start=3):
        write_ids(tmp_path / "src" / name, 10 * i, 10 * i + 10)
    os.utime(tmp_path / "src/2026/a.ndjson", (1_000_000_000, 1_000_000_000))

    with pytest.raises(blizzard.Refused) as refused:  # whoever forgets the recipe doubles nothing
        ingest(spark, tmp_path)
    assert refused.value.kind == "table_has_data"
    assert moved(tmp_path) == 0
    assert len(list((tmp_path / "src").rglob("*.ndjson*"))) == 6, "without --yes nothing moves"
    assert moved(tmp_path, "--yes") == 0
    assert sorted(p.name for p in (tmp_path / "read").rglob("*") if p.is_file()) == [
        "b.ndjson",
        "c.ndjson",
        "d e%f.ndjson.gz",
    ]
    summary = ingest(spark, tmp_path, start_from="beginning")
    assert (summary.files, summary.records) == (3, 30)
    assert ids(tmp_path / "table") == list(range(60))
    write_ids(tmp_path / "src/2026/aa.ndjson", 60, 70)
    assert ingest(spark, tmp_path).records == 10, "a name that sorts before all of them is found, too"
    assert ids(tmp_path / "table") == list(range(70))


@pytest.mark.parametrize("killed", ["before its commit", "before it began"])
def test_a_batch_that_the_query_has_not_finished_stops_the_move(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], killed: str
) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    stream(spark, tmp_path)
    if killed == "before its commit":
        (tmp_path / "checkpoint/commits/0").unlink()
    else:  # the source has named the files of a batch that the query does not know yet
        write_ids(tmp_path / "src/b.ndjson", 3, 6)
        planned = (tmp_path / "checkpoint/sources/0/0").read_text().replace("a.ndjson", "b.ndjson")
        (tmp_path / "checkpoint/sources/0/1").write_text(planned)
    assert moved(tmp_path, "--yes") == 2
    assert "has planned files that it has not finished" in capsys.readouterr().err
    assert (tmp_path / "src/a.ndjson").exists()


def test_after_a_name_is_right_if_names_follow_time(spark: Any, tmp_path: Path) -> None:
    for i, name in enumerate("ab"):
        write_ids(tmp_path / f"src/{name}.ndjson", 10 * i, 10 * i + 10)
    stream(spark, tmp_path)
    write_ids(tmp_path / "src/c.ndjson", 20, 30)
    assert ingest(spark, tmp_path, start_from="after:b.ndjson").records == 10
    assert ids(tmp_path / "table") == list(range(30))
