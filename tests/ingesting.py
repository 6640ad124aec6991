"""Small sources and tables for tests that run inside the shared Spark session."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import blizzard
from blizzard.run.summary import Summary

DDL = "id BIGINT, name STRING"


def line(record_id: int) -> bytes:
    return b'{"id":%d,"name":"n%d"}\n' % (record_id, record_id)


def write(path: Path, content: bytes) -> Path:
    """A source file, compressed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, compresslevel=1, mtime=0) if path.suffix == ".gz" else content)
    return path


def write_ids(path: Path, first: int, last: int) -> Path:
    return write(path, b"".join(map(line, range(first, last))))


def ingest(spark: Any, folder: Path, *, schema: str | None = DDL, **arguments: Any) -> Summary:
    options = arguments.pop("options", {})
    where: dict[str, Any] = {"source": str(folder / "src"), "table": str(folder / "table")} | arguments
    return blizzard.ingest(spark, schema=schema, options=options, **where)


def rows(table: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda r: r["id"])


def is_table(folder: Path) -> bool:
    """Whether a commit is there. A log's folder is made a moment before its first commit."""
    return any((folder / "_delta_log").glob("*.json"))


def ids(table: Path) -> list[int]:
    return [row["id"] for row in rows(table)]


def commit_actions(table: Path, version: int) -> list[dict[str, Any]]:
    text = (table / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(action) for action in text.splitlines()]


def versions(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))
