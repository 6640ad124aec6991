"""The whole path on real Spark and a real Delta table: every kind of file, every budget, any change between runs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import blizzard
from blizzard.core.events import Event, Warned
from blizzard.source import listing
from blizzard.testing.samples import EVENT_DDL, write_events
from tests.ingesting import DDL, commit_actions, ids, ingest, line, rows, versions, write, write_ids

pytestmark = pytest.mark.spark


def test_gzip_multi_member_and_plain_files_are_read_to_their_end(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ids(tmp_path / "src/a.ndjson.gz", 0, 10)
    members = b"".join(gzip.compress(line(i)) for i in range(10, 20))
    (tmp_path / "src/b.ndjson.gz").write_bytes(members)
    write(tmp_path / "src/deep/er/c.jsonl", b"".join(map(line, range(20, 30))).rstrip(b"\n"))
    write(tmp_path / "src/empty.ndjson.gz", b"")
    (tmp_path / "src/zero.ndjson").write_bytes(b"")
    (tmp_path / "src/zero.ndjson.gz").write_bytes(b"")
    monkeypatch.setattr(listing, "_EMPTY_AGE_S", 0)  # a young one would be held back: it may still be written
    summary = ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == list(range(30))
    assert (summary.status, summary.files, summary.records, summary.commits) == ("done", 6, 30, 1)
    assert summary.backlog_files == 0


def test_a_second_run_finds_nothing_and_commits_nothing(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson.gz", 0, 10)
    ingest(spark, tmp_path)
    before = versions(tmp_path / "table")
    summary = ingest(spark, tmp_path)
    assert (summary.status, summary.commits, summary.recovery) == ("idle", 0, "log")
    assert versions(tmp_path / "table") == before


def test_hidden_files_are_ignored(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    for name in ("_x.ndjson", ".y.ndjson", "_temporary/z.ndjson"):
        write(tmp_path / "src" / name, b"not json")
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == [0, 1, 2]


def test_names_with_any_character_survive_a_restart(spark: Any, tmp_path: Path) -> None:
    names = ["a b", "c%20d", "e'f\"g", "h\ni", "j{k}", "l*m", "ü—🎉", "n#o?p", "q=r&s", "t\\u"]
    for i, name in enumerate(sorted(names)):
        write_ids(tmp_path / "src" / f"{name}.ndjson.gz", 10 * i, 10 * i + 10)
    for _ in range(20):
        if ingest(spark, tmp_path, options={"limits.max_records": 15}, max_batches=1).status == "idle":
            break
    assert ids(tmp_path / "table") == list(range(10 * len(names)))


def test_rows_keep_line_order_within_a_file_and_small_sources_share_one_file(spark: Any, tmp_path: Path) -> None:
    for i in range(20):
        write_ids(tmp_path / f"src/{i:02d}.ndjson.gz", 100 * i, 100 * i + 100)
    ingest(spark, tmp_path, options={"spark.slots": 1})
    files = list((tmp_path / "table").glob("*.parquet"))
    assert len(files) == 1
    assert pq.read_table(files[0])["id"].to_pylist() == list(range(2000))


def test_files_roll_at_the_target_size(spark: Any, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=60_000)
    summary = ingest(
        spark,
        tmp_path,
        schema=EVENT_DDL,
        options={"table.target_file_bytes": 500_000, "checkpoint.commit_files": 1000, "spark.slots": 1},
    )
    assert summary.commits == 1
    assert len(list((tmp_path / "table").glob("*.parquet"))) > 1
    assert len(ids(tmp_path / "table")) == total


@pytest.mark.parametrize(
    "options",
    [
        {"limits.max_records": 333},
        {"limits.max_files": 1},
        {"limits.max_bytes": 1},
        {"checkpoint.interval_s": 0.000001},
        {"table.target_file_bytes": 1, "checkpoint.commit_files": 1},
    ],
)
def test_a_task_stops_at_a_record_boundary_when_its_budget_is_used_up(
    spark: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    for i in range(3):
        write_ids(tmp_path / f"src/{i}.ndjson.gz", 1000 * i, 1000 * i + 1000)
    summary = ingest(spark, tmp_path, options=options)
    assert summary.commits > 1
    assert summary.status == "done"
    assert ids(tmp_path / "table") == list(range(3000))


def test_blank_lines_count_for_the_position_and_not_as_rows(spark: Any, tmp_path: Path) -> None:
    content = b"".join(line(i) + (b"\n" if i % 3 else b" \t\r\n") for i in range(300))
    write(tmp_path / "src/a.ndjson.gz", content)
    summary = ingest(spark, tmp_path, options={"limits.max_records": 77})
    assert summary.records == 300
    assert summary.commits == 8
    assert ids(tmp_path / "table") == list(range(300))


def test_limits_slots_and_host_may_change_between_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(7):
        write_ids(tmp_path / f"src/{i}.ndjson.gz", 100 * i, 100 * i + 100)
    changes = [
        {"limits.max_records": 130, "spark.slots": 2},
        {"limits.max_records": 50, "spark.slots": 1},
        {"limits.max_files": 2, "spark.slots": 5},
        {"limits.max_bytes": 500, "table.compression": "zstd"},
        {"checkpoint.scan_commits": 1, "table.committer": "delta-rs"},
    ]
    for i, options in enumerate(changes):
        monkeypatch.setenv("HOSTNAME", f"host-{i}")
        ingest(spark, tmp_path, options=options, max_batches=1)
        found = ids(tmp_path / "table")
        assert len(found) == len(set(found))
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == list(range(700))


def test_files_that_arrive_later_are_ingested_by_the_next_run(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 5)
    ingest(spark, tmp_path)
    write_ids(tmp_path / "src/b.ndjson", 5, 9)
    assert ingest(spark, tmp_path, schema=None).records == 4
    assert ids(tmp_path / "table") == list(range(9))


def test_a_late_file_is_ingested_and_told(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/b.ndjson", 0, 5)
    ingest(spark, tmp_path)
    write_ids(tmp_path / "src/a.ndjson", 5, 9)
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            told.append(event.message)

    summary = ingest(spark, tmp_path, on_event=listen)
    assert (summary.late_files, summary.files) == (1, 1)
    assert "a.ndjson" in told[0]
    assert ids(tmp_path / "table") == list(range(9))


def test_a_batch_with_no_row_commits_both_txns_and_advances(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b"\n\n \n")
    write(tmp_path / "src/b.ndjson.gz", b"")
    summary = ingest(spark, tmp_path)
    assert (summary.commits, summary.records, summary.files) == (1, 0, 2)
    actions = commit_actions(tmp_path / "table", 1)
    assert [next(iter(a)) for a in actions] == ["commitInfo", "txn", "txn"]
    assert ingest(spark, tmp_path).status == "idle"


def test_two_pipelines_share_a_table_without_disturbing_each_other(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "one/a.ndjson", 0, 10)
    write_ids(tmp_path / "two/a.ndjson", 100, 110)
    ingest(spark, tmp_path, source=str(tmp_path / "one"))
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, source=str(tmp_path / "two"))
    assert refused.value.kind == "table_has_data"
    ingest(spark, tmp_path, source=str(tmp_path / "two"), start_from="beginning")
    write_ids(tmp_path / "one/b.ndjson", 10, 20)
    write_ids(tmp_path / "two/b.ndjson", 110, 120)
    for name in ("one", "two"):
        assert ingest(spark, tmp_path, source=str(tmp_path / name)).records == 10
    assert ids(tmp_path / "table") == [*range(20), *range(100, 120)]
    status = blizzard.status(str(tmp_path / "table"))
    assert [p.sequence for p in status.pipelines] == [2, 2]


def test_start_from_after_a_name_skips_the_files_up_to_it_and_is_recorded(spark: Any, tmp_path: Path) -> None:
    for i, name in enumerate("abc"):
        write_ids(tmp_path / f"src/{name}.ndjson", 10 * i, 10 * i + 10)
    write_ids(tmp_path / "other/x.ndjson", 100, 101)
    ingest(spark, tmp_path, source=str(tmp_path / "other"))
    summary = ingest(spark, tmp_path, start_from=f"after:{tmp_path}/src/a.ndjson")
    assert summary.records == 20
    assert ids(tmp_path / "table") == [*range(10, 30), 100]
    assert ingest(spark, tmp_path).late_files == 0
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, start_from="beginning")
    assert refused.value.kind == "start_from_rejected"
    from blizzard.config.load import make_config
    from blizzard.config.request import Request
    from blizzard.operate.status import newest_payloads
    from blizzard.run.assemble import Assembly

    config = make_config({"table.path": str(tmp_path / "table")})
    found = newest_payloads(Assembly(request=Request(config=config)).open_table(), summary.pipeline)
    assert [p["start_from"] for p in found] == ["after:a.ndjson"]


def test_another_source_under_the_same_pipeline_is_refused(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/b.ndjson", 0, 10)
    write_ids(tmp_path / "other/a.ndjson", 10, 20)
    ingest(spark, tmp_path, pipeline="p")
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, pipeline="p", source=str(tmp_path / "other"))
    assert refused.value.kind == "other_source"
    assert ids(tmp_path / "table") == list(range(10))


def test_a_source_in_progress_that_changed_is_refused(spark: Any, tmp_path: Path) -> None:
    path = write_ids(tmp_path / "src/a.ndjson", 0, 100)
    ingest(spark, tmp_path, options={"limits.max_records": 40}, max_batches=1)
    write_ids(path, 0, 120)
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path)
    assert refused.value.kind == "source_changed"
    assert "40 records" in str(refused.value)
    assert ids(tmp_path / "table") == list(range(40))


def test_a_restored_table_is_refused(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    ingest(spark, tmp_path)
    spark.sql(f"RESTORE TABLE delta.`{tmp_path}/table` TO VERSION AS OF 1")
    write_ids(tmp_path / "src/c.ndjson", 20, 30)
    for _ in range(2):
        with pytest.raises(blizzard.Refused) as refused:
            ingest(spark, tmp_path)
        assert refused.value.kind == "table_rewritten"
    assert ids(tmp_path / "table") == list(range(10))


def test_optimize_and_appends_by_spark_are_survived(spark: Any, tmp_path: Path) -> None:
    for i in range(4):
        write_ids(tmp_path / f"src/{i}.ndjson", 10 * i, 10 * i + 10)
        ingest(spark, tmp_path)
        spark.sql(f"OPTIMIZE delta.`{tmp_path}/table`")
        spark.sql(f"INSERT INTO delta.`{tmp_path}/table` VALUES ({1000 + i}, 'foreign')")
    assert ids(tmp_path / "table") == [*range(40), *range(1000, 1004)]


def test_the_table_is_made_with_a_txn_retention_and_a_fence(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 1)
    ingest(spark, tmp_path, pipeline="p")
    made = {next(iter(a)): next(iter(a.values())) for a in commit_actions(tmp_path / "table", 0)}
    assert made["metaData"]["configuration"] == {"delta.setTransactionRetentionDuration": "interval 14 days"}
    assert made["txn"]["appId"] == "blizzard-fence:p"
    assert made["txn"]["version"] == 0


def test_attempts_nobody_reported_are_never_committed(spark: Any, tmp_path: Path) -> None:
    """An orphan of a killed attempt lies in the table's folder and is no part of the table."""
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    committed = next((tmp_path / "table").glob("*.parquet"))
    (tmp_path / "table" / committed.name.replace("-0000.", "-0001.")).write_bytes(committed.read_bytes())
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == list(range(20))


