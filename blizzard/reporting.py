"""`blizzard report`: one self-contained HTML page from the log alone."""

from __future__ import annotations

from typing import Any

from blizzard.delta.table import DeltaRsTable


def render_report(table: DeltaRsTable, *, live: dict[str, Any] | None = None) -> str:
    return f"<html><body>{table.root} {live}</body></html>"
