"""A fault layer between blizzard and a real S3 server: a commit is made once, whatever becomes of its answer."""

from __future__ import annotations

import pytest

from blizzard.errors import Fenced, Temporary
from tests.failing import ends_with
from tests.flows.in_process import NOW_MS, SetClock
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Action, CutAnswer, Hold, Reset, Status
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3

SECOND_COMMIT = r"/table/_delta_log/0*2\.json"


@pytest.fixture
def flow(s3_server: S3Server, bucket: Bucket, fault_proxy: FaultProxy) -> BucketFlow:
    """Sequence 1 is in version 1, with ids 0 to 2; file b with ids 3 to 5 is new. Commits go through the proxy."""
    made = BucketFlow(bucket, s3_server, table_endpoint=fault_proxy)
    made.put("a.ndjson", 0, 3)
    made.run()
    made.put("b.ndjson", 3, 6)
    fault_proxy.clear_log()
    return made


def test_without_a_fault_it_is_one_conditional_put(flow: BucketFlow, fault_proxy: FaultProxy) -> None:
    assert flow.run().commits == 1
    assert flow.ids() == list(range(6))
    (put,) = fault_proxy.requests("PUT", SECOND_COMMIT)
    assert put.headers["if-none-match"] == "*"


BAD_ANSWERS = [
    CutAnswer(),
    Status(500, "InternalError", performed=True),
    Status(503, "SlowDown", performed=True),
    Status(503, "SlowDown"),
    Reset(),
]


@pytest.mark.parametrize("fault", BAD_ANSWERS, ids=str)
def test_one_bad_answer_to_the_commit_is_survived(flow: BucketFlow, fault_proxy: FaultProxy, fault: Action) -> None:
    survives_one_bad_answer(flow, fault_proxy, fault)


def survives_one_bad_answer(flow: BucketFlow, fault_proxy: FaultProxy, fault: Action) -> None:
    rule = fault_proxy.add(fault, method="PUT", path=SECOND_COMMIT, nth=1)
    summary = flow.run()
    assert rule.acted == 1
    assert (summary.commits, summary.records) == (1, 3)
    assert flow.ids() == list(range(6))
    assert flow.versions() == [0, 1, 2]
    assert flow.run().commits == 0


@pytest.mark.parametrize("fault", [CutAnswer(), Status(500, "InternalError", performed=True)], ids=str)
def test_a_run_that_hears_no_answer_at_all_and_dies_is_not_repeated_by_the_next(
    flow: BucketFlow, fault_proxy: FaultProxy, fault: Action
) -> None:
    """The commit lands, and then the store does not answer any question about it either."""
    landed = fault_proxy.add(fault, method="PUT", path=SECOND_COMMIT, nth=1)
    gone = fault_proxy.add(Reset(), path="/table", when=lambda _: landed.acted > 0)
    with ends_with("store_unavailable"):
        flow.run()
    assert gone.acted
    fault_proxy.remove_rules()
    assert flow.run().commits == 0
    assert flow.ids() == list(range(6))


def test_a_put_that_lands_after_the_lookup_is_found_by_the_next_attempt(
    flow: BucketFlow, fault_proxy: FaultProxy
) -> None:
    """The answer is lost, the log shows nothing, and only then does the commit arrive."""
    held = fault_proxy.add(Hold(30), method="PUT", path=SECOND_COMMIT, nth=1)

    class Releasing(SetClock):
        """The pause between two attempts is when the first one lands."""

        def sleep(self, seconds: float) -> None:
            held.release()

    flow.clock = Releasing(NOW_MS)
    summary = flow.run()
    assert held.acted == 1
    assert summary.records == 3
    assert flow.ids() == list(range(6))
    assert flow.versions() == [0, 1, 2]


def test_a_put_that_lands_when_the_run_has_given_up_is_found_by_the_next_run(
    flow: BucketFlow, fault_proxy: FaultProxy
) -> None:
    held = fault_proxy.add(Hold(60), method="PUT", path=SECOND_COMMIT)
    with pytest.raises(Temporary) as error:
        flow.run()
    assert error.value.kind == "commit_failed"
    assert flow.ids() == [0, 1, 2]
    held.release()
    fault_proxy.remove_rules()
    assert flow.ids() == list(range(6))
    assert flow.run().commits == 0
    assert flow.ids() == list(range(6))


def test_a_put_that_lands_after_another_run_has_gone_on_is_refused_by_the_store(
    flow: BucketFlow, fault_proxy: FaultProxy, s3_server: S3Server
) -> None:
    held = fault_proxy.add(Hold(60), method="PUT", path=SECOND_COMMIT)
    with ends_with("commit_failed"):
        flow.run()
    direct = BucketFlow(flow.bucket, s3_server)
    assert direct.run().records == 3
    held.release()
    assert flow.ids() == list(range(6))
    assert flow.versions() == [0, 1, 2]


def test_a_store_that_refuses_every_commit_ends_as_temporary_and_loses_nothing(
    flow: BucketFlow, fault_proxy: FaultProxy
) -> None:
    fault_proxy.add(Status(503, "SlowDown"), method="PUT", path=SECOND_COMMIT)
    with pytest.raises(Temporary) as error:
        flow.run()
    assert error.value.kind == "commit_failed"
    assert any("attempt" in warning for warning in flow.told.warnings)
    fault_proxy.remove_rules()
    assert flow.run().records == 3
    assert flow.ids() == list(range(6))


@pytest.mark.parametrize("fault", [None, CutAnswer(), Status(500, "InternalError", performed=True)], ids=str)
def test_of_two_drivers_the_second_is_fenced_whatever_answers_are_lost(
    flow: BucketFlow, fault_proxy: FaultProxy, s3_server: S3Server, fault: Action | None
) -> None:
    overtaking = BucketFlow(flow.bucket, s3_server, table_endpoint=fault_proxy)
    if fault is not None:
        fault_proxy.add(fault, method="PUT", path=SECOND_COMMIT, nth=1)

    def overtake() -> None:
        overtaking.run()

    with pytest.raises(Fenced):
        flow.run(while_reading=overtake)
    assert flow.ids() == list(range(6))
    assert flow.versions() == [0, 1, 2]


@pytest.mark.parametrize("fault", [CutAnswer(), Status(500, "InternalError", performed=True), Hold(0.05)], ids=str)
def test_bad_records_are_in_quarantine_once_whatever_answers_are_lost(
    flow: BucketFlow, fault_proxy: FaultProxy, fault: Action
) -> None:
    flow.src.put("c.ndjson", b'{"id":"bad"}\n{"id":6}\n')
    fault_proxy.add(fault, method="PUT", path=r"/table_quarantine/_delta_log/0*[01]\.json", nth=range(1, 3))
    for _ in range(3):
        try:
            flow.run()
        except Temporary:
            continue
    fault_proxy.remove_rules()
    flow.run()
    assert flow.ids() == list(range(7))
    table = flow.quarantine.open()
    assert table is not None
    assert [row["source_file"] for row in table.to_pyarrow_table().to_pylist()] == ["c.ndjson"]
