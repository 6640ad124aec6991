"""Decides how a run begins: Resume from the newest position, Fresh, or Refuse. Never a guess.

A table that has data but no readable position is never started fresh unless the user says so: that would ingest
everything once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from blizzard.core.codec import fence_app_id
from blizzard.core.fold import CannotFold, fold_ledgers
from blizzard.core.judge import judge_history, judge_position
from blizzard.core.kinds import Kind
from blizzard.core.log import (
    CommitFacts,
    TableFacts,
    decode_payloads,
    fence_version,
    names_pipeline,
    payloads,
    pipelines_of,
    positions_in,
    rewrites_table,
    standings_of,
)
from blizzard.core.moments import moment_text, parse_moment
from blizzard.core.newer import refuse_newer
from blizzard.core.overlap import may_change_to, may_overlap
from blizzard.core.paths import Path
from blizzard.core.position import Marks, Position
from blizzard.core.readers import find_reader, refuse_second_reader
from blizzard.core.refuse import (
    Refuse,
    choose_command,
    describe_position,
    describe_source,
    import_commands,
    options_of,
)
from blizzard.core.types import SourceIdentity

# Instead of a StartFrom, in a position that came from another table, or from another program.
IMPORTED = "import"
ADOPTED = "adopt"
_DATE = "date:"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFrom:
    """Where a pipeline begins, as the user says: after a name; or at the first file, unless it `adopts` the position of
    another program. `adopted` is that position, once it is found. Files that were changed before `since_ms` are never
    read."""

    after: str | None = None
    since_ms: int | None = None
    adopts: bool = False
    adopted: Marks | None = None
    lasts: bool = False  # it stands in the configuration: it may have been meant for a beginning that is long past

    def __str__(self) -> str:
        if self.adopts:
            return ADOPTED
        if self.since_ms is not None:
            return f"{_DATE}{moment_text(self.since_ms)}"
        return "beginning" if self.after is None else f"after:{self.after}"

    @staticmethod
    def parse(text: str) -> StartFrom | None:
        """Reads what __str__ or a user wrote. None if it is none of the forms."""
        if text == "beginning":
            return StartFrom(after=None)
        if text.startswith(_DATE):
            since_ms = parse_moment(text.removeprefix(_DATE))
            return None if since_ms is None else StartFrom(since_ms=since_ms)
        name = text.removeprefix("after:")
        return StartFrom(after=name) if name and name != text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Go on from this position. `version` is its commit, or the Delta checkpoint that holds it."""

    position: Position
    version: int
    path: Path = Path.LOG
    is_judged: bool = False  # rows may be gone or back since: all of the log was read, and the position fits

    @property
    def marks(self) -> Marks:
        return self.position.marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """This pipeline has never committed anything."""

    marks: Marks
    start_from: str | None
    reads_again: bool = False
    since_ms: int | None = None
    path: Path = Path.FRESH


Recovery = Resume | Fresh | Refuse


def decide_recovery(
    facts: TableFacts | None,
    *,
    pipeline: str,
    source: SourceIdentity | None,
    start_from: StartFrom | None,
    reads_again: bool = False,
) -> Recovery:
    """`facts` None: there is no table yet. `source` None: only the table is looked at."""
    if facts is None:
        return _fresh(start_from, reads_again)
    found = next((c for c in facts.commits if names_pipeline(c, pipeline)), None)
    if found is None or fence_version(found, pipeline) == 0:
        # If the pipeline only made the table, all data in it are from others.
        has_data = facts.has_data and (found is None or bool(facts.fence))
        recovered = _from_checkpoint(facts, pipeline, source, start_from) or _position_lost(facts, pipeline)
        return recovered or _beginning(facts, pipeline, source, start_from, has_data, reads_again)
    position, path = _position_of(found, pipeline), Path.LOG
    if isinstance(position, Refuse) and position.kind == Kind.DAMAGED_CHECKPOINT:
        position, path = _rebuild(position, found, facts, pipeline), Path.LEDGERS
    if isinstance(position, Refuse):
        return position
    refusal = _check_commit(position, found, facts) or _check_start(position, source, start_from)
    return refusal or Resume(position=position, version=found.version, path=path, is_judged=facts.history is not None)


