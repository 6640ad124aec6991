"""The daemon of a local session's workers: which Python gets it, what it imports, and that workers come from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.spark.daemon import without_copies
from blizzard.spark.session import daemon_settings

_OURS = {"spark.python.daemon.module": "blizzard.spark.daemon"}

_WORKERS = """
import sys
from blizzard.spark.session import LazySession

def look(batches):
    import gc, os, sys
    import pyarrow as pa
    for batch in batches:
        is_ready = "blizzard.tasks.task" in sys.modules and gc.get_freeze_count() > 0
        zips = sum(path.endswith("pyspark.zip") for path in sys.path)
        yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "ready": [is_ready], "zips": [zips]})

with LazySession({"spark.master": "local[2]", "spark.sql.warehouse.dir": sys.argv[1]}) as session:
    frame = session.get().range(0, 2, 1, 2).mapInArrow(look, "worker long, ready boolean, zips long")
    rows = frame.collect()
print(len({row["worker"] for row in rows}), all(row["ready"] for row in rows), sum(row["zips"] for row in rows))
"""


def test_another_python_keeps_the_daemon_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert daemon_settings({}) == _OURS
    assert daemon_settings({"spark.pyspark.python": "/other/python"}) == {}
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    assert daemon_settings({}) == {}
    assert daemon_settings({"spark.pyspark.python": sys.executable}) == _OURS


def test_zips_of_what_is_installed_are_left_out(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    for name in ("pyspark", "py4j"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").touch()
    copies = [f"{packages}/pyspark/python/lib/pyspark.zip", f"{packages}/pyspark/python/lib/py4j-src.zip"]
    others = ["/shipped/pyspark.zip", str(packages)]
    assert without_copies([*copies, *others]) == others
    assert without_copies([*copies, "/shipped/pyspark.zip"]) == [*copies, "/shipped/pyspark.zip"]
    (packages / "py4j/__init__.py").unlink()
    (packages / "py4j").rmdir()
    assert without_copies([*copies, *others]) == [*copies, *others]


@pytest.mark.process
def test_workers_have_imported_what_a_task_needs_before_they_begin(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _WORKERS, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.stdout == "2 True 0\n", finished.stderr
