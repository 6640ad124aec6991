"""A disk that is full or may not be written, for the table and for its quarantine: a kind that says so, nothing half
committed, no file left behind by the attempt, and the next run goes on once the disk is mended."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blizzard.cli.main import main
from blizzard.errors import ConfigError, Temporary, errno_of, failure_to_write, known_failure
from blizzard.spark.job import failure_of
from tests.flows.in_process import Flow
from tests.ingesting import ids, write, write_ids

PLACES = ["table", "table_quarantine"]


def mount(options: str, folder: Path) -> bool:
    done = subprocess.run(["mount", *options.split(), str(folder)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small disk of its own at this place below the test's folder. Needs the right to mount."""
    mounted: list[Path] = []

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        if not mount("-t tmpfs -o size=400k none", folder):
            pytest.skip("needs the right to mount a tmpfs")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def begun(folder: Path) -> Flow:
    """A table and a quarantine table with something in them."""
    flow = Flow(folder)
    write_ids(folder / "src/a.ndjson", 0, 10)
    write(folder / "src/b.ndjson", b"bad\n")
    flow.run()
    return flow


def fill(folder: Path) -> None:
    with open(folder / "filled", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as e:
            assert e.errno == errno.ENOSPC


def parquet_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.parquet")}


@pytest.mark.parametrize("place", PLACES)
def test_a_disk_that_fills_up_while_a_task_writes(
    tmp_path: Path, disk: Callable[[str], Path], place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = disk(place)
    flow = begun(tmp_path)
    before = parquet_files(folder)
    noise = [os.urandom(200).hex().encode() for _ in range(3000)]
    good = b"".join(b'{"id":%d,"name":"%s"}\n' % (i, text) for i, text in enumerate(noise, start=10))
    path = write(tmp_path / "src/c.ndjson", good if place == "table" else b"\n".join(noise))
    with pytest.raises(Temporary) as full:
        flow.run()
    assert full.value.kind == "disk_full"
    assert parquet_files(folder) == before
    assert "Exception ignored" not in capfd.readouterr().err
    assert mount("-o remount,size=40m", folder)
    flow.run()
    assert len(ids(flow.table)) + len(flow.quarantined()) == 11 + 3000
    assert path.exists()


@pytest.mark.parametrize("place", PLACES)
def test_a_disk_that_is_full_when_the_commit_comes(tmp_path: Path, disk: Callable[[str], Path], place: str) -> None:
    folder = disk(place)
    flow = begun(tmp_path)
    write_ids(tmp_path / "src/c.ndjson", 10, 20)
    write(tmp_path / "src/d.ndjson", b"worse\n")
    with pytest.raises(Temporary) as full:
        flow.run(while_reading=lambda: fill(folder))
    assert full.value.kind == "disk_full"
    os.unlink(folder / "filled")
    flow.run()
    assert ids(flow.table) == list(range(20))
    assert len(flow.quarantined()) == 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("moment", ["start", "commit"])
def test_a_place_that_may_not_be_written(tmp_path: Path, disk: Callable[[str], Path], place: str, moment: str) -> None:
    folder = disk(place)
    flow = begun(tmp_path)
    write_ids(tmp_path / "src/c.ndjson", 10, 20)
    write(tmp_path / "src/d.ndjson", b"worse\n")

    def protect() -> None:
        assert mount("-o remount,ro", folder)

    if moment == "start":
        protect()
    with pytest.raises(ConfigError) as refused:
        flow.run(while_reading=protect if moment == "commit" else lambda: None)
    assert refused.value.kind == "not_writable"
    assert refused.value.exit_code == 2
    assert mount("-o remount,rw", folder)
    flow.run()
    assert ids(flow.table) == list(range(20))
    assert len(flow.quarantined()) == 2


def test_a_table_without_the_right_to_write_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path)
    write_ids(tmp_path / "src/c.ndjson", 10, 20)
    real = os.access
    log = str(tmp_path / "table/_delta_log")
    # Root may write everywhere; this is what anybody else is told.
    monkeypatch.setattr(os, "access", lambda path, mode, **how: str(path) != log and real(path, mode, **how))
    job = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "table"), "--pipeline", "p"]
    for command in ("run", "plan"):
        assert main([command, *job]) == 2
        assert capsys.readouterr().err.splitlines()[-1].endswith("[not_writable]")
    assert "pyspark" not in sys.modules or ids(tmp_path / "table") == list(range(10))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "x"), "disk_full"),
        (OSError(errno.EDQUOT, "x"), "disk_full"),
        (RuntimeError("Generic error: No space left on device (os error 28)"), "disk_full"),
        (RuntimeError("java.io.IOException: No space left on device"), "disk_full"),
        (RuntimeError("[Errno 2] no file; then: No space left on device"), "disk_full"),
        (OSError(errno.EROFS, "x"), "not_writable"),
        (PermissionError(errno.EACCES, "x"), "not_writable"),
        (RuntimeError("Unable to open file: Permission denied (os error 13)"), "not_writable"),
        (OSError(errno.EIO, "x"), None),
        (RuntimeError("conflict in version 13"), None),
        (OSError("no number"), None),
    ],
)
def test_what_keeps_a_file_from_being_written(error: Exception, kind: str | None) -> None:
    found = failure_to_write(error, "the table")
    assert (found.kind if found is not None else None) == kind


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError(errno.ENOSPC, "full", "/f"), "disk_full", 75),
        (OSError(errno.EROFS, "read-only", "/f"), "not_writable", 2),
        (PermissionError(errno.EACCES, "no", "/f"), "access_denied", 2),
        (OSError(errno.ELOOP, "links", "/f"), "unusable_path", 2),
        (OSError(errno.ENAMETOOLONG, "long", "/f"), "unusable_path", 2),
        (OSError(errno.EMFILE, "open files", "/f"), "temporary", 75),
        (OSError(errno.EIO, "disk", "/f"), "temporary", 75),
    ],
)
def test_an_error_of_the_operating_system_that_nobody_caught_has_a_kind(error: OSError, kind: str, code: int) -> None:
    found = known_failure(error)
    assert found is not None
    assert (found.kind, found.exit_code) == (kind, code)
    assert "/f" in str(found)


def test_what_nobody_knows_stays_unknown() -> None:
    assert known_failure(ValueError("x")) is None
    assert known_failure(OSError("x")) is None
    assert errno_of(ValueError("x")) is None


def test_a_spark_job_without_space_is_told_from_one_that_failed() -> None:
    assert failure_of(RuntimeError("java.io.IOException: No space left on device\n\tat x")).kind == "disk_full"
    assert failure_of(RuntimeError("java.io.IOException: Permission denied")).kind == "spark_job"
    assert failure_of(RuntimeError("(StatusCode.UNAVAILABLE) connection refused")).kind == "spark_gone"
    assert failure_of(RuntimeError("[INVALID_HANDLE.SESSION_NOT_FOUND] gone")).kind == "spark_gone"
