"""Each fault of the proxy does to a real client what it says, and nothing else changes on the way through."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError, ResponseStreamingError
from deltalake import DeltaTable, write_deltalake

from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import CutAnswer, CutBody, Delay, HalfOpen, Hold, Reset, Status
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def client(fault_proxy: FaultProxy) -> Any:
    return fault_proxy.client(read_timeout=5)


def put(client: Any, bucket: Bucket, body: bytes = b"body") -> None:
    client.put_object(Bucket=bucket.name, Key="k", Body=body)


def get(client: Any, bucket: Bucket) -> bytes:
    read: bytes = client.get_object(Bucket=bucket.name, Key="k")["Body"].read()
    return read


def test_delta_rs_works_through_the_proxy(fault_proxy: FaultProxy, bucket: Bucket) -> None:
    table, rows = bucket.uri("table"), pa.table({"id": [1, 2, 3]})
    for _ in range(2):
        write_deltalake(table, rows, mode="append", storage_options=fault_proxy.storage_options)
    read = DeltaTable(table, storage_options=fault_proxy.storage_options)
    assert read.to_pyarrow_table().num_rows == 6
    commits = fault_proxy.requests("PUT", r"_delta_log/\d+\.json")
    assert [(r.status, r.headers.get("if-none-match")) for r in commits] == [(200, "*"), (200, "*")]


def test_s3fs_works_through_the_proxy(fault_proxy: FaultProxy, bucket: Bucket) -> None:
    fs = fault_proxy.filesystem()
    part = b"0123456789abcdef" * (5 << 16)
    with fs.open(f"{bucket.name}/large", "wb", block_size=len(part)) as out:
        out.write(part)
        out.write(part)
    assert fault_proxy.count("PUT", "partNumber=") == 2
    assert (bucket.folder / "large").read_bytes() == part + part
    assert fs.ls(bucket.name, detail=False) == [f"{bucket.name}/large"]
    assert fs.cat_file(f"{bucket.name}/large", start=10, end=30) == part[10:30]
    (ranged,) = [request for request in fault_proxy.requests("GET", "/large") if request.range]
    assert (ranged.range, ranged.status) == ("bytes=10-29", 206)
    etag = fs.info(f"{bucket.name}/large")["ETag"]
    fs.pipe_file(f"{bucket.name}/large", b"another")
    with pytest.raises(OSError, match=r"PreconditionFailed|pre-conditions"):
        fs.call_s3("get_object", Bucket=bucket.name, Key="large", Range="bytes=0-3", IfMatch=etag)


def test_cut_answer_performs_the_request(client: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    rule = fault_proxy.add(CutAnswer(), method="PUT", nth=1)
    with pytest.raises(BotoCoreError):
        put(client, bucket)
    assert (bucket.folder / "k").read_bytes() == b"body"
    assert fault_proxy.requests("PUT")[0].status == 200
    put(client, bucket, b"second")
    assert (rule.matched, rule.acted) == (2, 1)


def test_reset_and_status_keep_the_request_from_the_server(
    client: Any, fault_proxy: FaultProxy, bucket: Bucket
) -> None:
    fault_proxy.add(Reset(), method="PUT", nth=1)
    fault_proxy.add(Status(503, "SlowDown"), method="PUT", nth=range(2, 4))
    with pytest.raises(BotoCoreError):
        put(client, bucket)
    for _ in range(2):
        with pytest.raises(ClientError, match="SlowDown"):
            put(client, bucket)
    assert bucket.keys() == []
    put(client, bucket)
    assert [request.status for request in fault_proxy.requests("PUT")] == [None, 503, 503, 200]


def test_an_error_can_hide_that_the_request_was_performed(client: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    fault_proxy.add(Status(500, "InternalError", performed=True), method="PUT", nth=1)
    with pytest.raises(ClientError, match="InternalError"):
        put(client, bucket)
    assert get(client, bucket) == b"body"


def test_cut_body_ends_a_download_in_the_middle(client: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    put(client, bucket, b"x" * 200_000)
    fault_proxy.add(CutBody(after_bytes=100_000), method="GET", nth=1)
    answer = client.get_object(Bucket=bucket.name, Key="k")
    assert len(answer["Body"].read(100_000)) == 100_000
    with pytest.raises(ResponseStreamingError, match=r"(?i)incomplete|broken"):
        answer["Body"].read()
    assert len(get(client, bucket)) == 200_000


@pytest.mark.parametrize("before", ["request", "answer"])
def test_delay(before: Any, client: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    fault_proxy.add(Delay(0.3, before=before), method="PUT")
    started = time.monotonic()
    put(client, bucket)
    assert time.monotonic() - started >= 0.3


def test_a_held_put_lands_after_it_was_looked_for(
    client: Any, fault_proxy: FaultProxy, s3_server: S3Server, bucket: Bucket
) -> None:
    rule = fault_proxy.add(Hold(30), method="PUT", nth=1)
    with pytest.raises(BotoCoreError):
        put(client, bucket, b"held")
    rule.wait()
    assert bucket.keys() == []
    put(s3_server.client(), bucket, b"in between")
    rule.release()
    assert get(client, bucket) == b"held"
    assert fault_proxy.requests("PUT")[0].status == 200


def test_half_open_lets_the_client_wait(fault_proxy: FaultProxy, bucket: Bucket) -> None:
    fault_proxy.add(HalfOpen(), method="PUT")
    with pytest.raises(BotoCoreError, match="timeout"):
        put(fault_proxy.client(read_timeout=0.3), bucket)
    assert bucket.keys() == []


def test_a_seed_makes_probability_repeatable(client: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    def statuses() -> list[int | None]:
        fault_proxy.remove_rules()
        fault_proxy.clear_log()
        fault_proxy.add(Status(500, "InternalError"), path=f"^/{bucket.name}", probability=0.5, seed=7)
        for _ in range(20):
            try:
                client.list_objects_v2(Bucket=bucket.name)
            except ClientError:
                pass
        return [request.status for request in fault_proxy.requests()]

    first = statuses()
    assert set(first) == {200, 500}
    assert statuses() == first
