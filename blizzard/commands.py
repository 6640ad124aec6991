"""The commands that look and change nothing: plan, status, checkpoint show, files, schema.

Text, or JSON for scripts. What there is to say about a result goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import orjson

from blizzard import api
from blizzard.cli import job_of
from blizzard.config import Config, load_config
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BadData, ConfigError, Refused, SchemaError
from blizzard.inferring import InferredSchema, infer_from_source
from blizzard.inspection import PipelineStatus, TableStatus, ingested_files
from blizzard.job import open_existing, open_for_commit, source_location, with_table_path
from blizzard.progress import TerminalProgress
from blizzard.schema.fit import schema_differences
from blizzard.schema.layout import layout_of
from blizzard.schema.load import load_schema
from blizzard.session import LazySession
from blizzard.source.listing import list_source
from blizzard.store import open_store
from blizzard.store.uri import locate, show_uri


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
            from blizzard import checkpoint_commands

            return checkpoint_commands.dispatch(options)
        case "schema":
            return _schema_infer(options) if options.action == "infer" else _schema_diff(options)
        case _:
            return _files(options)


def config_of(options: argparse.Namespace, **flags: Any) -> Config:
    """The configuration of a command over a table: how to get to it."""
    given = {"table.path": options.table} | flags
    return load_config(file=options.config, assignments=tuple(options.assignments), flags=given)


def open_table(options: argparse.Namespace) -> DeltaRsTable:
    return open_existing(config_of(options))


@contextmanager
def table_for_commit(options: argparse.Namespace) -> Iterator[tuple[Config, DeltaRsTable]]:
    """The table as the chosen committer opens it."""
    config = config_of(options, **{"table.committer": options.committer})
    session = LazySession(config.spark_conf, with_delta=config["table.committer"] == "delta-spark")
    try:
        config = with_table_path(config, session.get)
        yield config, open_for_commit(config, session.get)
    finally:
        session.stop()


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    print_line(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _plan(options: argparse.Namespace) -> int:
    with job_of(options) as job:
        slots = job.config["spark.slots"] or os.cpu_count() or 1
        shown = api.preview(job, slots=slots, progress=TerminalProgress())
    if options.json:
        print_json(shown)
        return Refused.exit_code if "error" in shown else 0
    if "error" in shown:
        raise Refused(shown["error"], kind=shown["error_kind"])
    print_line(f"pipeline  {shown['pipeline']}")
    print_line(f"table     {shown['table']}{' (to be created)' if shown['creates_table'] else ''}")
    print_line(f"recovery  {shown['recovery']}")
    print_line(f"mark      {shown['mark'] or '-'}")
    print_line(f"backlog   {shown['backlog_files']:,} files, {shown['backlog_bytes']:,} bytes")
    if shown["first_batch"]:
        print_line("\nfirst batch:")
        print_table(
            ["SLOT", "FILE", "FROM", "BYTES"],
            [[s["slot"], s["path"], s["from_record"], s["size"]] for s in shown["first_batch"]],
        )
    return 0


def _status(options: argparse.Namespace) -> int:
    given = {"source.path": options.source, "source.pattern": options.pattern}
    status = api.table_status(config_of(options, **given), explain=options.explain)
    if options.json:
        print_json(asdict(status))
    else:
        _show_status(status)
    return 0


def _show_status(status: TableStatus) -> None:
    print_line(f"table {status.table}  version {status.version}  id {status.table_id}")
    if not status.pipelines:
        print_line("no pipeline has committed to it")
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
    yield "a start", _STARTS.get(p.recovery, p.recovery_message or p.recovery)


def time_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _report(options: argparse.Namespace) -> int:
    from blizzard.report.page import render_page
    from blizzard.reporting import collect_report

    if options.commits < 1:
        raise ConfigError("--commits takes a number from 1 on", kind="usage")
    config = config_of(options)
    facts = collect_report(config, pipeline=options.pipeline, max_commits=options.commits)
    if options.pipeline is not None and not facts.pipelines:
        raise ConfigError(f"no pipeline {options.pipeline!r} has committed to {facts.table}", kind="usage")
    if options.json and options.out is None:
        print_json(asdict(facts))
        return 0
    content = orjson.dumps(asdict(facts)) if options.json else render_page(facts).encode()
    written = write_whole(options.out or "report.html", content, config, what="--out")
    print_line(written)
    return 0


def write_whole(uri: str, content: bytes, config: Config, *, what: str) -> str:
    """By rename, so that nobody reads half of it; an object store never shows half of one."""
    folder, name = locate(uri, what=what).rsplit("/", 1)
    try:
        open_store(folder or "/", config.access("table", folder or "/")).put(name, content)
    except OSError as e:
        raise ConfigError(f"{what} {uri} cannot be written: {e.strerror or e}", kind="usage") from e
    return show_uri(f"{folder}/{name}")


def _doctor(options: argparse.Namespace) -> int:
    from blizzard.doctor import examine

    config = config_of(options, **{"table.committer": options.committer})
    findings = examine(config, with_table=config["table.path"] is not None)
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print_line(f"{finding.verdict:<8} {finding.about:<12} {finding.text}")
    return Refused.exit_code if any(f.verdict == "problem" for f in findings) else 0


_AUDIT_WORDS = {
    "waiting": "wait for the next run",
    "never_ingested": "were never ingested, although the mark has passed them (late)",
    "unclear": "have been passed by the mark, and the ledgers that would know them are gone",
    "twice": "were ingested twice, at least in part",
    "rewritten": "have changed since they were ingested",
    "gone": "were ingested and are no longer in the source",
    "rows_missing": "were ingested, and the table has no row of them",
    "rows_unknown": "have rows in the table, and no ledger knows them",
}


def _audit(options: argparse.Namespace) -> int:
    from blizzard.auditing import audit_job

    with job_of(options) as job:
        found = audit_job(job, counts_rows=not options.no_rows)
    problems = found.problems
    if options.json:
        print_json(asdict(found) | {"ok": not problems})
    else:
        print_line(f"{found.listed:,} files listed, {found.ingested:,} of them ingested as they are")
        for name, words in _AUDIT_WORDS.items():
            names = getattr(found, name)
            if names:
                print_line(f"{len(names):,} {words}: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}")
        print_line("nothing is wrong" if not problems else f"{len(problems)} kinds of trouble")
    return BadData.exit_code if problems and options.check else 0


def _vacuum_orphans(options: argparse.Namespace) -> int:
    from blizzard import dlq, orphans

    config = config_of(options)
    root = dlq.quarantine_root(table=config["table.path"], quarantine=options.quarantine)
    access = config.access("table", root)
    found = orphans.find_orphans(open_existing(config), root, dlq.parse_age(options.older_than), access)
    deleted = orphans.delete_orphans(found, access) if options.yes else 0
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
    rows = ingested_files(open_table(options), options.pipeline)
    if options.json:
        for row in rows:
            print_line(orjson.dumps(row).decode())
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


def _infer(options: argparse.Namespace) -> InferredSchema:
    flags = {
        "source.path": options.source,
        "source.pattern": options.pattern,
        "schema.hints": options.hints,
        "schema.sample_records": options.sample_records,
        "schema.sample_files": options.sample_files,
    }
    config = load_config(file=options.config, assignments=tuple(options.assignments), flags=flags)
    location = source_location(config)
    inferred = infer_from_source(location, list_source(location), config, TerminalProgress())
    if inferred is None:
        raise SchemaError(f"there is no record in {location.root} ({location.pattern})", kind="no_records")
    return inferred


def _schema_infer(options: argparse.Namespace) -> int:
    inferred = _infer(options)
    if options.json:
        print_json(inferred.to_dict())
    else:
        print_line(inferred.ddl)
    return 0


def _schema_diff(options: argparse.Namespace) -> int:
    of_a_sample = (options.pattern, options.hints, options.sample_records, options.sample_files)
    if options.schema is not None and any(option is not None for option in of_a_sample):
        raise ConfigError("--pattern, --hints and --sample-* go with --source, not with --schema", kind="usage")
    opened = open_table(options)
    table = layout_of(opened.schema, opened.partition_columns).record_schema  # the others are not read from records
    if options.schema is not None:
        differences = schema_differences(load_schema(options.schema), table)
    else:
        differences = schema_differences(_infer(options).schema, table, called="inferred")
    if options.json:
        print_json({"same": not differences, "differences": differences})
        return 0
    count = len(differences)
    print_line("\n".join([f"{count} difference{'s' if count > 1 else ''}" if count else "same", *differences]))
    return 0


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [list(header), *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
