"""Exports a position to a file, and imports it: into the same table again, or into another one.

An import is judged like the position of a run: it is refused if the table does not hold exactly what the position says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from blizzard.core.codec import decode_position, encode_position
from blizzard.core.events import Emit, Warned, unheard
from blizzard.core.export import EXPORT_VERSION, export_of
from blizzard.core.fields import CodecError
from blizzard.core.judge import Judged, Own, judge_history, judge_position
from blizzard.core.kinds import Kind
from blizzard.core.late import as_looked_at
from blizzard.core.log import History, Standing, fence_version, payloads, standings_of
from blizzard.core.pause import pause_in_log
from blizzard.core.position import CleanedThrough, Paused, Position
from blizzard.core.quarantine import newest_of
from blizzard.core.readers import find_reader, refuse_second_reader
from blizzard.core.recover import IMPORTED, Fresh, Resume, decide_recovery
from blizzard.core.refuse import Refuse, describe_position
from blizzard.core.rollback import check_sources
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, OutOfStep, Refused
from blizzard.operate.positions import changed_meanwhile, committing_on, edit_intent, no_position, on_this_version
from blizzard.operate.rollback import list_for, plan_going_back
from blizzard.operate.status import find_position
from blizzard.run.ports import Mirror, Quarantine
from blizzard.run.recover import decide_start
from blizzard.run.settle import settle_replaced
from blizzard.source.uri import location_of
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import locate


def newest_position(table: DeltaRsTable, pipeline: str, *, scan_commits: int) -> Position:
    """As recovery finds it. Raises if the table has none of this pipeline."""
    try:
        recovery = decide_start(table, pipeline=pipeline, source=None, scan_commits=scan_commits)
    except Refused as e:
        if e.kind != Kind.TABLE_HAS_DATA:
            raise
        raise no_position(pipeline) from e
    if isinstance(recovery, Fresh):
        raise no_position(pipeline)
    return recovery.position


def export_position(
    table: DeltaRsTable, pipeline: str, *, sequence: int | None = None, scan_commits: int = 100
) -> bytes:
    """A position of a pipeline, the newest or an older one, as the content of a file."""
    if sequence is not None:
        position = _position_of_sequence(table, pipeline, sequence)
    else:
        position = newest_position(table, pipeline, scan_commits=scan_commits)
    return export_of(position, table_id=table.table_id)


def import_position(
    table: DeltaRsTable,
    content: bytes,
    *,
    quarantine: Quarantine,
    source_access: Access = NO_ACCESS,
    replaces: bool,
    is_trusted: bool = False,
    reads_again: bool = False,
    emit: Emit = unheard,
    mirror: Mirror | None = None,
) -> tuple[int, int]:
    """Go on in this table from an exported position, under the pipeline's next sequence here. Unless it `is_trusted`,
    the table must hold exactly what the position says. A quarantine that is out of step is only a warning: realigning
    it needs a position."""
    position = exported_position(content)
    given: dict[str, Any] = {"replaces": replaces, "is_trusted": is_trusted, "reads_again": reads_again}
    looked = _look(table, position, source_access, **given)
    committing = committing_on(table, quarantine, emit, mirror)
    stands = newest_of(position, looked.current, table.table_id)
    if stands is not None:
        settle_replaced(quarantine, table, stands)
    before = on_this_version(looked.position, table)
    # Later checks use this path to see that the table holds the rows. For a position of another table none is known.
    add_path = position.on.add_path if position.on.table_id == table.table_id else None
    on = replace(before.on, add_path=add_path, removed_path=looked.removed_path, table_id=table.table_id)
    head = stands.quarantine.head if stands is not None else None
    before = replace(before, on=on, quarantine=replace(before.quarantine, head=head), paused=looked.paused)
    intent = edit_intent(before, committing, goes_back_over=looked.superseded)

    def look_again() -> None:
        again = _look(table, position, source_access, **given)
        # The position is left out: with --unverified from another table it takes the time of this look.
        if replace(again, position=looked.position) != looked:
            raise changed_meanwhile()

    landing = committing.commit(intent, look_again=look_again)
    if isinstance(landing.error, OutOfStep):
        emit(Warned(message=str(landing.error)))
    elif landing.error is not None:
        raise landing.error
    return intent.position.sequence, landing.version


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What an import found: the position to commit, with the newest sequence of this table; the position it replaces;
    and the sequences that no longer count."""

    position: Position
    current: Position | None
    superseded: range = range(0)
    removed_path: str | None = None  # a file of a sequence that no longer counts
    paused: Paused | None = None  # as this table has it, whatever the exported position says


