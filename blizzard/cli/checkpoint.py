"""`blizzard checkpoint …`: positions looked at, kept, moved and changed. Text, or JSON for scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from blizzard.cli.context import job_of, request_of
from blizzard.cli.look import time_text
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.operate import positions
from blizzard.operate.rollback import apply_rollback, prepare_rollback
from blizzard.operate.status import checkpoints, newest_payloads, payload_of
from blizzard.quarantine import contents
from blizzard.run.assemble import Job, SystemClock
from blizzard.service.progress import TerminalProgress
from blizzard.store.uri import local_path
from blizzard.text.printing import print_json, print_json_line, print_line, print_table, write_lines


def dispatch(options: argparse.Namespace) -> int:
    return _ACTIONS[options.action](options)


def _checkpoint_list(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        rows = list(checkpoints(request.open_table(), options.pipeline))
    if options.json:
        for row in rows:
            print_json_line(row)
        return 0
    shown = [
        [
            r["sequence"],
            r["delta_version"],
            time_text(r["committed_at_ms"]),
            *("-" if r[name] is None else f"{r[name]:,}" for name in ("files", "records", "bytes")),
            f"{r['payload_bytes']:,}",
            r["run_id"],
            "taken back" if r["superseded"] else r["kind"] or ("-" if r["in_log"] else "in a Delta checkpoint"),
            r["pipeline"],
        ]
        for r in rows
    ]
    print_table(
        ["SEQUENCE", "VERSION", "TIME", "FILES", "RECORDS", "BYTES", "PAYLOAD", "RUN", "KIND", "PIPELINE"], shown
    )
    return 0


def _checkpoint_show(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        table = request.open_table()
        if options.sequence is None:
            found = newest_payloads(table, options.pipeline)
        else:
            found = payload_of(table, options.pipeline, options.sequence)
        if options.sequence is not None and not found:
            raise ConfigError(
                f"neither the log's JSON commits nor its Delta checkpoint have a position of sequence"
                f" {options.sequence}; see blizzard checkpoint list",
                kind=Kind.CHECKPOINT_NOT_FOUND,
            )
    if options.json:
        print_json(found)
    elif not found:
        print_line("no position in the log's JSON commits, nor in its Delta checkpoint")
    else:
        for payload in found:
            print_json(payload)
    return 0


def _checkpoint_edit(options: argparse.Namespace) -> int:
    with job_of(options) as job:
        table = job.open_table()

        def plan() -> positions.Edit:
            if options.action == "reset":
                return positions.plan_reset(job, table, options.file, options.from_record)
            return positions.plan_skip(job, table, options.file)

        edit = plan()
        if not options.yes:
            raise ConfigError(f"{edit.sentence}. Nothing was changed: add --yes to do it", kind=Kind.NOT_CONFIRMED)
        sequence, version = positions.apply_edit(job, table, edit, plan)
    if options.json:
        print_json({"path": edit.path, "sequence": sequence, "delta_version": version})
    else:
        print_line(f"{edit.sentence}: sequence {sequence}, version {version}")
    return 0


def _checkpoint_export(options: argparse.Namespace) -> int:
    with request_of(options) as request:
        content = positions.export_position(request.open_table(), options.pipeline, sequence=options.sequence)
    if options.out == "-":
        write_lines(sys.stdout, [content.decode().rstrip("\n")])  # as it is: it is to be imported
        return 0
    with contents.new_file(local_path(options.out, what="export"), overwrite=options.force) as file:
        file.write(content)
    print_json({"file": options.out}) if options.json else print_line(f"written to {options.out}")
    return 0


def _checkpoint_import(options: argparse.Namespace) -> int:
    try:
        with open(options.file, "rb") as file:
            content = file.read()
    except OSError as e:
        raise ConfigError(f"{options.file} cannot be read: {e.strerror}", kind=Kind.USAGE) from e
    with request_of(options) as request:
        sequence, version = positions.import_position(
            request.open_for_commit(),
            content,
            quarantine=request.quarantine(TerminalProgress()),
            source_access=request.access("source", positions.exported_source_root(content)),
            replaces=options.replace,
            is_trusted=options.unverified,
        )
    if options.json:
        print_json({"sequence": sequence, "delta_version": version})
    else:
        print_line(f"imported as sequence {sequence}, version {version}")
    return 0


def _checkpoint_rollback(options: argparse.Namespace) -> int:
    with job_of(options) as job:
        return _roll_back(options, job)


def _roll_back(options: argparse.Namespace, job: Job) -> int:
    progress, clock = TerminalProgress(), SystemClock()
    table, listing = job.open_table(), job.source.list()
    scan_commits = job.config.checkpoint.scan_commits
    rollback = prepare_rollback(
        table,
        pipeline=job.pipeline,
        source=job.source.identity,
        to=options.to,
        listing=listing,
        with_schema=options.with_schema,
        scan_commits=scan_commits,
    )
    shown = {
        "pipeline": job.pipeline,
        "to": options.to,
        "superseded": rollback.plan.superseded,
        "records": rollback.plan.records,
        "parquet_files": len(rollback.plan.files),
        "source_files": rollback.plan.source_files,
        "later_columns": rollback.later_columns,
    }
    if options.dry_run or not options.yes:
        _show_rollback(options, shown | {"done": False}, rollback.sentences)
        if options.dry_run:
            return 0
        raise ConfigError("nothing was changed: add --yes to do it", kind=Kind.NOT_CONFIRMED)
    sequence, version = apply_rollback(
        table,
        rollback,
        job.quarantine(progress),
        list_source=job.source.list,
        scan_commits=scan_commits,
        clock=clock,
        progress=progress,
    )
    done = f"done: sequence {sequence}, version {version}"
    _show_rollback(
        options, shown | {"done": True, "sequence": sequence, "delta_version": version}, [*rollback.sentences, done]
    )
    return 0


def _show_rollback(options: argparse.Namespace, shown: dict[str, Any], sentences: list[str]) -> None:
    if options.json:
        print_json(shown)
    else:
        for sentence in sentences:
            print_line(sentence)


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "export": _checkpoint_export,
    "import": _checkpoint_import,
    "list": _checkpoint_list,
    "show": _checkpoint_show,
    "reset": _checkpoint_edit,
    "rollback": _checkpoint_rollback,
    "skip": _checkpoint_edit,
}
