"""A Python worker imports what a task needs and no more: every worker of every executor pays for it before its work."""

from __future__ import annotations

import subprocess
import sys

# Slow to load, and of no use to a task over local files.
HEAVY = {
    "aiohttp",
    "azure",
    "boto3",
    "botocore",
    "delta",
    "deltalake",
    "duckdb",
    "fsspec",
    "google",
    "jinja2",
    "pandas",
    "prometheus_client",
    "py4j",
    "pyspark",
    "requests",
    "s3fs",
    "sqlglot",
    "wcmatch",
    "yaml",
}
_SHOW = "import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
# What comes to a worker as pickled bytes brings these with it.
TASK = "blizzard.tasks.task, blizzard.tasks.spec, blizzard.core.types, blizzard.schema.layout"


def imported_by(modules: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", _SHOW.format(modules=modules)], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_a_task_imports_nothing_heavy() -> None:
    found = imported_by(TASK)
    assert "pyarrow" in found
    assert found & HEAVY == set()


def test_what_is_heavy_is_found() -> None:
    assert imported_by("blizzard.delta.table") & HEAVY == {"deltalake"}


def test_a_run_without_a_page_loads_no_template_engine() -> None:
    assert "jinja2" not in imported_by("blizzard.service.operation")
