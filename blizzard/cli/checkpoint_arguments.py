"""The arguments of `blizzard checkpoint …`, without anything that is slow to import."""

from __future__ import annotations

from typing import Any

from blizzard.cli.arguments import (
    add_committer_argument,
    add_ingest_arguments,
    add_loss_argument,
    add_reads_again_argument,
    add_table_arguments,
    whole_number,
)

_ROLLBACK_HELP = """Remove what the commits after a sequence have added, and put the position back to that sequence: the
next run reads the same slices again. One commit does both, under the pipeline's next sequence. If a RESTORE has already
removed the later rows, only the position goes back. Refused if a file of these commits was rewritten since (OPTIMIZE,
DELETE, MERGE), or if a source file is gone or has changed."""

_CHOOSE_HELP = """Make a pipeline read the files that --pattern and the keys source.ignore, source.modified_after and
source.modified_before choose. Give all that shall hold from now on: a filter that is not given is taken away. Without a
pattern, one of the default patterns stays as it is. What was read before stays in the table and is not read again.
Takes the pipeline's next sequence."""


def add_checkpoint_actions(actions: Any) -> None:
    show = actions.add_parser("show", help="show the newest position, or that of one sequence, decoded")
    show.add_argument(
        "sequence", metavar="N", nargs="?", type=whole_number(1), help="the sequence; default: the newest"
    )
    add_table_arguments(show)
    show.add_argument("--pipeline", metavar="NAME", help="only this pipeline")
    listing = actions.add_parser("list", help="every position in the log, newest first")
    add_table_arguments(listing)
    listing.add_argument("--pipeline", metavar="NAME", help="only this pipeline")

    export = actions.add_parser("export", help="write a pipeline's position to a file")
    add_table_arguments(export)
    export.add_argument("--pipeline", metavar="NAME", required=True, help="the pipeline")
    export.add_argument(
        "--sequence", metavar="N", type=whole_number(1), help="the position of this sequence; default: the newest"
    )
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write; - is stdout")
    export.add_argument("--force", action="store_true", help="overwrite the file")
    importing = actions.add_parser("import", help="take an exported position as the pipeline's position in this table")
    add_table_arguments(importing)
    add_committer_argument(importing)
    importing.add_argument("--in", metavar="FILE", required=True, dest="file", help="the exported file")
    importing.add_argument("--replace", action="store_true", help="even if the pipeline has a position here")
    importing.add_argument(
        "--unverified",
        action="store_true",
        help="check nothing: you know that the table holds exactly what that position says",
    )
    add_reads_again_argument(importing)
    add_loss_argument(importing)
    for name, what in (
        ("reset", "read a file again: from where it broke, after its committed lines, or from --from-record on"),
        ("skip", "do not read a file, or not any further"),
    ):
        edit = actions.add_parser(
            name, help=what, description=f"{what.capitalize()}. Takes the pipeline's next sequence."
        )
        add_ingest_arguments(edit)
        edit.add_argument("--file", metavar="NAME", required=True, help="the file's name, as blizzard files shows it")
        if name == "reset":
            edit.add_argument(
                "--from-record",
                metavar="N",
                type=whole_number(0),
                help="the first line to read, counted from 0; committed lines after it will be in the table twice",
            )
        edit.add_argument("--yes", action="store_true", help="do it; without this, only say what would be done")
        edit.add_argument("--json", action="store_true", help="as one JSON object")

    choose = actions.add_parser(
        "choose",
        help="change which files a pipeline reads: its pattern, its filters, the date it begins at",
        description=_CHOOSE_HELP,
    )
    add_ingest_arguments(choose)
    choose.add_argument(
        "--pattern",
        metavar="GLOB",
        help="the new pattern: a glob below the folder, or default-2, which new pipelines get",
    )
    choose.add_argument(
        "--below",
        choices=("ingest", "skip"),
        help="what becomes of files that are chosen now and that the mark has passed: read once, or left out for good",
    )
    choose.add_argument("--yes", action="store_true", help="do it; without this, only say what would be done")
    choose.add_argument("--json", action="store_true", help="as one JSON object")

    rollback = actions.add_parser(
        "rollback",
        help="go back to an older sequence: remove what later sequences added; the next run reads it again",
        description=_ROLLBACK_HELP,
    )
    add_ingest_arguments(rollback)
    add_loss_argument(rollback)
    rollback.add_argument(
        "--to",
        metavar="N",
        type=whole_number(0),
        required=True,
        help="the sequence to go back to; 0: before the first commit",
    )
    rollback.add_argument("--with-schema", action="store_true", help="also remove columns that were added since")
    rollback.add_argument("--dry-run", action="store_true", help="only say what would be done")
    rollback.add_argument("--yes", action="store_true", help="do it; without this, only say what would be done")
    rollback.add_argument("--json", action="store_true", help="as one JSON object")
