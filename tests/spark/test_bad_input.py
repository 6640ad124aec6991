"""Bad input: the right exit code, a message that names the file and line, and a table that is unchanged."""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

import blizzard
from blizzard.core.events import Event, Warned
from blizzard.errors import BadFile, BadRecord, BlizzardError, ConfigError, SchemaError
from tests.ingesting import ids, ingest, line, write, write_ids

pytestmark = pytest.mark.spark


STOP = {"bad_records.policy": "fail", "bad_files.policy": "fail"}


def fails(spark: Any, folder: Path, error: type[BlizzardError], kind: str, **arguments: Any) -> str:
    arguments["options"] = STOP | arguments.get("options", {})
    with pytest.raises(error) as caught:
        ingest(spark, folder, **arguments)
    assert caught.value.kind == kind
    return str(caught.value)


@pytest.mark.parametrize(
    "bad", [b"{", b"[1]", b'{"id":1.5}', b'{"id":1}{"id":2}', b'{"id":NaN}', b"\xff", b'{"id":1,"id":2}', b'{"id":"1"}']
)
def test_a_malformed_line_stops_the_run_and_is_named(spark: Any, tmp_path: Path, bad: bytes) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    write(tmp_path / "src/b.ndjson.gz", line(10) + b"\n" + bad + b"\n" + line(11))
    message = fails(spark, tmp_path, BadRecord, "bad_record")
    assert "b.ndjson.gz line 3: " in message
    assert ids(tmp_path / "table") == list(range(10))
    write_ids(tmp_path / "src/b.ndjson.gz", 10, 20)
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == list(range(20))


def test_a_bad_line_after_a_resume_has_its_true_number(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b"".join(map(line, range(100))) + b"oops\n")
    message = fails(spark, tmp_path, BadRecord, "bad_record", options={"limits.max_records": 30})
    assert "a.ndjson line 101: " in message
    assert ids(tmp_path / "table") == list(range(90))


def test_a_line_longer_than_the_limit_is_a_bad_record(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", line(0) + b'{"id":1,"name":"' + b"x" * 5000 + b'"}\n')
    message = fails(spark, tmp_path, BadRecord, "bad_record", options={"limits.max_record_bytes": 1000})
    assert "a.ndjson line 2: " in message
    assert "max_record_bytes" in message


def test_a_truncated_gzip_is_named_and_nothing_of_it_is_committed(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson.gz", 0, 10)
    (tmp_path / "src/b.ndjson.gz").write_bytes(gzip.compress(b"".join(map(line, range(10, 5000))))[:-20])
    message = fails(spark, tmp_path, BadFile, "truncated")
    assert "b.ndjson.gz" in message
    assert not (tmp_path / "table").exists()


def test_a_corrupt_gzip_is_named(spark: Any, tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b"".join(map(line, range(5000)))))
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson.gz").write_bytes(content)
    with pytest.raises(BadFile) as caught:
        ingest(spark, tmp_path, options=STOP)
    assert caught.value.kind in ("corrupt", "truncated")
    assert "a.ndjson.gz" in str(caught.value)


def test_trailing_garbage_after_a_gzip_is_not_read_as_an_end(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson.gz").write_bytes(gzip.compress(line(0)) + b"garbage that is no gzip member")
    assert "a.ndjson.gz" in fails(spark, tmp_path, BadFile, "corrupt")


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.ndjson.gz", b"no gzip and no JSON", {}),
        ("a.ndjson", b'{"id":1}\n', {"source.compression": "gzip"}),
        ("a.ndjson.gz", gzip.compress(b'{"id":1}\n', mtime=0), {"source.compression": "none"}),
    ],
)
def test_the_wrong_compression_is_named(
    spark: Any, tmp_path: Path, name: str, content: bytes, options: dict[str, str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / name).write_bytes(content)
    assert name in fails(spark, tmp_path, BadFile, "wrong_compression", options=options)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ndjson.gz", line(1)),
        ("a.ndjson", gzip.compress(line(1), mtime=0)),
        ("a.ndjson.zst", gzip.compress(line(1), mtime=0)),
        ("a.ndjson", bz2.compress(line(1))),
    ],
)
def test_the_bytes_say_how_a_file_is_compressed(spark: Any, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / name).write_bytes(content)
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == [1]


def test_another_encoding_is_read_with_the_setting(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(line(1).decode().encode("utf-16"))
    ingest(spark, tmp_path, options={"source.encoding": "utf-16"})
    assert ids(tmp_path / "table") == [1]


def test_a_file_of_another_kind_is_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b"PAR1....PAR1")
    assert "a.ndjson: a Parquet file, not lines of JSON" in fails(spark, tmp_path, BadFile, "other_kind")


def test_a_folder_with_the_name_of_a_data_file_is_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src/a.ndjson.gz").mkdir(parents=True)
    assert "a.ndjson.gz" in fails(spark, tmp_path, BadFile, "source_is_directory")


