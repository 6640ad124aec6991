"""A whole flow between two folders of an emulator; only Spark is replaced, by calling its tasks in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from blizzard.store import open_store
from blizzard.store.access import Access
from blizzard.store.uri import delta_uri
from tests.s3.flows import BucketFlow
from tests.store.conftest import Place


@dataclass(frozen=True)
class Folder:
    """A place with the one method of a bucket that a flow uses."""

    place: Place

    def uri(self, key: str) -> str:
        return f"{self.place.root}/{key}"


@dataclass
class StoreFlow(BucketFlow):
    """One pipeline from `src/` to `table/`."""

    bucket: Any
    endpoint: Any = None

    @property
    def access(self) -> Access:
        access: Access = self.bucket.place.access
        return access

    @property
    def table_access(self) -> Access:
        return self.access

    def ids(self) -> list[int]:
        root = self.bucket.uri("table")
        table = DeltaTable(delta_uri(root), storage_options=self.access.for_delta_rs(root))
        return sorted(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())

    def versions(self) -> list[int]:
        names = open_store(self.bucket.uri("table"), self.access).names("_delta_log")
        return [int(name[:20]) for name in names if name.endswith(".json") and name[:20].isdigit()]
