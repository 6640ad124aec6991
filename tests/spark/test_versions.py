"""The wrong Java, Spark, Delta or Python: one line that says which, with a kind of its own, and nothing written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from blizzard.errors import ConfigError
from blizzard.spark.cores import slots_to_come
from blizzard.spark.job import failure_of
from blizzard.spark.session import LazySession, require_spark
from tests.drivers import Finished, run
from tests.failing import ends_with
from tests.ingesting import write_ids

# A Python that says it is another one.
PRETENDED = """
import sys
class Version(tuple):
    major, minor, micro = 3, 99, 0
sys.version_info = Version((3, 99, 0, "final", 0))
"""
pytestmark = [pytest.mark.spark, pytest.mark.process]


def attempt(folder: Path, *more: str, **env: str) -> Finished:
    write_ids(folder / "src/a.ndjson", 0, 3)
    where = ["--source", str(folder / "src"), "--table", str(folder / "table"), "--schema", "id BIGINT"]
    finished = run(folder, *where, *more, env=env)
    assert not list((folder / "table").glob("_delta_log/*1.json")), "something was committed"
    return finished


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def one_line(finished: Finished) -> str:
    (line,) = [line for line in finished.stderr.splitlines() if line.startswith("blizzard: ")]
    return line


@pytest.mark.parametrize(("says", "version"), [('"1.7.0_80"', 7), ('"99" 2031-03-18', 99)])
def test_a_java_that_spark_does_not_know(tmp_path: Path, says: str, version: int) -> None:
    java = f"""[ "$1" = -version ] && {{ echo 'openjdk version {says}' >&2; exit 0; }}
echo 'java.lang.UnsupportedClassVersionError: class file version 61.0' >&2; exit 1"""
    script(tmp_path / "jdk/bin/java", java)
    finished = attempt(tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    assert (finished.code, finished.summary["error_kind"]) == (2, "wrong_java"), finished.stderr
    assert f"is Java {version}, and Spark " in one_line(finished)


def test_a_spark_that_is_too_old_or_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.5.0", "3.5.9-amzn-1", "4.0.1", "4.1.1"):
        require_spark(version)
    monkeypatch.setattr("pyspark.__version__", "3.3.4")
    with pytest.raises(ConfigError, match=r"Spark 3\.3\.4 is not supported") as caught:
        LazySession({}).get()
    assert caught.value.kind == "spark_version"
    with ends_with("spark_version"):
        require_spark("5.0.0")


@pytest.mark.usefixtures("fast_drivers")
def test_delta_for_another_spark(tmp_path: Path) -> None:
    # Of Scala 2.13 and for Spark 4.0: it fits neither Spark 3.5 nor 4.1.
    jars = ("--set", "spark.conf.spark.jars.packages=io.delta:delta-spark_2.13:4.0.0")
    finished = attempt(tmp_path, *jars, "--committer", "delta-spark", "--set", "table.sole_writer=true")
    assert (finished.code, finished.summary["error_kind"]) == (2, "delta_version"), finished.stderr
    assert "Delta 4.0.0 does not fit Spark" in one_line(finished)


@pytest.mark.usefixtures("fast_drivers")
@pytest.mark.parametrize("what", ["another version", "one that cannot run pyspark", "no packages", "nothing"])
def test_executors_with_another_python(tmp_path: Path, what: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/sitecustomize.py").write_text(PRETENDED)
    python = {
        "another version": script(
            tmp_path / "a", f'PYTHONPATH="{tmp_path}/other:$PYTHONPATH" exec {sys.executable} "$@"'
        ),
        "one that cannot run pyspark": script(tmp_path / "b", "exit 1"),
        "no packages": script(tmp_path / "c", f'exec {sys.executable} -S "$@"'),
        "nothing": "./environment/bin/python",
    }[what]
    finished = attempt(tmp_path, PYSPARK_PYTHON=python)
    kind = "python_mismatch" if what == "another version" else "worker_environment"
    assert (finished.code, finished.summary["error_kind"]) == (2, kind), finished.stderr
    assert "PYSPARK_PYTHON=" in one_line(finished)  # a local session: there is no cluster to send an archive to
    assert "--archives" not in finished.stderr


def test_another_failure_of_a_job_is_worth_a_retry() -> None:
    assert failure_of(RuntimeError("Job aborted: ExecutorLostFailure")).exit_code == 75


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({}, 0),
        ({"spark.executor.instances": "10", "spark.executor.cores": "4"}, 40),
        ({"spark.executor.instances": "10", "spark.executor.cores": "4", "spark.task.cpus": "2"}, 20),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "2"}, 0),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "infinity"}, 0),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "8"}, 8),
    ],
)
def test_a_batch_is_cut_for_the_executors_that_may_come(settings: dict[str, str], slots: int) -> None:
    assert slots_to_come(settings) == slots
