"""The Spark session of a run: the caller's own, or one that is started when it is needed. Never names a master: under
spark-submit the cluster's settings stay as they are."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError, Temporary, connect_without_jvm
from blizzard.spark.archive import OPTIONS, NoArchive, find_archive, java_option, jvm_for
from blizzard.spark.gone import end_without_waiting, has_ended, is_gone, keep_quiet_about_its_end, raise_if_gone
from blizzard.spark.java import check_java_after_failure, require_java
from blizzard.spark.jvm_output import quiet_start
from blizzard.spark.user import check_name_after_failure, require_name, settings_without_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPPORTED_SPARK = ((3, 5), (5,))
SPARK_WITH_VARIANT = (4,)
_LOOK_S = 0.05  # while it starts: how often it is asked whether to go on
# For a session on this machine only: no web page, no port outside loopback, no progress bar of Spark.
_LOCAL_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class Session(Protocol):
    """A Spark session that may not have been started yet."""

    def begin(self) -> None:
        """Start it in the background."""

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        """Start it, and wait until it is up or has failed: `get` says which. False: it was stopped before that."""

    def get(self) -> SparkSession: ...

    @property
    def pool(self) -> str | None:
        """The scheduler pool of its jobs; None: the default one."""


class GivenSession:
    """The caller's own session, already running."""

    pool = None

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def begin(self) -> None:
        return None

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        del is_stopped
        return True

    def get(self) -> SparkSession:
        return self._spark


class LazySession:
    """The running session if there is one; else one that is started on first use and stopped at the end. So a run that
    finds nothing new starts no JVM. Several threads may use it."""

    pool = None

    def __init__(self, conf: Mapping[str, str], *, with_delta: bool = False) -> None:
        """`with_delta`: a session started here has Delta's JARs, for the committer that needs them."""
        self._conf, self._with_delta = conf, with_delta
        self._session: Any = None
        self._lock = threading.Lock()  # held while it is started
        self._owned = False
        self._hush: Callable[[], None] = lambda: None
        self._starting: Future[_Started] | None = None
        self._is_given_up = False  # nobody waits until it is up
        self.before_start: Callable[[], None] = lambda: None
        self.is_cold = False  # it started a JVM without the archive that `blizzard warm-up` would make
        self.startup_seconds = 0.0

    def begin(self) -> None:
        """Start it in the background; `get` then waits until it is up."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            if self._session is None and self._starting is None:
                self._starting = Future()
                threading.Thread(
                    target=self._start_into, args=(self._starting,), name="blizzard-session", daemon=True
                ).start()
        finally:
            self._lock.release()

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        started = time.monotonic()
        try:
            while self._session is None:
                if is_stopped():
                    self._is_given_up = True
                    return False
                self.begin()
                starting = self._starting
                if starting is None or wait([starting], timeout=_LOOK_S).done:
                    break
            self._is_given_up = False
            return True
        finally:
            self.startup_seconds += time.monotonic() - started

    def get(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                started = time.monotonic()
                before = signal.getsignal(signal.SIGINT)
                starting, self._starting = self._starting, None  # if it fails, the next one may try again
                self._take(self._start() if starting is None else starting.result())
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGINT, before)  # pyspark installs its own handler, which cancels all jobs
                self.startup_seconds += time.monotonic() - started
            return self._session

    def stop(self) -> None:
        if self._is_given_up and self._session is None:
            return  # who has stopped the run would wait until it is up. Its JVM ends with this process
        if self._session is None and self._starting is not None and self._starting.exception() is None:
            self._take(self._starting.result())  # begun and never used
        if self._owned:
            if not has_ended():  # else its last words say why
                self._hush()
            try:
                self._session.stop()
            except Exception:
                if not is_gone():
                    raise

    def __enter__(self) -> LazySession:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.stop()
        if isinstance(error, Exception):
            raise_if_gone(error)

    def _take(self, started: _Started) -> None:
        self._session, self._owned, self.is_cold = started.session, started.is_owned, started.is_cold
        self._hush = started.hush

    def _start_into(self, starting: Future[_Started]) -> None:
        try:
            starting.set_result(self._start())
        except BaseException as e:
            starting.set_exception(e)

    def _start(self) -> _Started:
        self.before_start()
        return _start(self._conf, self._with_delta)


class PooledSession:
    """One pipeline's view of a session that several share: its jobs go to a pool of their own, so that Spark gives
    each pipeline its share."""

    def __init__(self, shared: Session, pool: str) -> None:
        self._shared, self.pool = shared, pool

    def begin(self) -> None:
        self._shared.begin()

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        return self._shared.comes_up(is_stopped)

    def get(self) -> SparkSession:
        return self._shared.get()


def fair_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """With Spark's fair scheduler, unless the user names another one. A Connect server has its own settings."""
    return dict(conf) if is_connect(conf) else {"spark.scheduler.mode": "FAIR", **conf}


