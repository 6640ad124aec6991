"""Source and table on GCS and on Azure: every id once, whatever happens between two runs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from blizzard.core.plan import Limits
from blizzard.errors import BlizzardError
from blizzard.run.after_ingest import Cleaning
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import open_store
from tests.flows.in_process import SetClock
from tests.ingesting import line
from tests.store.conftest import kinds, table_place
from tests.store.flows import Folder, StoreFlow


@pytest.fixture(params=kinds("gcs", "azure", "az"))
def flow(request: pytest.FixtureRequest) -> StoreFlow:
    return StoreFlow(Folder(table_place(request.param, request)))


def test_each_id_is_ingested_once_and_a_second_run_is_idle(flow: StoreFlow) -> None:
    flow.put("day=1/a.ndjson", 0, 10)
    flow.put("day=1/b #%?+é.ndjson", 10, 20)
    flow.src.put("day=2/c.ndjson.gz", gzip.compress(b"".join(map(line, range(20, 30)))))
    assert flow.run().records == 30
    second = flow.run()
    assert (second.records, second.commits) == (0, 0)
    assert flow.ids() == list(range(30))


def test_new_late_and_rewritten_files_are_told_apart(flow: StoreFlow) -> None:
    flow.put("day=2/m.ndjson", 0, 3)
    flow.run()
    flow.put("day=3/z.ndjson", 3, 6)
    flow.put("day=1/a.ndjson", 50, 53)
    summary = flow.run()
    assert (summary.records, summary.late_files) == (6, 1)
    flow.put("day=2/m.ndjson", 7, 8)
    summary = flow.run()
    assert (summary.rewritten_files, summary.commits) == (1, 0)
    assert flow.ids() == [0, 1, 2, 3, 4, 5, 50, 51, 52]


def test_a_file_in_progress_is_resumed_by_another_run(flow: StoreFlow) -> None:
    flow.put("a.ndjson", 0, 1000)
    flow.put("b.ndjson", 1000, 1010)
    runs = 0
    while flow.run(limits=Limits(max_records=150), max_batches=1).commits:
        runs += 1
    assert runs > 3
    assert flow.ids() == list(range(1010))


def test_a_file_rewritten_or_deleted_between_listing_and_reading_is_held_back(flow: StoreFlow) -> None:
    flow.put("a.ndjson", 0, 3)
    flow.put("b.ndjson", 3, 6)
    flow.put("c.ndjson", 6, 9)

    def change() -> None:
        flow.put("a.ndjson", 20, 22)
        flow.src.delete("b.ndjson")

    summary = flow.run(before_reading=change)
    assert (summary.records, summary.held_files) == (3, 2)
    assert flow.run().records == 2
    assert flow.ids() == [6, 7, 8, 20, 21]


def test_what_is_ingested_is_archived_and_not_taken_for_new(flow: StoreFlow) -> None:
    flow.clock = SetClock(4_000_000_000_000)
    flow.put("day=1/a #%.ndjson", 0, 3)
    flow.run()
    archive = open_store(flow.bucket.uri("kept"), flow.access)
    flow.clock.ms += 10_000
    flow.put("day=2/b.ndjson", 3, 6)
    flow.run(cleaning=Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=archive), keep_ms=5_000))
    assert [file.path for file in flow.src.walk()] == ["day=2/b.ndjson"]
    assert [file.path for file in archive.walk()] == ["day=1/a #%.ndjson"]
    assert flow.run().commits == 0
    assert flow.ids() == list(range(6))


def test_of_two_drivers_at_once_one_commits(flow: StoreFlow) -> None:
    """delta-rs creates a version by a conditional request, so that there is one of each."""
    flow.put("a.ndjson", 0, 10)
    flow.run()
    flow.put("b.ndjson", 10, 20)
    barrier = Barrier(2)
    others = [StoreFlow(flow.bucket), StoreFlow(flow.bucket)]

    def run(one: StoreFlow) -> str:
        try:
            one.run(before_reading=_once(barrier.wait))
        except BlizzardError as e:
            return e.kind
        return "done"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(run, others))
    assert "done" in outcomes
    assert flow.ids() == list(range(20))
    assert flow.versions() == list(range(len(flow.versions())))
    assert flow.run().commits == 0


def _once(call: Callable[[], object]) -> Callable[[], None]:
    calls = [call]

    def first() -> None:
        if calls:
            calls.pop()()

    return first
