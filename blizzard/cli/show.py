"""The commands that show something and change nothing: plan, status, report, files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from blizzard.cli import several
from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of, print_line, say, table_lines
from blizzard.cli.trial_lines import trial_lines
from blizzard.core.kinds import Kind
from blizzard.core.left_out import LeftOut
from blizzard.core.lists import count, some
from blizzard.core.paths import WORDS
from blizzard.errors import BadData, ConfigError
from blizzard.operate.status import PipelineStatus, TableStatus, ingested_files, table_status
from blizzard.operate.targets import targets_status
from blizzard.run.assemble import Assembly
from blizzard.run.carry_out import preview
from blizzard.run.preview import error_of
from blizzard.run.preview_targets import preview_targets
from blizzard.run.validate import Validation
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
    validation = Validation.asked(validate=options.validate, records=options.records)
    with ingesting(options, TerminalProgress().see, takes_all=True) as assembly:
        slots = assembly.config.spark.slots or os.cpu_count() or 1
        if assembly.config.targets:
            return several.show_plan(
                options, preview_targets(assembly, slots=slots, validation=validation), _plan_lines
            )
        shown = preview(assembly, assembly.open(), slots=slots, validation=validation).shown
    output, error = output_of(options), error_of(shown)
    if error is not None:
        return output.failure(shown, error)
    output.result(shown, _plan_lines(shown))
    stops = shown.get("validation", {}).get("stops")
    if stops is None:
        return 0
    if options.json:
        return BadData.exit_code
    first, *further = stops["error"].split("\n")
    raise BadData(f"a run would stop: {first}", kind=stops["error_kind"], further=further)


def _plan_lines(shown: dict[str, Any]) -> Iterator[str]:
    for name, value in _plan_rows(shown):
        yield f"{name:<12}{value}"
    if shown["first_batch"]:
        yield from ("", "first batch:")
        slices = [[s["slot"], s["path"], s["from_record"], s["size"]] for s in shown["first_batch"]]
        yield from table_lines(["SLOT", "FILE", "FROM", "BYTES"], slices)
    if "validation" in shown:
        yield from ("", "validation of the first batch, without writing:")
        yield from trial_lines(shown["validation"])
        backlog = shown["validation"]["backlog"]
        if backlog is not None:
            yield (
                f"{'backlog':<12}about {backlog['records']:,} records, {backlog['json_bytes'] / 1e6:,.0f} MB of JSON:"
                f" {backlog['seconds']:,} s to parse on {count(backlog['cores'], 'core')}"
            )


def _plan_rows(shown: dict[str, Any]) -> Iterable[tuple[str, str]]:
    yield "pipeline", shown["pipeline"]
    yield "table", shown["table"] + (" (to be created)" if shown["creates_table"] else "")
    yield "source", f"{shown['source']}  {shown['pattern']}"
    if shown["filters"]:
        yield "filters", ", ".join(f"{key} {value}" for key, value in shown["filters"].items())
    yield "next start", WORDS[shown["recovery"]].status
    if shown["paused"] is not None:
        yield "paused", _paused_text(**shown["paused"])
        yield "", "the next run reads nothing; below is what the first run after the resume would do"
    marks = [shown["mark"], *shown["prefix_marks"].values()]
    yield "mark", ", ".join(mark for mark in marks if mark is not None) or "-"
    if shown["listed_all"] and not shown["listed_files"]:
        yield "listed", "no file matches the pattern"
    yield "backlog", f"{count(shown['backlog_files'], 'file')}, {shown['backlog_bytes']:,} bytes"
    yield from left_out_rows(shown["unmatched_by_suffix"], shown["filtered_files"])
    for kind in ("late", "rewritten", "unclear", "held"):
        names = list(shown[f"{kind}_files"])
        if names:
            yield kind, f"{count(len(names), 'file')}: {some(names)}"
    if shown["missed_files"]:
        missed = f"{count(len(shown['missed_files']), 'file')}: {some(shown['missed_files'])}"
        yield "missed", f"gone from the source, read by other targets, to be named as skipped: {missed}"
    if shown["held_back"]:
        yield "held back", f"by the last run, to be tried again: {_with_reasons(shown['held_back'])}"
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


def left_out_rows(by_suffix: Mapping[str, int], filtered: int) -> Iterable[tuple[str, str]]:
    left_out = LeftOut(by_suffix=by_suffix, filtered=filtered)
    if by_suffix:
        yield "not read", left_out.sentence
    if filtered:
        yield "left out", f"{count(filtered, 'file')}, by source.ignore or by the time of the last change"


def _status(options: argparse.Namespace) -> int:
    is_filtered = options.source is not None
    with looking(options, takes_all=True) as assembly:
        if assembly.config.targets:
            found = targets_status(assembly, explain=options.explain)
            return several.show_status(options, found, lambda status: _status_lines(status, is_filtered=is_filtered))
        status = table_status(assembly, explain=options.explain)
    output_of(options).result(asdict(status), _status_lines(status, is_filtered=is_filtered))
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
    if p.filters:
        yield "filters", ", ".join(f"{key} {value}" for key, value in p.filters.items())
    if p.start_from is not None:
        yield "began", p.start_from
    if p.paused is not None:
        yield "paused", _paused_text(p.paused.at_ms, p.paused.reason)
    yield "sequence", str(p.sequence)
    yield "last commit", f"version {p.delta_version} at {time_text(p.committed_at_ms)} by run {p.run_id}"
    yield "mark", p.mark or "-"
    begun = {path: n for path, n in p.in_progress.items() if n or path not in p.held_back}
    yield "in progress", ", ".join(f"{path} ({count(n, 'record')})" for path, n in begun.items()) or "none"
    if p.held_back:
        yield "held back", _with_reasons(p.held_back)
    if p.backlog_files is not None:
        yield "backlog", f"{count(p.backlog_files, 'file')}, {p.backlog_bytes:,} bytes"
        yield "late files", str(p.late_files)
        yield "rewritten", str(p.rewritten_files)
        if p.unclear_files:
            yield (
                "unclear",
                f"{count(p.unclear_files, 'file')}, late or rewritten: the ledgers that would tell are gone",
            )
        yield from left_out_rows(p.unmatched_by_suffix or {}, p.filtered_files or 0)
        if p.held_files:
            yield "too young", f"{count(p.held_files, 'file')}, held back for a later run"
    if p.mirror is not None:
        yield "mirror", f"{p.mirror.mirror} {p.mirror.sentence}"
    yield "next start", p.recovery_message or _next_start(p)


def _next_start(p: PipelineStatus) -> str:
    status = WORDS[p.recovery].status
    return status if p.paused is None else f"{status}, and reads nothing: the pipeline is paused"


def _paused_text(at_ms: int, reason: str | None) -> str:
    why = "" if reason is None else f": {reason}"
    return f"since {time_text(at_ms)}{why} (blizzard resume lets it go on)"


def _with_reasons(held: Mapping[str, str]) -> str:
    return some([f"{path} ({why})" for path, why in held.items()])


def time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _report(options: argparse.Namespace) -> int:
    from blizzard.report.facts import ReportFacts, TargetsFacts
    from blizzard.report.live import collect_report
    from blizzard.report.page import render_page
    from blizzard.report.targets import collect_targets

    if options.commits < 1:
        raise ConfigError("--commits takes a number of 1 or more", kind=Kind.USAGE)
    with looking(options, takes_all=True) as assembly:
        facts: ReportFacts | TargetsFacts
        if assembly.config.targets:
            facts = collect_targets(assembly, pipeline=options.pipeline, max_commits=options.commits)
            tables = [target.facts for target in facts.targets.values() if target.facts is not None]
            code = several.worst(target.exit_code for target in facts.targets.values())
        else:
            facts, code = collect_report(assembly, pipeline=options.pipeline, max_commits=options.commits), 0
            tables = [facts]
        if options.pipeline is not None and not any(table.pipelines for table in tables):
            where = " or ".join(table.table for table in tables)
            raise ConfigError(f"no pipeline {options.pipeline!r} has committed to {where}", kind=Kind.USAGE)
        if options.json and options.out is None:
            output_of(options).result(asdict(facts), ())
            return code
        content = json_text(asdict(facts), indented=True) if options.json else render_page(facts)
        print_line(_write_report(options.out or "report.html", content.encode(), assembly))
    if code:
        say("blizzard: the report says why one of the targets could not be looked at")
    return code


def _write_report(uri: str, content: bytes, assembly: Assembly) -> str:
    try:
        written = write_output(uri, content, lambda root: assembly.request.access("table", root), what="--out")
    except OSError as e:
        raise ConfigError(f"--out {uri} cannot be written: {e.strerror or e}", kind=Kind.USAGE) from e
    return show_uri(written)


_FILE_COLUMNS = ["FILE", "FROM", "TO", "FRAMING", "FINISHED", "VERSION", "SEQUENCE", "PIPELINE"]


def _files(options: argparse.Namespace) -> int:
    with looking(options, TerminalProgress().see, takes_all=True) as assembly:
        if assembly.config.targets:
            return several.show_parts(options, several.look_at_each(assembly, lambda one: _files_of(one, options)))
        rows = ingested_files(assembly.open_table(), options.pipeline, assembly.emit)
        output_of(options).rows(rows, _FILE_COLUMNS, _file_cells)
    return 0


def _files_of(target: Assembly, options: argparse.Namespace) -> several.Part:
    rows = list(ingested_files(target.open_table(), options.pipeline, target.emit))
    return several.Part(
        value=rows, lines=[] if options.json else table_lines(_FILE_COLUMNS, list(map(_file_cells, rows)))
    )


def _file_cells(row: Mapping[str, Any]) -> list[Any]:
    names = ("path", "from", "to", "framing", "finished", "delta_version", "sequence", "pipeline")
    return [("yes" if row[n] else "no") if n == "finished" else row[n] for n in names]
