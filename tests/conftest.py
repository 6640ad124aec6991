"""Fixtures shared by all tests: one real Spark session per test process, deterministic sources."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from blizzard.testing.samples import write_events
from blizzard.text.redaction import of_one_command
from tests.drivers import Driver, job, run
from tests.s3.spark import S3A_EXCLUDES, S3A_PACKAGES

pytest_plugins = ["tests.flows.fixtures"]

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(autouse=True)
def no_jvm_by_mistake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that finds work begins a session. In a test that is not about Spark it must not: this process can have
    one JVM only, and the tests of Spark that come after it need one with Delta's JARs."""
    if not {"spark", "cluster"} & {mark.name for mark in request.node.iter_markers()}:

        def start(*_: object) -> None:
            raise AssertionError("a test that is not marked as spark started Spark in this process")

        monkeypatch.setattr("blizzard.spark.session.LazySession._start", start)


@pytest.fixture(autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No archive that a developer has made, and no trace in his cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def secrets_of_one_test() -> Iterator[None]:
    """What a test gives as a secret is hidden from every text of this process: from those of later tests too, unless
    it is forgotten. A wrong key called "wrong" once took that word out of messages that another test looked at."""
    with of_one_command():
        yield


@contextmanager
def one_process_at_a_time(lock: Path) -> Iterator[None]:
    with lock.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def folder_of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for a whole test run: each worker of pytest-xdist has its own below it."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def fast_drivers(folder_of_all_workers: Path) -> None:
    """One driver run that archives the classes it loaded, so that every later JVM starts in half the time."""
    folder = folder_of_all_workers / "class-archive"
    folder.mkdir(exist_ok=True)
    archive = folder / "spark.jsa"
    with one_process_at_a_time(folder / "lock"):
        if not archive.exists():
            write_events(str(folder / "src"), files=1, records=10)
            Driver.java_options = f"-XX:ArchiveClassesAtExit={archive}"
            assert run(folder, *job(folder)).code == 0
            assert archive.exists()
    Driver.java_options = f"-XX:SharedArchiveFile={archive} -Xlog:disable"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with the JARs of Delta and S3A, so that Spark itself can read and write tables under test.

    On Spark 3.5 without S3A: its version of it needs one JAR of 280 MB.
    """
    import pyspark
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("blizzard-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # Small tables on two cores: Delta's 50 snapshot partitions and the optimising compiler only cost time.
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config(
            "spark.sql.sources.parallelPartitionDiscovery.parallelism", "2"
        )  # VACUUM lists with 10,000 tasks without it
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.jars.excludes", ",".join(S3A_EXCLUDES))
    )
    packages = [] if pyspark.__version__.startswith("3.") else S3A_PACKAGES
    # Two processes that download the same JARs for the first time break each other's files.
    with one_process_at_a_time(Path(tempfile.gettempdir()) / "blizzard-tests-jars.lock"):
        session = configure_spark_with_delta_pip(builder, extra_packages=packages).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
