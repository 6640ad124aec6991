"""The commands that look and change nothing: plan, status, checkpoint show, files, schema.

Text, or JSON for scripts. What there is to say about a result goes to stderr.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from blizzard import api
from blizzard.cli.context import job_of, request_of
from blizzard.config.request import Request
from blizzard.core.kinds import Kind
from blizzard.errors import BadData, ConfigError, Refused, SchemaError
from blizzard.operate.status import PipelineStatus, TableStatus, ingested_files
from blizzard.run.infer import InferredSchema, infer_from_source
from blizzard.schema.fit import schema_differences
from blizzard.schema.layout import layout_of
from blizzard.schema.load import load_schema
from blizzard.service.progress import TerminalProgress
from blizzard.source.listing import list_source
from blizzard.store.outputs import write_output
from blizzard.store.uri import show_uri
from blizzard.text.printing import json_text, print_json, print_json_line, print_line, print_table


def dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "plan":
            return _plan(options)
        case "status":
            return _status(options)
        case "report":
            return _report(options)
        case "vacuum-orphans":
            return _vacuum_orphans(options)
        case "doctor":
            return _doctor(options)
        case "audit":
            return _audit(options)
        case "checkpoint":
            from blizzard.cli import checkpoint

            return checkpoint.dispatch(options)
        case "schema":
            return _schema_infer(options) if options.action == "infer" else _schema_diff(options)
        case _:
            return _files(options)


def _plan(options: argparse.Namespace) -> int:
    with job_of(options) as job:
        slots = job.config.spark.slots or os.cpu_count() or 1
        shown = api.preview(job, slots=slots, progress=TerminalProgress())
    code = shown.get("exit_code", 0)
    if options.json:
        print_json(shown)
        return int(code)
    if code:
        raise (BadData if code == BadData.exit_code else Refused)(shown["error"], kind=shown["error_kind"])
    for name, value in _plan_rows(shown):
        print_line(f"{name:<10}{value}")
    if shown["first_batch"]:
        print_line("", "first batch:")
        print_table(
            ["SLOT", "FILE", "FROM", "BYTES"],
            [[s["slot"], s["path"], s["from_record"], s["size"]] for s in shown["first_batch"]],
        )
    return 0


def _plan_rows(shown: dict[str, Any]) -> Iterable[tuple[str, str]]:
    yield "pipeline", shown["pipeline"]
    yield "table", shown["table"] + (" (to be created)" if shown["creates_table"] else "")
    yield "recovery", shown["recovery"]
    marks = [shown["mark"], *shown["prefix_marks"].values()]
    yield "mark", ", ".join(mark for mark in marks if mark is not None) or "-"
    if shown["listed_all"] and not shown["listed_files"]:
        yield "source", "no file matches the pattern"
    yield "backlog", f"{shown['backlog_files']:,} files, {shown['backlog_bytes']:,} bytes"
    for kind in ("late", "rewritten", "unclear", "held"):
        names = list(shown[f"{kind}_files"])
        if names:
            yield kind, f"{len(names):,} files: {some_names(names)}"
    for settled in shown["settles"]:
        yield "settles", f"{settled['files']} files of bad records of sequence {settled['sequence']}"
    if shown["half_deleted_files"]:
        yield "puts back", f"or deletes, what a run has left hidden: {some_names(shown['half_deleted_files'])}"
    if shown["cleans_through"] is not None:
        yield "cleans", f"source files of the sequences up to {shown['cleans_through']} (after_ingest)"
    if shown["renewal"]:
        yield "renews", "the position is committed once more, without data"
    if not shown["first_batch"]:
        yield "batches", "none: there is nothing to read"


def some_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _status(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        status = api.table_status(request, explain=options.explain)
    if options.json:
        print_json(asdict(status))
    else:
        _show_status(status, is_filtered=options.source is not None)
    return 0


def _show_status(status: TableStatus, *, is_filtered: bool) -> None:
    print_line(f"table {status.table}  version {status.version}  id {status.table_id}")
    if not status.pipelines:
        print_line("no pipeline of it reads this source" if is_filtered else "no pipeline has committed to it")
    for pipeline in status.pipelines:
        print_line("")
        for name, value in _status_rows(pipeline):
            print_line(f"  {name:<12}{value}")
        for sentence in pipeline.explanation or ():
            print_line(f"    {sentence}")


_STARTS = {
    "log": "resumes from the log",
    "ledgers": "resumes from an older checkpoint and the ledgers since: the newest payload is damaged",
    "delta_checkpoint": "resumes from a Delta checkpoint: the commit itself is gone from the log",
}


def _status_rows(p: PipelineStatus) -> Iterable[tuple[str, str]]:
    yield "pipeline", p.pipeline
    yield "source", f"{p.source}  {p.pattern}"
    yield "sequence", str(p.sequence)
    yield "last commit", f"version {p.delta_version} at {time_text(p.committed_at_ms)} by run {p.run_id}"
    yield "mark", p.mark or "-"
    yield "in progress", ", ".join(f"{path} ({n:,} records)" for path, n in p.in_progress.items()) or "none"
    if p.backlog_files is not None:
        yield "backlog", f"{p.backlog_files:,} files, {p.backlog_bytes:,} bytes"
        yield "late files", str(p.late_files)
        yield "rewritten", str(p.rewritten_files)
        if p.unclear_files:
            yield "unclear", f"{p.unclear_files} files are late or rewritten: the ledgers that would say which are gone"
        if p.held_files:
            yield "held back", f"{p.held_files} files are too young to be read"
    yield "a start", _STARTS.get(p.recovery, p.recovery_message or p.recovery)


def time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _report(options: argparse.Namespace) -> int:
    from blizzard.report.live import collect_report
    from blizzard.report.page import render_page

    if options.commits < 1:
        raise ConfigError("--commits takes a number from 1 on", kind=Kind.USAGE)
    with request_of(options) as request:
        facts = collect_report(request, pipeline=options.pipeline, max_commits=options.commits)
        if options.pipeline is not None and not facts.pipelines:
            raise ConfigError(f"no pipeline {options.pipeline!r} has committed to {facts.table}", kind=Kind.USAGE)
        if options.json and options.out is None:
            print_json(asdict(facts))
            return 0
        content = json_text(asdict(facts)) if options.json else render_page(facts)
        print_line(_write_report(options.out or "report.html", content.encode(), request))
    return 0


def _write_report(uri: str, content: bytes, request: Request) -> str:
    try:
        return show_uri(write_output(uri, content, lambda folder: request.access("table", folder), what="--out"))
    except OSError as e:
        raise ConfigError(f"--out {uri} cannot be written: {e.strerror or e}", kind=Kind.USAGE) from e


def _doctor(options: argparse.Namespace) -> int:
    from blizzard.operate.doctor import examine

    with request_of(options) as request:
        findings = examine(request.config, with_table=request.config.table.path is not None)
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print_line(f"{finding.verdict:<8} {finding.about:<12} {finding.text}")
    return Refused.exit_code if any(f.verdict == "problem" for f in findings) else 0


_AUDIT_WORDS = {
    "waiting": "wait for the next run",
    "partial": "of those are in progress: some of their lines are committed",
    "held": "of those are held back",
    "unreadable": "of those cannot be read, for a reason that stays",
    "broken": "were given up before their end: see blizzard dlq list",
    "unfinished": "are done with by the position, and their ledger says that they were not read to the end",
    "skipped": "were left out by a person (checkpoint skip)",
    "never_ingested": "were never ingested, although the mark has passed them (late)",
    "unclear": "have been passed by the mark, and the ledgers that would know them are gone",
    "taken_over": "are done with by the position that was taken over; no ledger of this table knows them",
    "in_rows": "have rows in the table; the ledgers that would know more are gone",
    "twice": "were ingested twice, at least in part",
    "read_by_others": "were ingested by another pipeline of this table too, at least in part",
    "rewritten": "have changed since they were ingested",
    "gone": "were ingested and are no longer in the source",
    "rows_missing": "were ingested, and the table has no row of them",
    "rows_unknown": "have rows in the table, and no ledger knows them",
    "quarantine_missing": "commits had bad records that the quarantine lacks; their sequences",
    "quarantine_unknown": "sequences have bad records in the quarantine, and no commit stands behind them",
}


def _audit(options: argparse.Namespace) -> int:
    from blizzard.operate.audit import audit_job

    with job_of(options) as job:
        found = audit_job(job, counts_rows=not options.no_rows)
    problems = found.problems
    if options.json:
        print_json(asdict(found) | {"ok": not problems, "problems": list(problems)})
        return BadData.exit_code if problems and options.check else 0
    print_line(f"{found.listed:,} files listed, {found.ingested:,} of them ingested whole and as they are")
    for name, words in _AUDIT_WORDS.items():
        names = [str(item) for item in getattr(found, name)]
        if names:
            print_line(f"{'!' if name in problems else ' '} {len(names):,} {words}: {some_names(names)}")
    others = sorted({other for pipelines in found.read_by_others.values() for other in pipelines})
    if others:
        print_line(f"  the other pipelines: {', '.join(others)}")
    if found.bad_records or found.quarantined:
        print_line(f"  {found.bad_records:,} records were bad; the quarantine holds {found.quarantined or 0:,} rows")
    print_line("nothing is wrong" if not problems else f"{len(problems)} kinds of trouble, marked with !")
    return BadData.exit_code if problems and options.check else 0


def _vacuum_orphans(options: argparse.Namespace) -> int:
    from blizzard.operate import orphans
    from blizzard.quarantine import contents

    with request_of(options) as request:
        age = contents.parse_age(options.older_than)
        found = orphans.find_orphans(
            request.open_table(),
            request.quarantine_root,
            age,
            request.table_access,
            quarantine_access=request.quarantine_access,
        )
        deleted = orphans.delete_orphans(found, lambda folder: request.access("table", folder)) if options.yes else 0
    size = sum(orphan.size_bytes for orphan in found)
    if options.json:
        print_json({"files": [asdict(o) for o in found], "bytes": size, "deleted": deleted})
        return 0
    for orphan in found:
        print_line(f"{orphan.path}  {orphan.size_bytes:,} bytes  {orphan.age_s / 86_400:.0f} days")
    print_line(
        f"{len(found)} orphans, {size:,} bytes; " + (f"{deleted} deleted" if options.yes else "none deleted (--yes)")
    )
    return 0


def _files(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        rows = ingested_files(request.open_table(), options.pipeline, TerminalProgress().note)
    if options.json:
        for row in rows:
            print_json_line(row)
        return 0
    print_table(
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


def _infer(request: Request) -> InferredSchema:
    location = request.source_location()
    inferred = infer_from_source(location, list_source(location), request.config, TerminalProgress())
    if inferred is None:
        raise SchemaError(f"there is no record in {location.root} ({location.pattern})", kind=Kind.NO_RECORDS)
    return inferred


def _schema_infer(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        inferred = _infer(request)
    if options.json:
        print_json(inferred.to_dict())
    else:
        print_line(inferred.ddl)
    return 0


def _schema_diff(options: argparse.Namespace) -> int:
    of_a_sample = (options.pattern, options.hints, options.sample_records, options.sample_files)
    if options.compared is not None and any(option is not None for option in of_a_sample):
        raise ConfigError("--pattern, --hints and --sample-* go with --source, not with --schema", kind=Kind.USAGE)
    with request_of(options) as request:
        if options.compared is None and request.config.source.path is None:
            raise ConfigError("--source or --schema is missing (key source.path)", kind=Kind.USAGE)
        opened = request.open_table()
        # Other columns are not read from records.
        table = layout_of(opened.schema, opened.partition_columns).record_schema
        if options.compared is not None:
            differences = schema_differences(load_schema(options.compared), table)
        else:
            differences = schema_differences(_infer(request).schema, table, called="inferred")
    if options.json:
        print_json({"same": not differences, "differences": differences})
        return 0
    count = len(differences)
    print_line(f"{count} difference{'s' if count > 1 else ''}" if count else "same", *differences)
    return 0
