"""Refuses a log store of Spark's that lets one process overwrite another's commit.

Measured on S3: Spark's log store overwrote another writer's commit in 113 of 700 races (hadoop-aws 3.4.2), and two
Spark drivers collided in 330 of 400. GCSLogStore, set for s3a, overwrote 143 of 300 (214 with
`fs.s3a.performance.flags=create`). On local disk, Spark's log store looks first and then renames. delta-rs creates a
version atomically on both, and never overwrites one.
"""

from __future__ import annotations

from blizzard.core.kinds import Kind
from blizzard.errors import Refused
from blizzard.store.uri import is_local

# A log store arbitrates only in the stores it was made for. A log store not named here is not trusted.
_ATOMIC = {
    "S3DynamoDBLogStore": ("s3://",),
    "GCSLogStore": ("gs://",),
    "AzureLogStore": ("abfss://", "az://"),
    "HDFSLogStore": ("abfss://", "az://"),
}
_DATABRICKS = "com.databricks."  # commits go through a service of Databricks


def is_arbitrated(log_store: str, root: str) -> bool:
    """Whether this log store of Spark's keeps two writers in different processes apart."""
    return log_store.startswith(_DATABRICKS) or root.startswith(_ATOMIC.get(log_store.rsplit(".", 1)[-1], ()))


def check_arbitration(log_store: str, root: str, *, is_sole_writer: bool) -> None:
    if is_sole_writer or is_arbitrated(log_store, root):
        return
    name = log_store.rsplit(".", 1)[-1]
    where = "on local disk" if is_local(root) else f"at {root.split(':', 1)[0]}://"
    raise Refused(
        f"the delta-spark committer {where} goes through Spark's {name}, which does not keep two processes apart: a"
        f" commit of one can overwrite the other's. Use the delta-rs committer, or a log store that arbitrates"
        f" (S3DynamoDBLogStore for every writer), or say that no other process ever commits to this table:"
        f" table.sole_writer=true.",
        kind=Kind.NOT_ARBITRATED,
    )
