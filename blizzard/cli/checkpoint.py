"""`blizzard checkpoint …`: shows, exports, imports and changes positions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of, print_file
from blizzard.cli.show import time_text
from blizzard.config.file import split_name
from blizzard.core.choose import Change, names_of, refuse_change
from blizzard.core.kinds import Kind
from blizzard.core.patterns import word_for
from blizzard.core.refuse import describe_source, filters_shown
from blizzard.errors import ConfigError, Refused
from blizzard.operate import positions, transfer
from blizzard.operate.choose import apply_choice, plan_choice
from blizzard.operate.from_mirror import read_export, require_newest
from blizzard.operate.rollback import roll_back
from blizzard.operate.status import checkpoints, newest_payloads, payload_of
from blizzard.quarantine import contents
from blizzard.service.progress import TerminalProgress
from blizzard.store.uri import local_path
from blizzard.text.json import json_text

_COLUMNS = ["SEQUENCE", "VERSION", "TIME", "FILES", "RECORDS", "BYTES", "PAYLOAD", "RUN", "KIND", "PIPELINE"]


def dispatch(options: argparse.Namespace) -> int:
    return _ACTIONS[options.action](options)


def _list(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        output_of(options).rows(checkpoints(assembly.open_table(), options.pipeline), _COLUMNS, _cells)
    return 0


def _cells(row: Mapping[str, Any]) -> list[Any]:
    where = "-" if row["in_log"] else "in a Delta checkpoint"
    return [
        row["sequence"],
        row["delta_version"],
        time_text(row["committed_at_ms"]),
        *("-" if row[name] is None else f"{row[name]:,}" for name in ("files", "records", "bytes")),
        f"{row['payload_bytes']:,}",
        row["run_id"],
        "taken back" if row["superseded"] else row["kind"] or where,
        row["pipeline"],
    ]


def _show(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        table = assembly.open_table()
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
    nothing = ["no position in the log's JSON commits, nor in its Delta checkpoint"]
    lines = [line for payload in found for line in json_text(payload, indented=True).split("\n")]
    output_of(options).result(found, lines or nothing)
    return 0


def _edit(options: argparse.Namespace) -> int:
    with ingesting(options, TerminalProgress().see) as assembly:
        table = assembly.open_for_commit()

        def plan() -> positions.Edit:
            if options.action == "reset":
                return positions.plan_reset(assembly, table, options.file, options.from_record)
            return positions.plan_skip(assembly, table, options.file)

        edit = plan()
        if not options.yes:
            raise ConfigError(f"{edit.sentence}. Nothing was changed: add --yes to do it", kind=Kind.NOT_CONFIRMED)
        sequence, version = positions.apply_edit(assembly, table, edit, plan)
    output_of(options).result(
        {"path": edit.path, "sequence": sequence, "delta_version": version},
        [f"{edit.sentence}: sequence {sequence}, version {version}"],
    )
    return 0


def _choose(options: argparse.Namespace) -> int:
    with ingesting(options, TerminalProgress().see) as assembly:
        table, output = assembly.open_for_commit(), output_of(options)

        def plan() -> Change:
            return plan_choice(assembly, table)

        change = plan()
        shown = _shown_choice(change, options.below)
        if not change.changes_anything:
            done = f"pipeline {change.before.pipeline} reads {describe_source(change.source)} already"
            output.result(shown | {"done": False}, [done])
            return 0
        refusal = refuse_change(change, options.below)
        if refusal is not None:
            raise Refused(refusal.message, kind=refusal.kind)
        if not options.yes:
            output.result(shown | {"done": False}, change.sentences)
            raise ConfigError("nothing was changed: add --yes to do it", kind=Kind.NOT_CONFIRMED)
        sequence, version = apply_choice(assembly, table, change, options.below, plan)
    done = f"done: sequence {sequence}, version {version}"
    output.result(shown | {"done": True, "sequence": sequence, "delta_version": version}, [*change.sentences, done])
    return 0


def _shown_choice(change: Change, below: str | None) -> dict[str, Any]:
    return {
        "pipeline": change.before.pipeline,
        "source": change.source.root,
        "pattern": word_for(change.source.pattern),
        "filters": filters_shown(change.source),
        "start_from": change.begun.start_from,
        "below": below,
        "below_files": names_of(change.passed),
        "known_files": change.known,
        "ahead_files": change.ahead,
        "no_longer_chosen_files": change.unread,
    }


def _export(options: argparse.Namespace) -> int:
    if options.pipeline is None:
        raise ConfigError("--pipeline is missing: name the pipeline to export", kind=Kind.USAGE)
    with looking(options) as assembly:
        content = transfer.export_position(assembly.open_table(), options.pipeline, sequence=options.sequence)
    if options.out == "-":
        print_file(content.decode())
        return 0
    with contents.new_file(local_path(options.out, what="export"), overwrite=options.force) as file:
        file.write(content)
    output_of(options).result({"file": options.out}, [f"written to {options.out}"])
    return 0


def _import(options: argparse.Namespace) -> int:
    by_config = split_name(options.config)[1] if options.config is not None else None
    pipeline = options.pipeline if options.pipeline != by_config else None
    of_mirror = (options.sequence, pipeline, options.table_id)
    if options.file is not None and any(given is not None for given in of_mirror):
        raise ConfigError("--sequence, --pipeline and --table-id go with --from-mirror", kind=Kind.USAGE)
    content = None if options.file is None else _read(options.file)
    with looking(options, TerminalProgress().see) as assembly:
        table = assembly.open_for_commit()
        if content is None:
            content = read_export(
                assembly,
                table,
                uri=options.from_mirror,
                pipeline=options.pipeline,
                table_id=options.table_id,
                sequence=options.sequence,
            )
            if options.unverified and options.sequence is None:
                require_newest(table, content)
        sequence, version = transfer.import_position(
            table,
            content,
            quarantine=assembly.quarantine,
            source_access=assembly.request.access("source", transfer.exported_source_root(content)),
            replaces=options.replace,
            is_trusted=options.unverified,
            reads_again=options.reads_again,
            emit=assembly.emit,
            mirror=assembly.mirror,
        )
    output_of(options).result(
        {"sequence": sequence, "delta_version": version}, [f"imported as sequence {sequence}, version {version}"]
    )
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}", kind=Kind.USAGE) from e


def _rollback(options: argparse.Namespace) -> int:
    applies = options.yes and not options.dry_run
    with ingesting(options, TerminalProgress().see) as assembly:
        found = roll_back(assembly, to=options.to, with_schema=options.with_schema, applies=applies)
    done = [f"done: sequence {found.sequence}, version {found.delta_version}"] if found.done else []
    output_of(options).result(found.to_dict(), [*found.sentences, *done])
    if not found.done and not options.dry_run:
        raise ConfigError("nothing was changed: add --yes to do it", kind=Kind.NOT_CONFIRMED)
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "choose": _choose,
    "export": _export,
    "import": _import,
    "list": _list,
    "show": _show,
    "reset": _edit,
    "rollback": _rollback,
    "skip": _edit,
}
