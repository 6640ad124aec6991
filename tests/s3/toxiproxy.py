"""Toxiproxy for tests: TCP that is slow, cut or stuck, set from Python through its HTTP API.

It knows nothing of HTTP, so it hits at any byte of any request; FaultProxy is for faults at a chosen request.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from tests.s3.endpoint import S3Endpoint
from tests.s3.processes import ServerProcess

# latency(latency, jitter), reset_peer(timeout), limit_data(bytes), timeout(timeout), slow_close(delay),
# bandwidth(rate): times in milliseconds, the rate in KB/s.
Toxic: TypeAlias = Literal["latency", "reset_peer", "limit_data", "timeout", "slow_close", "bandwidth"]


class Toxiproxy:
    """The toxiproxy server; `proxy` makes as many proxies as a test wants."""

    def __init__(self, binary: Path, folder: Path, *, seed: int = 1) -> None:
        self._process = ServerProcess(
            lambda port: [str(binary), "-host", "127.0.0.1", "-port", str(port), "-seed", str(seed)],
            health="/version",
            log=folder / "toxiproxy.log",
        )
        self._proxies = 0

    def proxy(self, upstream: str) -> ToxicProxy:
        """A new proxy on a free loopback port, without toxics."""
        self._proxies += 1
        name = f"proxy-{self._proxies}"
        made = self.call(
            "POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": urlsplit(upstream).netloc}
        )
        return ToxicProxy(self, name, f"http://{made['listen']}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._process.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "blizzard-tests"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def stop(self) -> None:
        self._process.stop()


class ToxicProxy(S3Endpoint):
    """One proxy in front of the S3 server."""

    def __init__(self, server: Toxiproxy, name: str, endpoint: str) -> None:
        super().__init__(endpoint)
        self._server = server
        self._path = f"/proxies/{name}"

    def add(
        self,
        toxic: Toxic,
        *,
        stream: Literal["upstream", "downstream"] = "downstream",
        toxicity: float = 1.0,
        **attributes: int,
    ) -> str:
        """Adds a toxic to this share (`toxicity`) of the connections. Returns its name, for `remove`.

        `downstream` is what the client receives, `upstream` what it sends.
        """
        made = self._server.call(
            "POST",
            f"{self._path}/toxics",
            {"type": toxic, "stream": stream, "toxicity": toxicity, "attributes": attributes},
        )
        return str(made["name"])

    def remove(self, name: str) -> None:
        self._server.call("DELETE", f"{self._path}/toxics/{name}")

    def delete(self) -> None:
        self._server.call("DELETE", self._path)
