"""The arguments of `blizzard dlq …`, without anything that is slow to import."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from blizzard.cli.arguments import (
    add_committer_argument,
    add_config_arguments,
    add_confirm_argument,
    add_json_argument,
    add_loss_argument,
    add_target_argument,
    one_of,
    whole_number,
)
from blizzard.cli.help import add_command, add_group

if TYPE_CHECKING:
    from blizzard.cli.help import Commands

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


_TABLE = "--table URI"
_FORMATS = ("raw", "json")


def add_dlq_parser(commands: Commands) -> None:
    actions = add_group(
        commands,
        "dlq",
        says="the records in quarantine: list, show, export, replay, realign, purge",
        description="The records that could not be ingested, with their bytes, place and reason.",
        examples=["blizzard dlq list --table /lake/events", "blizzard dlq show --table /lake/events --limit 5"],
    )
    _add_looking(actions)
    _add_export(actions)
    _add_replay(actions)
    _add_realign(actions)
    _add_purge(actions)


def _add_looking(actions: Commands) -> None:
    listing = add_command(
        actions,
        "list",
        says="how many records there are, by pipeline, file and kind of error",
        takes=_TABLE,
        examples=["blizzard dlq list --table /lake/events"],
    )
    show = add_command(
        actions,
        "show",
        says="single records: where, why, and the line itself",
        takes=_TABLE,
        examples=["blizzard dlq show --table /lake/events --kind not_json --limit 5 --full"],
    )
    for parser in (listing, show):
        _table_arguments(parser)
        parser.add_argument("--orphans", action="store_true", help=_ORPHANS)
    show.add_argument("--limit", type=whole_number(1), default=20, metavar="N", help="at most N records; default 20")
    show.add_argument("--full", action="store_true", help=f"lines in full, not only {SHOWN_CHARS} characters")


def _add_export(actions: Commands) -> None:
    export = add_command(
        actions,
        "export",
        says="write the lines to a file, to fix and ingest again",
        takes=f"{_TABLE} --out FILE",
        examples=["blizzard dlq export --table /lake/events --out bad.ndjson"],
    )
    _table_arguments(export)
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write; - is stdout")
    export.add_argument(
        "--format",
        choices=_FORMATS,
        type=one_of(*_FORMATS),
        default="raw",
        help="raw (default): the lines as they were, those that are complete; json: all that is known of each record",
    )
    export.add_argument("--orphans", action="store_true", help=_ORPHANS)
    export.add_argument("--force", action="store_true", help="overwrite the file")


def _add_replay(actions: Commands) -> None:
    replay = add_command(
        actions,
        "replay",
        says="parse the lines again and append those that pass now",
        description=_REPLAY_HELP,
        takes="--source URI --table URI",
        examples=["blizzard dlq replay --source /data/events --table /lake/events"],
    )
    replay.add_argument("--source", metavar="URI", help="the pipeline's source, as for its runs")
    _table_arguments(replay, pipeline="the pipeline's name; default: as for run")
    add_loss_argument(replay)
    add_committer_argument(replay)


def _add_realign(actions: Commands) -> None:
    realign = add_command(
        actions,
        "realign",
        says="bring the quarantine in step with a table that was put back from a backup",
        description=_REALIGN_HELP,
        takes=_TABLE,
        examples=["blizzard dlq realign --table /lake/events"],
    )
    _place_arguments(realign, pipeline="the pipeline's name; may be left out if the table has only one")
    add_loss_argument(realign)


def _add_purge(actions: Commands) -> None:
    purge = add_command(
        actions,
        "purge",
        says="delete records from quarantine for ever",
        takes=f"{_TABLE} (--older-than AGE | --all | a filter)",
        examples=["blizzard dlq purge --table /lake/events --older-than 90d --yes"],
    )
    _table_arguments(purge)
    purge.add_argument("--orphans", action="store_true", help=_ORPHANS)
    purge.add_argument(
        "--older-than",
        metavar="AGE",
        help="only records that have been there longer than this, such as 30d, 12h or 90m",
    )
    purge.add_argument("--all", action="store_true", help="everything, if no filter is given")
    add_confirm_argument(purge, "only say what would be deleted")


def _table_arguments(parser: argparse.ArgumentParser, *, pipeline: str = "only this pipeline") -> None:
    _place_arguments(parser, pipeline=pipeline)
    parser.add_argument(
        "--sequence", type=whole_number(1), metavar="N", help="only records that the commit of this sequence put there"
    )
    parser.add_argument("--file", metavar="NAME", help="only this source file, by its path below the source")
    parser.add_argument("--kind", metavar="KIND", help="only this kind of error, such as not_json")


def _place_arguments(parser: argparse.ArgumentParser, *, pipeline: str) -> None:
    parser.add_argument("--table", metavar="URI", help="the Delta table that the records were meant for")
    add_target_argument(parser)
    parser.add_argument(
        "--quarantine", metavar="URI", help="the quarantine table; default: the table's path with _quarantine"
    )
    parser.add_argument("--pipeline", metavar="NAME", help=pipeline)
    add_json_argument(parser, "as JSON")
    add_config_arguments(parser)