def is_connect(conf: Mapping[str, str]) -> bool:
    return _remote(conf) is not None


def _remote(conf: Mapping[str, str]) -> str | None:
    return conf.get("spark.remote") or os.environ.get("SPARK_REMOTE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    session: Any
    is_owned: bool  # to be stopped at the end
    is_cold: bool = False
    hush: Callable[[], None] = lambda: None  # before it is stopped


def _start(conf: Mapping[str, str], with_delta: bool) -> _Started:
    import pyspark
    from pyspark.sql import SparkSession  # half a second that --help and status need not pay

    require_spark(pyspark.__version__)
    active = SparkSession.getActiveSession()
    if active is not None:
        return _Started(session=active, is_owned=False)
    context: Any = getattr(pyspark, "SparkContext", None)  # the package for Spark Connect alone has none
    if "DATABRICKS_RUNTIME_VERSION" in os.environ or getattr(context, "_active_spark_context", None) is not None:
        # The runtime has started Spark for the whole cluster, or another thread of this process, whose session is not
        # the active one of this thread: use it as it is, and never stop it.
        return _Started(session=SparkSession.builder.getOrCreate(), is_owned=False)
    remote = _remote(conf)
    if remote is not None:
        return _Started(session=_connect(remote, conf, with_delta), is_owned=True)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started the JVM already
    settings, is_cold = dict(conf), False
    if not submitted:
        require_java(pyspark.__version__)
        if with_delta:
            require_name("the delta-spark committer")  # it works through Hadoop
        if _is_local(conf.get("spark.master")):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            options, is_cold = _options_with_archive(conf)
            ours = _LOCAL_CONF | daemon_settings(conf) | settings_without_name()
            settings = ours | settings | {OPTIONS: options}
    if _is_local(_submitted_master() if submitted else conf.get("spark.master")):
        # Otherwise the workers run the first python3 on PATH, without this environment's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("blizzard")
    if with_delta and not submitted:
        builder = _with_delta(builder, conf)
    for key, value in settings.items():
        builder = builder.config(key, value)
    is_quiet = not submitted and _is_local(conf.get("spark.master")) and OPTIONS not in conf
    try:
        if not submitted:
            threading.Thread(target=_import_for_the_first_job, name="blizzard-imports").start()
        with quiet_start(builder) if is_quiet else nullcontext(lambda: None) as hush:
            session = builder.getOrCreate()
        if not submitted:
            keep_quiet_about_its_end(session)
            end_without_waiting(session)
        return _Started(session=session, is_owned=not submitted, is_cold=is_cold, hush=hush)
    except Exception as e:
        if not submitted:
            check_java_after_failure(pyspark.__version__)
            check_name_after_failure()
        raise Temporary(f"the Spark session could not be started: {_line(e)}", kind=Kind.SPARK_SESSION) from e


def daemon_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """The workers come from a daemon of ours, if they run this very Python: another may not have blizzard."""
    named = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    return {"spark.python.daemon.module": "blizzard.spark.daemon"} if named == sys.executable else {}


def _import_for_the_first_job() -> None:
    """What mapInArrow imports when it is first called: half a second, while the JVM starts."""
    with suppress(ImportError):  # the first job says what is missing
        import_module("pandas")
        import_module("pyspark.sql.pandas.map_ops")


def require_spark(version: str) -> None:
    if not SUPPORTED_SPARK[0] <= _numbers(version) < SUPPORTED_SPARK[1]:
        raise ConfigError(
            f"Spark {version} is not supported: blizzard runs on Spark 3.5 and 4. Run it on such a cluster, or install"
            f" such a pyspark.",
            kind=Kind.SPARK_VERSION,
        )


def require_variant(version: str) -> None:
    """Raises if this Spark could not read back the VARIANT column that the table has."""
    if _numbers(version) < SPARK_WITH_VARIANT:
        raise ConfigError(
            f"the table has a VARIANT column, which Spark {version} cannot read: Spark 4 can. Run on Spark 4, or make a"
            f" table without --variant and VARIANT columns.",
            kind=Kind.SPARK_VERSION,
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _connect(remote: str, conf: Mapping[str, str], with_delta: bool) -> Any:
    """A session on a Spark Connect server, which has its own JVM, Python and master."""
    from pyspark.sql import SparkSession

    if with_delta:
        raise connect_without_jvm()
    _require_listener(remote)
    builder = SparkSession.builder.appName("blizzard").remote(remote)
    for key, value in conf.items():
        if key != "spark.remote":
            builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        version = session.version
    except ImportError as e:
        raise ConfigError(
            f"Spark Connect needs packages that are not installed: pip install 'blizzard-delta[connect]' ({_line(e)})",
            kind=Kind.NO_CONNECT,
        ) from e
    except Exception as e:
        raise Temporary(f"the Spark Connect server did not answer: {_line(e)}", kind=Kind.SPARK_SESSION) from e
    require_spark(version)
    return session


def _require_listener(remote: str) -> None:
    """pyspark's client would try for ten minutes before it says that no server is there."""
    if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        return  # then the connection goes to the proxy, not to the server
    try:
        where = urlsplit(remote)
        host, port = where.hostname or "", where.port or 15002
    except ValueError:
        host = ""
    if not remote.startswith("sc://") or not host:
        raise ConfigError(
            f"spark.remote {remote.split(';', maxsplit=1)[0]!r}: such a URL is sc://HOST:PORT", kind=Kind.USAGE
        )
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as e:
        raise Temporary(
            f"no Spark Connect server answers at {host}:{port}: {e.strerror or e}", kind=Kind.SPARK_SESSION
        ) from e


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _with_delta(builder: Any, conf: Mapping[str, str]) -> Any:
    """With Delta's JARs of the version installed for Python, unless the user names JARs."""
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    if "spark.jars" in conf or "spark.jars.packages" in conf:
        return builder
    try:
        from delta import configure_spark_with_delta_pip
    except ImportError as e:
        raise ConfigError(
            "the delta-spark committer needs Delta's JARs: pip install delta-spark, or name them with"
            " spark.conf.spark.jars.packages",
            kind=Kind.NO_DELTA_JARS,
        ) from e
    return configure_spark_with_delta_pip(builder)


def settings_of(spark: Any) -> dict[str, str]:
    """The settings of a running session; none for a Connect session, which has no context to ask. Under spark-submit
    the settings exist before a session does: pass None."""
    if spark is None:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            return {}
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    context = getattr(spark, "_sc", None)
    return dict(context.getConf().getAll()) if context is not None else {}


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


def _submitted_master() -> str | None:
    return settings_of(None).get("spark.master")


def starts_jvm_here(conf: Mapping[str, str]) -> bool:
    """Whether a session with these settings is a JVM that this process starts, and a local one."""
    is_elsewhere = {"PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE"} & set(os.environ)
    return not is_elsewhere and "spark.remote" not in conf and _is_local(conf.get("spark.master"))


def local_options(conf: Mapping[str, str]) -> str:
    """The Java options of a local session: the user's own, or ours."""
    given = conf.get(OPTIONS)
    if given is not None:
        return given
    quiet = java_option(f"-Dlog4j2.configurationFile={files('blizzard').joinpath('log4j2-quiet.properties')}")
    # The JVM only schedules here: fast compilation is better than good code, and a small heap needs no parallel GC.
    return f"{quiet} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _options_with_archive(conf: Mapping[str, str]) -> tuple[str, bool]:
    """The options, and whether an archive is missing that could be made."""
    options = local_options(conf)
    try:
        return f"{options} {find_archive(jvm_for(conf, options)).options}", False
    except NoArchive as e:
        return options, e.can_be_made
