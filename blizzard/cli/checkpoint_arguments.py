"""The arguments of `blizzard checkpoint …`, without anything that is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blizzard.cli.arguments import (
    add_committer_argument,
    add_confirm_argument,
    add_loss_argument,
    add_pipeline_arguments,
    add_reads_again_argument,
    add_start_argument,
    add_table_arguments,
    one_of,
    whole_number,
)
from blizzard.cli.help import Parser, add_command, add_group

if TYPE_CHECKING:
    from blizzard.cli.help import Commands

_GROUP = """A position says how far a pipeline has read its source. It is part of the same commit as the data. These
commands show positions, copy them, and change them by a commit of their own: under the pipeline's next sequence, so
that a run at the same time stops with exit 4."""

_RESET = """Read a file again: from where it broke, after its committed lines, or from --from-record on. Takes the
pipeline's next sequence."""

_SKIP = """Do not read a file, or not any further. Its committed records stay in the table. Takes the pipeline's next
sequence."""

_ROLLBACK = """Remove what the commits after a sequence have added, and put the position back to that sequence: the
next run reads the same slices again. One commit does both, under the pipeline's next sequence. If a RESTORE has already
removed the later rows, only the position goes back. Refused if a file of these commits was rewritten since (OPTIMIZE,
DELETE, MERGE), or if a source file is gone or has changed."""

_CHOOSE = """Make a pipeline read the files that --pattern and the keys source.ignore, source.modified_after and
source.modified_before choose. Give all that shall hold from now on: a filter that is not given is taken away. Without a
pattern, one of the default patterns stays as it is. What was read before stays in the table and is not read again.
Takes the pipeline's next sequence."""

_IMPORT = """Take a position, of an exported file or of a mirror, as the pipeline's position in this table. It is
checked first whether the table holds what that position says."""

_WHERE = "--source URI --table URI"
_EVENTS = "--source /data/events --table /lake/events"
_BELOW = ("ingest", "skip")


def add_checkpoint_parser(commands: Commands) -> None:
    actions = add_group(
        commands,
        "checkpoint",
        says="show, export, import or change positions",
        description=_GROUP,
        examples=["blizzard checkpoint list --table /lake/events"],
    )
    _add_showing(actions)
    _add_export(actions)
    _add_import(actions)
    _add_reset(actions)
    _add_skip(actions)
    _add_choose(actions)
    _add_rollback(actions)


def _add_showing(actions: Commands) -> None:
    show = add_command(
        actions,
        "show",
        says="show the newest position, or that of one sequence, decoded",
        takes="[N] --table URI",
        examples=["blizzard checkpoint show --table /lake/events", "blizzard checkpoint show 12 --table /lake/events"],
    )
    show.add_argument(
        "sequence", metavar="N", nargs="?", type=whole_number(1), help="the sequence; default: the newest"
    )
    listing = add_command(
        actions,
        "list",
        says="every position in the log, newest first",
        takes="--table URI",
        examples=["blizzard checkpoint list --table /lake/events --pipeline events"],
    )
    for parser in (show, listing):
        add_table_arguments(parser)
        parser.add_argument("--pipeline", metavar="NAME", help="only this pipeline")


def _add_export(actions: Commands) -> None:
    export = add_command(
        actions,
        "export",
        says="write a pipeline's position to a file",
        takes="--table URI --pipeline NAME --out FILE",
        examples=["blizzard checkpoint export --table /lake/events --pipeline events --out position.json"],
    )
    add_table_arguments(export)
    export.add_argument("--pipeline", metavar="NAME", help="the pipeline; needed, unless --config names it")
    export.add_argument(
        "--sequence", metavar="N", type=whole_number(1), help="the position of this sequence; default: the newest"
    )
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write; - is stdout")
    export.add_argument("--force", action="store_true", help="overwrite the file")


