"""What a task on local files gets, for tests of tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.tasks.spec import TaskSpec


def make_spec(folder: Path, **changes: Any) -> TaskSpec:
    spec = TaskSpec(
        source_root=str(folder),
        compression="auto",
        table_root=str(folder / "table"),
        layout=TableLayout(schema=load_schema("id BIGINT, name STRING")),
        pipeline="p",
        quarantine_root=str(folder / "quarantine"),
        run_id="r",
        target_file_bytes=1 << 30,
        codec="snappy",
        max_record_bytes=1 << 20,
        indexed_columns=32,
        block_bytes=64,
    )
    return replace(spec, **changes)
