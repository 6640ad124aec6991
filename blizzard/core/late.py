"""The listing held against the ledgers: late files, and files that changed after they were ingested.

A late file sorts at or before the mark and was never taken by any commit. Both kinds are counted and told, never
silent, and never read by this version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blizzard.core.ledger import ledger_versions
from blizzard.core.log import CommitFacts, fence_version
from blizzard.core.recover import ADOPTED, IMPORTED, StartFrom
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile, first_after

# Files older than the oldest ledger that is left, less this, are taken for ones an earlier ledger knew.
_GRACE_MS = 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexpected:
    late: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()


def compare_with_ledgers(
    listing: Sequence[SourceFile], state: CheckpointState, commits: Iterable[CommitFacts]
) -> Unexpected:
    """`commits` run backwards and are read only as far as needed. What `after:NAME` skipped is not late."""
    mark = state.source_state.last_committed_file
    if mark is None:
        return Unexpected()
    start = StartFrom.parse(state.start_from or "")
    first = first_after(listing, start.after) if start is not None and start.after is not None else 0
    unknown = {listing[i].path: i for i in range(first, first_after(listing, mark))}
    for path in state.source_state.files:
        unknown.pop(path, None)
    rewritten = []
    oldest: CommitFacts | None = None
    imported_ms = 0
    superseded: set[int] = set()
    for commit in commits if unknown else ():
        oldest = commit
        if fence_version(commit, state.pipeline) is not None:
            imported_ms = commit.timestamp_ms
        for path, version in ledger_versions(commit.user_metadata, state.pipeline, superseded):
            index = unknown.pop(path, None)  # the newest ledger that names a file has the last word on it
            if index is not None and (listing[index].size_bytes, listing[index].etag) != version:
                rewritten.append(path)
        if not unknown:
            break
    if state.start_from in (IMPORTED, ADOPTED):  # what was there before, other ledgers know, or none
        unknown = {path: i for path, i in unknown.items() if imported_ms and listing[i].seen_ms > imported_ms}
    if unknown and oldest is not None and oldest.version > 0:
        horizon_ms = oldest.timestamp_ms - _GRACE_MS
        unknown = {path: i for path, i in unknown.items() if listing[i].seen_ms >= horizon_ms}
    return Unexpected(late=tuple(sorted(unknown)), rewritten=tuple(sorted(rewritten)))
