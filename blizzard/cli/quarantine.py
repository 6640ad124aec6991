"""`blizzard dlq …`: what is in quarantine, and what to do with it. Text, or JSON for scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice

from blizzard.cli.context import job_of, request_of
from blizzard.cli.quarantine_arguments import SHOWN_CHARS
from blizzard.config.request import Request
from blizzard.core.kinds import Kind
from blizzard.core.log import standings_of
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.quarantine import contents
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.service.progress import SilentProgress, TerminalProgress
from blizzard.store.uri import local_path, show_uri
from blizzard.tasks.quarantine import Selection
from blizzard.text.printing import json_text, print_json_line, print_line, print_table, say
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


@contextmanager
def _open(options: argparse.Namespace) -> Iterator[DeltaRsQuarantine]:
    with request_of(options) as request:
        yield request.quarantine(SilentProgress())


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
    with _open(options) as quarantine:
        groups = contents.count_groups(quarantine, _selection(options))
    records, complete = sum(g.records for g in groups), sum(g.complete for g in groups)
    if options.json:
        shown = [
            asdict(g) | {"oldest": contents.time_text(g.oldest), "newest": contents.time_text(g.newest)} for g in groups
        ]
        whole = {"quarantine": show_uri(quarantine.root), "records": records, "complete": complete, "groups": shown}
        print_json_line(whole)
    elif not groups:
        _print_nothing(options)
    else:
        header = ["PIPELINE", "FILE", "KIND", "RECORDS", "SEQUENCES", "OLDEST", "NEWEST"]
        print_table(header, [_group_cells(g) for g in groups])
        files = len({(g.pipeline, g.source_file) for g in groups})
        print_line("", f"{_count(records)} of {_count(files, 'file')}; {complete:,} can be exported and replayed")
    return 0


def _group_cells(g: contents.Group) -> list[str]:
    sequences = (
        str(g.first_sequence) if g.first_sequence == g.last_sequence else f"{g.first_sequence}-{g.last_sequence}"
    )
    times = [f"{time:%Y-%m-%d %H:%M:%S}Z" for time in (g.oldest, g.newest)]
    return [g.pipeline, g.source_file, g.error_kind, f"{g.records:,}", sequences, *times]


def _show(options: argparse.Namespace) -> int:
    shown = 0
    with _open(options) as quarantine:
        for record in islice(contents.records(quarantine, _selection(options)), options.limit + 1):
            shown += 1
            if shown > options.limit:
                say(f"the first {_count(options.limit)}; more with --limit")
            elif options.json:
                print_json_line(contents.as_json(record), verbatim=("raw", "raw_base64"))
            else:
                _print_record(record, limit=None if options.full else SHOWN_CHARS)
    if not shown and not options.json:
        _print_nothing(options)
    return 0


def _print_record(record: contents.Record, *, limit: int | None) -> None:
    place = [record["source_file"]]
    place += [f"line {record['line']}"] if record["line"] is not None else []
    place += [f"byte {record['byte_offset']}"] if record["byte_offset"] is not None else []
    print_line(", ".join(place))
    column = f", column {record['column']}" if record["column"] else ""
    print_line(f"  why     {record['error_kind']}{column}: {record['message']}")
    since = contents.time_text(record["quarantined_at"])
    print_line(f"  since   {since}, pipeline {record['pipeline']}, sequence {record['sequence']}")
    if record["raw"] is None:
        print_line("  line    none: the file could not be read")
        return
    text = printable(record["raw"].decode("utf-8", "backslashreplace"))
    cut = "" if limit is None or len(text) <= limit else f" … ({record['raw_bytes']:,} bytes; --full shows all)"
    lost = "" if record["complete"] else f" … (only the beginning of {record['raw_bytes']:,} bytes was kept)"
    print_line(f"  line    {text[:limit]}{cut or lost}")


def _export(options: argparse.Namespace) -> int:
    selection, raw = _selection(options), options.format == "raw"
    with _open(options) as quarantine:
        if options.out == "-":
            done = contents.export_records(quarantine, selection, sys.stdout.buffer, raw=raw)
            sys.stdout.buffer.flush()
        else:
            path = local_path(options.out, what="export")
            with contents.new_file(path, overwrite=options.force) as file:
                done = contents.export_records(quarantine, selection, file, raw=raw)
    left = [f"{_count(done.cut, 'line')} that had been cut"] if done.cut else []
    left += [f"{_count(done.files, 'file')} that could not be read"] if done.files else []
    text = f"{_count(done.written)} written" + (f"; not written: {', '.join(left)}" if left else "")
    # stdout holds the lines and nothing else.
    tell = say if options.out == "-" else print_line
    tell(json_text(asdict(done)) if options.json else text)
    return 0


def _replay(options: argparse.Namespace) -> int:
    from blizzard.operate.replay import replay_job

    progress = TerminalProgress()
    with job_of(options) as job:
        try:
            done = replay_job(job, _selection(options), progress=progress)
        finally:
            progress.close()
    if options.json:
        print_json_line(asdict(done))
    elif done.replayed:
        again = f"; {done.still_bad:,} failed again and stayed in quarantine" if done.still_bad else ""
        print_line(
            f"{_count(done.replayed)} appended in version {done.delta_version} (sequence {done.sequence}){again}"
        )
    elif done.still_bad:
        print_line(f"nothing appended: {_count(done.still_bad)} failed again. Nothing was changed.")
    else:
        print_line(f"nothing to replay for pipeline {job.pipeline}. See: blizzard dlq list")
    return 0


def _realign(options: argparse.Namespace) -> int:
    from blizzard.operate.realign import realign

    with request_of(options) as request:
        table = request.open_table()
        pipeline = options.pipeline or _only_pipeline(table)
        quarantine = request.quarantine(SilentProgress(), accepts_loss=options.accept_quarantine_loss)
        scan_commits = request.config.checkpoint.scan_commits
        done = realign(table, quarantine, pipeline=pipeline, scan_commits=scan_commits)
    if options.json:
        print_json_line(asdict(done))
        return 0
    if done.was_in_step:
        print_line(f"the quarantine is in step with pipeline {pipeline}; nothing was changed")
        return 0
    print_line(
        f"{_count(done.orphaned)} marked as orphans, {_count(done.live_again)} taken back from them,"
        f" {_count(done.added)} added again. The quarantine is in step with pipeline {pipeline}."
    )
    for lost in done.lost:
        print_line(f"given up, as told: bad records of {printable(lost)}")
    return 0


def _only_pipeline(table: DeltaRsTable) -> str:
    names = sorted(standings_of(table.scan_back(), table.newest_checkpoint()))
    if len(names) != 1:
        raise ConfigError(f"--pipeline is missing; the table has: {', '.join(names) or 'none'}", kind=Kind.USAGE)
    return names[0]


def _purge(options: argparse.Namespace) -> int:
    selection = _selection(options)
    with request_of(options) as request:
        quarantine = request.quarantine(SilentProgress())
        if options.older_than is not None:
            before = contents.moment_before(quarantine.clock, contents.parse_age(options.older_than))
            selection = replace(selection, before=before, table_id=_table_id(request))
        if selection == Selection(orphaned=selection.orphaned) and not options.all:
            raise ConfigError("purge needs --older-than or a filter; --all deletes everything", kind=Kind.USAGE)
        count = 0 if options.yes else contents.count_records(quarantine, selection)
        if count:
            raise ConfigError(
                f"{_count(count)} of {quarantine.root} would be deleted for ever. Look at them with dlq show, keep them"
                f" with dlq export, and repeat the command with --yes to delete them.",
                kind=Kind.NOT_CONFIRMED,
            )
        deleted = contents.purge(quarantine, selection) if options.yes else 0
    if options.json:
        print_json_line({"deleted": deleted})
    else:
        print_line(f"{_count(deleted)} deleted")
    return 0


def _table_id(request: Request) -> str | None:
    """By age, only what is of the table that was named: a quarantine may be shared, and each has its own term."""
    try:
        return request.open_table().table_id if request.config.table.path is not None else None
    except ConfigError as e:
        if e.kind != Kind.TABLE_NOT_FOUND:
            raise
        return None  # a table that was dropped leaves its quarantine behind


def _count(number: int, noun: str = "record") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _print_nothing(options: argparse.Namespace) -> None:
    given = (options.pipeline, options.sequence, options.file, options.kind)
    print_line("nothing in quarantine" + (" that fits" if any(given) else ""))
