"""How many requests a commit costs. It must not depend on how many commits there were before it."""

from __future__ import annotations

import pytest

from blizzard.core.plan import Limits
from tests.ingesting import line
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Request
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3

COMMITS = 12
# What a commit asks of the logs, see docs/object-storage.md. Each data file costs a HEAD more.
TABLE_LOG = 15
QUARANTINE_LOG_UNCHANGED = 4
QUARANTINE_LOG_CHANGED = 17


@pytest.fixture
def flow(s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> BucketFlow:
    return BucketFlow(bucket, s3_server, table_endpoint=fault_proxy)


def by_commit(proxy: FaultProxy, folder: str) -> list[list[Request]]:
    """The requests about a log, cut before each commit of the table. What a run asks before its third and after its
    last one is left out: opening tables and making them."""
    found: list[list[Request]] = [[]]
    for request in proxy.requests(path=r"[/=]table(_quarantine)?/_delta_log/"):
        if request.method == "PUT" and "/table/_delta_log/" in request.path:
            found.append([])
        if f"{folder}/_delta_log/" in request.target:
            found[-1].append(request)
    return found[4:-1]


def counts(proxy: FaultProxy, folder: str) -> list[int]:
    return [len(requests) for requests in by_commit(proxy, folder)]


def test_every_commit_of_a_run_costs_the_same_requests(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    for number in range(COMMITS):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    assert flow.run(limits=Limits(max_files=1), slots=1).commits == COMMITS
    assert counts(fault_proxy, "table") == [TABLE_LOG] * (COMMITS - 3)


def test_a_listing_of_the_log_begins_after_the_last_delta_checkpoint(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    for number in range(COMMITS):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    flow.run(limits=Limits(max_files=1), slots=1)
    listings = [r for rs in by_commit(fault_proxy, "table") for r in rs if "list-type" in r.query]
    assert len(listings) == 3 * (COMMITS - 3)
    assert all("start-after=table/_delta_log/0" in request.query for request in listings)


def test_bad_records_cost_the_same_requests_in_every_commit(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    """The quarantine table is not opened anew for each of them."""
    for number in range(COMMITS):
        flow.src.put(f"{number:02d}.ndjson", line(number) + b"not JSON\n")
    assert flow.run(limits=Limits(max_files=1), slots=1).quarantined == COMMITS
    assert counts(fault_proxy, "table_quarantine") == [QUARANTINE_LOG_CHANGED] * (COMMITS - 3)


def test_a_quarantine_that_gets_nothing_costs_four_requests_a_commit(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    flow.src.put("00.ndjson", b"not JSON\n")
    for number in range(1, COMMITS):
        flow.put(f"{number:02d}.ndjson", number, number + 1)
    assert flow.run(limits=Limits(max_files=1), slots=1).commits == COMMITS
    assert counts(fault_proxy, "table_quarantine") == [QUARANTINE_LOG_UNCHANGED] * (COMMITS - 3)
