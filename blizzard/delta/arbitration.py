"""Who decides between two writers that want the same version of a table.

Measured on S3: a commit of Spark's log store overwrote another writer's in 113 of 700 races (hadoop-aws 3.4.2), and two
Spark drivers collided in 330 of 400. On local disk it looks, then renames. delta-rs creates a version atomically on
both, and never overwrites one.
"""

from __future__ import annotations

from blizzard.errors import Refused
from blizzard.store.uri import is_local

_NOT_ATOMIC = ("S3SingleDriverLogStore", "LocalLogStore", "HDFSLogStore")


def is_arbitrated(log_store: str, root: str) -> bool:
    """Whether this log store of Spark's keeps two writers in different processes apart."""
    name = log_store.rsplit(".", 1)[-1]
    if name == "HDFSLogStore":
        return not is_local(root) and not root.startswith("s3://")  # rename is atomic on HDFS, not on these
    return name not in _NOT_ATOMIC


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
        kind="not_arbitrated",
    )
