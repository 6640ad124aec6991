"""blizzard: NDJSON files into a Delta Lake table with PySpark, each record exactly once.

`ingest` appends what is new, `plan` says what it would do, `status`, `files` and `audit` say what was done, `rollback`
goes back, `quarantine` has the bad records. The types of the results are in `blizzard.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blizzard.errors import BadData, BlizzardError, ConfigError, Fenced, Refused, Temporary

if TYPE_CHECKING:
    from blizzard.api import Summary as Summary
    from blizzard.api import audit, files, ingest, plan, quarantine, rollback, status

__version__ = "0.1.0"
__all__ = [
    "BadData",
    "BlizzardError",
    "ConfigError",
    "Fenced",
    "Refused",
    "Temporary",
    "__version__",
    "audit",
    "files",
    "ingest",
    "plan",
    "quarantine",
    "rollback",
    "status",
]


if not TYPE_CHECKING:  # a checker would take every name for one that is there

    def __getattr__(name: str) -> Any:
        # Loaded on first use: `import blizzard.core` must not pull in pyspark or deltalake.
        if name in __all__ or name == "Summary":
            from blizzard import api

            return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
