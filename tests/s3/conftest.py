"""Fixtures for tests against object storage: one S3 server for all, a bucket for each, and proxies that misbehave."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3.fault_proxy import FaultProxy
from tests.s3.server import Bucket, S3Server
from tests.s3.toxiproxy import ToxicProxy, Toxiproxy

_TOOLS = Path(__file__).parents[2] / ".tools" / "bin"


def tool(name: str, target: str = "setup-s3") -> Path:
    """What `make` installed. Without it (it takes Go or npm) its tests are skipped, but fail in CI."""
    path = _TOOLS / name
    if not path.exists():
        reason = f"{path.name} is not installed: run make {target}, which needs Go or npm"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tool("versitygw"), tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[Bucket]:
    made = s3_server.make_bucket(f"test-{uuid.uuid4().hex[:12]}")
    yield made
    s3_server.remove_bucket(made)


@pytest.fixture
def fault_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    proxy = FaultProxy(s3_server.endpoint)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def toxiproxy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    server = Toxiproxy(tool("toxiproxy-server"), tmp_path_factory.mktemp("toxiproxy"))
    yield server
    server.stop()


@pytest.fixture
def toxiproxy(toxiproxy_server: Toxiproxy, s3_server: S3Server) -> Iterator[ToxicProxy]:
    proxy = toxiproxy_server.proxy(s3_server.endpoint)
    yield proxy
    proxy.delete()
