"""The arguments of `blizzard dlq …`, without anything that is slow to import."""

from __future__ import annotations

import argparse
from typing import Any

from blizzard.cli.arguments import add_committer_argument, add_config_arguments, whole_number

SHOWN_CHARS = 500
_REPLAY_HELP = """Parse the lines in quarantine once more, with the table's schema as it is now, and append those that
pass, each exactly once even if the replay is killed. Lines that fail again stay in quarantine. Takes the pipeline's
next sequence, as a run does: if a run and a replay work at the same time, one of them stops with exit 4. Lines that
were cut because they were too long, and files that could not be read, cannot be replayed."""

_REALIGN_HELP = """Use this after the table or its quarantine was put back from a backup, or if two copies of a table
shared one quarantine. Records of batches that are not part of the table's history are marked as orphans: they stay, but
list, show, export and purge take them only with --orphans, and replay never does. Records that are missing are added
again from the files that the table's commits name. Nothing is deleted, and the table itself is not changed."""
_ORPHANS = "the orphans instead: records of batches that are not part of the table's history (see dlq realign)"


def add_dlq_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dlq",
        help="the records in quarantine: list, show, export, replay, realign, purge",
        description="The records that could not be ingested, with their bytes, place and reason.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="how many records there are, by pipeline, file and kind of error")
    _table_arguments(listing)
    listing.add_argument("--orphans", action="store_true", help=_ORPHANS)

    show = actions.add_parser("show", help="single records: where, why, and the line itself")
    _table_arguments(show)
    show.add_argument("--orphans", action="store_true", help=_ORPHANS)
    show.add_argument("--limit", type=whole_number(1), default=20, metavar="N", help="at most N records; default 20")
    show.add_argument("--full", action="store_true", help=f"lines in full, not only {SHOWN_CHARS} characters")

    export = actions.add_parser("export", help="write the lines to a file, to fix and ingest again")
    _table_arguments(export)
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write; - is stdout")
    export.add_argument(
        "--format",
        choices=("raw", "json"),
        default="raw",
        help="raw (default): the lines as they were, those that are complete; json: all that is known of each record",
    )
    export.add_argument("--orphans", action="store_true", help=_ORPHANS)
    export.add_argument("--force", action="store_true", help="overwrite the file")

    replay = actions.add_parser(
        "replay", help="parse the lines again and append those that pass now", description=_REPLAY_HELP
    )
    replay.add_argument("--source", metavar="URI", help="the pipeline's source, as for its runs")
    _table_arguments(replay, pipeline="the pipeline's name; default: as for run")
    replay.add_argument("--accept-quarantine-loss", action="store_true", help="as for run")
    add_committer_argument(replay)

    realign = actions.add_parser(
        "realign",
        help="bring the quarantine in step with a table that was put back from a backup",
        description=_REALIGN_HELP,
    )
    _place_arguments(realign, pipeline="the pipeline's name; may be left out if the table has only one")
    realign.add_argument("--accept-quarantine-loss", action="store_true", help="go on without records that are gone")

    purge = actions.add_parser("purge", help="delete records from quarantine for ever")
    _table_arguments(purge)
    purge.add_argument("--orphans", action="store_true", help=_ORPHANS)
    purge.add_argument(
        "--older-than",
        metavar="AGE",
        help="only records that have been there longer than this, such as 30d, 12h or 90m",
    )
    purge.add_argument("--all", action="store_true", help="everything, if no filter is given")
    purge.add_argument("--yes", action="store_true", help="do it; without this, only say what would be deleted")


def _table_arguments(parser: argparse.ArgumentParser, *, pipeline: str = "only this pipeline") -> None:
    _place_arguments(parser, pipeline=pipeline)
    parser.add_argument(
        "--sequence", type=whole_number(1), metavar="N", help="only records that the commit of this sequence put there"
    )
    parser.add_argument("--file", metavar="NAME", help="only this source file, by its path below the source")
    parser.add_argument("--kind", metavar="KIND", help="only this kind of error, such as not_json")


def _place_arguments(parser: argparse.ArgumentParser, *, pipeline: str) -> None:
    parser.add_argument("--table", metavar="URI", help="the Delta table that the records were meant for")
    parser.add_argument(
        "--quarantine", metavar="URI", help="the quarantine table; default: the table's path with _quarantine"
    )
    parser.add_argument("--pipeline", metavar="NAME", help=pipeline)
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_config_arguments(parser)
