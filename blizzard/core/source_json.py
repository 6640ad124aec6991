"""A source as positions and ledgers write it. Filters are written only if there are some, so that all other positions
stay byte for byte as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blizzard.core.fields import WrongType, integer, text
from blizzard.core.types import Filters, SourceIdentity

SOURCE_FIELDS = frozenset(["root", "pattern", "marks_per", "modified_after_ms", "modified_before_ms", "ignore"])


def source_to_json(source: SourceIdentity) -> dict[str, Any]:
    filters = source.filters
    return {
        "root": source.root,
        "pattern": source.pattern,
        **({} if source.marks_per is None else {"marks_per": source.marks_per}),
        **({} if filters.modified_after_ms is None else {"modified_after_ms": filters.modified_after_ms}),
        **({} if filters.modified_before_ms is None else {"modified_before_ms": filters.modified_before_ms}),
        **({"ignore": list(filters.ignore)} if filters.ignore else {}),
    }


def source_of(fields: Mapping[str, Any]) -> SourceIdentity:
    """Raises a CodecError where a field is not as blizzard writes it."""
    return SourceIdentity(
        root=text(fields, "root"),
        pattern=text(fields, "pattern"),
        marks_per=text(fields, "marks_per") if fields.get("marks_per") is not None else None,
        filters=Filters(
            modified_after_ms=_moment(fields, "modified_after_ms"),
            modified_before_ms=_moment(fields, "modified_before_ms"),
            ignore=_globs(fields),
        ),
    )


def _moment(fields: Mapping[str, Any], name: str) -> int | None:
    return integer(fields, name) if name in fields else None


def _globs(fields: Mapping[str, Any]) -> tuple[str, ...]:
    globs = fields.get("ignore", [])
    if not isinstance(globs, list) or not all(isinstance(glob, str) and glob for glob in globs):
        raise WrongType("ignore is not a list of globs")
    return tuple(globs)
