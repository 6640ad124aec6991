"""Every producer of the corpus, and folders of files on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.producers import amazon, clouds, databases, kubernetes, network, web, windows
from tests.producers.made import Producer
from tests.producers.stored import records_of

PRODUCERS: dict[str, Producer] = {
    producer.name: producer
    for module in (amazon, kubernetes, web, network, windows, databases, clouds)
    for producer in module.PRODUCERS
}


def write_folder(folder: Path, files: Mapping[str, bytes], key: str | None = None) -> list[Any]:
    """Makes the source, and gives back its records as Python's json reads them."""
    records: list[Any] = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        records += records_of(content, key)
    return records
