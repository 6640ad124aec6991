"""Refuses positions that a newer version of blizzard wrote: this version does not know all that they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blizzard.core.codec import UnknownField, UnknownVersion, checksum_of, decode_json, decode_position
from blizzard.core.fields import CodecError
from blizzard.core.kinds import Kind
from blizzard.core.refuse import Refuse

# Of the positions that this program writes. Before it was the Rust program, which wrote no checksum.
_FIRST_VERSION = 2


def refuse_newer(app_ids: Iterable[str], pipeline: str, sequence: int | None) -> Refuse | None:
    """Refuses if one of these is such a position of this sequence. Ledgers do not replace it: they may say less."""
    for fields in filter(None, map(_newer_payload, app_ids)):
        if (fields.get("pipeline"), fields.get("sequence")) == (pipeline, sequence):
            return Refuse(
                kind=Kind.NEWER_CHECKPOINT,
                message=(
                    f"a newer version of blizzard wrote the position of pipeline {pipeline!r} (sequence {sequence})."
                    f" This one does not know all that it says. Nothing was changed. Run that version, or a later one."
                ),
            )
    return None


def _newer_payload(app_id: str) -> dict[str, Any] | None:
    """Its fields, if a newer version wrote it and its checksum fits. Every version must keep the checksum."""
    try:
        fields = decode_json(app_id)
        decode_position(app_id)
    except (UnknownVersion, UnknownField):
        rest = {name: value for name, value in fields.items() if name != "checksum"}
        is_whole = fields.get("checksum") == checksum_of(rest)
        return fields if is_whole and fields["schema_version"] >= _FIRST_VERSION else None
    except CodecError:
        return None
    return None
