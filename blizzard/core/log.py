"""What a Delta log shows, as values: the facts on which recovery and commit decisions rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from blizzard.core.codec import PREFIX, CodecError, decode_state, fence_app_id
from blizzard.core.state import CheckpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """One JSON commit, reduced to what decisions need."""

    version: int
    timestamp_ms: int
    operation: str
    mode: str | None = None
    txns: tuple[Txn, ...] = ()
    user_metadata: str | None = None
    removes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """What a Delta checkpoint, or a compacted log, still says about commits whose JSON is gone."""

    version: int
    txns: tuple[Txn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The table as recovery finds it. `commits` run from the newest backwards without a gap."""

    version: int
    table_id: str
    has_data: bool
    fence: int | None  # as the snapshot answers; None also when it has expired
    commits: tuple[CommitFacts, ...]
    # Read only where the JSON commits do not show the position.
    checkpoint: CheckpointFacts | None = None
    active_adds: frozenset[str] = frozenset()  # of the Adds that the checkpoint's payloads name, those still there


# After one of these the position and the data no longer belong together, and nothing else in the log shows it:
# table id and fence survive them.
_REWRITES = ("RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE", "TRUNCATE")


def rewrites_table(commit: CommitFacts) -> bool:
    operation = commit.operation.upper()
    if not operation:
        return commit.removes  # files were taken away, and nothing says why
    overwrite = operation in ("WRITE", "STREAMING UPDATE") and (commit.mode or "").upper() in (
        "OVERWRITE",
        "COMPLETE",
    )
    return overwrite or operation.startswith(_REWRITES)


def fence_version(commit: CommitFacts, pipeline: str) -> int | None:
    """The sequence this commit took for the pipeline, or None where it is not one of its commits."""
    app_id = fence_app_id(pipeline)
    return next((txn.version for txn in commit.txns if txn.app_id == app_id), None)


def payloads(commit: CommitFacts) -> tuple[str, ...]:
    return tuple(txn.app_id for txn in commit.txns if txn.app_id.startswith(PREFIX))


def names_pipeline(commit: CommitFacts, pipeline: str) -> bool:
    """Whether the commit carries any trace of the pipeline: its fence, or a payload that decodes to its name."""
    return fence_version(commit, pipeline) is not None or any(
        state.pipeline == pipeline for state in states_in(commit.txns)
    )


def pipelines_of(commits: Iterable[CommitFacts]) -> dict[str, tuple[CommitFacts, CheckpointState]]:
    """The newest sound state of every pipeline in these commits (newest first)."""
    found: dict[str, tuple[CommitFacts, CheckpointState]] = {}
    for commit in commits:
        for state in states_in(commit.txns):
            found.setdefault(state.pipeline, (commit, state))
    return found


def states_in(txns: Iterable[Txn]) -> tuple[CheckpointState, ...]:
    """Every sound state among these Txns."""
    states = []
    for app_id in (txn.app_id for txn in txns if txn.app_id.startswith(PREFIX)):
        try:
            state = decode_state(app_id)
        except CodecError:
            continue
        if isinstance(state, CheckpointState):
            states.append(state)
    return tuple(states)
