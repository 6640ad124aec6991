"""Real drivers, with Spark, between two prefixes of a bucket: killed, racing, and silent about what they were given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.store import open_store
from blizzard.testing.samples import EVENT_DDL, write_events
from tests.drivers import Driver, Finished
from tests.s3.endpoint import SECRET_KEY, S3Endpoint
from tests.s3.flows import BucketFlow, access_to
from tests.s3.server import Bucket, S3Server

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]


def options(endpoint: S3Endpoint) -> list[str]:
    return [
        part
        for name, value in endpoint.storage_options.items()
        for part in ("--set", f"storage_options.{name}={value}")
    ]


def job(bucket: Bucket, endpoint: S3Endpoint, *more: str) -> list[str]:
    where = ["--source", bucket.uri("src", scheme="s3a"), "--table", bucket.uri("table"), "--pipeline", "p"]
    return [*where, "--schema", EVENT_DDL, *options(endpoint), *more]


@pytest.fixture
def total(bucket: Bucket, s3_server: S3Server, tmp_path: Path) -> int:
    """Six files of 500 events are in the bucket; returns how many ids there are."""
    records = write_events(str(tmp_path / "events"), files=6, records=500)
    store = open_store(bucket.uri("src"), access_to(s3_server))
    for path in sorted((tmp_path / "events").iterdir()):
        store.put(path.name, path.read_bytes())
    return records


def ids(bucket: Bucket, endpoint: S3Endpoint) -> list[int]:
    return BucketFlow(bucket, endpoint).ids()


@pytest.mark.parametrize("point", ["commit.during", "commit.answer"])
def test_a_driver_killed_at_its_commit_loses_and_doubles_nothing(
    s3_server: S3Server, bucket: Bucket, tmp_path: Path, total: int, point: str
) -> None:
    marker, batches = tmp_path / "reached", ("--set", "limits.max_records=1000")
    driver = Driver(tmp_path, *job(bucket, s3_server, *batches), fault=f"{point}=hang:{marker}@2")
    driver.wait_until(marker.exists, f"it reached {point}")
    driver.kill()
    assert len(ids(bucket, s3_server)) == (2000 if point == "commit.answer" else 1000)
    finished = Driver(tmp_path, *job(bucket, s3_server)).wait()
    assert finished.code == 0, finished.stderr
    assert ids(bucket, s3_server) == list(range(total))


def test_two_drivers_racing_commit_every_record_once(
    s3_server: S3Server, bucket: Bucket, tmp_path: Path, total: int
) -> None:
    drivers = [Driver(tmp_path, *job(bucket, s3_server, "--set", "limits.max_records=1000")) for _ in range(2)]
    ends = [driver.wait() for driver in drivers]
    assert sorted(end.code for end in ends) in ([0, 4], [0, 0]), [end.stderr for end in ends]
    finished = Driver(tmp_path, *job(bucket, s3_server)).wait()
    assert finished.code == 0, finished.stderr
    assert ids(bucket, s3_server) == list(range(total))


def everything_said(bucket: Bucket, ended: Finished, *files: Path) -> bytes:
    """All that a run leaves behind: output, summary, and every object but the source."""
    left = [path.read_bytes() for path in bucket.folder.rglob("*") if path.is_file() and "src" not in path.parts]
    return b"\n".join([ended.stdout.encode(), ended.stderr.encode(), *(f.read_bytes() for f in files), *left])


def test_credentials_are_nowhere_in_what_a_run_leaves_behind(
    s3_server: S3Server, bucket: Bucket, tmp_path: Path, total: int, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.json"
    store = open_store(bucket.uri("src"), access_to(s3_server))
    store.put("bad.ndjson", b'{"id":"seven"}\n')
    good = Driver(tmp_path, *job(bucket, s3_server, "--summary", str(summary))).wait()
    assert good.code == 0, good.stderr
    assert json.loads(summary.read_text())["records"] == total
    assert SECRET_KEY.encode() not in everything_said(bucket, good, summary)
    # What fails says much, and must not say that.
    failed = Driver(
        tmp_path,
        *job(bucket, s3_server, "--set", "storage_options.AWS_ENDPOINT_URL=http://127.0.0.1:9"),
    ).wait()
    assert failed.code == 75, failed.stderr
    assert failed.summary["error_kind"] == "store_unavailable"
    assert SECRET_KEY.encode() not in everything_said(bucket, failed, summary)
    wrong = Driver(tmp_path, *job(bucket, s3_server, "--set", "storage_options.AWS_SECRET=" + SECRET_KEY)).wait()
    assert wrong.code == 2
    assert SECRET_KEY not in wrong.stdout + wrong.stderr


def call(capsys: pytest.CaptureFixture[str], endpoint: S3Endpoint, *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, *options(endpoint)])
    return code, capsys.readouterr().out


def test_the_commands_over_a_table_find_it_in_a_bucket(
    s3_server: S3Server, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = BucketFlow(bucket, s3_server)
    flow.put("a.ndjson", 0, 3)
    flow.src.put("b.ndjson", b'{"id":"bad"}\n')
    flow.run()
    table = ["--table", bucket.uri("table", scheme="s3a")]
    code, out = call(capsys, s3_server, "status", *table, "--source", bucket.uri("src"), "--json")
    assert (code, json.loads(out)["pipelines"][0]["backlog_files"]) == (0, 0)
    assert call(capsys, s3_server, "files", *table)[0] == 0
    assert call(capsys, s3_server, "checkpoint", "show", *table)[0] == 0
    code, out = call(capsys, s3_server, "dlq", "list", *table, "--json")
    assert (code, json.loads(out)["records"]) == (0, 1)
    code, out = call(capsys, s3_server, "vacuum-orphans", *table, "--json")
    assert (code, json.loads(out)["files"]) == (0, [])
    rollback = ["checkpoint", "rollback", "--source", bucket.uri("src"), *table, "--pipeline", "p", "--to", "0"]
    code, out = call(capsys, s3_server, *rollback, "--yes", "--json")
    assert (code, json.loads(out)["records"]) == (0, 3)
    assert flow.ids() == []
    assert flow.run().records == 3
    assert call(capsys, s3_server, "status", "--table", bucket.uri("nothing"))[0] == 2
