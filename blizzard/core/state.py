"""The checkpoint state: a high-water mark over file names, plus the files that are exceptions to it.

A name in `files` says exactly how much of that file is committed and overrides the mark. Any other name is
finished if it sorts at or before the mark, and untouched if it sorts after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import orjson

from blizzard.core.types import SliceReport, SourceIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Every record of the file is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead:
    """The first `records` physical lines are committed. Zero: listed and passed by the mark, nothing taken yet."""

    records: int
    size_bytes: int | None = None  # of the file as it was read; None where nothing was taken
    etag: str | None = None


FileProgress = Finished | RecordsRead
FINISHED = Finished()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    files: Mapping[str, FileProgress] = field(default_factory=lambda: MappingProxyType({}))
    last_committed_file: str | None = None

    def is_finished(self, path: str) -> bool:
        progress = self.files.get(path)
        if progress is not None:
            return isinstance(progress, Finished)
        return self.last_committed_file is not None and path <= self.last_committed_file

    def records_read(self, path: str) -> int:
        progress = self.files.get(path)
        return progress.records if isinstance(progress, RecordsRead) else 0

    @property
    def in_progress(self) -> dict[str, RecordsRead]:
        return {path: p for path, p in self.files.items() if isinstance(p, RecordsRead)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState:
    """Version 2: the whole position of one pipeline, as one commit writes it."""

    pipeline: str
    sequence: int
    run_id: str
    batch_id: str  # random per commit: finds this very commit again after a lost answer
    taken_at_ms: int
    table_id: str
    delta_version: int  # the table version the batch was planned on; the commit itself is a later one
    add_path: str | None  # one Add of the newest commit that had any: still active unless the table was rolled back
    source: SourceIdentity
    schema_fingerprint: str
    source_state: SourceState
    start_from: str | None = None  # how the pipeline joined a table that already had data
    # Files of bad records that this commit named, to be added to the quarantine table after it.
    pending_quarantine: tuple[str, ...] = ()
    # A replay of quarantined records: which ones this commit took, to be deleted from the quarantine table after it.
    replayed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # A rollback: the first and last sequence it took back, whose bad records leave the quarantine table after it.
    rolled_back: tuple[int, int] | None = None
    # Written empty until the features that use them exist; a reader that finds them filled must understand them.
    held_back: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    list_from: str | None = None
    relist_watermark_ms: int | None = None
    prefix_marks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RustCheckpointState:
    """Version 1, as the seed and the Rust program write it: full paths, no pipeline, no identity."""

    source_state: SourceState
    delta_version: int


def entry_bytes(path: str) -> int:
    """About what naming one file costs in the payload's JSON. The planner keeps the sum within the limit."""
    return len(orjson.dumps(path)) + 20


def apply_reports(state: SourceState, reports: Iterable[SliceReport]) -> SourceState:
    """The state after these slices are committed, with every touched file named; the mark has not moved."""
    files = dict(state.files)
    for report in reports:
        if report.finished:
            files[report.path] = FINISHED
        elif report.to_record > 0:
            files[report.path] = RecordsRead(records=report.to_record, size_bytes=report.size_bytes, etag=report.etag)
    return SourceState(files=files, last_committed_file=state.last_committed_file)


def advance_mark(state: SourceState, frontier: Iterable[str]) -> SourceState:
    """Move the mark over `frontier` to where naming the exceptions costs least, and name what it passes.

    Files finish out of order, so "the latest finished file" would pass slower ones and lose them. A file not yet
    started that the mark passes is named as RecordsRead(0); a finished file above the mark stays named.
    """
    names = list(frontier)
    finished_above = sum(entry_bytes(n) for n in names if isinstance(state.files.get(n), Finished))
    best, best_cost, passed_unstarted = -1, finished_above, 0
    for i, name in enumerate(names):
        progress = state.files.get(name)
        if progress is None:
            passed_unstarted += entry_bytes(name)
            continue
        if isinstance(progress, Finished):
            finished_above -= entry_bytes(name)
        if finished_above + passed_unstarted <= best_cost:
            best, best_cost = i, finished_above + passed_unstarted
    if best < 0:
        return state
    files = dict(state.files)
    for name in names[: best + 1]:
        files.setdefault(name, RecordsRead(records=0))
    return SourceState(files=files, last_committed_file=names[best])


def prune_finished(state: SourceState) -> SourceState:
    """Forget the finished files that the mark already covers. What stays is O(files in progress)."""
    mark = state.last_committed_file
    kept = {
        path: progress
        for path, progress in state.files.items()
        if isinstance(progress, RecordsRead) or mark is None or path > mark
    }
    return SourceState(files=kept, last_committed_file=mark)
