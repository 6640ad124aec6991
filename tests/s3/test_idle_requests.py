"""What an idle pipeline asks of its store in one cycle: whether the log has grown, and one listing of what is new."""

from __future__ import annotations

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.run.assemble import Assembly
from blizzard.service.glance import Glance
from tests.s3.fault_proxy import FaultProxy
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3


def test_a_glance_asks_for_two_commits_and_one_listing(
    s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy
) -> None:
    flow = BucketFlow(bucket, s3_server, table_endpoint=fault_proxy)
    for number in range(3):
        flow.put(f"{number}.ndjson", number, number + 1)
    flow.run()
    given = {"source.path": bucket.uri("src"), "table.path": bucket.uri("table")}
    options = {f"storage_options.{name}": value for name, value in fault_proxy.storage_options.items()}
    assembly = Assembly(request=make_request(make_config(given | options), pipeline="p"))
    glance = Glance("p")
    glance.remember(was_idle=True)
    assert not glance.shows_nothing_new(assembly)  # there was no look to compare it with
    glance.remember(was_idle=True)
    assert glance.shows_nothing_new(assembly)
    fault_proxy.clear_log()
    assert glance.shows_nothing_new(assembly)
    asked = fault_proxy.requests()
    assert sorted(request.method for request in asked) == ["GET", "HEAD", "HEAD"], [r.target for r in asked]
