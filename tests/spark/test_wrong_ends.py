"""Real drivers whose machine fails them: a disk that is full while tasks write, and nobody who listens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from tests.drivers import ids, job, run

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]


def test_a_disk_that_is_full_in_a_task_is_one_line_and_a_retry(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=20_000)
    table = tmp_path / "table"
    table.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(table)], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        finished = run(tmp_path, *job(tmp_path))
        assert finished.code == 75, finished.stderr
        assert finished.summary["error_kind"] == "disk_full"
        assert finished.stderr.splitlines()[-1].endswith("[disk_full]")
        for noise in ("Traceback", "Exception", "pyarrow"):
            assert noise not in finished.stderr
        assert list(table.glob("*.parquet")) == []
        subprocess.run(["mount", "-o", "remount,size=100m", str(table)], check=True)
        assert run(tmp_path, *job(tmp_path)).code == 0
        assert ids(table) == list(range(total))
    finally:
        subprocess.run(["umount", str(table)], check=True)


def test_a_run_that_nobody_listens_to_ingests_everything(tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=100)
    words = [sys.executable, "-m", "blizzard", "run", *job(tmp_path)]
    # The shell closes the streams, so that the driver, its JVM and its workers begin without any.
    done = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *words], env=dict(os.environ), check=False)
    assert done.returncode == 0
    assert ids(tmp_path / "table") == list(range(total))
