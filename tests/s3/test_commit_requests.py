"""How many requests a commit costs. It must not depend on how many commits there were before it."""

from __future__ import annotations

import pytest

from blizzard.core.plan import Limits
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Request
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3

COMMITS = 12
# What a commit asks of the table's log, see docs/object-storage.md. Each data file costs a HEAD more.
LOG_REQUESTS = 15


@pytest.fixture
def flow(s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> BucketFlow:
    return BucketFlow(bucket, s3_server, table_endpoint=fault_proxy)


def by_commit(proxy: FaultProxy, folder: str) -> list[list[Request]]:
    """The requests about a log, cut before each commit. What a run asks before its first and after its last one is
    left out."""
    found: list[list[Request]] = [[]]
    for request in proxy.requests(path=rf"[/=]{folder}/_delta_log/"):
        if request.method == "PUT":
            found.append([])
        found[-1].append(request)
    return found[2:-1]


def test_every_commit_of_a_run_costs_the_same_requests(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    for number in range(COMMITS):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    assert flow.run(limits=Limits(max_files=1), slots=1).commits == COMMITS
    assert [len(requests) for requests in by_commit(fault_proxy, "table")] == [LOG_REQUESTS] * (COMMITS - 1)


def test_a_listing_of_the_log_begins_after_the_last_delta_checkpoint(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    for number in range(COMMITS):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    flow.run(limits=Limits(max_files=1), slots=1)
    listings = [r for rs in by_commit(fault_proxy, "table") for r in rs if "list-type" in r.query]
    assert len(listings) == 3 * (COMMITS - 1)
    assert all("start-after=table/_delta_log/0" in request.query for request in listings)
