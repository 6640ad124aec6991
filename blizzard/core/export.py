"""An exported position: what `checkpoint export` writes, a mirror keeps, and `checkpoint import` takes.

Holds the fields of the position and nothing else: no option, no secret.
"""

from __future__ import annotations

import orjson

from blizzard.core.codec import encode_position
from blizzard.core.position import Position

EXPORT_VERSION = 1


def export_of(position: Position, *, table_id: str) -> bytes:
    """The content of a file. `table_id` is of the table that the position was found in."""
    exported = {
        "blizzard_position": EXPORT_VERSION,
        "pipeline": position.pipeline,
        "table_id": table_id,
        "sequence": position.sequence,
        "app_id": encode_position(position),
    }
    return orjson.dumps(exported, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
