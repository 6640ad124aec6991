"""What a Delta log shows, as values: the facts that recovery and commits decide by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.core.codec import FENCE_PREFIX, PREFIX, decode_position, fence_app_id
from blizzard.core.fields import CodecError
from blizzard.core.position import Position, RustPosition


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
    removes_rows: bool = False  # a file was removed, and not only to write the same rows to another file
    predicate: str | None = None  # the condition of an overwrite, a DELETE and the like
    restored_to: int | None = None  # the version that a RESTORE names


@dataclass(frozen=True, slots=True, kw_only=True)
class FileActions:
    """What one commit did to the files and the metadata of the table, as written in the log."""

    version: int
    adds: Mapping[str, Mapping[str, Any]]  # by path
    removes: Mapping[str, Mapping[str, Any]]  # by path
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The commits that were read, and what each did to files: newest first, without a gap."""

    commits: tuple[tuple[CommitFacts, FileActions], ...]
    base: frozenset[str] | None  # paths of the files after the oldest of these commits; None: not known

    @property
    def newest(self) -> int:
        return self.commits[0][0].version

    @property
    def oldest(self) -> int:
        return self.commits[-1][0].version


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
    fence: int | None  # as the snapshot says; None also when it has expired
    commits: tuple[CommitFacts, ...]
    # Read only if the JSON commits do not show the position.
    checkpoint: CheckpointFacts | None = None
    active_adds: frozenset[str] = frozenset()  # files that the checkpoint's positions name and that are in the table
    # Read only if a commit after the position may have taken rows away or brought some back.
    history: History | None = None
    may_have_forgotten: bool = False  # positions expire here, and the log does not go back to its beginning
    has_own_files: bool = False  # has data files that blizzard wrote; looked at only if no position is found


# After one of these the position may no longer fit the data. Nothing else in the log shows it: table id and fence stay
# the same.
_REWRITES = ("RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE", "TRUNCATE", "FSCK")
# These change rows because somebody wants other rows. The position still says what was ingested.
_CHANGES = ("UPDATE", "DELETE", "MERGE")


def rewrites_table(commit: CommitFacts) -> bool:
    """Whether rows may be gone, or back again, contrary to a position. A removal without a known reason counts too."""
    operation = commit.operation.upper()
    if operation.startswith(_REWRITES):
        return True
    if operation in ("WRITE", "STREAMING UPDATE") and (commit.mode or "").upper() in ("OVERWRITE", "COMPLETE"):
        return commit.predicate is None
    return commit.removes_rows and operation not in _CHANGES


def fence_version(commit: CommitFacts, pipeline: str) -> int | None:
    """The sequence that this commit took for the pipeline. None: it is not a commit of this pipeline."""
    app_id = fence_app_id(pipeline)
    return next((txn.version for txn in commit.txns if txn.app_id == app_id), None)


def payloads(commit: CommitFacts) -> tuple[str, ...]:
    return tuple(txn.app_id for txn in commit.txns if txn.app_id.startswith(PREFIX))


def names_pipeline(commit: CommitFacts, pipeline: str) -> bool:
    """Whether the commit carries any trace of the pipeline: its fence, or a payload that decodes to its name."""
    return fence_version(commit, pipeline) is not None or any(
        position.pipeline == pipeline for position in positions_in(commit.txns)
    )


def pipelines_of(commits: Iterable[CommitFacts]) -> dict[str, tuple[CommitFacts, Position]]:
    """The newest sound position of every pipeline in these commits (newest first)."""
    found: dict[str, tuple[CommitFacts, Position]] = {}
    for commit in commits:
        for position in positions_in(commit.txns):
            found.setdefault(position.pipeline, (commit, position))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """What the `blizzard:` Txns of a commit say, sound and damaged ones apart."""

    positions: tuple[Position, ...]
    of_rust: tuple[RustPosition, ...]
    damaged: tuple[CodecError, ...]


def decode_payloads(txns: Iterable[Txn]) -> Payloads:
    """The one place that goes on after a payload that does not decode: whoever needs it looks at `damaged`."""
    positions: list[Position] = []
    of_rust: list[RustPosition] = []
    damaged: list[CodecError] = []
    for app_id in (txn.app_id for txn in txns if txn.app_id.startswith(PREFIX)):
        try:
            found = decode_position(app_id)
        except CodecError as e:
            damaged.append(e)
            continue
        if isinstance(found, Position):
            positions.append(found)
        else:
            of_rust.append(found)
    return Payloads(positions=tuple(positions), of_rust=tuple(of_rust), damaged=tuple(damaged))


def positions_in(txns: Iterable[Txn]) -> tuple[Position, ...]:
    """Every sound position among these Txns."""
    return decode_payloads(txns).positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a pipeline stands. `version` is that of its commit, or of the Delta checkpoint that still holds it."""

    position: Position
    version: int
    committed_at_ms: int


def standings_of(commits: Iterable[CommitFacts], checkpoint: CheckpointFacts | None = None) -> dict[str, Standing]:
    """The newest sound position of every pipeline in these commits (newest first) or in the Delta checkpoint."""
    found = {
        name: Standing(position=position, version=commit.version, committed_at_ms=commit.timestamp_ms)
        for name, (commit, position) in pipelines_of(commits).items()
    }
    for position in positions_in(checkpoint.txns) if checkpoint is not None else ():
        known = found.get(position.pipeline)
        if checkpoint is not None and (known is None or known.position.sequence < position.sequence):
            found[position.pipeline] = Standing(
                position=position, version=checkpoint.version, committed_at_ms=position.taken_at_ms
            )
    return found


def fences_of(txns: Iterable[Txn]) -> dict[str, Txn]:
    """The newest fence of every pipeline that has committed, whether or not its position can be read."""
    found: dict[str, Txn] = {}
    for txn in txns:
        name = txn.app_id.removeprefix(FENCE_PREFIX)
        if name != txn.app_id and txn.version > (found[name].version if name in found else 0):
            found[name] = txn
    return found
