"""The lines of each data set, as a function of the first id alone: the same bytes on every machine.

Only `getrandbits` is asked for numbers: the other methods of `random` may change between versions of Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

Generator = Callable[[int, int], Iterator[str]]

_KINDS = ("page_view", "add_to_cart", "order", "refund")
_COUNTRIES = ("AT", "BR", "DE", "JP", "NO", "US", "ZA", "FR")
_NAMES = ("Ada", "Björn", "Chloë", "Dmitri", "Eşref", "Fatima", "Grace", "日向")
_NOTES = (
    "null",
    "null",
    '"gift wrap"',
    '"naïve café"',
    '"次の日"',
    '"line\\nbreak"',
    '"a \\"quoted\\" word"',
    '"leave it at the door"',
)
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grün", "heath")

NESTED_DDL = (
    "id BIGINT, ts TIMESTAMP, kind STRING, user STRUCT<id: BIGINT, name: STRING, country: STRING>,"
    " items ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>, total DOUBLE, tax DOUBLE, note STRING"
)
FLAT_DDL = (
    "id BIGINT, ts TIMESTAMP, device STRING, region STRING, status INT, bytes_sent BIGINT, duration_ms DOUBLE,"
    " ratio DOUBLE, ok BOOLEAN, path STRING"
)


def nested_lines(first_id: int, count: int) -> Iterator[str]:
    bits = random.Random(first_id).getrandbits
    for record_id in range(first_id, first_id + count):
        a, b = bits(64), bits(64)
        items, total = [], 0
        for _ in range(a & 3):
            quantity, cents = 1 + (b & 3), 1 + (b >> 2 & 0xFFFF)
            items.append(f'{{"sku":"article-{b >> 18 & 4095:04d}","quantity":{quantity},"price":{cents / 100}}}')
            total += quantity * cents
            b >>= 13
        user, country = a >> 2 & 0xFFFFF, _COUNTRIES[a >> 47 & 7]
        yield (
            f'{{"id":{record_id},"ts":"{timestamp(record_id, a >> 22)}","kind":"{_KINDS[a >> 42 & 3]}",'
            f'"user":{{"id":{user},"name":"{_NAMES[a >> 44 & 7]} {user % 9973}","country":"{country}"}},'
            f'"items":[{",".join(items)}],"total":{total / 100},"tax":{total * 19 // 100 / 100},'
            f'"note":{_NOTES[a >> 50 & 7]}}}\n'
        )


def flat_lines(first_id: int, count: int) -> Iterator[str]:
    bits = random.Random(first_id).getrandbits
    for record_id in range(first_id, first_id + count):
        a, b = bits(64), bits(64)
        yield (
            f'{{"id":{record_id},"ts":"{timestamp(record_id, a)}","device":"device-{a >> 20 & 0xFFFFF:07x}",'
            f'"region":"{_COUNTRIES[a >> 40 & 7].lower()}-{a >> 43 & 3}","status":{200 + (a >> 45 & 255)},'
            f'"bytes_sent":{b & 0xFFFFFFF},"duration_ms":{(b >> 28 & 0xFFFFF) / 1000},"ratio":{(b >> 48) / 65536},'
            f'"ok":{"true" if a >> 53 & 7 else "false"},"path":"/{_WORDS[a >> 56 & 7]}/{_WORDS[a >> 59 & 7]}"}}\n'
        )


def timestamp(record_id: int, noise: int) -> str:
    """RFC 3339 with microseconds, a second further with every record, four weeks round."""
    minute, second = divmod(record_id, 60)
    hour, minute = divmod(minute, 60)
    day, hour = divmod(hour, 24)
    return f"2024-03-{1 + day % 28:02d}T{hour:02d}:{minute:02d}:{second:02d}.{noise % 1_000_000:06d}Z"


# A column of each of these in turn; every eleventh one also has nulls.
_WIDE_TYPES = ("BIGINT", "DOUBLE", "STRING", "INT", "BOOLEAN", "STRING", "TIMESTAMP", "DECIMAL(12,2)", "DATE", "DOUBLE")
WIDE_COLUMNS = 200
_WIDE = [(f"c{i:03d}", _WIDE_TYPES[i % len(_WIDE_TYPES)]) for i in range(1, WIDE_COLUMNS)]
WIDE_NULLABLE = tuple(name for i, (name, _) in enumerate(_WIDE) if i % 11 == 3)
WIDE_DDL = "id BIGINT, " + ", ".join(f"{name} {data_type}" for name, data_type in _WIDE)


def wide_lines(first_id: int, count: int) -> Iterator[str]:
    bits = random.Random(first_id).getrandbits
    columns = [(f'"{name}":', _WIDE_VALUES[data_type], name in WIDE_NULLABLE) for name, data_type in _WIDE]
    for record_id in range(first_id, first_id + count):
        row = bits(32 * WIDE_COLUMNS)
        fields = [f'{{"id":{record_id}']
        for key, value, nullable in columns:
            row >>= 32
            noise = row & 0xFFFFFFFF
            fields.append(key + ("null" if nullable and noise & 7 == 0 else value(noise)))
        yield ",".join(fields) + "}\n"


_WIDE_VALUES: dict[str, Callable[[int], str]] = {
    "BIGINT": lambda noise: str(noise * 2_654_435_761 & 0xFFFFFFFFFFFF),
    "INT": lambda noise: str((noise & 0xFFFFFF) - 0x800000),
    "DOUBLE": lambda noise: str((noise & 0xFFFFFF) / 4096),
    "DECIMAL(12,2)": lambda noise: f"{noise >> 4}.{noise % 100:02d}",
    "STRING": lambda noise: f'"{_WORDS[noise & 7]} {noise >> 16:04x}"',
    "BOOLEAN": lambda noise: "true" if noise & 1 else "false",
    "TIMESTAMP": lambda noise: f'"{timestamp(noise & 0xFFFFFF, noise)}"',
    "DATE": lambda noise: f'"20{noise & 15:02d}-{1 + (noise >> 4) % 12:02d}-{1 + (noise >> 8) % 28:02d}"',
}
