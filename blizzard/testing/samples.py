"""Deterministic NDJSON for the demo and the tests: the same events, byte for byte, on every machine.

python -m blizzard.testing.samples OUT --files 8 --records 20000
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import orjson

EVENT_DDL = (
    "id BIGINT, ts TIMESTAMP, kind STRING, user STRUCT<id: BIGINT, name: STRING, country: STRING>,"
    " items ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>, total DOUBLE, note STRING"
)
_KINDS = ("view", "cart", "order", "refund")
_COUNTRIES = ("AT", "BR", "DE", "JP", "NO", "US")
_NOTES = (None, "gift", "naïve café", "次の日", "line\nbreak", 'a "quoted" word')


def event(record_id: int, rng: random.Random) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"sku": f"sku-{rng.randrange(5000):04d}", "quantity": rng.randrange(1, 5), "price": rng.randrange(10**5) / 100}
        for _ in range(rng.randrange(4))
    ]
    second = record_id % 86_400
    return {
        "id": record_id,
        "ts": f"2024-03-{1 + record_id // 86_400 % 28:02d}T{second // 3600:02d}:{second // 60 % 60:02d}"
        f":{second % 60:02d}.{rng.randrange(10**6):06d}Z",
        "kind": rng.choice(_KINDS),
        "user": {"id": rng.randrange(10**6), "name": f"user{rng.randrange(10**4)}", "country": rng.choice(_COUNTRIES)},
        "items": items,
        "total": round(sum(i["quantity"] * i["price"] for i in items), 2),
        "note": rng.choice(_NOTES),
    }


def event_lines(first_id: int, count: int) -> Iterator[bytes]:
    rng = random.Random(first_id)
    for record_id in range(first_id, first_id + count):
        yield orjson.dumps(event(record_id, rng)) + b"\n"


def write_events(folder: str, *, files: int, records: int, first_id: int = 0, first_file: int = 0) -> int:
    """`files` gzip files of `records` events each, ids counting up. Returns the next free id."""
    os.makedirs(folder, exist_ok=True)
    for number in range(first_file, first_file + files):
        path = os.path.join(folder, f"events-{number:05d}.ndjson.gz")
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as out:
            out.writelines(event_lines(first_id, records))
        first_id += records
    return first_id


def main() -> None:
    parser = argparse.ArgumentParser(description="Write deterministic sample events as NDJSON.gz.")
    parser.add_argument("folder", nargs="?", default="demo/events")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--print-ddl", action="store_true", help="only print the schema of the events")
    options = parser.parse_args()
    if options.print_ddl:
        sys.stdout.write(EVENT_DDL + "\n")
        return
    write_events(options.folder, files=options.files, records=options.records)
    sys.stdout.write(f"wrote {options.files} files of {options.records:,} events to {options.folder}\n")


if __name__ == "__main__":
    main()
