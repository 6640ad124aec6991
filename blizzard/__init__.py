"""blizzard: NDJSON files into a Delta Lake table with PySpark, each record exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blizzard.errors import BadData, BlizzardError, ConfigError, Fenced, Refused, Temporary

if TYPE_CHECKING:
    from blizzard.api import ingest, status
    from blizzard.run.summary import Summary

__version__ = "0.1.0"
__all__ = [
    "BadData",
    "BlizzardError",
    "ConfigError",
    "Fenced",
    "Refused",
    "Summary",
    "Temporary",
    "ingest",
    "status",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: `import blizzard.core` must not pull in pyspark or deltalake.
    if name in ("ingest", "status"):
        from blizzard import api

        return getattr(api, name)
    if name == "Summary":
        from blizzard.run.summary import Summary

        return Summary
    raise AttributeError(name)
