"""`blizzard dlq …`: shows the records in quarantine, exports, replays, realigns and purges them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from blizzard.cli.context import ingesting, looking
from blizzard.cli.output import output_of, print_line, say, table_lines
from blizzard.cli.quarantine_arguments import SHOWN_CHARS
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.core.log import standings_of
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.operate.realign import Realigned, realign
from blizzard.operate.replay import Replayed, replay_request
from blizzard.quarantine import contents
from blizzard.run.assemble import Assembly
from blizzard.service.progress import TerminalProgress
from blizzard.store.uri import local_path, show_uri
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
    return Selection(
        pipeline=options.pipeline,
        source_file=options.file,
        error_kind=options.kind,
        from_sequence=options.sequence,
        through_sequence=options.sequence,
        orphaned=getattr(options, "orphans", False),
    )


def _list(options: argparse.Namespace) -> int:
    with looking(options) as assembly:
        quarantine = assembly.quarantine
        groups = contents.count_groups(quarantine, _selection(options))
        elsewhere = contents.count_of_others(quarantine, _selection(options), _own_id(assembly))
    records, complete = sum(g.records for g in groups), sum(g.complete for g in groups)
    shown = [
        asdict(g) | {"oldest": contents.time_text(g.oldest), "newest": contents.time_text(g.newest)} for g in groups
    ]
    output_of(options, indented=False).result(
        {
            "quarantine": show_uri(quarantine.root),
            "records": records,
            "complete": complete,
            "of_other_tables": elsewhere,
            "groups": shown,
        },
        _group_lines(groups, records, complete, elsewhere) if groups else _nothing(options),
    )
    return 0


def _group_lines(groups: list[contents.Group], records: int, complete: int, elsewhere: int) -> Iterator[str]:
    header = ["PIPELINE", "FILE", "KIND", "RECORDS", "SEQUENCES", "OLDEST", "NEWEST"]
    yield from table_lines(header, [_group_cells(g) for g in groups])
    files = len({(g.pipeline, g.source_file) for g in groups})
    yield ""
    yield f"{count(records, 'record')} of {count(files, 'file')}; {complete:,} can be exported and replayed"
    if elsewhere:
        yield (
            f"{elsewhere:,} of them belong to another table, or to this one under an older id: export those, and read"
            f" the file as a source"
        )


def _own_id(assembly: Assembly) -> str | None:
    """The id of the table that was named. None: none was named, or there is none."""
    if assembly.config.table.path is None:
        return None
    try:
        return assembly.open_table().table_id
    except ConfigError as e:
        if e.kind != Kind.TABLE_NOT_FOUND:
            raise
        return None


def _group_cells(g: contents.Group) -> list[str]:
    sequences = (
        str(g.first_sequence) if g.first_sequence == g.last_sequence else f"{g.first_sequence}-{g.last_sequence}"
    )
    times = [f"{time:%Y-%m-%d %H:%M:%S}Z" for time in (g.oldest, g.newest)]
    return [g.pipeline, g.source_file, g.error_kind, f"{g.records:,}", sequences, *times]


def _show(options: argparse.Namespace) -> int:
    output, shown = output_of(options, indented=False, verbatim=("raw", "raw_base64")), 0
    with looking(options) as assembly:
        for record in islice(contents.records(assembly.quarantine, _selection(options)), options.limit + 1):
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
    selection, raw = _selection(options), options.format == "raw"
    with looking(options) as assembly:
        quarantine = assembly.quarantine
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
        where = f"version {done.delta_version} (sequence {done.sequence})"
        return f"{count(done.replayed, 'record')} appended in {where}{again}"
    if done.still_bad:
        return f"nothing appended: {count(done.still_bad, 'record')} failed again. Nothing was changed."
    return f"nothing to replay for pipeline {pipeline}. See: blizzard dlq list"


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
    selection = _selection(options)
    with looking(options) as assembly:
        quarantine = assembly.quarantine
        if options.older_than is not None:
            before = contents.moment_before(quarantine.clock, contents.parse_age(options.older_than))
            selection = replace(selection, before=before)
        if selection == Selection(orphaned=selection.orphaned) and not options.all:
            raise ConfigError("purge needs --older-than or a filter; --all deletes everything", kind=Kind.USAGE)
        selection = replace(selection, table_id=_table_to_purge(assembly))
        found = 0 if options.yes else contents.count_records(quarantine, selection)
        if found:
            raise ConfigError(
                f"{count(found, 'record')} of {quarantine.root} would be deleted for ever. Look at them with dlq show,"
                f" keep them with dlq export, and repeat the command with --yes to delete them.",
                kind=Kind.NOT_CONFIRMED,
            )
        deleted = contents.purge(quarantine, selection) if options.yes else 0
    output_of(options, indented=False).result({"deleted": deleted}, [f"{count(deleted, 'record')} deleted"])
    return 0


def _table_to_purge(assembly: Assembly) -> str | None:
    """The id of the table that was named; None: none was. Others may share its quarantine: their records stay."""
    table_id = _own_id(assembly)
    if table_id is None and assembly.config.table.path is not None:
        raise ConfigError(
            f"there is no Delta table at {assembly.request.table_root}, so it is not known which records are its own."
            f" Nothing was deleted. To purge the records of a table that was dropped, leave the table out and give"
            f" --quarantine URI: that purges for all tables.",
            kind=Kind.TABLE_NOT_FOUND,
        )
    return table_id


def _nothing(options: argparse.Namespace) -> list[str]:
    given = (options.pipeline, options.sequence, options.file, options.kind)
    return ["nothing in quarantine" + (" that fits" if any(given) else "")]
