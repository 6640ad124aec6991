"""Records in every framing, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Record = dict[str, Any]


def _compact(record: Record) -> str:
    return json.dumps(record, separators=(",", ":"))


def _pretty(record: Record) -> str:
    return json.dumps(record, indent=2)


# How the file is written: the framing that it is, and its text.
FRAMED: dict[str, tuple[str, Callable[[Sequence[Record]], str]]] = {
    "lines": ("lines", lambda records: "".join(_compact(r) + "\n" for r in records)),
    "firehose": ("concatenated", lambda records: "".join(map(_compact, records))),
    "pretty": ("concatenated", lambda records: "\n".join(map(_pretty, records))),
    "record separators": ("concatenated", lambda records: "".join(f"\x1e{_compact(r)}\n" for r in records)),
    "array": ("array", json.dumps),
    "array in lines": ("array", lambda records: "[\n" + ",\n".join(map(_compact, records)) + "\n]\n"),
    "pretty array": ("array", lambda records: json.dumps(records, indent=2)),
    "several arrays": ("array", lambda records: "".join(json.dumps([r]) + "\n" for r in records) or "[]"),
    "CloudTrail": ("array:Records", lambda records: json.dumps({"Records": records})),
    "siblings": (
        "array:items",
        lambda records: json.dumps({"next": "]}", "items": records, "meta": {"items": [1]}}, indent=1),
    ),
}


def framed(shape: str, records: Sequence[Record]) -> bytes:
    return FRAMED[shape][1](records).encode()
