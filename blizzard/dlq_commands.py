"""`blizzard dlq …`: what is in quarantine, and what to do with it. Text, or JSON for scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import orjson

from blizzard import dlq
from blizzard.delta.quarantine import DeltaRsQuarantine
from blizzard.errors import ConfigError
from blizzard.source.uri import file_uri, local_path
from blizzard.tasks.quarantine import Selection

_SHOWN_CHARS = 500
_REPLAY_HELP = """Parse the lines in quarantine once more, with the table's schema as it is now, and append those that
pass, each exactly once even if this is killed. Those that fail again stay in quarantine. Takes the pipeline's next
sequence, as a run does: of a run and a replay at the same time, one stops with exit 4. Lines that were cut because they
were too long, and files that could not be read, cannot be replayed."""


def add_dlq_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dlq",
        help="the records in quarantine: list, show, export, replay, purge",
        description="The records that could not be ingested, with their bytes, place and reason.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="how many there are, by pipeline, file and kind of error")
    _table_arguments(listing)

    show = actions.add_parser("show", help="single records: where, why, and the line itself")
    _table_arguments(show)
    show.add_argument("--limit", type=_positive, default=20, metavar="N", help="at most N records; default 20")
    show.add_argument("--full", action="store_true", help=f"lines in full, not only {_SHOWN_CHARS} characters")

    export = actions.add_parser("export", help="write the lines to a file, to be mended and ingested again")
    _table_arguments(export)
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write; - is stdout")
    export.add_argument(
        "--format",
        choices=("raw", "json"),
        default="raw",
        help="raw (default): the lines as they were, those that are complete; json: all that is known of each record",
    )
    export.add_argument("--force", action="store_true", help="overwrite the file")

    replay = actions.add_parser("replay", help="parse them again and append what passes now", description=_REPLAY_HELP)
    replay.add_argument("--source", metavar="URI", help="the pipeline's source, as its runs are given it")
    _table_arguments(replay, pipeline="the pipeline's name, as its runs are given it; default: derived from the source")
    replay.add_argument("--config", metavar="FILE", help="YAML file, as for run; flags override it")
    replay.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="set one key, as for run; repeatable",
    )
    replay.add_argument("--accept-quarantine-loss", action="store_true", help="as for run")
    # What only a new table or a new pipeline needs.
    replay.set_defaults(schema=None, infer=False, hints=None, start_from=None)

    purge = actions.add_parser("purge", help="delete records from quarantine for ever")
    _table_arguments(purge)
    purge.add_argument("--older-than", metavar="AGE", help="only what has been there longer, such as 30d, 12h or 90m")
    purge.add_argument("--all", action="store_true", help="everything, if no filter is given")
    purge.add_argument("--yes", action="store_true", help="do it; without this, only say what would be deleted")


def _table_arguments(parser: argparse.ArgumentParser, *, pipeline: str = "only this pipeline") -> None:
    parser.add_argument("--table", metavar="URI", help="the Delta table that the records were meant for")
    parser.add_argument(
        "--quarantine", metavar="URI", help="the quarantine table; default: the table's path and _quarantine"
    )
    parser.add_argument("--pipeline", metavar="NAME", help=pipeline)
    parser.add_argument(
        "--sequence", type=_positive, metavar="N", help="only what the commit of this sequence put there"
    )
    parser.add_argument("--file", metavar="NAME", help="only this source file, by its path below the source")
    parser.add_argument("--kind", metavar="KIND", help="only this kind of error, such as not_json")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


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
    from blizzard.api import SystemClock

    root = dlq.quarantine_root(table=options.table, quarantine=options.quarantine)
    return dlq.open_quarantine(root, SystemClock())


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
        whole = {"quarantine": file_uri(quarantine.root), "records": records, "complete": complete, "groups": shown}
        _print(orjson.dumps(whole).decode())
    elif not groups:
        _print_nothing(options)
    else:
        header = ["PIPELINE", "FILE", "KIND", "RECORDS", "SEQUENCES", "OLDEST", "NEWEST"]
        _print_table(header, [_group_cells(g) for g in groups])
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
            _print_record(record, limit=None if options.full else _SHOWN_CHARS)
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
    from blizzard.cli import make_job
    from blizzard.progress import TerminalProgress
    from blizzard.replay import replay_job

    if options.quarantine is not None:
        options.assignments = [*options.assignments, f"quarantine.path={options.quarantine}"]
    job, progress = make_job(options), TerminalProgress()
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


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        _print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
