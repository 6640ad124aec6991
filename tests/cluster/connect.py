"""A Spark Connect server on loopback, as a process of its own. pyspark has it among its JARs since 4.0."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.cluster.standalone import SMALL_JVM, SPARK_HOME, wait_until
from tests.s3.processes import ServerProcess, free_port

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_READY_S = 300


class ConnectServer:
    def __init__(self, folder: Path, *, python: Path, environment: dict[str, str]) -> None:
        self._port = free_port()
        given = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": str(python)}
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": SMALL_JVM,
            "spark.sql.artifact.isolation.enabled": "true",
        }
        command = ["env", *(f"{key}={value}" for key, value in (given | environment).items())]
        command += [str(SPARK_HOME / "bin/spark-submit"), "--master", "local[3]", "--class", _SERVER]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        self._process = ServerProcess(
            lambda port: [*command, "--conf", f"spark.ui.port={port}", "spark-internal"],
            health="/jobs/",
            log=folder / "connect.log",
            ready_s=_READY_S,
        )
        wait_until(self._listens, "the Connect server")  # its web page is there first

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def _listens(self) -> bool:
        assert self._process.is_alive, self._process.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        self._process.stop()
