"""Makes the Delta statistics of a file from the Parquet footer that was just written.

A bound must hold for every row or be left out: a wrong bound makes readers skip rows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import orjson
import pyarrow.parquet as pq

from blizzard.schema import DeltaSchema

# Delta's own default: statistics for the first 32 leaf columns, longer strings cut.
DEFAULT_INDEXED_COLUMNS = 32
_PREFIX_CHARS = 32
_LAST_CHAR = "\U0010ffff"
_NO_BOUNDS = ("array", "map", "binary")
# A footer has no bounds of a column with a longer text.
FOOTER_TEXT_BYTES = 4096

# By column and row group: the smallest and the largest text.
LongTexts: TypeAlias = dict[tuple[tuple[str, ...], int], tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column that has statistics: its path, its type, and where it is in the Parquet file."""

    path: tuple[str, ...]
    type_name: str
    # None for arrays and maps, whose footers count elements and not rows, and for variants, which have two of them.
    parquet_column: int | None


def indexed_leaves(schema: DeltaSchema, limit: int = DEFAULT_INDEXED_COLUMNS) -> tuple[Leaf, ...]:
    """The columns that get statistics, in schema order; a negative limit means all."""
    leaves = list(_leaves(schema, (), _Counter()))
    return tuple(leaves if limit < 0 else leaves[:limit])


class _Counter:
    def __init__(self) -> None:
        self.next = 0

    def take(self, n: int) -> int:
        first, self.next = self.next, self.next + n
        return first


def _leaves(struct: Mapping[str, Any], prefix: tuple[str, ...], counter: _Counter) -> Iterator[Leaf]:
    for field in struct["fields"]:
        kind, path = field["type"], (*prefix, field["name"])
        if isinstance(kind, str) and kind != "variant":
            yield Leaf(path=path, type_name=kind, parquet_column=counter.take(1))
        elif kind != "variant" and kind["type"] == "struct":
            yield from _leaves(kind, path, counter)
        else:
            counter.take(_width(kind))
            yield Leaf(path=path, type_name=kind if isinstance(kind, str) else kind["type"], parquet_column=None)


def _width(kind: Any) -> int:
    """How many Parquet columns a type takes."""
    if isinstance(kind, str):
        return 2 if kind == "variant" else 1
    match kind["type"]:
        case "struct":
            return sum(_width(field["type"]) for field in kind["fields"])
        case "array":
            return _width(kind["elementType"])
        case _:
            return _width(kind["keyType"]) + _width(kind["valueType"])


def file_stats(
    footer: pq.FileMetaData,
    leaves: Sequence[Leaf],
    nested_nulls: Mapping[tuple[str, ...], int],
    long_texts: LongTexts,
) -> str:
    """The `stats` of one Add action.

    `nested_nulls` counts the null arrays, maps and variants, which no footer has. `long_texts` are the bounds that a
    footer leaves out for their length: delta-rs's reader takes a missing bound for "no such row".
    """
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for leaf in leaves:
        for tree in (lows, highs):
            _branch(tree, leaf.path)
        if leaf.parquet_column is None:
            _put(nulls, leaf.path, nested_nulls[leaf.path])
            continue
        chunks = [footer.row_group(g).column(leaf.parquet_column).statistics for g in range(footer.num_row_groups)]
        if all(c is not None and c.has_null_count for c in chunks):
            _put(nulls, leaf.path, sum(c.null_count for c in chunks))
        if leaf.type_name == "string":
            bounds = _text_bounds(chunks, [long_texts.get((leaf.path, g)) for g in range(len(chunks))])
        else:
            bounds = _bounds(chunks, leaf.type_name)
        if bounds is not None:
            _put(lows, leaf.path, bounds[0])
            _put(highs, leaf.path, bounds[1])
    stats = {"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls}
    return _to_json(stats)


def _bounds(chunks: Sequence[Any], type_name: str) -> tuple[Any, Any] | None:
    if type_name in _NO_BOUNDS or any(c is None for c in chunks):
        return None
    filled = [c for c in chunks if c.has_min_max]
    # A row group may lack bounds only if it holds nothing but nulls.
    if not filled or any(not c.has_min_max and c.num_values > 0 for c in chunks):
        return None
    low, high = min(c.min for c in filled), max(c.max for c in filled)
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def _text_bounds(chunks: Sequence[Any], long: Sequence[tuple[str, str] | None]) -> tuple[str, str] | None:
    """None if the column holds nothing but nulls."""
    found = []
    for chunk, ends in zip(chunks, long, strict=True):
        if ends is not None:
            found.append(ends)
        elif chunk is not None and chunk.has_min_max:
            found.append((chunk.min, chunk.max))
        elif chunk is None or chunk.num_values > 0:
            raise RuntimeError("the footer has no bounds of a column without a long text")
    if not found:
        return None
    return min(low for low, _ in found)[:_PREFIX_CHARS], upper_prefix(max(high for _, high in found))


def upper_prefix(text: str) -> str:
    """A short string that sorts at or after this one."""
    end = _PREFIX_CHARS
    while end < len(text) and text[end] == _LAST_CHAR:
        end += 1  # text[:end] + _LAST_CHAR would be a prefix of the text, and sort before it
    return text if end >= len(text) else text[:end] + _LAST_CHAR


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    _branch(tree, path)[path[-1]] = value


def _branch(tree: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The struct of a column. It is written even if empty: delta-rs's reader takes a missing one for null."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    return tree


def _to_json(value: Any) -> str:
    """JSON with decimals as exact numbers. No JSON library here can write them."""
    match value:
        case dict():
            return "{" + ",".join(f"{orjson.dumps(k).decode()}:{_to_json(v)}" for k, v in value.items()) + "}"
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            # The exact microsecond: a bound cut to milliseconds would exclude rows for some readers.
            text = value.strftime("%Y-%m-%dT%H:%M:%S.%f")
            return f'"{value.year:04d}{text[text.index("-") :]}{"Z" if value.tzinfo is not None else ""}"'
        case dt.date():
            return f'"{value.isoformat()}"'
        case _:
            return orjson.dumps(value).decode()
