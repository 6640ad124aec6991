"""The position: how far one pipeline has read its source, as a mark over file names and the exceptions to it.

A name in `files` says exactly how much of that file is committed, and overrides the mark. Any other name is finished
if it sorts at or before the mark, and untouched if it sorts after it. If folders (region=, tenant=) do not follow one
time, each value of the key has its own mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import orjson

from blizzard.core.framing import LINES, UTF8
from blizzard.core.kinds import Kind
from blizzard.core.types import SliceReport, SourceIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The file is done: every record is committed, or the rest was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead:
    """The first `records` records are committed, as `framing` counts them. Zero: nothing is taken yet."""

    records: int
    size_bytes: int | None = None  # of the file as it was read; None if nothing was taken
    etag: str | None = None
    framing: str = LINES  # neither changes while records are committed, whatever the settings say
    encoding: str = UTF8  # with the compression, if not every release knew it: utf-8+bzip2


FileProgress = Finished | RecordsRead
FINISHED = Finished()
# Reasons why a named file, of which nothing was taken yet, goes to quarantine unread.
GIVEN_UP = ("late", "rewritten")
# Reasons to hold a file back that do not go away by waiting begin with one of these.
FOR_A_PERSON = tuple(
    f"{kind}:"
    for kind in (Kind.UNREADABLE, Kind.WRONG_COMPRESSION, Kind.WRONG_ENCODING, Kind.OTHER_KIND, Kind.ARCHIVED)
)


def prefix_of(path: str, marks_per: str | None) -> str:
    """The part of a source that a file belongs to: all folders up to `key=value`. Empty if there is none.

    Within one part, names follow time. A name of another part may sort before them and arrive after them.
    """
    if marks_per is None:
        return ""
    start = 0
    while (end := path.find("/", start)) >= 0:
        if path.startswith(f"{marks_per}=", start):
            return path[: end + 1]
        start = end + 1
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    files: Mapping[str, FileProgress] = field(default_factory=lambda: MappingProxyType({}))
    last_committed_file: str | None = None
    # A mark for each part of the source, if names of different parts do not follow one time.
    prefix_marks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    marks_per: str | None = None

    def mark_of(self, path: str) -> str | None:
        """The mark that this name is compared with."""
        prefix = prefix_of(path, self.marks_per)
        return self.prefix_marks.get(prefix) if prefix else self.last_committed_file

    def is_passed(self, path: str) -> bool:
        """Whether the name is at or before its mark."""
        mark = self.mark_of(path)
        return mark is not None and path <= mark

    def is_finished(self, path: str) -> bool:
        progress = self.files.get(path)
        if progress is not None:
            return isinstance(progress, Finished)
        return self.is_passed(path)

    def records_read(self, path: str) -> int:
        progress = self.files.get(path)
        return progress.records if isinstance(progress, RecordsRead) else 0

    def in_progress_of(self, path: str) -> RecordsRead | None:
        """None: no record of it is committed, or all are."""
        progress = self.files.get(path)
        return progress if isinstance(progress, RecordsRead) and progress.records else None

    @property
    def in_progress(self) -> dict[str, RecordsRead]:
        return {path: p for path, p in self.files.items() if isinstance(p, RecordsRead)}

    def with_mark(self, mark: str) -> Marks:
        prefix = prefix_of(mark, self.marks_per)
        if prefix:
            return replace(self, prefix_marks={**self.prefix_marks, prefix: mark})
        return replace(self, last_committed_file=mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineHead:
    """The commit of a pipeline that last changed the quarantine: it put bad records in, or took some out."""

    batch_id: str
    sequence: int
    previous: str | None = None  # the batch that changed it before this one
    table_id: str | None = None  # of the quarantine table


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOn:
    """The table, as it was when the commit was planned."""

    table_id: str
    delta_version: int  # the version that was looked at; the commit itself is a later one
    schema_fingerprint: str
    # Two witnesses, if only a Delta checkpoint is left of the log. `add_path`: one Add of the newest commit that had
    # any. It is in the table, unless it was compacted, deleted, or removed by a RESTORE. `removed_path`: a file that a
    # rollback removed, if nothing was added since. It is not in the table, unless a RESTORE brought it back.
    add_path: str | None = None
    removed_path: str | None = None
    # Of the settings that the newest batch was read under, if they were not the defaults. The files in progress may
    # have been read under others before.
    settings_fingerprint: str | None = None
    transform: str | None = None  # the fingerprint of the transform that made the rows of that batch, if there was one


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """How the pipeline came to this table."""

    start_from: str | None = None  # beginning, after:NAME, date:…, import or adopt; None: the user did not say
    # Files that were changed before this moment are never read. It stays when the position is imported.
    since_ms: int | None = None
    # The user allowed (--reads-again) that another pipeline of this table has read the same files.
    reads_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the source so far, so that the next look need not list everything again."""

    # Files named in the marks that were held back, or that go to quarantine unread, and why.
    held_back: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Where an ordinary listing begins, for each part of the source. Between this name and the mark, files are so young
    # that a late one may still appear.
    list_from: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # When the source was last listed whole, by the store's clock, and how many names there were.
    relist_watermark_ms: int | None = None
    relist_names: int | None = None
    # A count and a digest of the files that the mark had passed and that were about as young as that look. While it
    # fits the listing, none of them is late or rewritten, and no ledger has to be read.
    young_names: str | None = None
    # The same for all files, of any age, that the mark had passed when all names were last compared with the ledgers,
    # and for those that it passed since. While it fits the listing, nothing came in behind the mark.
    settled_names: str | None = None
    names_compared_ms: int | None = None  # when that was, by the store's clock
    # Only files seen since then, by the store's clock, can be late: a position that was adopted or imported has no
    # ledgers.
    late_from_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForQuarantine:
    """What is changed in the quarantine table after this commit, and which batch is its head then."""

    pending: tuple[str, ...] = ()  # files of bad records that are added
    # A replay of quarantined records: which ones this commit took, to be deleted.
    replayed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # A rollback: the first and last sequence it took back, whose bad records leave.
    rolled_back: tuple[int, int] | None = None
    dropped: tuple[str, ...] = ()  # names of batches whose records leave, to make room for those that are added
    head: QuarantineHead | None = None  # None: nothing was ever bad, or an older version wrote this


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedThrough:
    """Source files of sequences up to `done_through` were archived or deleted, as the user asked. Those up to
    `due_through` may be at any moment. This is committed first: nobody may count on these files any more."""

    done_through: int = 0
    due_through: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A person wants that nothing is read, until somebody resumes the pipeline."""

    at_ms: int  # since when
    reason: str | None = None  # in the words of that person


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Version 2 or 3: how far one pipeline has read its source, as one commit writes it."""

    pipeline: str
    sequence: int
    run_id: str
    batch_id: str  # random per commit: finds this very commit again after a lost answer
    taken_at_ms: int
    source: SourceIdentity
    marks: Marks
    on: PlannedOn
    # What the pipeline read before a person changed its pattern or filters. A file that one of these chooses may have
    # been ingested, even if no ledger that is left names it.
    chosen_before: tuple[SourceIdentity, ...] = ()
    begun: Begun = Begun()
    seen: Seen = Seen()
    quarantine: ForQuarantine = ForQuarantine()
    cleaned: CleanedThrough = CleanedThrough()
    framing: str = LINES  # the setting for files that are not begun: the pipeline keeps the one it was made with
    # Of the pipeline in this table, whatever position it is at: no rollback, edit or import moves it.
    paused: Paused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RustPosition:
    """Version 1, as the Rust program writes it: full paths, no pipeline, no identity."""

    marks: Marks
    delta_version: int