def _rebuild(damaged: Refuse, found: CommitFacts, facts: TableFacts, pipeline: str) -> Position | Refuse:
    """The newest payload cannot be read: rebuild it from an older one and the ledgers since."""
    problem: CannotFold | None = None
    for i, commit in enumerate(facts.commits):
        base = pipelines_of([commit]).get(pipeline)
        if commit.version >= found.version or base is None or base[1].sequence != fence_version(commit, pipeline):
            continue
        try:
            folded = fold_ledgers(base[1], reversed(facts.commits[:i]))
        except CannotFold as e:
            problem = problem or e  # try an older one: a rollback since may go back to before this one
            continue
        return folded if folded.sequence == fence_version(found, pipeline) else damaged
    if problem is None:
        return damaged
    return replace(damaged, message=f"{damaged.message} Its ledgers do not replace it: {problem}.")


def _from_checkpoint(
    facts: TableFacts, pipeline: str, source: SourceIdentity | None, start_from: StartFrom | None
) -> Recovery | None:
    """The position in a Delta checkpoint, if log cleanup deleted its commit. None: it is not there."""
    if facts.checkpoint is None:
        return None
    app_id = fence_app_id(pipeline)
    rows = [txn.version for txn in facts.checkpoint.txns if txn.app_id == app_id]
    fence = facts.fence if facts.fence is not None else max(rows, default=None)
    positions = [s for s in positions_in(facts.checkpoint.txns) if s.pipeline == pipeline and s.sequence == fence]
    if not positions:
        return refuse_newer((txn.app_id for txn in facts.checkpoint.txns), pipeline, fence)
    position = positions[0]
    if position.on.table_id != facts.table_id:
        return _table_replaced(position, facts, facts.checkpoint.version)
    # The commits since can no longer be read. But whether a file of the position is in the table can be checked.
    doubt = _doubt_about(position, facts.active_adds)
    if doubt is not None:
        return Refuse(
            kind=Kind.TABLE_REWRITTEN,
            message=(
                f"the position of pipeline {pipeline!r} is in the Delta checkpoint of version"
                f" {facts.checkpoint.version} only: sequence {position.sequence}, {describe_position(position)}. The"
                f" commits since are gone, and {doubt}. Look whether the table holds exactly the records up to that"
                f" position. If it does, go on from there: {import_commands(pipeline, position.sequence)}. If it does"
                f" not, restore the table from a backup that does."
            ),
        )
    refusal = check_rewrites(facts.commits) or _check_start(position, source, start_from)
    return refusal or Resume(position=position, version=facts.checkpoint.version, path=Path.DELTA_CHECKPOINT)


def _doubt_about(position: Position, active: frozenset[str]) -> str | None:
    """Why the table may not hold what the position says. None: there is no reason to doubt it."""
    added, removed = position.on.add_path, position.on.removed_path
    if added is not None and unquote(added) not in active:
        return (
            f"{added}, which it added, is no longer part of the table: compacted, or deleted, or a RESTORE has taken it"
            f" out"
        )
    if removed is not None and unquote(removed) in active:
        return f"{removed}, which its rollback removed, is part of the table again: a RESTORE has brought it back"
    if added is None and position.begun.start_from == IMPORTED:
        return "it was imported from another table: nothing here says that its records are still in this one"
    return None


def _position_lost(facts: TableFacts, pipeline: str) -> Refuse | None:
    if not facts.fence:
        return None
    return Refuse(
        kind=Kind.POSITION_NOT_FOUND,
        message=(
            f"pipeline {pipeline!r} has committed sequence {facts.fence} to this table, but the commit that holds its"
            f" position is neither among the log's JSON files nor in a Delta checkpoint. Nothing says what of its"
            f" source is in the table: starting again would double it. Restore the missing commits of _delta_log from"
            f" a backup; or, if nobody has restored or overwritten the table since, import an exported position of"
            f" sequence {facts.fence} (blizzard checkpoint import --replace --unverified; with --from-mirror if there"
            f" is a checkpoint.mirror). If there is neither, ingest the source into another --table."
        ),
    )


