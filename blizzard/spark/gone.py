"""Finds out whether the Spark session of this process has died: killed, or out of memory.

No exception says so reliably: it may be a refused connection, an empty answer, or an error while the session is being
stopped. So this is checked after every failure.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from blizzard.errors import BlizzardError, SparkGone, Temporary

_DYING_S = 0.5  # a process closes its connections a moment before it ends


def is_gone() -> bool:
    """Whether there was a JVM and it has ended. Under Spark Connect there is none here."""
    pyspark: Any = sys.modules.get("pyspark")
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    if gateway is None:
        return False
    process = getattr(gateway, "proc", None)  # under spark-submit the JVM is not our child
    if process is not None:
        try:
            process.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        where = gateway.gateway_parameters.address, gateway.gateway_parameters.port
        socket.create_connection(where, timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def has_ended() -> bool:
    """A quick look: whether the JVM that this process has started is gone. Before there is one: no."""
    pyspark: Any = sys.modules.get("pyspark")
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


@contextmanager
def reported_if_gone() -> Iterator[None]:
    """If the session is dead, any error becomes the one that says so."""
    try:
        yield
    except Exception as e:
        raise_if_gone(e)
        raise


def raise_if_gone(error: Exception) -> None:
    is_verdict = isinstance(error, BlizzardError) and not isinstance(error, Temporary)
    if not is_verdict and not isinstance(error, SparkGone) and is_gone():
        raise spark_gone() from error


def spark_gone() -> SparkGone:
    return SparkGone(
        "the Spark session died while it was in use: killed, or out of memory? What was committed stays committed. Run"
        " again."
    )


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def keep_quiet_about_its_end(session: Any) -> None:
    """When the JVM is gone, pyspark prints tracebacks. Our one line is enough."""
    logging.getLogger().addFilter(_is_not_of_py4j)  # it logs its tracebacks as the root
    server = _accumulator_server(session)
    if server is not None:
        server.handle_error = lambda *_: None


def end_without_waiting(session: Any) -> None:
    """After a job, pyspark waits up to a second for its server of accumulators to notice that the session is stopped.
    blizzard has no accumulators: let it notice by itself."""
    server = _accumulator_server(session)
    if server is not None and isinstance(server.server_address, tuple):  # one in the file system has to be deleted
        end = server.shutdown
        server.shutdown = lambda: threading.Thread(target=end, name="blizzard-session-end", daemon=True).start()


def _accumulator_server(session: Any) -> Any:
    return getattr(getattr(session, "_sc", None), "_accumulatorServer", None)