def entry_bytes(path: str) -> int:
    """About how many bytes one file name costs in the payload's JSON. The planner keeps the sum within the limit."""
    return len(orjson.dumps(path)) + 20


def apply_reports(marks: Marks, reports: Iterable[SliceReport]) -> Marks:
    """The marks after these slices are committed: every touched file is named, no mark has moved."""
    files = dict(marks.files)
    for report in reports:
        if report.finished:
            files[report.path] = FINISHED
        elif report.to_record > 0:
            files[report.path] = RecordsRead(
                records=report.to_record,
                size_bytes=report.size_bytes,
                etag=report.etag,
                framing=report.framing,
                encoding=report.encoding,
            )
    return replace(marks, files=files)


def advance_mark(marks: Marks, frontier: Iterable[str]) -> Marks:
    """Move each mark over its part of `frontier` to where the exceptions cost least. What it passes is named.

    Files finish out of order, so "the latest finished file" would pass slower ones and lose them. A file not yet
    started that the mark passes is named as RecordsRead(0); a finished file above the mark stays named.
    """
    parts: dict[str, list[str]] = {}
    for name in frontier:
        parts.setdefault(prefix_of(name, marks.marks_per), []).append(name)
    for names in parts.values():
        marks = _advance(marks, names)
    return marks


def _advance(marks: Marks, names: Sequence[str]) -> Marks:
    finished_above = sum(entry_bytes(n) for n in names if isinstance(marks.files.get(n), Finished))
    best, best_cost, passed_unstarted = -1, finished_above, 0
    for i, name in enumerate(names):
        progress = marks.files.get(name)
        if progress is None:
            passed_unstarted += entry_bytes(name)
            continue
        if isinstance(progress, Finished):
            finished_above -= entry_bytes(name)
        if finished_above + passed_unstarted <= best_cost:
            best, best_cost = i, finished_above + passed_unstarted
    if best < 0:
        return marks
    files = dict(marks.files)
    for name in names[: best + 1]:
        files.setdefault(name, RecordsRead(records=0))
    return replace(marks, files=files).with_mark(names[best])


def prune_finished(marks: Marks) -> Marks:
    """Forget finished files that the mark covers. What stays grows with the files in progress, not with all files."""
    kept = {
        path: progress
        for path, progress in marks.files.items()
        if isinstance(progress, RecordsRead) or not marks.is_passed(path)
    }
    return replace(marks, files=kept)
