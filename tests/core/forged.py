"""Ledgers as somebody else might write them: a sound one, and hundreds with one field that blizzard never wrote so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

_MISSING = object()
_NO_TEXT = [_MISSING, None, True, 7, 1.5, [], ["x"], {}, {"x": 1}]
_NO_INTEGER = [_MISSING, None, True, False, "7", "", 1.5, -1, 2**63, 10**25, 1e300, [], [1], {}]
_NO_BOOLEAN = [_MISSING, None, 0, 1, "true", "", [], {}, 1.0]
_NO_LIST = [None, True, 7, "x", {}, {"x": 1}, 1.5]
_NO_NAME = [*_NO_TEXT, "", "..", "../x", "a/../../x", "a/..", "a\0b"]

_FIELDS: dict[str, list[Any]] = {
    "blizzard": [_MISSING, None, True, 0, 2, 1.0, "1", [1], {}],
    "pipeline": _NO_TEXT,
    "sequence": [*_NO_INTEGER, 0],
    "run_id": _NO_TEXT,
    "batch_id": _NO_TEXT,
    "base_version": _NO_INTEGER,
    "source": [_MISSING, None, True, 7, "x", [], ["root"], {}, {"root": "file:///src"}, {"pattern": "default"}],
    "records": _NO_INTEGER,
    "quarantine": [*_NO_LIST, *([name] for name in _NO_NAME[1:]), ["/etc/x.parquet"], ["ok.parquet", "../x.parquet"]],
    "quarantined": [None, True, "7", 1.5, -1, 2**63, [], {}],
    "dropped": [None, True, 7, "x", [], ["b"], {"": 1}, {"b": -1}, {"b": True}, {"b": "1"}, {"b": None}, {"b": 2**63}],
    "began_ms": [None, True, "7", 1.5, -1, 2**63, [], {}],
    "kind": [None, True, 7, "", "BATCH", "something", [], {}],
    "rolled_back_to": [True, "1", 1.5, -1, 3, 99, [], {}],
    "superseded": [*_NO_LIST, [True], ["1"], [1.5], [0], [-1], [3], [99], [None], [[1]], [1, "x"]],
    "files": [_MISSING, *_NO_LIST, [None], [7], ["a.ndjson"], [[]], [{}], [["path", "a.ndjson"]]],
}
_SOURCE_FIELDS: dict[str, list[Any]] = {
    "root": _NO_TEXT,
    "pattern": _NO_TEXT,
    "marks_per": [True, 7, 1.5, [], {}],
    "modified_after_ms": _NO_INTEGER[1:],
    "modified_before_ms": _NO_INTEGER[1:],
    "ignore": [*_NO_LIST, [None], [7], [""], [["x"]]],
}
_FILE_FIELDS: dict[str, list[Any]] = {
    "path": _NO_NAME,
    "size": _NO_INTEGER,
    "etag": _NO_TEXT,
    "from": [*_NO_INTEGER, 6],
    "to": [*_NO_INTEGER, 1],
    "finished": _NO_BOOLEAN,
    "bad": [*_NO_INTEGER, 99],
    "broken": [None, True, 7, 1.5, [], {}],
    "late": _NO_BOOLEAN[1:],
    "cut": [*_NO_INTEGER[1:], 99],
    "filtered": [*_NO_INTEGER[1:], 4],
    "unrouted": [*_NO_INTEGER[1:], 1],
}


def sound_ledger() -> dict[str, Any]:
    return {
        "blizzard": 1,
        "pipeline": "p",
        "sequence": 3,
        "run_id": "r",
        "batch_id": "b",
        "base_version": 2,
        "source": {"root": "file:///src", "pattern": "default", "marks_per": "region"},
        "records": 5,
        "quarantine": ["blizzard-x.parquet"],
        "quarantined": 3,
        "began_ms": 1_794_900_000_000,
        "dropped": {"b1": 2, "sequence:1": 0},
        "kind": "rollback",
        "rolled_back_to": 1,
        "superseded": [2],
        "files": [
            _file("a.ndjson", 10, "e1") | {"bad": 2, "cut": 1},
            _file("d/b.ndjson", 20, "e2") | {"from": 2, "broken": "truncated", "late": True},
        ],
    }


def forged_ledgers(sound: dict[str, Any] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is wrong, and the whole of it. `sound` has at least one file, the last of which is changed."""
    sound = sound or sound_ledger()
    for place, changes in ((), _FIELDS), (("source",), _SOURCE_FIELDS), (("files", -1), _FILE_FIELDS):
        for name, values in changes.items():
            for value in values:
                fields = copy.deepcopy(sound)
                there: Any = fields
                for step in place:
                    there = there[step]
                there.pop(name, None)
                if value is not _MISSING:
                    there[name] = value
                said = "missing" if value is _MISSING else repr(value)
                yield f"{'.'.join(map(str, (*place, name)))} {said}", fields


def _file(path: str, size: int, etag: str) -> dict[str, Any]:
    return {"path": path, "size": size, "etag": etag, "from": 0, "to": 5, "finished": True, "bad": 0}