def _look(
    table: DeltaRsTable,
    position: Position,
    source_access: Access,
    *,
    replaces: bool,
    is_trusted: bool,
    reads_again: bool,
) -> _Looked:
    # A table with data but without a position of this pipeline is no error here: imports are for that.
    facts = table.observe(position.pipeline, scan_commits=100)
    recovery = decide_recovery(facts, pipeline=position.pipeline, source=None, start_from=None)
    has_one = isinstance(recovery, Resume) or (isinstance(recovery, Refuse) and recovery.kind != Kind.TABLE_HAS_DATA)
    if has_one and not replaces:
        problem = f" (which cannot be used: {recovery.message})" if isinstance(recovery, Refuse) else ""
        raise ConfigError(
            f"pipeline {position.pipeline!r} has a position in this table already{problem}; add --replace to go on from"
            f" the imported one instead",
            kind=Kind.USAGE,
        )
    here = max((sequence for c in facts.commits if (sequence := fence_version(c, position.pipeline))), default=0)
    here = max(here, facts.fence or 0)
    standings = standings_of(facts.commits, facts.checkpoint)
    current = standings[position.pipeline].position if position.pipeline in standings else None
    paused = pause_in_log(facts.commits, position.pipeline, None if current is None else current.paused)
    if current is None and not (reads_again or position.begun.reads_again):
        _require_only_reader(standings, position)
    if position.on.table_id != table.table_id:
        moved = _moved_here(table, position, current, here, source_access, is_trusted=is_trusted)
        return replace(moved, paused=paused)
    history = table.history(position.pipeline, position.sequence)
    judged = judge_history(history, position.pipeline) if history is not None else None
    back = judged.superseded_by(position.sequence) if judged is not None else None
    if back is not None:
        # Its bad records left the quarantine with it. No option of the user can bring them back.
        raise Refused(
            f"sequence {position.sequence} was taken back by version {back.commit.version}. Its bad records are gone"
            f" from quarantine, whatever the table holds now. Nothing was changed. If its rows are part of the table"
            f" again, RESTORE the table to version {back.commit.version}: the next run then goes on by itself.",
            kind=Kind.IMPORT_MISMATCH,
        )
    removed_path = None
    if not is_trusted:
        removed_path = _require_fit(table, history, judged, position, current, source_access)
    # An older position of this table: later sequences no longer count, and their bad records will be found again.
    return _Looked(
        position=replace(position, sequence=max(here, position.sequence)),
        current=current,
        superseded=range(position.sequence + 1, here + 1),
        removed_path=removed_path,
        paused=paused,
    )


def _require_only_reader(standings: dict[str, Standing], position: Position) -> None:
    other = find_reader(standings, pipeline=position.pipeline, source=position.source)
    if other is not None:
        refusal = refuse_second_reader(other, position.pipeline, position.source)
        raise Refused(refusal.message, kind=refusal.kind)


def _moved_here(
    table: DeltaRsTable,
    position: Position,
    current: Position | None,
    here: int,
    source_access: Access,
    *,
    is_trusted: bool,
) -> _Looked:
    if not is_trusted:
        raise Refused(
            f"the position is of another table (id {position.on.table_id}; this one is {table.table_id}), and nothing"
            f" in this one's log says whether it holds the records of {position.source.root} up to that position"
            f" ({describe_position(position)}). Nothing was changed. If you know that it holds exactly those, add"
            f" --unverified.",
            kind=Kind.IMPORT_MISMATCH,
        )
    moved = replace(
        position,
        sequence=here,
        begun=replace(position.begun, start_from=IMPORTED),
        seen=replace(position.seen, held_back={}),
        cleaned=CleanedThrough(done_through=here, due_through=here),
    )
    now_ms = open_store(locate(position.source.root, what="source"), source_access).now_ms()
    return _Looked(position=as_looked_at(moved, now_ms), current=current)


def _require_fit(
    table: DeltaRsTable,
    history: History | None,
    judged: Judged | None,
    position: Position,
    current: Position | None,
    source_access: Access,
) -> str | None:
    """Judged like the position of a run; an older position like a rollback with nothing to remove. Returns a file of
    what no longer counts, if there is one."""
    own = judged.own.get(position.sequence) if judged is not None else None
    if history is None or judged is None or own is None or not _is_commit_of(own, position):
        raise _mismatch(
            position,
            f"the log holds no commit of sequence {position.sequence} with this position, so it cannot be checked",
        )
    if current is None or position.sequence >= current.sequence:
        refusal = judge_position(judged, position.sequence)
        if refusal is not None:
            raise _mismatch(position, refusal.message.rstrip("."))
        return position.on.removed_path
    plan = plan_going_back(table, history, current, position.sequence)
    if plan.files:
        raise _mismatch(
            position,
            f"{plan.files[0]['path']}, which a later sequence added, is part of it. To remove what came later and put"
            f" the position back, in one commit: blizzard checkpoint rollback --to {position.sequence} --yes",
        )
    missing = check_sources(plan, list_for(location_of(position, source_access), current))
    if missing is not None:
        raise Refused(missing.message, kind=missing.kind)
    return plan.removed_path


def _is_commit_of(own: Own, position: Position) -> bool:
    """Whether this position was committed there. Its payload may have been damaged since."""
    return encode_position(position) in payloads(own.commit) or (
        own.ledger is not None and own.ledger.batch_id == position.batch_id
    )


def _mismatch(position: Position, why: str) -> Refused:
    return Refused(
        f"the position is of this table, but {why}. Nothing was changed. If you know that the table holds what the"
        f" sequences up to {position.sequence} ingested and nothing else, and that the sources of what came after are"
        f" there, add --unverified.",
        kind=Kind.IMPORT_MISMATCH,
    )


def _position_of_sequence(table: DeltaRsTable, pipeline: str, sequence: int) -> Position:
    position = find_position(table, pipeline, sequence)
    if position is not None:
        return position
    raise ConfigError(
        f"neither the log's JSON commits nor its Delta checkpoint hold sequence {sequence} of pipeline {pipeline!r};"
        f" see blizzard checkpoint list",
        kind=Kind.CHECKPOINT_NOT_FOUND,
    )


def exported_source_root(content: bytes) -> str:
    """The root of the source that an exported position belongs to."""
    return locate(exported_position(content).source.root, what="source")


def exported_position(content: bytes) -> Position:
    try:
        fields = orjson.loads(content)
        if fields["blizzard_position"] != EXPORT_VERSION:
            raise ConfigError("the file was exported by a newer version of blizzard", kind=Kind.USAGE)
        position = decode_position(fields["app_id"])
    except (orjson.JSONDecodeError, KeyError, TypeError, CodecError) as e:
        raise ConfigError(f"the file is not an exported position: {e}", kind=Kind.USAGE) from e
    if not isinstance(position, Position):
        raise ConfigError("the file holds a position of the Rust program, which cannot be imported", kind=Kind.USAGE)
    return position
