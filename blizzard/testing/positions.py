"""Changes a position by the names of its fields, in whichever part of the position they are."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from blizzard.core.position import Position


def changed(position: Position, **values: Any) -> Position:
    """`changed(p, relist_names=7)` is `replace(p, seen=replace(p.seen, relist_names=7))`."""
    for name, value in values.items():
        if name in {f.name for f in fields(Position)}:
            position = replace(position, **{name: value})
            continue
        part = _part_with(position, name)
        position = replace(position, **{part: replace(getattr(position, part), **{name: value})})
    return position


def _part_with(position: Position, name: str) -> str:
    parts = {f.name: getattr(position, f.name) for f in fields(Position) if f.name not in ("source", "marks")}
    held = {p: {f.name for f in fields(value)} for p, value in parts.items() if is_dataclass(value)}
    (found,) = [part for part, names in held.items() if name in names]
    return found
