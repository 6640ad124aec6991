"""A mirror of each kind, empty, for the tests that all of them have to pass."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.postgres import Postgres
from tests.mirror.under_test import MirrorUnderTest
from tests.s3.conftest import bucket, s3_server
from tests.s3.server import S3Server

__all__ = ["bucket", "s3_server"]

_MARKS = {"s3": pytest.mark.s3, "postgres": pytest.mark.postgres}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is not a mirror that does not answer."""
    monkeypatch.setattr("blizzard.run.mirror.GIVE_UP_AFTER_S", 120.0)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    server = Postgres()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """The server, as every test expects it."""
    if not postgres_server.is_running:
        postgres_server.start()
    return postgres_server


def kinds(*names: str) -> list[Any]:
    """As parameters of tests, each marked with what it needs."""
    return [pytest.param(name, marks=_MARKS.get(name, ())) for name in names]


@pytest.fixture(params=kinds("folder", "s3", "sqlite", "postgres"))
def mirror(request: pytest.FixtureRequest, tmp_path: Path) -> MirrorUnderTest:
    match request.param:
        case "folder":
            return MirrorUnderTest(kind="folder", uri=str(tmp_path / "mirror"))
        case "sqlite":
            return MirrorUnderTest(kind="sqlite", uri=f"sqlite:///{tmp_path}/positions.db")
        case "s3":
            server: S3Server = request.getfixturevalue("s3_server")
            place = request.getfixturevalue("bucket").uri("mirror")
            return MirrorUnderTest(kind="s3", uri=place, options=server.storage_options)
        case _:
            made = request.getfixturevalue("postgres").make_database(f"test_{uuid.uuid4().hex[:12]}")
            return MirrorUnderTest(kind="postgres", uri=made)