def _add_import(actions: Commands) -> None:
    importing = add_command(
        actions,
        "import",
        says="take a position, of an exported file or of a mirror, as the pipeline's position in this table",
        description=_IMPORT,
        takes="--table URI (--in FILE | --from-mirror [URI])",
        examples=[
            "blizzard checkpoint import --table /lake/events --in position.json",
            "blizzard checkpoint import --table /lake/events --from-mirror s3://ops/positions",
        ],
    )
    add_table_arguments(importing)
    add_committer_argument(importing)
    origin = importing.add_mutually_exclusive_group(required=True)
    origin.add_argument("--in", metavar="FILE", dest="file", help="the exported file")
    origin.add_argument(
        "--from-mirror",
        metavar="URI",
        nargs="?",
        const="",
        help="a position that was copied to this mirror; default: to checkpoint.mirror of the configuration",
    )
    of_mirror = importing.add_argument_group("with --from-mirror")
    of_mirror.add_argument(
        "--sequence", metavar="N", type=whole_number(1), help="the position of this sequence; default: the newest"
    )
    of_mirror.add_argument(
        "--pipeline", metavar="NAME", help="the pipeline; default: the only one that the mirror has of this table"
    )
    of_mirror.add_argument("--table-id", metavar="ID", help="of the table that it was copied from; default: this one")
    importing.add_argument("--replace", action="store_true", help="even if the pipeline has a position here")
    importing.add_argument(
        "--unverified",
        action="store_true",
        help="check nothing: you know that the table holds exactly what that position says",
    )
    add_reads_again_argument(importing)
    add_loss_argument(importing)


def _add_reset(actions: Commands) -> None:
    reset = add_command(
        actions,
        "reset",
        says="read a file again: from where it broke, after its committed lines, or from --from-record on",
        description=_RESET,
        takes=f"{_WHERE} --file NAME",
        examples=[f"blizzard checkpoint reset {_EVENTS} --file 2026/a.ndjson --yes"],
    )
    _add_edited_file(reset)
    reset.add_argument(
        "--from-record",
        metavar="N",
        type=whole_number(0),
        help="the first line to read, counted from 0; committed lines after it will be in the table twice",
    )


def _add_skip(actions: Commands) -> None:
    skip = add_command(
        actions,
        "skip",
        says="do not read a file, or not any further",
        description=_SKIP,
        takes=f"{_WHERE} --file NAME",
        examples=[f"blizzard checkpoint skip {_EVENTS} --file 2026/a.ndjson --yes"],
    )
    _add_edited_file(skip)


def _add_edited_file(parser: Parser) -> None:
    add_pipeline_arguments(parser)
    add_committer_argument(parser)
    parser.add_argument("--file", metavar="NAME", required=True, help="the file's name, as blizzard files shows it")
    add_confirm_argument(parser)


def _add_choose(actions: Commands) -> None:
    choose = add_command(
        actions,
        "choose",
        says="change which files a pipeline reads: its pattern, its filters, the date it begins at",
        description=_CHOOSE,
        takes=_WHERE,
        examples=[f"blizzard checkpoint choose {_EVENTS} --pattern '*.ndjson.gz' --below skip --yes"],
    )
    add_pipeline_arguments(choose)
    add_committer_argument(choose)
    choose.add_argument(
        "--pattern",
        metavar="GLOB",
        help="the new pattern: a glob below the folder, or default-2, which new pipelines get",
    )
    add_start_argument(choose, "the date that the pipeline begins at from now on: 'date:2026-01-31', or 'beginning'")
    choose.add_argument(
        "--below",
        choices=_BELOW,
        type=one_of(*_BELOW),
        help="what becomes of files that are chosen now and that the mark has passed: read once, or left out for good",
    )
    add_confirm_argument(choose)


def _add_rollback(actions: Commands) -> None:
    rollback = add_command(
        actions,
        "rollback",
        says="go back to an older sequence: remove what later sequences added; the next run reads it again",
        description=_ROLLBACK,
        takes=f"{_WHERE} --to N",
        examples=[
            f"blizzard checkpoint rollback {_EVENTS} --to 12 --dry-run",
            f"blizzard checkpoint rollback {_EVENTS} --to 12 --yes",
        ],
    )
    add_pipeline_arguments(rollback)
    add_committer_argument(rollback)
    add_loss_argument(rollback)
    rollback.add_argument(
        "--to",
        metavar="N",
        type=whole_number(0),
        required=True,
        help="the sequence to go back to; 0: before the first commit",
    )
    rollback.add_argument("--with-schema", action="store_true", help="also remove columns that were added since")
    rollback.add_argument("--dry-run", action="store_true", help="only say what would be done, and exit 0")
    add_confirm_argument(rollback)
