"""`blizzard dlq …`: what is in quarantine, and what to do with it. Text, or JSON for scripts."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from itertools import islice

import orjson

from blizzard import dlq
from blizzard.commands import config_of, print_table
from blizzard.delta.quarantine import DeltaRsQuarantine
from blizzard.dlq_arguments import SHOWN_CHARS
from blizzard.errors import ConfigError
from blizzard.store.uri import local_path, show_uri
from blizzard.tasks.quarantine import Selection


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
        case _:
            return _purge(options)


def _open(options: argparse.Namespace) -> DeltaRsQuarantine:
    from blizzard.job import SystemClock

    root = dlq.quarantine_root(table=options.table, quarantine=options.quarantine)
    return dlq.open_quarantine(root, SystemClock(), config_of(options).access("table", root))


def _selection(options: argparse.Namespace) -> Selection:
    return Selection(
        pipeline=options.pipeline,
        source_file=options.file,
        error_kind=options.kind,
        from_sequence=options.sequence,
        through_sequence=options.sequence,
    )


def _list(options: argparse.Namespace) -> int:
    quarantine = _open(options)
    groups = dlq.count_groups(quarantine, _selection(options))
    records, complete = sum(g.records for g in groups), sum(g.complete for g in groups)
    if options.json:
        shown = [asdict(g) | {"oldest": dlq.time_text(g.oldest), "newest": dlq.time_text(g.newest)} for g in groups]
        whole = {"quarantine": show_uri(quarantine.root), "records": records, "complete": complete, "groups": shown}
        _print(orjson.dumps(whole).decode())
    elif not groups:
        _print_nothing(options)
    else:
        header = ["PIPELINE", "FILE", "KIND", "RECORDS", "SEQUENCES", "OLDEST", "NEWEST"]
        print_table(header, [_group_cells(g) for g in groups])
        files = len({(g.pipeline, g.source_file) for g in groups})
        _print(f"\n{_count(records)} of {_count(files, 'file')}; {complete:,} can be exported and replayed")
    return 0


def _group_cells(g: dlq.Group) -> list[str]:
    sequences = (
        str(g.first_sequence) if g.first_sequence == g.last_sequence else f"{g.first_sequence}-{g.last_sequence}"
    )
    times = [f"{time:%Y-%m-%d %H:%M:%S}Z" for time in (g.oldest, g.newest)]
    return [g.pipeline, printable(g.source_file), g.error_kind, f"{g.records:,}", sequences, *times]


def _show(options: argparse.Namespace) -> int:
    shown = 0
    for record in islice(dlq.records(_open(options), _selection(options)), options.limit + 1):
        shown += 1
        if shown > options.limit:
            sys.stderr.write(f"the first {_count(options.limit)}; more with --limit\n")
        elif options.json:
            _print(dlq.to_json(record).decode())
        else:
            _print_record(record, limit=None if options.full else SHOWN_CHARS)
    if not shown and not options.json:
        _print_nothing(options)
    return 0


def _print_record(record: dlq.Record, *, limit: int | None) -> None:
    place = [printable(record["source_file"])]
    place += [f"line {record['line']}"] if record["line"] is not None else []
    place += [f"byte {record['byte_offset']}"] if record["byte_offset"] is not None else []
    _print(", ".join(place))
    column = f", column {printable(record['column'])}" if record["column"] else ""
    _print(f"  why     {record['error_kind']}{column}: {printable(record['message'])}")
    since = dlq.time_text(record["quarantined_at"])
    _print(f"  since   {since}, pipeline {record['pipeline']}, sequence {record['sequence']}")
    if record["raw"] is None:
        _print("  line    none: the file could not be read")
        return
    text = printable(record["raw"].decode("utf-8", "backslashreplace"))
    cut = "" if limit is None or len(text) <= limit else f" … ({record['raw_bytes']:,} bytes; --full shows all)"
    lost = "" if record["complete"] else f" … (only the beginning of {record['raw_bytes']:,} bytes was kept)"
    _print(f"  line    {text[:limit]}{cut or lost}")


def printable(text: str) -> str:
    """What comes from a file must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def _export(options: argparse.Namespace) -> int:
    quarantine, selection, raw = _open(options), _selection(options), options.format == "raw"
    if options.out == "-":
        done = dlq.export_records(quarantine, selection, sys.stdout.buffer, raw=raw)
        sys.stdout.buffer.flush()
    else:
        path = local_path(options.out, what="export")
        with dlq.new_file(path, overwrite=options.force) as file:
            done = dlq.export_records(quarantine, selection, file, raw=raw)
    left = [f"{_count(done.cut, 'line')} that had been cut"] if done.cut else []
    left += [f"{_count(done.files, 'file')} that could not be read"] if done.files else []
    text = f"{_count(done.written)} written" + (f"; not written: {', '.join(left)}" if left else "")
    # stdout holds the lines and nothing else.
    out = sys.stderr if options.out == "-" else sys.stdout
    out.write((orjson.dumps(asdict(done)).decode() if options.json else text) + "\n")
    return 0


def _replay(options: argparse.Namespace) -> int:
    from blizzard.cli import job_of
    from blizzard.progress import TerminalProgress
    from blizzard.replay import replay_job

    if options.quarantine is not None:
        options.assignments = [*options.assignments, f"quarantine.path={options.quarantine}"]
    progress = TerminalProgress()
    with job_of(options) as job:
        try:
            done = replay_job(job, _selection(options), progress=progress)
        finally:
            progress.close()
    if options.json:
        _print(orjson.dumps(asdict(done)).decode())
    elif done.replayed:
        again = f"; {done.still_bad:,} failed again and stayed in quarantine" if done.still_bad else ""
        _print(f"{_count(done.replayed)} appended in version {done.delta_version} (sequence {done.sequence}){again}")
    elif done.still_bad:
        _print(f"nothing appended: {_count(done.still_bad)} failed again. Nothing was changed.")
    else:
        _print(f"nothing to replay for pipeline {job.pipeline}. See: blizzard dlq list")
    return 0


def _purge(options: argparse.Namespace) -> int:
    quarantine, selection = _open(options), _selection(options)
    if options.older_than is not None:
        age = dlq.parse_age(options.older_than)
        selection = replace(selection, before=dlq.moment_before(quarantine.clock, age))
    if selection == Selection() and not options.all:
        raise ConfigError("purge needs --older-than or a filter; --all deletes everything", kind="usage")
    count = dlq.count_records(quarantine, selection)
    if count and not options.yes:
        raise ConfigError(
            f"{_count(count)} of {quarantine.root} would be deleted for ever. Look at them with dlq show, keep them"
            f" with dlq export, and repeat the command with --yes to delete them.",
            kind="not_confirmed",
        )
    deleted = dlq.purge(quarantine, selection) if count else 0
    _print(orjson.dumps({"deleted": deleted}).decode() if options.json else f"{_count(deleted)} deleted")
    return 0


def _count(number: int, noun: str = "record") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _print_nothing(options: argparse.Namespace) -> None:
    given = (options.pipeline, options.sequence, options.file, options.kind)
    _print("nothing in quarantine" + (" that fits" if any(given) else ""))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
