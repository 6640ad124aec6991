"""The role in jobs/emr against what a run really asks of S3: nothing that is asked for is missing from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from blizzard.cli.main import main
from tests.flows.in_process import use_no_spark
from tests.ingesting import line
from tests.jobs.examples import emr_arguments
from tests.jobs.test_emr_files import refused
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Request
from tests.s3.server import Bucket

pytestmark = pytest.mark.s3

ARCHIVES = ("after_ingest.action=archive", "after_ingest.archive_path=s3://BUCKET/archive/x", "after_ingest.keep_s=0")


def rights(request: Request, bucket: str) -> Iterator[tuple[str, str]]:
    """What AWS asks of who sends this."""
    _, _, key = request.path.removeprefix("/").partition("/")
    query = {part.split("=", 1)[0] for part in request.query.split("&") if part}
    where = f"arn:aws:s3:::BUCKET/{key}"
    if not key:
        assert request.method == "HEAD" or "list-type" in query or "delete" in query, (request.method, request.query)
        yield ("s3:DeleteObject", f"{where}*") if "delete" in query else ("s3:ListBucket", where.rstrip("/"))
        return
    match request.method:
        case "GET" | "HEAD":
            assert not query - {"x-id", "versionId", "partNumber"}, request.query
            yield "s3:GetObject", where
        case "DELETE":
            yield ("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"), where
        case "PUT" | "POST":
            assert not query - {"uploads", "uploadId", "partNumber", "x-id"}, request.query
            yield "s3:PutObject", where
            if (copied := request.headers.get("x-amz-copy-source")) is not None:
                yield "s3:GetObject", f"arn:aws:s3:::{copied.lstrip('/').replace(bucket, 'BUCKET', 1)}"
        case other:
            raise AssertionError(other)


def run(file: str, bucket: Bucket, proxy: FaultProxy, *more: str) -> set[tuple[str, str]]:
    """The right of each request of one run."""
    words = [word.replace("BUCKET", bucket.name) for word in (*emr_arguments()[file], *more)]
    options = [f"storage_options.{key}={value}" for key, value in proxy.storage_options.items()]
    proxy.clear_log()
    assert main(["run", *words, *(word for option in options for word in ("--set", option))]) == 0
    return {right for request in proxy.requests() for right in rights(request, bucket.name)}


@pytest.mark.parametrize("file", ["steps.json", "serverless-job-run.json"])
def test_the_role_may_do_all_that_a_run_asks_for(
    bucket: Bucket, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    use_no_spark(monkeypatch.setattr)
    name = re.findall(r"landing/(\w+)", json.dumps(emr_arguments()[file]))[0]
    policies = ("role-policy.json",)
    asked: set[tuple[str, str]] = set()
    for number in range(2):
        bad = b"no json\n" if number else b""
        bucket.put_files([(f"landing/{name}/{number}.ndjson", b"".join(map(line, range(5))) + bad)])
        asked |= run(file, bucket, fault_proxy)
    assert refused(asked, *policies) == set()
    assert {action for action, _ in asked} >= {"s3:ListBucket", "s3:GetObject", "s3:PutObject"}
    written = {where for action, where in asked if action == "s3:PutObject"}
    assert any("_quarantine/_delta_log/" in where for where in written)
    assert any("/_blizzard/summaries/" in where for where in written)
    archived = run(file, bucket, fault_proxy, *(word for key in ARCHIVES for word in ("--set", key)))
    assert any(action == "s3:DeleteObject" and "/landing/" in where for action, where in archived)
    assert refused(archived, *policies) != set()
    assert refused(archived, *policies, "role-policy-after-ingest.json") == set()
