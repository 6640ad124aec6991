"""How a run begins: Resume from the newest checkpoint, Fresh, or Refuse. Never a guess.

A table that has data but no readable position is never started fresh unless the user says so: that would
ingest everything once more.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from blizzard.core.codec import CodecError, decode_state, fence_app_id
from blizzard.core.fold import CannotFold, fold_ledgers
from blizzard.core.log import (
    CommitFacts,
    TableFacts,
    fence_version,
    names_pipeline,
    payloads,
    pipelines_of,
    rewrites_table,
    states_in,
)
from blizzard.core.state import CheckpointState, RustCheckpointState, SourceState
from blizzard.core.types import SourceFile, SourceIdentity, find_file

# In place of a StartFrom, in the state of a pipeline whose position came from another table, or another program.
IMPORTED = "import"
ADOPTED = "adopt"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFrom:
    """The user's word on where a pipeline begins. `after` None: at the first file, unless the position of another
    program is to be taken over; `adopted` is that position, once it has been found."""

    after: str | None = None
    adopts: bool = False
    adopted: SourceState | None = None

    def __str__(self) -> str:
        if self.adopts:
            return ADOPTED
        return "beginning" if self.after is None else f"after:{self.after}"

    @staticmethod
    def parse(text: str) -> StartFrom | None:
        """What __str__ wrote, or a user; None where it is neither form."""
        if text == "beginning":
            return StartFrom(after=None)
        name = text.removeprefix("after:")
        return StartFrom(after=name) if name and name != text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Go on from this state; it was committed as `version`."""

    state: CheckpointState
    version: int
    path: str = "log"

    @property
    def source_state(self) -> SourceState:
        return self.state.source_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Nothing of this pipeline has ever been committed."""

    source_state: SourceState
    start_from: str | None
    path: str = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Going on could lose or double data. `kind` is stable, `message` says what to do."""

    kind: str
    message: str
    path: str = "refused"


Recovery = Resume | Fresh | Refuse


def decide_recovery(
    facts: TableFacts | None, *, pipeline: str, source: SourceIdentity | None, start_from: StartFrom | None
) -> Recovery:
    """`facts` is None where there is no table yet; `source` is None where only the table is being looked at."""
    if facts is None:
        return _fresh(start_from)
    found = next((c for c in facts.commits if names_pipeline(c, pipeline)), None)
    if found is None or fence_version(found, pipeline) == 0:
        if found is not None and not facts.fence:
            return _fresh(start_from)  # it made the table and ingested nothing, whatever others did
        return _without_position(facts, pipeline, source, start_from)
    state, path = _state_of(found, pipeline), "log"
    if isinstance(state, Refuse):
        state, path = _rebuild(state, found, facts, pipeline), "ledgers"
    if isinstance(state, Refuse):
        return state
    refusal = _check_commit(state, found, facts) or _check_start(state, source, start_from)
    return refusal or Resume(state=state, version=found.version, path=path)


def _rebuild(damaged: Refuse, found: CommitFacts, facts: TableFacts, pipeline: str) -> CheckpointState | Refuse:
    """The newest payload cannot be read: one before it and the ledgers since say the same."""
    problem: CannotFold | None = None
    for i, commit in enumerate(facts.commits):
        base = pipelines_of([commit]).get(pipeline)
        if commit.version >= found.version or base is None or base[1].sequence != fence_version(commit, pipeline):
            continue
        try:
            folded = fold_ledgers(base[1], reversed(facts.commits[:i]))
        except CannotFold as e:
            problem = problem or e  # an older one may do: a rollback goes back to one before it
            continue
        return folded if folded.sequence == fence_version(found, pipeline) else damaged
    if problem is None:
        return damaged
    return replace(damaged, message=f"{damaged.message} Its ledgers do not replace it: {problem}.")


