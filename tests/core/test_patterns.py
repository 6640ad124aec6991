"""The default patterns: what they are never changes, and the newest takes every compression that can be read."""

from __future__ import annotations

from blizzard.core.compression import SUFFIXES
from blizzard.core.patterns import COMPRESSION_SUFFIXES, DEFAULT_GLOB, FIRST_DEFAULT_GLOB


def test_positions_rely_on_what_the_defaults_are() -> None:
    assert FIRST_DEFAULT_GLOB == "**/*.{ndjson,jsonl}{,.gz,.zst}"
    assert DEFAULT_GLOB == "**/*.{json,ndjson,jsonl}{,.gz,.zst,.zstd,.bz2,.xz,.lz4}"


def test_files_in_every_compression_are_taken() -> None:
    assert {f".{suffix}" for suffix in COMPRESSION_SUFFIXES} == set(SUFFIXES)
