"""Delta's own classes in the JVM. Only this module knows how delta-spark 3.3 (Scala 2.12) and 4.x (2.13) differ.

Everything runs in a clone of the user's session, with its own settings. The user's session keeps its settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError, connect_without_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = "org.apache.spark.sql.delta"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Messages of a JVM, or of py4j, for code that was compiled against other versions.
_UNLINKED = re.compile(
    r"(NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError|IncompatibleClassChangeError|AbstractMethodError)[^\n]*"
    r"|\S+ does not exist in the JVM"
)
_CONF = {
    # No retries inside Delta: a commit becomes the version after the snapshot that was looked at, or fails. With
    # retries an append landed after a concurrent INSERT OVERWRITE and after a RESTORE (measured).
    "spark.databricks.delta.maxCommitAttempts": "0",
    "spark.databricks.delta.postCommitHook.throwOnError": "false",
    "spark.databricks.delta.history.metricsEnabled": "false",  # Delete wants metrics that only a query has
}


class DeltaJvm:
    def __init__(self, spark: SparkSession) -> None:
        _require_classic(spark)
        self.jvm = spark._jvm
        self._spark_version = spark.version
        self.none = self.jvm.scala.Option.empty()
        users = spark._jsparkSession
        # In Spark 4, SparkSession is abstract, and the real class is in `classic`.
        api = self.jvm.org.apache.spark.sql
        self._sessions = api.classic.SparkSession if ".classic." in users.getClass().getName() else api.SparkSession
        with self.fitting():  # the first use of the session's extensions
            self.session = users.cloneSession()
        for key, value in _CONF.items():
            self.session.conf().set(key, value)
        # Every part of a name and every lookup is a round trip: 2,000 actions took 5 s without these caches.
        self.named = cache(self._named)
        self._to_seq = self.jvm.org.apache.spark.api.python.PythonUtils.toSeq
        with self.fitting():
            _require_delta(self.named("DeltaLog"))
        self._parse = self.named("actions.Action").fromJson

    def _named(self, name: str) -> Any:
        """A class of Delta, nested (`A$B`) or not; for a companion (`A$`) its one object."""
        found = self.jvm
        for part in f"{_DELTA}.{name}".split("."):
            found = getattr(found, part)
        return getattr(found, "MODULE$") if name.endswith("$") else found

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Used around the first uses of Delta's classes: JARs for another Spark or Scala fail to link there."""
        from py4j.protocol import Py4JError

        try:
            yield
        except Py4JError as e:
            problem = _UNLINKED.search(str(e))
            if problem is None:
                raise
            delta, spark = self.jvm.io.delta.package.VERSION(), self._spark_version
            raise ConfigError(
                f"Delta {delta} does not fit Spark {spark}: {problem[0]}. Spark 3.5 goes with delta-spark_2.12:3.3,"
                f" Spark 4.0 with delta-spark_2.13:4.0, Spark 4.1 with delta-spark_4.1_2.13:4.3.",
                kind=Kind.DELTA_VERSION,
            ) from e

    def some(self, value: Any) -> Any:
        return self.jvm.scala.Option.apply(value)

    def java_list(self, items: Sequence[Any]) -> Any:
        made = self.jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def seq(self, items: Sequence[Any]) -> Any:
        return self._to_seq(self.java_list(items))

    def action(self, action: Mapping[str, Any]) -> Any:
        return self._parse(orjson.dumps(action).decode())

    def write_operation(self, partition_by: Sequence[str], user_metadata: str) -> Any:
        """DeltaOperations.Write: 4 arguments up to Delta 4.0, 7 in 4.1, 9 since 4.3. The newer ones have defaults."""
        operation, companion = self.named("DeltaOperations$Write"), self.named("DeltaOperations$Write$")
        mode = self.jvm.org.apache.spark.sql.SaveMode.Append
        arguments = [mode, self.some(self.seq(partition_by)), self.none, self.some(user_metadata)]
        arity = operation._java_lang_class.getConstructors()[0].getParameterCount()
        arguments += [getattr(companion, f"apply$default${n}")() for n in range(len(arguments) + 1, arity + 1)]
        return operation(*arguments)

    def delete_operation(self) -> Any:
        """DeltaOperations.Delete: one argument in every version, and none for user metadata."""
        return self.named("DeltaOperations$Delete")(self.seq([]))

    @contextmanager
    def active(self, *, user_metadata: str | None = None) -> Iterator[None]:
        """Delta uses the session of the current thread, or the default session if the thread has none. One Python
        thread is one JVM thread."""
        before = self._sessions.getActiveSession()
        self._sessions.setActiveSession(self.session)
        if user_metadata is not None:
            self.session.conf().set(_USER_METADATA, user_metadata)
        try:
            yield
        finally:
            if user_metadata is not None:
                self.session.conf().unset(_USER_METADATA)
            if before.isDefined():
                self._sessions.setActiveSession(before.get())
            else:
                self._sessions.clearActiveSession()


def _require_classic(spark: SparkSession) -> None:
    if getattr(spark, "_jvm", None) is None:
        raise connect_without_jvm()
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        raise ConfigError(
            "the delta-spark committer needs a JVM thread for each Python thread: unset PYSPARK_PIN_THREAD",
            kind=Kind.USAGE,
        )


def _require_delta(delta_log: Any) -> None:
    from py4j.java_gateway import JavaPackage

    if isinstance(delta_log, JavaPackage):  # py4j gives this for a name that is not a class
        raise ConfigError(
            "the delta-spark committer needs Delta's JARs in the Spark session: spark-submit --packages"
            " io.delta:delta-spark_2.13:VERSION, or spark.conf.spark.jars; see blizzard doctor",
            kind=Kind.NO_DELTA_JARS,
        )
