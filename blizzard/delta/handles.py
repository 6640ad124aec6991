"""delta-rs's handle of a table, and the partition values of a file as the log has them."""

from __future__ import annotations

from deltalake import DeltaTable

from blizzard.core.kinds import Kind
from blizzard.core.types import DataFile
from blizzard.errors import Refused
from blizzard.store.access import Access
from blizzard.store.uri import delta_uri


def open_handle(root: str, access: Access, *, version: int | None = None) -> DeltaTable:
    return DeltaTable(delta_uri(root), version=version, storage_options=access.for_delta_rs(root))


def partition_values(file: DataFile, partition_by: tuple[str, ...]) -> dict[str, str | None]:
    # delta-rs would commit a file without its partition value, and then read null.
    if tuple(name for name, _ in file.partition_values) != partition_by:
        now = ", ".join(partition_by) or "nothing"
        raise Refused(f"{file.path} was written before the table was partitioned by {now}", kind=Kind.TABLE_REPLACED)
    return dict(file.partition_values)