def _beginning(
    facts: TableFacts,
    pipeline: str,
    source: SourceIdentity | None,
    start_from: StartFrom | None,
    has_data: bool,
    reads_again: bool,
) -> Fresh | Refuse:
    """How a pipeline begins that has no position in the table."""
    standings = standings_of(facts.commits, facts.checkpoint)
    other = find_reader(standings, pipeline=pipeline, source=source)
    if other is not None and source is not None and not reads_again:
        return refuse_second_reader(other, pipeline, source)
    is_lost = facts.has_own_files and not standings
    is_decided = start_from is not None and not (start_from.lasts and (is_lost or facts.may_have_forgotten))
    if not has_data or is_decided:
        return _fresh(start_from, reads_again)
    if _has_rust_position(facts):
        return _has_data(
            pipeline, "the Rust program's positions are in its log: --adopt goes on from the newest of them"
        )
    if is_lost:
        return _has_data(
            pipeline,
            "it holds files that blizzard wrote, and no position of any pipeline: they have expired or were lost with"
            " their commits, and beginning again would double what was read. Restore _delta_log from a backup, or"
            " import its newest exported position (blizzard checkpoint import --unverified; with --from-mirror if there"
            " is a checkpoint.mirror), if nobody has restored or overwritten the table since. If there is neither,"
            " ingest the source into another --table",
        )
    if start_from is not None:
        return _has_data(
            pipeline,
            "its log does not go back to its beginning, so nobody can say whether this pipeline has written to it and"
            " its position has expired. start_from in the configuration does not decide that. If it never has: run it"
            " once for this table alone, with --start-from, then with all targets",
        )
    known = ", ".join(sorted(standings))
    others = f" Its pipelines ({known}) read other sources." if known else ""
    if other is not None:
        others = f" Pipeline {other.pipeline} of this table has read this source: its records will be there twice."
    return _has_data(
        pipeline,
        "if none of it came from this source, by whatever program, begin with --start-from beginning; if some did,"
        f" --start-from after:NAME leaves out the files up to NAME, the last one that is in the table.{others}",
    )


def _has_data(pipeline: str, way_out: str) -> Refuse:
    what = (
        f"the table already has data, or its beginning is gone from the log, and pipeline {pipeline!r} has no position"
    )
    return Refuse(kind=Kind.TABLE_HAS_DATA, message=f"{what} here: {way_out.rstrip('.')}.")


def _fresh(start_from: StartFrom | None, reads_again: bool) -> Fresh:
    if start_from is None:
        return Fresh(marks=Marks(), start_from=None, reads_again=reads_again)
    position = start_from.adopted or Marks(last_committed_file=start_from.after)
    return Fresh(marks=position, start_from=str(start_from), reads_again=reads_again, since_ms=start_from.since_ms)


def _position_of(commit: CommitFacts, pipeline: str) -> Position | Refuse:
    """The pipeline's position in the commit with its newest fence. A damaged one is refused, not skipped."""
    sequence = fence_version(commit, pipeline)
    newer = refuse_newer(payloads(commit), pipeline, sequence)
    if newer is not None:
        return newer
    decoded = decode_payloads(commit.txns)
    problems = [f"{e.kind}: {e}" for e in decoded.damaged]
    for position in decoded.positions:
        if position.pipeline == pipeline:
            if position.sequence == sequence:
                return position
            problems.append(f"its payload is of sequence {position.sequence}, its fence of {sequence}")
    why = "; ".join(problems) or f"the commit carries {fence_app_id(pipeline)} but no payload"
    return Refuse(
        kind=Kind.DAMAGED_CHECKPOINT,
        message=(
            f"the position of pipeline {pipeline!r} in version {commit.version} cannot be used ({why})."
            f" Restore _delta_log/{commit.version:020d}.json from a backup, or import an exported position of sequence"
            f" {sequence} (blizzard checkpoint import --replace; with --from-mirror if there is a checkpoint.mirror)."
        ),
    )


