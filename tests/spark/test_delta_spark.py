"""What the delta-spark committer is for: tables by name, and features that delta-rs cannot write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.delta.arbitration import is_arbitrated
from blizzard.delta.spark_place import DeltaSparkPlace
from blizzard.delta.spark_table import spark_root
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Fenced, Refused, Temporary
from tests.drivers import Driver
from tests.flows.in_process import Flow, write_foreign
from tests.ingesting import DDL, commit_actions, ids, ingest, write_ids

pytestmark = pytest.mark.spark

BY_SPARK = {"table.committer": "delta-spark", "table.sole_writer": True}


def test_the_log_holds_the_same_actions_as_with_delta_rs(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    ingest(spark, tmp_path, table=str(tmp_path / "rs"), pipeline="p")
    ingest(spark, tmp_path, table=str(tmp_path / "jvm"), pipeline="p", options=BY_SPARK)
    shapes = []
    for name in ("rs", "jvm"):
        actions = commit_actions(tmp_path / name, 1)
        info = next(a["commitInfo"] for a in actions if "commitInfo" in a)
        ledger = json.loads(info["userMetadata"])
        shapes.append(
            {
                "kinds": sorted(next(iter(a)) for a in actions),
                "operation": info["operation"],
                "mode": info["operationParameters"]["mode"].lower(),
                "blind": info["isBlindAppend"],
                "ledger": (ledger["pipeline"], ledger["sequence"], [f["path"] for f in ledger["files"]]),
                "txns": sorted((t["appId"].split(":")[0], t["version"]) for a in actions if (t := a.get("txn"))),
                "rows": json.loads(next(a["add"]["stats"] for a in actions if "add" in a))["numRecords"],
            }
        )
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_where_sparks_log_store_does_not_arbitrate_it_asks_for_your_word(spark: Any, tmp_path: Path, kind: str) -> None:
    stores = {"file": "HDFSLogStore", "s3": "S3SingleDriverLogStore"}
    root = "/data/t" if kind == "file" else "s3://bucket/t"
    assert not is_arbitrated(f"io.delta.storage.{stores[kind]}", root)
    assert is_arbitrated("io.delta.storage.S3DynamoDBLogStore", root) == (kind == "s3")
    assert not is_arbitrated("io.delta.storage.GCSLogStore", root)
    assert not is_arbitrated("com.example.OfSomebody", root)
    assert is_arbitrated("io.delta.storage.GCSLogStore", "gs://bucket/t")
    assert is_arbitrated("io.delta.storage.AzureLogStore", "abfss://c@a.dfs.core.windows.net/t")
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    with pytest.raises(Refused) as error:
        ingest(spark, tmp_path, options={"table.committer": "delta-spark"})
    assert error.value.kind == "not_arbitrated"
    assert "table.sole_writer" in str(error.value)
    assert not (tmp_path / "table/_delta_log").exists()
    ingest(spark, tmp_path, options=BY_SPARK if kind == "file" else {"table.committer": "delta-rs"})
    assert ids(tmp_path / "table") == [0, 1, 2]


FEATURES = {
    "in-commit timestamps": "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "row tracking": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "clustering": "CLUSTER BY (id)",
    "column defaults": "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
}


@pytest.mark.parametrize("feature", FEATURES)
def test_tables_that_delta_rs_cannot_write_are_written(
    spark: Any, tmp_path: Path, feature: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, name STRING) USING delta {FEATURES[feature]}")
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    with pytest.raises(Refused, match="delta-spark committer can") as error:
        ingest(spark, tmp_path)
    assert error.value.kind == "table_feature"
    assert main(["doctor", "--table", str(table)]) == 3
    assert "needs --committer delta-spark" in capsys.readouterr().out
    ingest(spark, tmp_path, options=BY_SPARK)
    write_ids(tmp_path / "src/b.ndjson", 3, 6)
    assert ingest(spark, tmp_path, options=BY_SPARK).recovery == "log"
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 5")
    assert sorted(row.id for row in spark.read.format("delta").load(str(table)).collect()) == [0, 1, 2, 3, 4]
    if feature == "row tracking":
        rows = spark.sql(f"SELECT _metadata.row_id AS r FROM delta.`{table}`").collect()
        assert len({row.r for row in rows}) == 5


def test_a_table_by_its_name_in_the_catalog(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    spark.sql("CREATE DATABASE IF NOT EXISTS names")
    spark.sql(f"CREATE TABLE names.events (id BIGINT, name STRING) USING delta LOCATION '{tmp_path / 'by name'}'")
    spark.sql("CREATE TABLE names.plain (id BIGINT) USING parquet")
    try:
        for name in ("names.events", "catalog:names.events", "spark_catalog.names.events"):
            ingest(spark, tmp_path, table=name, pipeline="p", schema=None, options=BY_SPARK)
        assert ids(tmp_path / "by name") == [0, 1, 2]
        for wrong, kind in (("names.plain", "not_a_delta_table"), ("names.none", "table_not_found")):
            with pytest.raises(ConfigError) as error:
                ingest(spark, tmp_path, table=wrong, schema=None, options=BY_SPARK)
            assert error.value.kind == kind
        with pytest.raises(ConfigError, match="delta-spark"):
            ingest(spark, tmp_path, table="catalog:names.events")
    finally:
        for table in ("events", "plain"):
            spark.sql(f"DROP TABLE IF EXISTS names.{table}")
        spark.sql("DROP DATABASE names")


def test_a_catalog_managed_table_is_refused(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, name STRING) USING delta")
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    path = table / "_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            features = ["coordinatedCommits-preview"]
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in (table / "_delta_log").glob("*.crc"):
        checksum.unlink()
    for checksum in (table / "_delta_log").glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(Refused) as error:
        ingest(spark, tmp_path)
    assert error.value.kind == "catalog_managed"


def test_commits_make_checkpoints_and_never_clean_the_log_up(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.delta.spark_table._CHECKPOINT_EVERY", 3)
    table = tmp_path / "table"
    days = "'delta.logRetentionDuration' = 'interval 0 days', 'delta.deletedFileRetentionDuration' = 'interval 0 days'"
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, name STRING) USING delta TBLPROPERTIES ({days})")
    for number in range(7):
        write_ids(tmp_path / f"src/{number}.ndjson", number, number + 1)
        ingest(spark, tmp_path, options=BY_SPARK)
    log = table / "_delta_log"
    assert len(list(log.glob("*.json"))) == 8
    assert [path.name[:20] for path in sorted(log.glob("*.checkpoint.parquet"))] == [f"{3:020d}", f"{6:020d}"]
    assert ids(table) == list(range(7))


def test_both_committers_may_take_turns(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        write_ids(tmp_path / f"src/{number}.ndjson", number, number + 1)
        summary = ingest(spark, tmp_path, options=BY_SPARK if number % 2 else {})
        assert summary.sequence == number + 1
    assert ids(tmp_path / "table") == [0, 1, 2, 3]


def test_a_log_that_moves_at_every_look_is_worth_a_retry(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path).first_run()
    place = DeltaSparkPlace(
        root=str(flow.table), schema=None, clock=flow.clock, session=lambda: spark, is_sole_writer=True
    )
    write_ids(flow.src / "b.ndjson", 3, 6)
    refresh = DeltaRsTable.refresh

    def refresh_late(self: DeltaRsTable) -> None:
        write_foreign(flow.table, 9000)
        refresh(self)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaRsTable, "refresh", refresh_late)
        with pytest.raises(Temporary) as error:
            flow.run(place=place)
    assert error.value.kind == "table_busy"
    flow.run(place=place)
    assert [i for i in ids(flow.table) if i < 9000] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("first", ["delta-rs", "delta-spark"])
def test_of_one_driver_with_each_committer_the_overtaken_one_is_fenced(spark: Any, tmp_path: Path, first: str) -> None:
    flow, other = Flow(tmp_path), Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    by_spark = DeltaSparkPlace(
        root=str(flow.table), schema=None, clock=flow.clock, session=lambda: spark, is_sole_writer=True
    )
    mine, theirs = (flow.place, by_spark) if first == "delta-rs" else (by_spark, flow.place)
    write_ids(flow.src / "b.ndjson", 3, 6)
    other.runs = 10

    def overtake() -> None:
        other.run(place=theirs)

    with pytest.raises(Fenced):
        flow.run(place=mine, while_reading=overtake)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    monkeypatch.setenv("BLIZZARD_FAULT", "commit.answer=raise")
    assert ingest(spark, tmp_path, options=BY_SPARK).commits == 1
    assert ids(tmp_path / "table") == [0, 1, 2]


def test_a_failing_hook_after_the_commit_is_no_failed_commit(spark: Any, tmp_path: Path) -> None:
    """Spark writes symlink manifests after the commit, and here it cannot."""
    table = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT, name STRING) USING delta"
        " TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"
    )
    (table / "_symlink_format_manifest").write_text("in the way")
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    assert ingest(spark, tmp_path, options=BY_SPARK).commits == 1
    assert ids(table) == [0, 1, 2]


@pytest.mark.process
@pytest.mark.usefixtures("fast_drivers")
def test_a_driver_with_this_committer_killed_at_its_commit_loses_and_doubles_nothing(
    spark: Any, tmp_path: Path
) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/b.ndjson", 3, 6)
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "table"), "--schema", DDL]
    by_spark = ["--committer", "delta-spark", "--set", "table.sole_writer=true", "--set", "limits.max_files=1"]
    marker = tmp_path / "reached"
    driver = Driver(tmp_path, *where, *by_spark, fault=f"commit.answer=hang:{marker}@2")
    driver.wait_until(marker.exists, "it had committed twice")
    driver.kill()
    assert ids(tmp_path / "table") == [0, 1, 2, 3, 4, 5]
    summary = ingest(spark, tmp_path, options=BY_SPARK)
    assert (summary.commits, summary.recovery) == (0, "log")


def test_without_deltas_jars_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    from blizzard.delta import jvm

    monkeypatch.setattr(jvm, "_DELTA", "org.apache.spark.sql.no_delta_here")
    with pytest.raises(ConfigError) as error:
        jvm.DeltaJvm(spark)
    assert error.value.kind == "no_delta_jars"
    with pytest.raises(ConfigError) as error:
        jvm.DeltaJvm(object())
    assert error.value.kind == "no_jvm"


def test_hadoop_gets_the_scheme_that_it_has_a_file_system_for(spark: Any) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    assert spark_root("s3://bucket/table", spark) == "s3a://bucket/table"
    hadoop.set("fs.s3.impl", "com.amazon.ws.emr.hadoop.fs.EmrFileSystem")  # as on EMR
    try:
        assert spark_root("s3://bucket/table", spark) == "s3://bucket/table"
    finally:
        hadoop.unset("fs.s3.impl")
    assert spark_root("/lake/table", spark) == "/lake/table"
