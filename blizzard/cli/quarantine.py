"""`blizzard dlq …`: shows the records in quarantine, exports, replays, realigns and purges them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of, print_line, say, table_lines
from blizzard.cli.quarantine_arguments import SHOWN_CHARS
from blizzard.core.kinds import Kind, LineKind
from blizzard.core.lists import count
from blizzard.core.log import standings_of
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.operate import quarantined
from blizzard.operate.realign import Realigned, realign
from blizzard.operate.replay import Replayed, replay_request
from blizzard.quarantine import contents
from blizzard.service.progress import TerminalProgress
from blizzard.store.uri import local_path
from blizzard.tasks.quarantine import Selection
from blizzard.text.json import json_text
from blizzard.text.shown import printable


def dispatch(options: argparse.Namespace) -> int:
    match options.action:
        case "list":
            return _list(options)
        case "show":
            return _show(options)
        case "export":
            return _export(options)
        case "replay":
            return _replay(options)
        case "realign":
            return _realign(options)
        case _:
            return _purge(options)


def _selection(options: argparse.Namespace) -> Selection:
    return quarantined.choose(
        pipeline=options.pipeline,
        sequence=options.sequence,
        file=options.file,
        kind=options.kind,
        orphans=getattr(options, "orphans", False),
    )


def _list(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        found = quarantined.count_chosen(assembly, _selection(options), options.target)
    shown = [
        asdict(g) | {"oldest": contents.time_text(g.oldest), "newest": contents.time_text(g.newest)}
        for g in found.groups
    ]
    output_of(options, indented=False).result(
        asdict(found) | {"groups": shown},
        _group_lines(found, of_all=options.target is None) if found.groups else _nothing(options),
    )
    return 0


def _group_lines(found: quarantined.Counted, *, of_all: bool) -> Iterator[str]:
    groups, elsewhere = found.groups, found.of_other_tables
    header = ["PIPELINE", "FILE", "KIND", "RECORDS", "SEQUENCES", "OLDEST", "NEWEST"]
    yield from table_lines(header, [_group_cells(g) for g in groups])
    files = len({(g.pipeline, g.source_file) for g in groups})
    yield ""
    yield f"{count(found.records, 'record')} of {count(files, 'file')}; {found.complete:,} can be exported and replayed"
    unrouted = sum(g.records for g in groups if g.error_kind == LineKind.UNROUTED)
    if unrouted:
        yield f"{unrouted:,} of them are for no target: they are never replayed"
    if elsewhere and not of_all:
        yield f"{elsewhere:,} more of the same quarantine belong to other tables"
    elif elsewhere:
        yield (
            f"{elsewhere:,} of them belong to another table, or to this one under an older id: export those, and read"
            f" the file as a source"
        )


def _group_cells(g: contents.Group) -> list[str]:
    sequences = (
        str(g.first_sequence) if g.first_sequence == g.last_sequence else f"{g.first_sequence}-{g.last_sequence}"
    )
    times = [f"{time:%Y-%m-%d %H:%M:%S}Z" for time in (g.oldest, g.newest)]
    return [g.pipeline, g.source_file, g.error_kind, f"{g.records:,}", sequences, *times]


def _show(options: argparse.Namespace) -> int:
    output, shown = output_of(options, indented=False, verbatim=("raw", "raw_base64")), 0
    with looking(options) as assembly:
        found = contents.records(assembly.quarantine, quarantined.own(assembly, _selection(options), options.target))
        for record in islice(found, options.limit + 1):
            shown += 1
            if shown > options.limit:
                say(f"the first {count(options.limit, 'record')}; more with --limit")
            else:
                output.result(
                    contents.as_json(record), _record_lines(record, limit=None if options.full else SHOWN_CHARS)
                )
    if not shown:
        output.note(*_nothing(options))
    return 0


def _record_lines(record: Mapping[str, Any], *, limit: int | None) -> Iterator[str]:
    place = [record["source_file"]]
    place += [f"line {record['line']}"] if record["line"] is not None else []
    place += [f"byte {record['byte_offset']}"] if record["byte_offset"] is not None else []
    yield ", ".join(place)
    column = f", column {record['column']}" if record["column"] else ""
    yield f"  why     {record['error_kind']}{column}: {record['message']}"
    since = contents.time_text(record["quarantined_at"])
    yield f"  since   {since}, pipeline {record['pipeline']}, sequence {record['sequence']}"
    if record["raw"] is None:
        yield "  line    none: the file could not be read"
        return
    text = printable(record["raw"].decode("utf-8", "backslashreplace"))
    cut = "" if limit is None or len(text) <= limit else f" … ({record['raw_bytes']:,} bytes; --full shows all)"
    lost = "" if record["complete"] else f" … (only the beginning of {record['raw_bytes']:,} bytes was kept)"
    yield f"  line    {text[:limit]}{cut or lost}"


def _export(options: argparse.Namespace) -> int:
    raw = options.format == "raw"
    with looking(options) as assembly:
        quarantine, selection = assembly.quarantine, quarantined.own(assembly, _selection(options), options.target)
        if options.out == "-":
            done = contents.export_records(quarantine, selection, sys.stdout.buffer, raw=raw)
            sys.stdout.buffer.flush()
        else:
            path = local_path(options.out, what="export")
            with contents.new_file(path, overwrite=options.force) as file:
                done = contents.export_records(quarantine, selection, file, raw=raw)
    left = [f"{count(done.cut, 'line')} that had been cut"] if done.cut else []
    left += [f"{count(done.files, 'file')} that could not be read"] if done.files else []
    text = f"{count(done.written, 'record')} written" + (f"; not written: {', '.join(left)}" if left else "")
    # stdout holds the lines and nothing else.
    tell = say if options.out == "-" else print_line
    tell(json_text(asdict(done)) if options.json else text)
    return 0


def _replay(options: argparse.Namespace) -> int:
    progress = TerminalProgress()
    with ingesting(options, progress.see) as assembly:
        opened = assembly.open()
        try:
            done = replay_request(assembly, opened, _selection(options))
        finally:
            progress.close()
    output_of(options, indented=False).result(asdict(done), [_replayed(done, opened.pipeline)])
    return 0


def _replayed(done: Replayed, pipeline: str) -> str:
    if done.replayed:
        again = f"; {done.still_bad:,} failed again and stayed in quarantine" if done.still_bad else ""
        version = f"version {done.delta_version} (sequence {done.sequence})"
        return f"{count(done.replayed, 'record')} appended in {version}{again}{_left(done)}"
    if done.still_bad or done.not_selected:
        return f"nothing appended: {count(done.still_bad, 'record')} failed again{_left(done)}. Nothing was changed."
    if done.unrouted:
        return f"nothing to replay for pipeline {pipeline}{_left(done)}. Nothing was changed."
    return f"nothing to replay for pipeline {pipeline}. See: blizzard dlq list"


def _left(done: Replayed) -> str:
    stay = "stayed in quarantine"
    left_out = f"; {done.not_selected:,} are left out by where or the transform and {stay}"
    nobodys = f"; {done.unrouted:,} for no target {stay}: they are never replayed"
    return (left_out if done.not_selected else "") + (nobodys if done.unrouted else "")


def _realign(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        table = assembly.open_table()
        pipeline = options.pipeline or _only_pipeline(table)
        scan_commits = assembly.config.checkpoint.scan_commits
        done = realign(table, assembly.quarantine, pipeline=pipeline, scan_commits=scan_commits)
    output_of(options, indented=False).result(asdict(done), _realigned(done, pipeline))
    return 0


def _realigned(done: Realigned, pipeline: str) -> Iterator[str]:
    if done.was_in_step:
        yield f"the quarantine is in step with pipeline {pipeline}; nothing was changed"
        return
    yield (
        f"{count(done.orphaned, 'record')} marked as orphans, {count(done.live_again, 'record')} no longer orphans,"
        f" {count(done.added, 'record')} added again. The quarantine is in step with pipeline {pipeline}."
    )
    for lost in done.lost:
        yield f"given up (--accept-quarantine-loss): bad records of {lost}"


def _only_pipeline(table: DeltaRsTable) -> str:
    names = sorted(standings_of(table.scan_back(), table.newest_checkpoint()))
    if len(names) != 1:
        raise ConfigError(f"--pipeline is missing; the table has: {', '.join(names) or 'none'}", kind=Kind.USAGE)
    return names[0]


def _purge(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        deleted = quarantined.purge_chosen(
            assembly,
            _selection(options),
            older_than=options.older_than,
            takes_all=options.all,
            applies=options.yes,
        )
    output_of(options, indented=False).result({"deleted": deleted}, [f"{count(deleted, 'record')} deleted"])
    return 0


def _nothing(options: argparse.Namespace) -> list[str]:
    given = (options.pipeline, options.sequence, options.file, options.kind)
    return ["nothing in quarantine" + (" that fits" if any(given) else "")]
