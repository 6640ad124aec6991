"""Splits rows by their partition values, and writes those values as the Delta log does.

Only the text in the log keeps the values, so it must read back as exactly the same value. In Delta an empty text means
null: rows with an empty text are rows without a value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

PartitionValues: TypeAlias = tuple[tuple[str, str | None], ...]

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_PLAIN_VALUE = re.compile(r"(?!__HIVE_DEFAULT_PARTITION__$)[A-Za-z0-9_.-]{1,99}")


def partition_folder(values: PartitionValues) -> str:
    """`country=DE/day=2024-05-01`, or nothing if a value would have to be escaped.

    Readers take the values from the log; the folder is for people. A path that is escaped on disk is escaped again in
    the log, and some readers get that wrong.
    """
    plain = all(v is not None and _PLAIN_NAME.fullmatch(n) and _PLAIN_VALUE.fullmatch(v) for n, v in values)
    return "/".join(f"{name}={value}" for name, value in values) if plain else ""


def split_rows(table: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """The rows of each partition, in order, without the partition columns."""
    texts, codes = zip(*(_encode(table[name]) for name in partition_by), strict=True)
    key = codes[0]
    for column, more in zip(texts[1:], codes[1:], strict=True):
        key = np.unique(key, return_inverse=True)[1] * len(column) + more  # unique keeps it small: no overflow
    first, inverse = np.unique(key, return_index=True, return_inverse=True)[1:]
    found = [
        tuple((name, column[code[row]]) for name, column, code in zip(partition_by, texts, codes, strict=True))
        for row in first
    ]
    rows = table.drop_columns(list(partition_by))
    if len(found) == 1:
        yield found[0], rows
        return
    rows = rows.combine_chunks()  # otherwise every take would join them
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse))
    for values, part in zip(found, np.split(order, ends[:-1]), strict=True):
        yield values, rows.take(pa.array(part))  # a copy: a slice would keep all other rows in memory


def _encode(column: pa.ChunkedArray) -> tuple[list[str | None], Any]:
    """The distinct texts of a column, and the index of its text for every row."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    to_text = _text_writer(column.type)
    numbers: dict[str | None, int] = {None: 0}
    of_value = [numbers.setdefault(to_text(v) or None, len(numbers)) for v in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(of_value)).to_numpy(zero_copy_only=False)
    return list(numbers), np.array([*of_value, 0], np.int64)[codes]


def _text_writer(kind: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_timestamp(kind):
        # Without the Z, Spark reads the text in the time zone of its session.
        return _instant_text if kind.tz is not None else _clock_text
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_decimal(kind):
        return _decimal_text
    if pa.types.is_floating(kind):
        shortest = np.float32 if kind == pa.float32() else np.float64
        return lambda value: _float_text(value, str(shortest(value)))
    return str


def _clock_text(value: Any) -> str:
    return f"{value.year:04d}-{value:%m-%d %H:%M:%S.%f}"


def _instant_text(value: Any) -> str:
    return f"{value.year:04d}-{value:%m-%dT%H:%M:%S.%f}Z"


def _decimal_text(value: Decimal) -> str:
    return f"{value:f}"


def _float_text(value: float, shortest: str) -> str:
    if math.isfinite(value):
        return shortest
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
