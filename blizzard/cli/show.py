"""The commands that show something and change nothing: plan, status, report, files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of, print_line, table_lines
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.core.paths import WORDS
from blizzard.errors import BadData, ConfigError, Refused
from blizzard.operate.status import PipelineStatus, TableStatus, ingested_files, table_status
from blizzard.run.assemble import Assembly
from blizzard.run.carry_out import preview
from blizzard.service.progress import TerminalProgress
from blizzard.store.outputs import write_output
from blizzard.store.uri import show_uri
from blizzard.text.json import json_text


def dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "plan":
            return _plan(options)
        case "status":
            return _status(options)
        case "report":
            return _report(options)
        case _:
            return _files(options)


def _plan(options: argparse.Namespace) -> int:
    with ingesting(options, TerminalProgress().see) as assembly:
        slots = assembly.config.spark.slots or os.cpu_count() or 1
        shown = preview(assembly, assembly.open(), slots=slots)
    output, code = output_of(options), shown.get("exit_code", 0)
    if code:
        refused = BadData if code == BadData.exit_code else Refused
        return output.failure(shown, refused(shown["error"], kind=shown["error_kind"]))
    output.result(shown, _plan_lines(shown))
    return 0


def _plan_lines(shown: dict[str, Any]) -> Iterator[str]:
    for name, value in _plan_rows(shown):
        yield f"{name:<12}{value}"
    if shown["first_batch"]:
        yield from ("", "first batch:")
        slices = [[s["slot"], s["path"], s["from_record"], s["size"]] for s in shown["first_batch"]]
        yield from table_lines(["SLOT", "FILE", "FROM", "BYTES"], slices)


def _plan_rows(shown: dict[str, Any]) -> Iterable[tuple[str, str]]:
    yield "pipeline", shown["pipeline"]
    yield "table", shown["table"] + (" (to be created)" if shown["creates_table"] else "")
    yield "next start", WORDS[shown["recovery"]].status
    marks = [shown["mark"], *shown["prefix_marks"].values()]
    yield "mark", ", ".join(mark for mark in marks if mark is not None) or "-"
    if shown["listed_all"] and not shown["listed_files"]:
        yield "source", "no file matches the pattern"
    yield "backlog", f"{count(shown['backlog_files'], 'file')}, {shown['backlog_bytes']:,} bytes"
    for kind in ("late", "rewritten", "unclear", "held"):
        names = list(shown[f"{kind}_files"])
        if names:
            yield kind, f"{count(len(names), 'file')}: {some(names)}"
    for settled in shown["settles"]:
        yield (
            "quarantine",
            f"gets {count(settled['files'], 'file')} of bad records of sequence {settled['sequence']} first",
        )
    if shown["half_deleted_files"]:
        yield (
            "leftovers",
            f"hidden files of an older run, to be put back or deleted: {some(shown['half_deleted_files'])}",
        )
    if shown["cleans_through"] is not None:
        yield "cleans up", f"source files of the sequences up to {shown['cleans_through']} (after_ingest)"
    if shown["renewal"]:
        yield "renews", "the position is committed once more, without data"
    if not shown["first_batch"]:
        yield "batches", "none: there is nothing to read"


def _status(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        status = table_status(assembly, explain=options.explain)
    output_of(options).result(asdict(status), _status_lines(status, is_filtered=options.source is not None))
    return 0


def _status_lines(status: TableStatus, *, is_filtered: bool) -> Iterator[str]:
    yield f"table {status.table}  version {status.version}  id {status.table_id}"
    if not status.pipelines:
        yield (
            "no pipeline of this table reads this source" if is_filtered else "no pipeline has committed to this table"
        )
    for pipeline in status.pipelines:
        yield ""
        for name, value in _status_rows(pipeline):
            yield f"  {name:<12}{value}"
        for sentence in pipeline.explanation or ():
            yield f"    {sentence}"


def _status_rows(p: PipelineStatus) -> Iterable[tuple[str, str]]:
    yield "pipeline", p.pipeline
    yield "source", f"{p.source}  {p.pattern}"
    yield "sequence", str(p.sequence)
    yield "last commit", f"version {p.delta_version} at {time_text(p.committed_at_ms)} by run {p.run_id}"
    yield "mark", p.mark or "-"
    yield "in progress", ", ".join(f"{path} ({n:,} records)" for path, n in p.in_progress.items()) or "none"
    if p.backlog_files is not None:
        yield "backlog", f"{count(p.backlog_files, 'file')}, {p.backlog_bytes:,} bytes"
        yield "late files", str(p.late_files)
        yield "rewritten", str(p.rewritten_files)
        if p.unclear_files:
            yield (
                "unclear",
                f"{count(p.unclear_files, 'file')}, late or rewritten: the ledgers that would tell are gone",
            )
        if p.held_files:
            yield "held back", f"{count(p.held_files, 'file')}, too young to be read"
    yield "next start", p.recovery_message or WORDS[p.recovery].status


def time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _report(options: argparse.Namespace) -> int:
    from blizzard.report.live import collect_report
    from blizzard.report.page import render_page

    if options.commits < 1:
        raise ConfigError("--commits takes a number of 1 or more", kind=Kind.USAGE)
    with looking(options) as assembly:
        facts = collect_report(assembly, pipeline=options.pipeline, max_commits=options.commits)
        if options.pipeline is not None and not facts.pipelines:
            raise ConfigError(f"no pipeline {options.pipeline!r} has committed to {facts.table}", kind=Kind.USAGE)
        if options.json and options.out is None:
            output_of(options).result(asdict(facts), ())
            return 0
        content = json_text(asdict(facts), indented=True) if options.json else render_page(facts)
        print_line(_write_report(options.out or "report.html", content.encode(), assembly))
    return 0


def _write_report(uri: str, content: bytes, assembly: Assembly) -> str:
    try:
        written = write_output(uri, content, lambda root: assembly.request.access("table", root), what="--out")
    except OSError as e:
        raise ConfigError(f"--out {uri} cannot be written: {e.strerror or e}", kind=Kind.USAGE) from e
    return show_uri(written)


def _files(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        rows = ingested_files(assembly.open_table(), options.pipeline, TerminalProgress().see)
        names = ("path", "from", "to", "framing", "finished", "delta_version", "sequence", "pipeline")
        output_of(options).rows(
            rows,
            ["FILE", "FROM", "TO", "FRAMING", "FINISHED", "VERSION", "SEQUENCE", "PIPELINE"],
            lambda row: [("yes" if row[n] else "no") if n == "finished" else row[n] for n in names],
        )
    return 0
