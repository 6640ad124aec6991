"""One store of each kind, empty, for the tests that all of them have to pass."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access, make_access
from blizzard.store.files import Store
from tests.s3.conftest import s3_server, tool
from tests.s3.flows import FAST, access_to
from tests.store.servers import AZURE_HOST, AzureServer, GcsServer, options_for_gcs
from tests.store.xml_api import XmlApi

__all__ = ["s3_server"]

_MARKS = {"s3": pytest.mark.s3, "gcs": pytest.mark.stores, "azure": pytest.mark.stores, "az": pytest.mark.stores}
_TOOLS = Path(__file__).parents[2] / ".tools"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder that a test has for itself in a store of some kind."""

    kind: str
    root: str
    access: Access = NO_ACCESS

    @property
    def store(self) -> Store:
        return open_store(self.root, self.access)

    @property
    def is_flat(self) -> bool:
        """A key is a text and no path: `a`, `a/b` and `a//b` are three files."""
        return self.kind in ("gcs", "azure")


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    server = GcsServer(tool("fake-gcs-server", "setup-stores"), tmp_path_factory.mktemp("gcs"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    tool("../azurite/node_modules/azurite/package.json", "setup-stores")
    server = AzureServer(tmp_path_factory.mktemp("azure"), _TOOLS / "azurite")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AZURITE_BLOB_STORAGE_URL", server.url)
        yield server
    server.stop()


def kinds(*names: str) -> list[Any]:
    """As parameters of tests, each marked with what it needs."""
    return [pytest.param(name, marks=_MARKS.get(name, ())) for name in names]


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    if kind in _MARKS:
        assert request.node.get_closest_marker(_MARKS[kind].name), "make quick would run a test that needs a server"
    name = f"test-{uuid.uuid4().hex[:12]}"
    if kind == "local":
        folder = request.getfixturevalue("tmp_path") / "base"
        folder.mkdir()
        return Place(kind=kind, root=str(folder))
    if kind == "memory":
        return Place(kind=kind, root=f"memory://{name}/base")
    server = request.getfixturevalue(f"{'azure' if kind == 'az' else kind}_server")
    server.make_bucket(name)
    if kind == "s3":
        request.addfinalizer(lambda: shutil.rmtree(server.root / name, ignore_errors=True))
        return Place(kind=kind, root=f"s3://{name}/base", access=access_to(server))
    access = make_access(server.options, retry=FAST, read_timeout_s=5)
    host = {"gcs": f"gs://{name}", "az": f"az://{name}", "azure": f"abfss://{name}@{AZURE_HOST}"}[kind]
    return Place(kind=kind, root=f"{host}/base", access=access)


@pytest.fixture(scope="session")
def xml_api(gcs_server: GcsServer) -> Iterator[XmlApi]:
    proxy = XmlApi(gcs_server.endpoint)
    yield proxy
    proxy.stop()


def table_place(kind: str, request: pytest.FixtureRequest) -> Place:
    """One that delta-rs can write to as well."""
    place = place_of(kind, request)
    if kind != "gcs":
        return place
    options = options_for_gcs(request.getfixturevalue("xml_api").endpoint)
    return replace(place, access=make_access(options, retry=FAST, read_timeout_s=5))


@pytest.fixture(params=kinds("local", "s3", "memory", "gcs", "azure"))
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param, request)


@pytest.fixture
def store(place: Place) -> Store:
    return place.store
