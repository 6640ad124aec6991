"""Going back and realigning on a bucket: the same answers as on a disk."""

from __future__ import annotations

from typing import Any, cast

import pytest
from deltalake import DeltaTable

from blizzard.errors import Refused
from blizzard.operate.realign import realign
from blizzard.operate.transfer import export_position, import_position
from blizzard.store import open_store
from blizzard.store.uri import delta_uri
from tests.failing import ends_with
from tests.flows.in_process import NOW_MS, Flow, SetClock
from tests.flows.rollbacks import roll_back
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket

pytestmark = pytest.mark.s3


@pytest.fixture
def flow(bucket: Bucket, s3_server: Any) -> BucketFlow:
    """Sequences 1 to 3, each with one good record and one bad one."""
    made = BucketFlow(bucket, s3_server, clock=SetClock(NOW_MS))
    for number in range(1, 4):
        made.src.put(f"{number}.ndjson", b'{"id":%d}\nbad %d\n' % (number, number))
        made.run()
    return made


def delta(flow: BucketFlow, root: str) -> DeltaTable:
    return DeltaTable(delta_uri(root), storage_options=flow.table_access.for_delta_rs(root))


def rows(flow: BucketFlow) -> list[int]:
    return sorted(row["id"] for row in delta(flow, flow.open().root).to_pyarrow_table().to_pylist())


def live(flow: BucketFlow) -> list[bytes]:
    found = delta(flow, flow.quarantine.root).to_pyarrow_table().to_pylist()
    return sorted(row["raw"] for row in found if not row["orphaned"])


BAD = [b"bad 1", b"bad 2", b"bad 3"]


def test_after_a_restore_a_rollback_reads_again_what_is_gone(flow: BucketFlow) -> None:
    delta(flow, flow.open().root).restore(1)
    with ends_with("table_rewritten"):
        flow.run()
    roll_back(cast(Flow, flow), 1)
    assert live(flow) == BAD[:1]
    flow.run()
    assert (rows(flow), live(flow)) == ([1, 2, 3], BAD)


def test_an_older_position_fits_after_a_restore(flow: BucketFlow) -> None:
    kept = export_position(flow.open(), "p", sequence=2)
    for is_restored in (False, True):
        if is_restored:
            delta(flow, flow.open().root).restore(2)
        try:
            import_position(flow.open(), kept, quarantine=flow.quarantine, source_access=flow.access, replaces=True)
        except Refused as e:
            assert (is_restored, e.kind) == (False, "import_mismatch")
    flow.run()
    assert (rows(flow), live(flow)) == ([1, 2, 3], BAD)


def test_a_quarantine_that_lost_its_newest_commits_is_realigned(flow: BucketFlow) -> None:
    store = open_store(flow.quarantine.root, flow.table_access)
    names = sorted(file.path for file in store.walk("_delta_log") if file.path.endswith(".json"))
    for name in names[2:]:  # the table, and the bad records of sequence 1
        store.delete(name)
    with ends_with("quarantine_behind"):
        flow.run()
    assert realign(flow.open(), flow.quarantine, pipeline="p").added == 2
    flow.run()
    assert (rows(flow), live(flow)) == ([1, 2, 3], BAD)
