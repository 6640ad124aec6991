"""What tasks tell while they run, by real datagrams; and what is shown of what a JVM says. Neither starts Spark."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan
from blizzard.spark.jvm_output import _JvmOutput
from blizzard.spark.live import LiveReports
from blizzard.tasks.live import LiveAddress
from blizzard.tasks.task import run_shared_task
from tests.ingesting import line
from tests.tasks.specs import make_spec


def run(folder: Path, tells: LiveAddress | None, *, max_records: int | None = None) -> int:
    """A task over two files, of three records together. Returns the rows that it reports."""
    slices = []
    for name, content in {"a": line(0) + line(1), "b": line(2)}.items():
        (folder / name).write_bytes(content)
        info = (folder / name).stat()
        slices.append(Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0))
    plan = TaskPlan(
        slot=3, slices=tuple(slices), budget=Budget(output_bytes=1 << 30, max_records=max_records, seconds=None)
    )
    spec = make_spec(folder, compression="none", table_root=str(folder))
    ticket, wanted = BatchTicket(sequence=1, planned_ms=0, table_id="t"), {piece.path: 0 for piece in slices}
    report = run_shared_task({"": spec}, plan, {"": wanted}, {"": ticket}, tells=tells)[""]
    return sum(piece.rows for piece in report.slices)


def test_a_task_tells_how_far_it_is(tmp_path: Path) -> None:
    reports = LiveReports(tasks=1, on_driver=True, ended_tasks=lambda: None)
    assert not reports.look().is_told
    assert reports.address is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for nonsense in (b"", b"x" * 40, b"x" * 1000):
            stranger.sendto(nonsense, ("127.0.0.1", reports.address.port))
    assert run(tmp_path, reports.address) == 3
    told = reports.look()
    size = sum((tmp_path / name).stat().st_size for name in "ab")
    assert (told.is_told, told.records, told.files) == (True, 3, 2)
    assert (told.stored_bytes, told.json_bytes) == (size, size)
    reports.close()


def test_the_part_of_a_file_that_was_read_still_counts_when_the_task_has_ended(tmp_path: Path) -> None:
    """With what is left for the next batch. A bar would go back if it did not."""
    reports = LiveReports(tasks=1, on_driver=True, ended_tasks=lambda: None)
    assert run(tmp_path, reports.address, max_records=1) == 1
    told = reports.look()
    assert (told.records, told.files) == (1, 0)
    assert told.stored_bytes == (tmp_path / "a").stat().st_size  # a buffer holds all of so small a file
    reports.close()


def test_a_task_that_reaches_nobody_reads_on(tmp_path: Path) -> None:
    reports = LiveReports(tasks=1, on_driver=True, ended_tasks=lambda: None)
    address = reports.address
    reports.close()
    assert run(tmp_path, address) == 3


def test_elsewhere_there_is_no_address_and_spark_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.spark.live._ASK_SPARK_EVERY_S", 0.0)
    reports = LiveReports(tasks=4, on_driver=False, ended_tasks=lambda: 2)
    assert reports.address is None
    told = reports.look()
    assert (told.is_told, told.tasks, told.ended_tasks) == (False, 4, 2)
    reports.close()


@pytest.mark.parametrize(
    ("has_failed", "shown"),
    [
        (True, ["WARNING: Using incubator modules", "spark ERROR A: lost", "    at x", "later"]),
        (False, ["spark ERROR A: lost", "    at x", "later"]),
    ],
)
def test_of_a_start_only_errors_are_shown_unless_it_fails(
    capsys: pytest.CaptureFixture[str], has_failed: bool, shown: list[str]
) -> None:
    reading, writing = os.pipe()
    output = _JvmOutput(reading)
    os.write(writing, b"WARNING: Using incubator modules\nspark ERROR A: lost\n\tat x\n")
    if has_failed:
        os.write(writing, b"later\n")
        os.close(writing)
    output.start()
    while not output._kept or len(output._kept) < 3:
        output.join(0.01)
    output.end_start(has_failed=has_failed)
    if not has_failed:
        os.write(writing, b"later\n")
        os.close(writing)
    output.join()
    assert capsys.readouterr().err.splitlines() == shown


def test_what_spark_complains_of_while_it_is_stopped_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    output = _JvmOutput(reading)
    output.end_start(has_failed=False)
    output.hush()
    os.write(writing, b"spark ERROR TaskSchedulerImpl: Exception in statusUpdate\n\tat x\n")
    os.close(writing)
    output.run()
    assert capsys.readouterr().err == ""
