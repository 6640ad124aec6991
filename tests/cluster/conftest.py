"""Fixtures for tests on a cluster: what `make dist` packs, and one standalone cluster of separate processes for all."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import StandaloneCluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def environment_archive() -> Path:
    """What `make dist` packed. Without it (it needs Linux) its tests are skipped, but fail in CI."""
    found = sorted((ROOT / "dist").glob("blizzard-env-*.tar.gz"))
    if not found:
        reason = "dist/ has no environment: run make dist, on Linux"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found[-1]


@pytest.fixture(scope="session")
def environment(environment_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, unpacked far from where it was made."""
    home = tmp_path_factory.mktemp("elsewhere") / "an environment"
    with tarfile.open(environment_archive) as packed:
        packed.extractall(home)
    return home


@pytest.fixture(scope="session")
def package_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """blizzard as it is now, for --py-files: it comes before the one in the environment, which may be older."""
    out = tmp_path_factory.mktemp("zip")
    subprocess.run([sys.executable, str(ROOT / "jobs/dist.py"), "zip", "--out", str(out)], check=True)
    (made,) = out.glob("*.zip")
    return made


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(standalone: StandaloneCluster) -> StandaloneCluster:
    """The one cluster, whole again after whatever the test before did to it."""
    standalone.heal()
    return standalone
