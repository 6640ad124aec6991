"""Every producer of the corpus, and folders of files on disk."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from tests.producers import amazon, clouds, databases, kubernetes, network, web, windows
from tests.producers.made import Producer
from tests.producers.stored import lines_of, records_of

PRODUCERS: dict[str, Producer] = {
    producer.name: producer
    for module in (amazon, kubernetes, web, network, windows, databases, clouds)
    for producer in module.PRODUCERS
}


def write_folder(
    folder: Path,
    files: Mapping[str, bytes],
    key: str | None = None,
    *,
    is_lines: bool = False,
    readable: Container[str] | None = None,
) -> list[Any]:
    """Makes the source, and gives back the records of its `readable` files as Python's json reads them."""
    records: list[Any] = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if readable is None or name in readable:
            records += lines_of(content) if is_lines else records_of(content, key)
    return records