def test_a_folder_with_the_name_of_a_data_file_that_holds_some_is_read(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/out.ndjson/part-0.ndjson", 0, 5)
    ingest(spark, tmp_path)
    assert ids(tmp_path / "table") == list(range(5))


def test_a_dangling_link_and_a_pipe_are_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").symlink_to(tmp_path / "nowhere")
    assert "a.ndjson" in fails(spark, tmp_path, BadFile, "source_not_readable")
    (tmp_path / "src/a.ndjson").unlink()
    os.mkfifo(tmp_path / "src/b.ndjson")
    assert "b.ndjson" in fails(spark, tmp_path, BadFile, "source_not_readable")


def test_a_name_that_is_not_utf8_is_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with open(os.fsencode(tmp_path / "src") + b"/\xff.ndjson", "wb"):
        pass
    assert r"\xff.ndjson" in fails(spark, tmp_path, BadFile, "source_name")


def test_a_source_that_does_not_exist_is_a_configuration_error(spark: Any, tmp_path: Path) -> None:
    assert str(tmp_path / "src") in fails(spark, tmp_path, ConfigError, "source_not_found")
    assert not (tmp_path / "table").exists()


def test_an_empty_listing_is_nothing_to_do_and_makes_no_table(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert ingest(spark, tmp_path).status == "idle"
    assert ingest(spark, tmp_path, schema=None).status == "idle"
    assert not (tmp_path / "table").exists()


def test_a_path_that_is_no_delta_table_is_left_alone(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    (tmp_path / "table").mkdir()
    (tmp_path / "table/precious.csv").write_text("1,2,3")
    assert "_delta_log" in fails(spark, tmp_path, ConfigError, "not_a_delta_table")
    assert sorted(p.name for p in (tmp_path / "table").iterdir()) == ["precious.csv"]
    (tmp_path / "file").write_text("x")
    fails(spark, tmp_path, ConfigError, "not_a_delta_table", table=str(tmp_path / "file"))


def test_a_damaged_log_is_refused(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    newest = tmp_path / "table/_delta_log" / f"{1:020d}.json"
    newest.write_text(newest.read_text()[:200])
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path)
    assert refused.value.kind in ("table_unreadable", "log_damaged")


def test_a_payload_damaged_in_the_log_is_refused(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    newest = tmp_path / "table/_delta_log" / f"{1:020d}.json"
    newest.write_text(newest.read_text().replace("blizzard:eyJ", "blizzard:AAA"))
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path)
    assert refused.value.kind == "damaged_checkpoint"
    assert ids(tmp_path / "table") == list(range(10))


def test_a_schema_that_does_not_fit_the_table_is_explained(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    message = fails(spark, tmp_path, SchemaError, "schema_mismatch", schema="id STRING, extra INT")
    assert "id" in message
    assert "extra" in message
    assert ids(tmp_path / "table") == list(range(10))


def test_a_new_table_without_a_schema_gets_a_suggestion(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    message = fails(spark, tmp_path, SchemaError, "schema_missing", schema=None)
    assert "id BIGINT, name STRING" in message
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    ("ddl", "more"),
    [
        ("id BIGINT, name STRING", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
        ("id BIGINT, name STRING", "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"),
        ("id BIGINT, name STRING", "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"),
    ],
)
def test_a_table_whose_features_would_be_broken_is_refused(spark: Any, tmp_path: Path, ddl: str, more: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` ({ddl}) USING delta {more}")
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, schema=None)
    assert refused.value.kind == "table_feature"


@pytest.mark.parametrize("column", ["generated", "identity"])
def test_a_column_the_writer_would_have_to_compute_is_refused(spark: Any, tmp_path: Path, column: str) -> None:
    from delta.tables import DeltaTable, IdentityGenerator

    by: Any = "id * 2" if column == "generated" else IdentityGenerator()
    builder = DeltaTable.create(spark).location(str(tmp_path / "table")).addColumn("id", "BIGINT")
    builder.addColumn("more", "BIGINT", generatedAlwaysAs=by).execute()
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, schema=None)
    assert refused.value.kind == "table_feature"


def test_a_constraint_is_refused(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    spark.sql(f"ALTER TABLE delta.`{tmp_path}/table` ADD CONSTRAINT small CHECK (id < 1000)")
    write_ids(tmp_path / "src/b.ndjson", 10, 2000)
    with pytest.raises(blizzard.Refused) as refused:
        ingest(spark, tmp_path, schema=None)
    assert "small" in str(refused.value)


def test_null_in_a_not_null_column_is_a_bad_record(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", line(1) + b'{"name":"x"}\n')
    message = fails(spark, tmp_path, BadRecord, "bad_record", schema="id BIGINT NOT NULL, name STRING")
    assert "line 2" in message
    assert "id" in message


def test_a_file_that_grows_after_it_was_listed_does_not_stop_the_others(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blizzard.source.listed import ListedSource

    path = write_ids(tmp_path / "src/a.ndjson", 0, 10)
    write_ids(tmp_path / "src/b.ndjson", 100, 110)
    original = ListedSource.look

    def look_then_grow(self: ListedSource, scope: Any) -> Any:
        listed = original(self, scope)
        with open(path, "ab") as file:
            file.write(line(10))
        return listed

    with monkeypatch.context() as patch:
        patch.setattr(ListedSource, "look", look_then_grow)
        summary = ingest(spark, tmp_path)
    assert (summary.files, summary.backlog_files) == (1, 1)
    assert ids(tmp_path / "table") == list(range(100, 110))
    assert ingest(spark, tmp_path).late_files == 0
    assert ids(tmp_path / "table") == [*range(11), *range(100, 110)]


def test_a_file_changed_after_it_was_ingested_is_told(spark: Any, tmp_path: Path) -> None:
    path = write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    write_ids(path, 0, 12)
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            told.append(event.message)

    assert ingest(spark, tmp_path, on_event=listen).status == "idle"
    assert "rewritten" in told[0]
    assert "a.ndjson" in told[0]
    (status,) = blizzard.status(str(tmp_path / "table"), source=str(tmp_path / "src")).pipelines
    assert status.rewritten_files == 1