def _check_commit(position: Position, found: CommitFacts, facts: TableFacts) -> Refuse | None:
    if facts.fence is not None and facts.fence != position.sequence:
        return Refuse(
            kind=Kind.STALE_CHECKPOINT,
            message=(
                f"the newest position found is sequence {position.sequence} (version {found.version}), but the table's"
                f" fence stands at {facts.fence}: a newer commit is missing from the log. Restore it from a backup."
            ),
        )
    if position.on.table_id != facts.table_id:
        return _table_replaced(position, facts, found.version)
    if position.on.delta_version >= found.version:
        return Refuse(
            kind=Kind.LOG_REWRITTEN,
            message=(
                f"the position in version {found.version} was planned on version {position.on.delta_version}: the log"
                f" was truncated or rewritten. Restore _delta_log from a backup."
            ),
        )
    return _check_held(position, found, facts)


def _check_held(position: Position, found: CommitFacts, facts: TableFacts) -> Refuse | None:
    """Refuses if the table may no longer hold what the position says. Its own commit proves that it did then."""
    refusal = check_rewrites(c for c in facts.commits if c.version > position.on.delta_version)
    since = any(rewrites_table(c) for c in facts.commits if c.version > found.version)
    if refusal is None or facts.history is None or not since:
        return refusal
    return judge_position(judge_history(facts.history, position.pipeline), position.sequence)


def _table_replaced(position: Position, facts: TableFacts, version: int) -> Refuse:
    return Refuse(
        kind=Kind.TABLE_REPLACED,
        message=(
            f"the position of pipeline {position.pipeline!r} in version {version} was written to table id"
            f" {position.on.table_id}, this table is {facts.table_id}: it was replaced or copied. Look whether this"
            f" table holds the records up to that position: sequence {position.sequence},"
            f" {describe_position(position)}. If it does, go on from there:"
            f" {import_commands(position.pipeline, position.sequence)}. If it holds none of them, ingest the source"
            f" into another --table."
        ),
    )


def check_rewrites(commits: Iterable[CommitFacts]) -> Refuse | None:
    """Refuses if one of these foreign commits may have taken away rows that a position counts, or brought back rows
    that it does not count."""
    rewrite = next(filter(rewrites_table, commits), None)
    if rewrite is None:
        return None
    what = rewrite.operation or "commit that removes files and does not say why"
    return Refuse(
        kind=Kind.TABLE_REWRITTEN,
        message=(
            f"version {rewrite.version} of the table is a {what}: rows that were ingested may be gone, or rows that"
            f" were taken back may be there again. Nothing was committed. blizzard status --explain says what the table"
            f" holds now and what to do."
        ),
    )


def _check_start(position: Position, source: SourceIdentity | None, start_from: StartFrom | None) -> Refuse | None:
    if start_from is not None:
        return Refuse(
            kind=Kind.START_FROM_REJECTED,
            message=(
                f"--start-from and --adopt are for a pipeline that has not begun; {position.pipeline!r} stands at"
                f" sequence {position.sequence} ({describe_position(position)}). Leave the option out to go on from"
                f" there."
            ),
        )
    if source is not None and source != position.source:
        return refuse_other_source(position, source)
    return None


def refuse_other_source(position: Position, source: SourceIdentity) -> Refuse:
    goes_on = options_of(position.pipeline, position.source, given=source)
    if may_change_to(position.source, source):
        way_out = (
            f"Go on with what it reads: {goes_on}. Or change what it reads, and say what becomes of the files that its"
            f" mark has passed: {choose_command(position.pipeline, source)}"
        )
    elif may_overlap(position.source, source):
        way_out = f"Go on with what it reads: {goes_on}"
    else:
        way_out = (
            f"If its files were moved, make the old path lead to them again and go on with {goes_on}. If this is"
            f" another source, give it a --pipeline name of its own"
        )
    return Refuse(
        kind=Kind.OTHER_SOURCE,
        message=(
            f"pipeline {position.pipeline!r} reads {describe_source(position.source)}, not {describe_source(source)};"
            f" its mark would silently skip files of another source. {way_out}."
        ),
    )


def _has_rust_position(facts: TableFacts) -> bool:
    txns = [txn for commit in facts.commits for txn in commit.txns]
    return bool(decode_payloads((*txns, *(facts.checkpoint.txns if facts.checkpoint is not None else ()))).of_rust)