def test_file_names_carry_run_sequence_task_and_attempt(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    commit = {next(iter(a)): next(iter(a.values())) for a in commit_actions(tmp_path / "table", 1)}
    run_id = json.loads(commit["commitInfo"]["userMetadata"])["run_id"]
    name = commit["add"]["path"].split("-")
    assert name[:4] == ["blizzard", run_id, "00000001", "0000"]
    assert len(name[4]) == 12


def test_an_existing_table_gives_its_own_schema(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` (id BIGINT NOT NULL, name STRING) USING delta")
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path, schema=None)
    assert rows(tmp_path / "table")[3] == {"id": 3, "name": "n3"}


def test_a_schema_change_by_another_writer_during_the_batch_is_noticed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blizzard.spark.ingestor import SparkIngestor

    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    original = SparkIngestor.run

    def run_then_alter(self: SparkIngestor, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/table` ADD COLUMNS (extra INT)")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(SparkIngestor, "run", run_then_alter)
        with pytest.raises(blizzard.Temporary) as temporary:
            ingest(spark, tmp_path, schema=None)
    assert temporary.value.kind == "schema_changed"
    assert ingest(spark, tmp_path, schema=None).records == 10
    assert ids(tmp_path / "table") == list(range(20))


def test_what_is_committed_is_on_the_disk_first(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet and its folder are fsynced by the task before it reports; the log entry by the driver after it landed."""
    from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan
    from blizzard.schema.layout import TableLayout
    from blizzard.schema.load import load_schema
    from blizzard.tasks.spec import TaskSpec
    from blizzard.tasks.task import run_task

    source = write_ids(tmp_path / "src/a.ndjson", 0, 10)
    (tmp_path / "table").mkdir()
    synced: list[str] = []
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    info = source.stat()
    piece = Slice(path="a.ndjson", size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0)
    spec = TaskSpec(
        source_root=str(tmp_path / "src"),
        compression="auto",
        table_root=str(tmp_path / "table"),
        layout=TableLayout(schema=load_schema(DDL)),
        pipeline="p",
        quarantine_root=str(tmp_path / "quarantine"),
        run_id="r",
        target_file_bytes=1 << 20,
        codec="snappy",
        max_record_bytes=1 << 20,
        indexed_columns=32,
    )
    budget = Budget(output_bytes=1 << 20, max_records=None, seconds=None)
    report = run_task(
        spec, TaskPlan(slot=0, slices=(piece,), budget=budget), BatchTicket(sequence=1, planned_ms=0, table_id="t")
    )
    assert synced == [str(tmp_path / "table" / report.files[0].path), str(tmp_path / "table")]
    synced.clear()
    ingest(spark, tmp_path, table=str(tmp_path / "table2"))
    log = tmp_path / "table2/_delta_log"
    assert str(log / f"{1:020d}.json") in synced
    assert str(log) in synced
