"""What going back to an older position would take: which files to remove, which slices are read again, or why not.

Everything is judged on one version of the table, and the result must be committed on that version and no other: a file
that somebody else has rewritten meanwhile would keep its rows while the position forgets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.core.history import Superseded
from blizzard.core.ledger import Ledger, LedgerEntry, decode_ledger
from blizzard.core.log import CommitFacts, fence_version, states_in
from blizzard.core.recover import Refuse, StartFrom
from blizzard.core.state import CheckpointState, SourceState
from blizzard.core.types import SourceFile, find_file


@dataclass(frozen=True, slots=True, kw_only=True)
class FileActions:
    """What one commit did to the files and the metadata of the table, as the log has it."""

    version: int
    adds: Mapping[str, Mapping[str, Any]]  # by path
    removes: frozenset[str]
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Commit `state`, with the removal of `files`, on the version all of this was read from."""

    target: CheckpointState  # as it was committed; the sequence to come is another
    superseded: tuple[int, ...]  # all after the target, those that were taken back before among them
    files: tuple[Mapping[str, Any], ...]  # the Adds to remove
    entries: tuple[LedgerEntry, ...]  # what will be read again
    records: int
    first_version: int  # the oldest commit that is taken back

    @property
    def source_files(self) -> tuple[str, ...]:
        return tuple(sorted({entry.path for entry in self.entries}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    facts: CommitFacts
    actions: FileActions
    ledger: Ledger
    sequence: int


def plan_rollback(
    history: Sequence[tuple[CommitFacts, FileActions]], *, current: CheckpointState, to: int
) -> RollbackPlan | Refuse:
    """`history` runs from the newest commit back to that of sequence `to`, or to the table's first, without a gap."""
    if not 0 <= to < current.sequence:
        return _no_target(to, f"the newest sequence is {current.sequence}")
    ours = _commits_of(history, current.pipeline)
    if isinstance(ours, Refuse):
        return ours
    later = {c.sequence: c for c in ours if c.sequence > to}
    if set(later) != set(range(to + 1, current.sequence + 1)):
        missing = min(set(range(to + 1, current.sequence + 1)) - set(later))
        return _no_target(to, f"the commit of sequence {missing} is no longer in the log")
    superseded = Superseded()
    gone = {c.sequence for c in ours if superseded.meets(c.ledger)}
    if to in gone:
        return _no_target(to, "a rollback has taken it back, and its rows are gone")
    target = _target(history, ours, current, to)
    if isinstance(target, Refuse):
        return target
    taken_back = [later[sequence] for sequence in sorted(later) if sequence not in gone]
    replayed = next((c for c in taken_back if c.ledger.kind == "replay"), None)
    if replayed is not None:
        return Refuse(
            kind="rollback_replay",
            message=(
                f"sequence {replayed.sequence} is a replay of records from quarantine: they would be gone from the"
                f" table and from quarantine. Roll back to sequence {replayed.sequence} or a later one."
            ),
        )
    changed = _find_changed(history, taken_back) or _find_cleaned(taken_back, current)
    if changed is not None:
        return changed
    return RollbackPlan(
        target=target,
        superseded=tuple(range(to + 1, current.sequence + 1)),
        files=tuple(add for c in taken_back for add in c.actions.adds.values()),
        entries=tuple(entry for c in taken_back for entry in c.ledger.entries),
        records=sum(c.ledger.records for c in taken_back),
        first_version=min(c.facts.version for c in later.values()),
    )


def _commits_of(history: Sequence[tuple[CommitFacts, FileActions]], pipeline: str) -> list[_Commit] | Refuse:
    found = []
    for facts, actions in history:
        sequence = fence_version(facts, pipeline)
        if not sequence:
            continue  # another writer's, or the one that made the table
        ledger = decode_ledger(facts.user_metadata)
        if ledger is None or ledger.sequence != sequence:
            return Refuse(
                kind="rollback_ledger",
                message=f"version {facts.version} (sequence {sequence}) has no readable ledger to go back by",
            )
        found.append(_Commit(facts=facts, actions=actions, ledger=ledger, sequence=sequence))
    return found


def _target(
    history: Sequence[tuple[CommitFacts, FileActions]], ours: Sequence[_Commit], current: CheckpointState, to: int
) -> CheckpointState | Refuse:
    if to == 0:
        if history[-1][0].version != 0:
            return _no_target(to, "the beginning of the log is gone")
        start = StartFrom.parse(current.start_from or "beginning")
        if start is None:
            return _no_target(to, f"the pipeline began with {current.start_from}, which is not a position of its own")
        empty = SourceState(last_committed_file=start.after, marks_per=current.source.marks_per)
        return replace(
            current,
            sequence=0,
            source_state=empty,
            add_path=None,
            held_back={},
            list_from={},
            relist_watermark_ms=None,
            relist_names=None,
            young_names=None,
        )
    commit = next((c for c in ours if c.sequence == to), None)
    if commit is None:
        return _no_target(to, "its commit is no longer in the log")
    for state in states_in(commit.facts.txns):
        if state.pipeline == current.pipeline and state.sequence == to:
            return state
    return _no_target(to, f"its payload, in version {commit.facts.version}, cannot be read")


def _find_changed(history: Sequence[tuple[CommitFacts, FileActions]], taken_back: Sequence[_Commit]) -> Refuse | None:
    """Whether any file to be removed is no longer the one that was added. Same path with another deletion vector is a
    new Add of that path, and so it is seen too."""
    added_in = {path: c.facts.version for c in taken_back for path in c.actions.adds}
    for facts, actions in reversed(history):
        touched = sorted(
            path for path in (actions.removes | actions.adds.keys()) & added_in.keys() if facts.version > added_in[path]
        )
        if touched:
            first = min(c.sequence for c in taken_back)
            return Refuse(
                kind="rollback_files",
                message=(
                    f"{touched[0]}, which version {added_in[touched[0]]} added, was changed or replaced by version"
                    f" {facts.version} ({facts.operation or 'unnamed'}): its rows can no longer be told from others."
                    f" Nothing was changed. Delete the rows of the sequences from {first} on yourself (with the"
                    f" provenance column _sequence that is one DELETE), or RESTORE the table to version"
                    f" {min(added_in.values()) - 1}; then put the position back: blizzard checkpoint export --sequence"
                    f" {first - 1}, and blizzard checkpoint import --replace."
                ),
            )
    return None


def _find_cleaned(taken_back: Sequence[_Commit], current: CheckpointState) -> Refuse | None:
    """Whether the sources of any of these are being archived or deleted, though they may still be there."""
    cleaned = [c for c in taken_back if c.sequence <= current.cleaning_through and c.ledger.entries]
    if not cleaned:
        return None
    return Refuse(
        kind="rollback_source",
        message=(
            f"the source files of sequence {cleaned[-1].sequence} have been archived or deleted after their ingest, or"
            f" are about to be (after_ingest), so that its records could not be read again. Nothing was changed. Roll"
            f" back to sequence {cleaned[-1].sequence} or a later one."
        ),
    )


def check_sources(plan: RollbackPlan, listing: Sequence[SourceFile]) -> Refuse | None:
    """Going back is only safe if everything can be read again, as it was."""
    for entry in plan.entries:
        file = find_file(listing, entry.path)
        if file is None:
            what = "is no longer in the source"
        elif (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            what = "is no longer the file that was ingested (other size or etag)"
        else:
            continue
        return Refuse(
            kind="rollback_source",
            message=(
                f"{entry.path} {what}, so that its records could not be read again. Nothing was changed. Put the"
                f" original back, or roll back to a later sequence."
            ),
        )
    return None


def _no_target(to: int, why: str) -> Refuse:
    return Refuse(
        kind="rollback_target",
        message=f"sequence {to} cannot be gone back to: {why}. See blizzard checkpoint list.",
    )
