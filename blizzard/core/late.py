"""Late files: names at or before the mark that no commit has ever taken. They are counted and told, never silent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blizzard.core.ledger import ledger_paths
from blizzard.core.log import CommitFacts
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile, find_file, first_after

# Files older than the oldest ledger that is left, less this, are taken for ones an earlier ledger knew.
_GRACE_MS = 3600 * 1000


def find_late_files(
    listing: Sequence[SourceFile], state: CheckpointState, commits: Iterable[CommitFacts]
) -> tuple[str, ...]:
    """`commits` run backwards and are read only as far as needed. What `after:NAME` skipped is not late."""
    mark = state.source_state.last_committed_file
    start = state.start_from or ""
    skipped_to = start.removeprefix("after:") if start.startswith("after:") else None
    if mark is None:
        return ()
    first = 0 if skipped_to is None else first_after(listing, skipped_to)
    paths = (listing[i].path for i in range(first, first_after(listing, mark)))
    candidates = {path for path in paths if path not in state.source_state.files}
    oldest: CommitFacts | None = None
    for commit in commits if candidates else ():
        oldest = commit
        candidates.difference_update(ledger_paths(commit.user_metadata, state.pipeline))
        if not candidates:
            return ()
    if oldest is not None and oldest.version > 0:
        horizon_ms = oldest.timestamp_ms - _GRACE_MS
        candidates = {path for path in candidates if _seen_ms(listing, path) >= horizon_ms}
    return tuple(sorted(candidates))


def _seen_ms(listing: Sequence[SourceFile], path: str) -> int:
    file = find_file(listing, path)
    return file.seen_ms if file is not None else 0
