"""A run takes the session that is there, on Databricks or of this process: it changes nothing about it and lets it
run."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pyspark
import pyspark.sql
import pytest

from blizzard.spark.session import LazySession


@pytest.fixture(autouse=True)
def no_jvm_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's session is played here, has no JVM, and needs no Java."""
    monkeypatch.setattr("blizzard.spark.session.require_java", lambda _: None)
    monkeypatch.setattr("blizzard.spark.session.quiet_start", lambda _: nullcontext(lambda: None))
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)


class FakeSession:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


class FakeBuilder:
    def __init__(self, session: FakeSession) -> None:
        self.session, self.asked = session, dict[str, str]()

    def appName(self, name: str) -> FakeBuilder:  # noqa: N802
        self.asked["spark.app.name"] = name
        return self

    def config(self, key: str, value: str) -> FakeBuilder:
        self.asked[key] = value
        return self

    def getOrCreate(self) -> FakeSession:  # noqa: N802
        return self.session


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> FakeBuilder:
    class FakeSparkSession:
        """Of a thread that has made none: to Spark, each thread has its own active one."""

        builder = FakeBuilder(FakeSession())

        @staticmethod
        def getActiveSession() -> Any:  # noqa: N802
            return None

    monkeypatch.setattr(pyspark.sql, "SparkSession", FakeSparkSession)
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "DATABRICKS_RUNTIME_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return FakeSparkSession.builder


@pytest.mark.parametrize("on_databricks", [True, False])
def test_the_runtimes_session_is_taken_as_it_is(
    builder: FakeBuilder, monkeypatch: pytest.MonkeyPatch, on_databricks: bool
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    if on_databricks:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    session = LazySession({"spark.sql.shuffle.partitions": "2"})
    assert session.get() is builder.session
    session.stop()
    assert builder.session.stopped == (not on_databricks)
    assert bool(builder.asked) == (not on_databricks)


def test_one_that_another_thread_has_made_is_taken_as_it_is(
    builder: FakeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run looks for it in a thread of its own."""
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", object())
    with LazySession({"spark.sql.shuffle.partitions": "2"}) as session:
        assert session.comes_up(lambda: False)
        assert session.get() is builder.session
    assert not builder.session.stopped
    assert not builder.asked
