"""Files that a mark has passed and nobody has read: how they are looked for, and how they are told from the others.

A late file sorts at or before its mark and was never taken by any commit; a rewritten one was taken and has changed
since. The ledgers know every name that was taken. Where a ledger that would have to know is gone, the answer is
"unclear", never a guess: reading a file twice doubles its records, leaving it out loses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from blizzard.core.ledger import ledger_versions
from blizzard.core.log import CommitFacts, states_in
from blizzard.core.look import digest_files, settled_in, young_files
from blizzard.core.state import CheckpointState, SourceState, prefix_of
from blizzard.core.types import SourceFile, seen_since

GRACE_MS = 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePolicy:
    """What is done about late and about rewritten files, and how far back they are looked for."""

    late: str = "ingest"  # or quarantine, fail, ignore
    rewritten: str = "report"  # or ingest, quarantine, fail, ignore
    unclear: str = "fail"  # or ingest, ignore: where the ledgers that would tell are gone
    grace_ms: int = GRACE_MS
    relist_max_names: int = 10_000
    relist_every_ms: int = 86_400 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What of a source is to be listed: all of it, or for each part only the names after one. Parts not named here are
    new, and listed whole. `also` are names to be looked at wherever they sort."""

    is_full: bool = True
    after: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()


EVERYTHING = Scope()


def plan_listing(state: CheckpointState, policy: LatePolicy, *, now_ms: int) -> Scope:
    """All of it where that is cheap, or was long ago; else from where a late name could still appear."""
    source = state.source_state
    names, looked_ms = state.relist_names, state.relist_watermark_ms
    begun = source.last_committed_file is not None or source.prefix_marks
    if not begun or names is None or looked_ms is None:
        return EVERYTHING
    if names <= policy.relist_max_names or now_ms - looked_ms >= policy.relist_every_ms:
        return EVERYTHING
    marks = dict(source.prefix_marks)
    if source.last_committed_file is not None:
        marks[""] = source.last_committed_file
    after = {part: min(mark, state.list_from.get(part, mark)) for part, mark in marks.items()}
    also = [path for path in source.in_progress if path <= after.get(prefix_of(path, source.marks_per), "")]
    return Scope(is_full=False, after=after, also=tuple(sorted(also)))


def as_looked_at(state: CheckpointState, now_ms: int) -> CheckpointState:
    """For a position that no ledger stands behind, taken over or moved here: only what appears from now on, by the
    store's clock, can be late."""
    return replace(state, late_from_ms=now_ms, relist_watermark_ms=now_ms, relist_names=None, young_names=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexpected:
    late: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()  # late, or rewritten: the ledgers that knew are gone


def compare_with_ledgers(
    listing: Sequence[SourceFile],
    state: CheckpointState,
    commits: Iterable[CommitFacts],
    *,
    grace_ms: int = GRACE_MS,
    now_ms: int | None = None,
) -> Unexpected:
    """`commits` run backwards and are read only as far as needed. What `after:NAME` skipped is not late. `now_ms` is
    when the listing was made: a look by a clock that was ahead does not hide what came after it."""
    unknown = _candidates(listing, state, grace_ms, now_ms)
    # Those of the last look that are as they were then need no ledger: an idle run reads none.
    for path in _settled_at_last_look(listing, state, grace_ms) if unknown else ():
        unknown.pop(path, None)
    rewritten: list[str] = []
    oldest: CommitFacts | None = None
    oldest_state: SourceState | None = None
    superseded: set[int] = set()
    for commit in commits if unknown else ():
        oldest = commit
        for path, version in ledger_versions(commit.user_metadata, state.pipeline, superseded):
            file = unknown.pop(path, None)  # the newest ledger that names a file has the last word on it
            if file is not None and (file.size_bytes, file.etag) != version:
                rewritten.append(path)
        if not unknown:
            break
        oldest_state = _state_in(commit, state.pipeline) or oldest_state
    unclear: set[str] = set()
    if unknown and (oldest is None or oldest.version > 0):
        # Older ledgers are gone. Only what the mark had not yet passed at the oldest that is left was never in them.
        unclear = {path for path in unknown if oldest_state is None or oldest_state.is_finished(path)}
    return Unexpected(
        late=tuple(sorted(unknown.keys() - unclear)),
        rewritten=tuple(sorted(rewritten)),
        unclear=tuple(sorted(unclear)),
    )


def _settled_at_last_look(listing: Sequence[SourceFile], state: CheckpointState, grace_ms: int) -> set[str]:
    """The young files of the last look, if they are still the same: then none was added or changed since."""
    young = list(young_files(listing, state, grace_ms))
    return {file.path for file in young} if digest_files(young) == state.young_names else set()


def _candidates(
    listing: Sequence[SourceFile], state: CheckpointState, grace_ms: int, now_ms: int | None
) -> dict[str, SourceFile]:
    """Names that their mark has passed and the state does not name, and that may be younger than the last full look."""
    looked_ms = state.relist_watermark_ms or 0
    if now_ms is not None:
        looked_ms = min(looked_ms, now_ms)
    known_ms, is_settled = max(looked_ms - grace_ms, state.late_from_ms), settled_in(state)
    return {file.path: file for file in seen_since(listing, known_ms) if is_settled(file.path)}


def _state_in(commit: CommitFacts, pipeline: str) -> SourceState | None:
    return next((s.source_state for s in states_in(commit.txns) if s.pipeline == pipeline), None)
