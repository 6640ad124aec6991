"""The packed environment runs from any folder, with an interpreter of its own, and holds nothing of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

PACKAGES = (
    "blizzard",
    "deltalake",
    "isal",
    "numpy",
    "orjson",
    "pandas",
    "pyarrow",
    "s3fs",
    "ssl",
    "sqlite3",
)
LOOK = f"""
import importlib, json, sys
where = {{name: importlib.import_module(name).__file__ for name in {PACKAGES}}}
# The modules that a run and a task use, all of them.
import blizzard.tasks.task, blizzard.service.operation, blizzard.cli.main
loaded = sorted({{line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "/" in line}})
print(json.dumps({{"where": where, "loaded": loaded, "version": sys.version_info[:2], "path": sys.path}}))
"""


def test_it_imports_everything_from_where_it_was_unpacked(environment: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved once more"
    environment.rename(moved)
    try:
        command = [str(moved / "bin/python"), "-c", LOOK]
        done = subprocess.run(command, env={"PATH": ""}, cwd="/", capture_output=True, text=True, check=True)
    finally:
        moved.rename(environment)
    found = json.loads(done.stdout)
    assert tuple(found["version"]) == sys.version_info[:2]
    assert all(path.startswith(f"{moved}/") for path in found["where"].values()), found["where"]
    assert all(path.startswith(f"{moved}/") for path in found["path"] if path), found["path"]
    built_with = (sys.prefix, sys.base_prefix)
    outside = [path for path in found["loaded"] if not path.startswith(f"{moved}/")]
    # The distribution's own: glibc, and the C++ library that every manylinux wheel may count on.
    allowed = ("/usr/lib", "/lib", "[")
    assert all(path.startswith(allowed) for path in outside), outside
    assert not [path for path in outside if path.startswith(tuple(f"{p}/lib/python" for p in built_with))]
    names = {Path(path).name.split(".so")[0].split("-")[0] for path in outside if ".so" in path}
    assert names <= {"ld", "libc", "libm", "libdl", "librt", "libpthread", "libresolv", "libgcc_s", "libstdc++"}, names


def test_it_leaves_pyspark_to_the_cluster(environment: Path) -> None:
    (packages,) = environment.glob("lib*/python*/site-packages")
    assert not (packages / "pyspark").exists()
    assert not list(packages.glob("pip*"))


def test_the_zip_holds_the_package_and_nothing_compiled(package_zip: Path) -> None:
    names = zipfile.ZipFile(package_zip).namelist()
    assert "blizzard/tasks/task.py" in names
    assert "blizzard/log4j2-quiet.properties" in names
    assert all(name.startswith("blizzard/") and not name.endswith((".pyc", ".so")) for name in names)
