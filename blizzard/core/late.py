"""Late files: names at or before the mark that no commit has ever taken. They are counted and told, never silent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile

# Files older than the oldest ledger that is left, less this, are taken for ones an earlier ledger knew.
_GRACE_MS = 3600 * 1000


def find_late_files(
    listing: Sequence[SourceFile], state: CheckpointState, commits: Iterable[CommitFacts]
) -> tuple[str, ...]:
    """`commits` run backwards and are read only as far as needed. What `after:NAME` skipped is not late."""
    mark = state.source_state.last_committed_file
    start = state.start_from or ""
    skipped_to = start.removeprefix("after:") if start.startswith("after:") else None
    candidates = {
        file.path: file
        for file in listing
        if mark is not None
        and file.path <= mark
        and file.path not in state.source_state.files
        and (skipped_to is None or file.path > skipped_to)
    }
    oldest: CommitFacts | None = None
    for commit in commits if candidates else ():
        oldest = commit
        ledger = decode_ledger(commit.user_metadata)
        if ledger is not None and ledger.pipeline == state.pipeline:
            for entry in ledger.entries:
                candidates.pop(entry.path, None)
            if not candidates:
                return ()
    if oldest is not None and oldest.version > 0:
        horizon_ms = oldest.timestamp_ms - _GRACE_MS
        candidates = {path: file for path, file in candidates.items() if file.seen_ms >= horizon_ms}
    return tuple(sorted(candidates))
