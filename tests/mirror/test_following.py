"""A run that follows has one mirror for all its cycles, and no cycle waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.run.assemble import Assembly
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.operation import Operation
from tests.flows.fleets import FleetFolder, running
from tests.flows.in_process import Told, newest
from tests.flows.operating import wait_until
from tests.ingesting import DDL, is_table, write_ids
from tests.mirror.under_test import MirrorUnderTest
from tests.run.test_mirror import ModelMirror


@contextmanager
def following(folder: Path, told: Told, mirror: str) -> Iterator[threading.Thread]:
    given = {
        "source.path": str(folder / "src"),
        "table.path": str(folder / "table"),
        "schema.ddl": DDL,
        "follow.poll_s": 0.02,
        "follow.jitter_s": 0,
        "checkpoint.mirror": mirror,
    }
    assembly = Assembly(request=make_request(make_config(given), pipeline="p"))
    control = RunControl()
    operation = Operation(assembly, assembly.open(), Summary(), control, emit=told.see)
    thread = threading.Thread(target=operation.run, kwargs={"follows": True})
    thread.start()
    try:
        yield thread
    finally:
        control.stop()
        thread.join(60)
        assert not thread.is_alive()


def add(folder: Path, number: int) -> None:
    """One more file, which a cycle reads and commits."""
    made = write_ids(folder / f"{number}.tmp", number, number + 1)
    made.rename(folder / f"src/{number}.ndjson")
    wait_until(lambda: is_table(folder / "table") and newest(folder / "table") == number)


@pytest.mark.usefixtures("in_process")
def test_every_cycle_is_copied(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    mirror = MirrorUnderTest(kind="folder", uri=str(tmp_path / "mirror"))
    with following(tmp_path, Told(), mirror.uri):
        for number in (1, 2, 3):
            add(tmp_path, number)
    assert mirror.sequences() == [1, 2, 3]


@pytest.mark.usefixtures("in_process")
def test_no_cycle_waits_for_a_mirror_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    goes_on, mirror, told = threading.Event(), ModelMirror(), Told()
    mirror.between = lambda: None if goes_on.wait(120) else pytest.fail("nobody let it go on")
    monkeypatch.setattr("blizzard.run.assemble.open_mirror", lambda *_: mirror)
    with following(tmp_path, told, str(tmp_path / "mirror")):
        try:
            for number in (1, 2, 3):
                add(tmp_path, number)
            assert mirror.files == {}
        finally:
            goes_on.set()
        wait_until(lambda: sorted(mirror.files) == [1, 2, 3])
    assert not any("mirror" in warning for warning in told.warnings)


@pytest.mark.usefixtures("readers")
def test_pipelines_of_one_process_share_one_table(tmp_path: Path) -> None:
    names = ["clicks", "orders", "refunds"]
    mirror = MirrorUnderTest(kind="sqlite", uri=f"sqlite:///{tmp_path}/fleet.db")
    shared = {"checkpoint": {"mirror": mirror.uri}, "limits": {"max_files": 1}}
    folder = FleetFolder(tmp_path, top=shared).add(*names)
    for name in names:
        for number in (0, 1):
            folder.put(name, number, number + 1, f"{number}.ndjson")
    with running(folder) as fleet:
        wait_until(lambda: all(folder.ids(name) == [0, 1] for name in names))
        fleet.stop()
    assert {v.series.pipeline: v.sequence for v in mirror.stored.newest_of_each()} == dict.fromkeys(names, 2)
    assert [mirror.sequences(name) for name in names] == [[1, 2]] * 3
