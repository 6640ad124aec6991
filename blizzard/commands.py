"""The commands that look and change nothing: plan, status, checkpoint show, files. Text, or JSON for scripts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import orjson

from blizzard import api
from blizzard.cli import make_job
from blizzard.errors import Refused
from blizzard.inspection import PipelineStatus, TableStatus, ingested_files, newest_payloads


def dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "plan":
            return _plan(options)
        case "status":
            return _status(options)
        case "checkpoint":
            return _checkpoint_show(options)
        case _:
            return _files(options)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_json(value: Any) -> None:
    _print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _plan(options: argparse.Namespace) -> int:
    job = make_job(options)
    shown = api.preview(job, slots=job.config["spark.slots"] or os.cpu_count() or 1)
    if options.json:
        _print_json(shown)
        return Refused.exit_code if "error" in shown else 0
    if "error" in shown:
        raise Refused(shown["error"], kind=shown["error_kind"])
    _print(f"pipeline  {shown['pipeline']}")
    _print(f"table     {shown['table']}{' (to be created)' if shown['creates_table'] else ''}")
    _print(f"recovery  {shown['recovery']}")
    _print(f"mark      {shown['mark'] or '-'}")
    _print(f"backlog   {shown['backlog_files']:,} files, {shown['backlog_bytes']:,} bytes")
    if shown["first_batch"]:
        _print("\nfirst batch:")
        _print_table(
            ["SLOT", "FILE", "FROM", "BYTES"],
            [[s["slot"], s["path"], s["from_record"], s["size"]] for s in shown["first_batch"]],
        )
    return 0


def _status(options: argparse.Namespace) -> int:
    status = api.status(options.table, source=options.source, pattern=options.pattern)
    if options.json:
        _print_json(asdict(status))
    else:
        _print_status(status)
    return 0


def _print_status(status: TableStatus) -> None:
    _print(f"table {status.table}  version {status.version}  id {status.table_id}")
    if not status.pipelines:
        _print("no pipeline has committed to it")
    for pipeline in status.pipelines:
        _print("")
        for name, value in _status_rows(pipeline):
            _print(f"  {name:<12}{value}")


def _status_rows(p: PipelineStatus) -> Iterable[tuple[str, str]]:
    yield "pipeline", p.pipeline
    yield "source", f"{p.source}  {p.pattern}"
    yield "sequence", str(p.sequence)
    yield "last commit", f"version {p.delta_version} at {_time(p.committed_at_ms)} by run {p.run_id}"
    yield "mark", p.mark or "-"
    yield "in progress", ", ".join(f"{path} ({n:,} records)" for path, n in p.in_progress.items()) or "none"
    if p.backlog_files is not None:
        yield "backlog", f"{p.backlog_files:,} files, {p.backlog_bytes:,} bytes"
        yield "late files", str(p.late_files)
        yield "rewritten", str(p.rewritten_files)
    yield "a start", {"log": "resumes from the log"}.get(p.recovery, p.recovery_message or p.recovery)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _checkpoint_show(options: argparse.Namespace) -> int:
    found = newest_payloads(api.open_existing(options.table), options.pipeline)
    if options.json:
        _print_json(found)
    elif not found:
        _print("no checkpoint in the log's JSON commits")
    else:
        for payload in found:
            _print_json(payload)
    return 0


def _files(options: argparse.Namespace) -> int:
    rows = ingested_files(api.open_existing(options.table), options.pipeline)
    if options.json:
        for row in rows:
            _print(orjson.dumps(row).decode())
        return 0
    _print_table(
        ["FILE", "FROM", "TO", "FINISHED", "VERSION", "SEQUENCE", "PIPELINE"],
        [
            [
                r["path"],
                r["from"],
                r["to"],
                "yes" if r["finished"] else "no",
                r["delta_version"],
                r["sequence"],
                r["pipeline"],
            ]
            for r in rows
        ],
    )
    return 0


def _print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [list(header), *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        _print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
