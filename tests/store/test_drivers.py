"""Real drivers, with Spark, on GCS and on Azure: what they were given reaches the tasks, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.drivers import Driver
from tests.store.conftest import kinds, table_place
from tests.store.flows import Folder, StoreFlow
from tests.store.servers import AZURE_KEY

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]


@pytest.mark.parametrize("kind", kinds("gcs", "azure"))
def test_a_driver_ingests_between_two_folders_and_tells_no_secret(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = table_place(kind, request)
    flow = StoreFlow(Folder(place))
    total = write_events(str(tmp_path / "events"), files=6, records=500)
    for path in sorted((tmp_path / "events").iterdir()):
        flow.src.put(path.name, path.read_bytes())
    options = [part for name, value in place.access.options for part in ("--set", f"storage_options.{name}={value}")]
    where = ["--source", f"{place.root}/src", "--table", f"{place.root}/table", "--pipeline", "p"]
    for records in (total, 0):
        ended = Driver(tmp_path, *where, "--schema", EVENT_DDL, *options).wait()
        assert ended.code in (0, 99), ended.stderr
        assert ended.summary["records"] == records
        assert AZURE_KEY not in ended.stdout + ended.stderr
    assert flow.ids() == list(range(total))
    table = flow.open().scan_back()
    assert all(AZURE_KEY not in str(commit) for commit in table)