def _from_checkpoint(
    facts: TableFacts, pipeline: str, source: SourceIdentity | None, start_from: StartFrom | None
) -> Recovery | None:
    """The position in a Delta checkpoint, where log cleanup has taken the commit it came in. None: it is not there."""
    if facts.checkpoint is None:
        return None
    app_id = fence_app_id(pipeline)
    rows = [txn.version for txn in facts.checkpoint.txns if txn.app_id == app_id]
    fence = facts.fence if facts.fence is not None else max(rows, default=None)
    states = [s for s in states_in(facts.checkpoint.txns) if s.pipeline == pipeline and s.sequence == fence]
    if not states:
        return None
    state = states[0]
    if state.table_id != facts.table_id:
        return _table_replaced(state, facts, facts.checkpoint.version)
    # What was done to the table since cannot be read any more. That the data of the position is there can be.
    if state.add_path is not None and state.add_path not in facts.active_adds:
        return Refuse(
            kind="table_rewritten",
            message=(
                f"the position of pipeline {pipeline!r} (sequence {state.sequence}) is in the Delta checkpoint of"
                f" version {facts.checkpoint.version}; the commits since it was written are gone, and {state.add_path},"
                f" which it added, is no longer part of the table: compacted, deleted, or rolled back. Look at what the"
                f" table holds, then start under another --pipeline name with --start-from."
            ),
        )
    refusal = check_rewrites(facts.commits, state) or _check_start(state, source, start_from)
    return refusal or Resume(state=state, version=facts.checkpoint.version, path="delta_checkpoint")


def _without_position(
    facts: TableFacts, pipeline: str, source: SourceIdentity | None, start_from: StartFrom | None
) -> Recovery:
    recovered = _from_checkpoint(facts, pipeline, source, start_from)
    if recovered is not None:
        return recovered
    if facts.fence:
        return Refuse(
            kind="position_not_found",
            message=(
                f"pipeline {pipeline!r} has committed sequence {facts.fence} to this table, but the commit that holds"
                f" its position is neither among the log's JSON files nor in a Delta checkpoint. Starting again would"
                f" double the data. Restore the missing commits of _delta_log from a backup, or use another --pipeline"
                f" name and --start-from."
            ),
        )
    if facts.has_data and start_from is None:
        rust = any(isinstance(s, RustCheckpointState) for c in facts.commits for s in _decodable(c))
        by = " (the Rust program's positions are in its log: --adopt takes over the newest)" if rust else ""
        return Refuse(
            kind="table_has_data",
            message=(
                f"the table already has data{by}, or its beginning is gone from the log, and there is no position of"
                f" pipeline {pipeline!r}. If it never ran here, say"
                f" where to begin: --start-from beginning, or --start-from after:NAME to skip the files up to NAME. If"
                f" it did, its position has expired or its name has changed (see blizzard status), and beginning again"
                f" would double its data."
            ),
        )
    return _fresh(start_from)


def _fresh(start_from: StartFrom | None) -> Fresh:
    if start_from is None:
        return Fresh(source_state=SourceState(), start_from=None)
    state = start_from.adopted or SourceState(last_committed_file=start_from.after)
    return Fresh(source_state=state, start_from=str(start_from))


def _described(source: SourceIdentity) -> str:
    marks = f", marks per {source.marks_per}" if source.marks_per is not None else ""
    return f"{source.root} ({source.pattern}{marks})"


def _state_of(commit: CommitFacts, pipeline: str) -> CheckpointState | Refuse:
    """The pipeline's state in the commit that took its newest fence. A damaged one is refused, not skipped."""
    sequence = fence_version(commit, pipeline)
    problems = []
    for app_id in payloads(commit):
        try:
            state = decode_state(app_id)
        except CodecError as e:
            problems.append(f"{e.kind}: {e}")
            continue
        if isinstance(state, CheckpointState) and state.pipeline == pipeline:
            if state.sequence == sequence:
                return state
            problems.append(f"its payload is of sequence {state.sequence}, its fence of {sequence}")
    why = "; ".join(problems) or f"the commit carries {fence_app_id(pipeline)} but no payload"
    return Refuse(
        kind="damaged_checkpoint",
        message=(
            f"the checkpoint of pipeline {pipeline!r} in version {commit.version} cannot be used ({why})."
            f" Restore _delta_log/{commit.version:020d}.json from a backup."
        ),
    )


