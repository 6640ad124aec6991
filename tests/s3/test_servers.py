"""The S3 server that other tests build on behaves like S3 where they need it to."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from deltalake import DeltaTable, write_deltalake

from tests.s3.conftest import tool
from tests.s3.server import Bucket, S3Server, etag_of
from tests.s3.toxiproxy import ToxicProxy

pytestmark = pytest.mark.s3

# Slash, 0x2F, sorts after '-' and '.' and before '0': an order by folders would be another one.
AWKWARD_KEYS = ["a-b/x", "a.b", "a/x", "a/é", "a/ｚ", "a/😀", "a0", "b c+d%&/e=1/#?:", "b/trailing ", "z%2Fz"]


def status_of(error: pytest.ExceptionInfo[ClientError]) -> int:
    return int(error.value.response["ResponseMetadata"]["HTTPStatusCode"])


def listed(client: Any, bucket: Bucket, **arguments: Any) -> list[str]:
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket.name, **arguments).get("Contents", [])]


def test_keys_are_listed_in_byte_order_from_any_name_on(s3_server: S3Server, bucket: Bucket) -> None:
    client = s3_server.client()
    for key in AWKWARD_KEYS:
        client.put_object(Bucket=bucket.name, Key=key, Body=key.encode())
    keys = sorted(AWKWARD_KEYS, key=str.encode)
    assert listed(client, bucket) == bucket.keys() == keys
    for after in [*keys, "a", "a/", "a/y", "b", "b c+d", "b/zzz", "zz"]:
        assert listed(client, bucket, StartAfter=after) == [key for key in keys if key.encode() > after.encode()]


def test_preconditions_hold_and_etags_are_those_of_s3(s3_server: S3Server, bucket: Bucket) -> None:
    client = s3_server.client()
    etag = client.put_object(Bucket=bucket.name, Key="k", Body=b"one", IfNoneMatch="*")["ETag"]
    assert etag == etag_of(b"one")
    with pytest.raises(ClientError) as refused:
        client.put_object(Bucket=bucket.name, Key="k", Body=b"two", IfNoneMatch="*")
    assert status_of(refused) == 412
    client.put_object(Bucket=bucket.name, Key="k", Body=b"two")
    with pytest.raises(ClientError) as refused:
        client.get_object(Bucket=bucket.name, Key="k", IfMatch=etag, Range="bytes=1-")
    assert status_of(refused) == 412


def test_files_put_past_the_server_are_objects_like_others(s3_server: S3Server, bucket: Bucket) -> None:
    bucket.put_files((f"day=1/{i:04}.ndjson", b"{}\n") for i in range(1500))
    pages = s3_server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket.name)
    found = [entry for page in pages for entry in page["Contents"]]
    assert [entry["Key"] for entry in found] == bucket.keys()
    assert {entry["ETag"] for entry in found} == {etag_of(b"{}\n")}


def test_writers_at_once_lose_no_commit(s3_server: S3Server, bucket: Bucket) -> None:
    table, rows = bucket.uri("table"), pa.table({"id": pa.array([1], pa.int64())})
    write_deltalake(table, rows.slice(0, 0), storage_options=s3_server.storage_options)

    def append() -> None:
        for _ in range(10):
            write_deltalake(table, rows, mode="append", storage_options=s3_server.storage_options)

    writers = [threading.Thread(target=append) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    read = DeltaTable(table, storage_options=s3_server.storage_options)
    assert (read.version(), read.to_pyarrow_table().num_rows) == (30, 30)


def test_toxics_come_and_go(toxiproxy: ToxicProxy, bucket: Bucket) -> None:
    client = toxiproxy.client()
    slow = toxiproxy.add("latency", latency=300)
    started = time.monotonic()
    client.put_object(Bucket=bucket.name, Key="k", Body=b"slow")
    assert time.monotonic() - started >= 0.3
    toxiproxy.remove(slow)
    cut = toxiproxy.add("reset_peer", timeout=0)
    with pytest.raises(ConnectionClosedError, match="onnection"):
        client.get_object(Bucket=bucket.name, Key="k")
    toxiproxy.remove(cut)
    assert client.get_object(Bucket=bucket.name, Key="k")["Body"].read() == b"slow"


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    start = (
        "import sys, time; from pathlib import Path; from tests.s3.server import S3Server;"
        "print(S3Server(Path(sys.argv[1]), Path(sys.argv[2])).port, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", start, str(tool("versitygw")), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        starter.kill()
    deadline = time.monotonic() + 60
    with pytest.raises(ConnectionRefusedError):
        while time.monotonic() < deadline:
            socket.create_connection(("127.0.0.1", port)).close()
            time.sleep(0.02)
