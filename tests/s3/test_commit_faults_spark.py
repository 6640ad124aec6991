"""The fault layer once more, with the delta-spark committer: commits go through S3A, which knows no conditional put."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.delta.spark_place import DeltaSparkPlace
from blizzard.errors import BlizzardError
from blizzard.schema.load import load_schema
from tests.flows.in_process import SetClock
from tests.ingesting import DDL
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Action, CutAnswer, Status
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket, S3Server
from tests.s3.spark import point_bucket_at
from tests.s3.test_commit_faults import BAD_ANSWERS, survives_one_bad_answer

pytestmark = [pytest.mark.s3, pytest.mark.spark]

SECOND_COMMIT = r"/table/_delta_log/0*2\.json"


class SparkFlow(BucketFlow):
    session: Any = None

    @property
    def place(self) -> DeltaSparkPlace:
        return DeltaSparkPlace(
            root=self.bucket.uri("table"),
            schema=load_schema(DDL),
            clock=SetClock(4_000_000_000_000),
            access=self.table_access,
            session=lambda: self.session,
            is_sole_writer=True,
        )


@pytest.fixture
def flow(spark: Any, s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> SparkFlow:
    """Sequence 1 is in version 1, with ids 0 to 2; file b with ids 3 to 5 is new."""
    point_bucket_at(spark, bucket.name, fault_proxy)
    made = SparkFlow(bucket, s3_server, table_endpoint=fault_proxy)
    made.session = spark
    made.put("a.ndjson", 0, 3)
    made.run()
    made.put("b.ndjson", 3, 6)
    fault_proxy.clear_log()
    return made


@pytest.mark.parametrize("fault", BAD_ANSWERS, ids=str)
def test_one_bad_answer_to_the_commit_is_survived(flow: SparkFlow, fault_proxy: FaultProxy, fault: Action) -> None:
    survives_one_bad_answer(flow, fault_proxy, fault)


def test_a_run_that_hears_no_answer_at_all_is_not_repeated_by_the_next(
    flow: SparkFlow, fault_proxy: FaultProxy
) -> None:
    landed = fault_proxy.add(CutAnswer(), method="PUT", path=SECOND_COMMIT, nth=1)
    fault_proxy.add(Status(400, "NoMore"), path="/table", when=lambda _: landed.acted > 0)
    with pytest.raises(BlizzardError):
        flow.run()
    fault_proxy.remove_rules()
    assert flow.run().commits == 0
    assert flow.ids() == list(range(6))