def _check_commit(state: CheckpointState, found: CommitFacts, facts: TableFacts) -> Refuse | None:
    if facts.fence is not None and facts.fence != state.sequence:
        return Refuse(
            kind="stale_checkpoint",
            message=(
                f"the newest position found is sequence {state.sequence} (version {found.version}), but the table's"
                f" fence stands at {facts.fence}: a newer commit is missing from the log. Restore it from a backup."
            ),
        )
    if state.table_id != facts.table_id:
        return _table_replaced(state, facts, found.version)
    if state.delta_version >= found.version:
        return Refuse(
            kind="log_rewritten",
            message=(
                f"the checkpoint in version {found.version} was planned on version {state.delta_version}: the log was"
                f" truncated or rewritten. Restore _delta_log from a backup."
            ),
        )
    return check_rewrites((c for c in facts.commits if c.version > state.delta_version), state)


def _table_replaced(state: CheckpointState, facts: TableFacts, version: int) -> Refuse:
    return Refuse(
        kind="table_replaced",
        message=(
            f"the checkpoint in version {version} was written to table id {state.table_id}, this table is"
            f" {facts.table_id}: it was replaced or copied. Choose another --pipeline name with --start-from."
        ),
    )


def check_rewrites(commits: Iterable[CommitFacts], state: CheckpointState | None) -> Refuse | None:
    """Whether any of these foreign commits took away what the position says is in the table.

    `state` is the position that stands in the log, where it is known.
    """
    rewrite = next(filter(rewrites_table, commits), None)
    if rewrite is None:
        return None
    what = rewrite.operation or "commit that removes files and does not say why"
    return Refuse(
        kind="table_rewritten",
        message=(
            f"version {rewrite.version} of the table is a {what}: data this pipeline has ingested may be gone, and its"
            f" position no longer fits the table. Look at what the table holds. If it is as it was after one of the"
            f" pipeline's sequences (a RESTORE), put that position back: blizzard checkpoint export --sequence N, then"
            f" blizzard checkpoint import --replace. Else start under another --pipeline name with --start-from"
            f" beginning{_onwards(state)}."
        ),
    )


def _onwards(state: CheckpointState | None) -> str:
    """`after:` is only offered where it would leave out nothing that was not ingested."""
    if state is None or state.source_state.last_committed_file is None or state.source_state.files:
        return ""
    return f", or 'after:{state.source_state.last_committed_file}' to leave the earlier files alone"


def _check_start(state: CheckpointState, source: SourceIdentity | None, start_from: StartFrom | None) -> Refuse | None:
    if start_from is not None:
        return Refuse(
            kind="start_from_rejected",
            message=(
                f"--start-from is for a pipeline that has not begun; {state.pipeline!r} stands at sequence"
                f" {state.sequence}. Leave the option out to resume, or choose another --pipeline name."
            ),
        )
    if source is not None and source != state.source:
        return Refuse(
            kind="other_source",
            message=(
                f"pipeline {state.pipeline!r} reads {_described(state.source)}, not {_described(source)}; its mark"
                f" would silently skip files of another source. Give the other source a --pipeline name of its own"
                f" (with --start-from, since the table has data)."
            ),
        )
    return None


def check_in_progress(state: SourceState, listing: Sequence[SourceFile]) -> Refuse | None:
    """A file of which a part is committed can only be resumed if it is still the same file."""
    for path, progress in sorted(state.in_progress.items()):
        if progress.records == 0:
            continue
        file = find_file(listing, path)
        if file is None:
            what = "is no longer in the source"
        elif (file.size_bytes, file.etag) != (progress.size_bytes, progress.etag):
            was, now = (
                f"{progress.size_bytes} bytes, etag {progress.etag}",
                f"{file.size_bytes} bytes, etag {file.etag}",
            )
            what = f"has changed (was {was}; is {now}; on local disk the etag is the mtime in ns)"
        else:
            continue
        return Refuse(
            kind="source_changed",
            message=(
                f"{path} {what}, but its first {progress.records} records are already committed and the rest is not."
                f" Put the original file back and run again, or give the rest up: blizzard checkpoint skip --file"
                f" {shlex.quote(path)}."
            ),
        )
    return None


def _decodable(commit: CommitFacts) -> list[CheckpointState | RustCheckpointState]:
    states = []
    for app_id in payloads(commit):
        try:
            states.append(decode_state(app_id))
        except CodecError:
            continue
    return states
