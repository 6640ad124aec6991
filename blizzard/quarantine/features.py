"""Whether blizzard can read and write a quarantine table that others may have changed. Asked before a commit."""

from __future__ import annotations

import orjson
from deltalake import DeltaTable

from blizzard.core.kinds import Kind
from blizzard.delta.features import find_obstacle
from blizzard.errors import Refused


def require_readable(table: DeltaTable, root: str) -> None:
    if table.protocol().min_reader_version > 1:
        raise Refused(
            f"the quarantine table at {root} has been given a reader feature (deletion vectors, column"
            f" mapping) that blizzard does not read. Take it out again (ALTER TABLE … DROP FEATURE). Or go on with"
            f" another quarantine.path and blizzard dlq realign --accept-quarantine-loss; these records stay here.",
            kind=Kind.UNSUPPORTED_TABLE,
        )


def require_writable(table: DeltaTable, root: str, *, leaves: bool) -> None:
    """Raises unless files can be added to the table, and records can leave it: that commit is written by hand."""
    obstacle = find_obstacle(orjson.loads(table.schema().to_json()), table.protocol(), table.metadata())
    if obstacle is not None:
        raise Refused(
            f"the quarantine table at {root} cannot be written: {obstacle}. Take that out of the table again,"
            f" then run again.",
            kind=Kind.UNSUPPORTED_TABLE,
        )
    if not leaves:
        return
    require_readable(table, root)
    if str(table.metadata().configuration.get("delta.appendOnly", "")).lower() == "true":
        raise Refused(
            f"the quarantine table at {root} has delta.appendOnly, so no record can leave it. If you may, set"
            f" it to false, run again, and set it to true again.",
            kind=Kind.APPEND_ONLY,
        )
