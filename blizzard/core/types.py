"""The values of the data path: what was listed, what is planned, what a task reports."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import overload

from blizzard.core.framing import LINES, UTF8
from blizzard.core.kinds import Kind
from blizzard.core.left_out import NONE_LEFT_OUT, LeftOut
from blizzard.core.observed import Observations
from blizzard.core.reasons import NO_REASONS, Reasons
from blizzard.core.tally import NOTHING, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which of the files that match the pattern are read. The times are those of the last change, by the store."""

    modified_after_ms: int | None = None  # changed then or later
    modified_before_ms: int | None = None  # changed before that
    ignore: tuple[str, ...] = ()  # globs of names, sorted: `*.tmp` in any folder, `staging/` a whole folder

    def since(self, ms: int | None) -> Filters:
        """These, and only files that were changed then or later."""
        return self if ms is None else replace(self, modified_after_ms=max(ms, self.modified_after_ms or 0))


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """Which files a pipeline reads. The mark of one source means nothing for another."""

    root: str  # normalised: file:///data/events, s3://bucket/prefix
    pattern: str  # a glob, or the name of a default (core/patterns.py)
    marks_per: str | None = None  # each value of this folder key has its own mark: region for region=eu/…
    filters: Filters = NO_FILTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One listed file. `path` is relative to the source root and sorts in the store's byte order."""

    path: str
    size_bytes: int
    etag: str  # local disk: mtime_ns
    seen_ms: int = 0  # when the store says it became visible; used only to find late and young files


class Listing(Sequence[SourceFile]):
    """Listed files, sorted by name. Kept in columns: a million files take a quarter of the memory."""

    __slots__ = ("_etags", "_paths", "_seen_ms", "_sizes", "asides", "left_out")

    def __init__(
        self,
        paths: list[str],
        sizes: array[int],
        etags: array[int] | list[str],
        seen_ms: array[int],
        asides: Iterable[str] = (),
        left_out: LeftOut = NONE_LEFT_OUT,
    ) -> None:
        self.asides = tuple(asides)  # files that a process hid before it died
        self.left_out = left_out  # what is there beside them
        order = sorted(range(len(paths)), key=paths.__getitem__)  # code points sort like the bytes of valid UTF-8
        self._paths = [paths[i] for i in order]
        self._sizes = array("q", (sizes[i] for i in order))
        self._seen_ms = array("q", (seen_ms[i] for i in order))
        self._etags: array[int] | list[str]
        if isinstance(etags, array):
            self._etags = array("q", (etags[i] for i in order))
        else:
            self._etags = [etags[i] for i in order]

    def __len__(self) -> int:
        return len(self._paths)

    def seen_since(self, ms: int) -> Iterator[SourceFile]:
        """The files not older than this. Makes no object for the others."""
        for i, seen_ms in enumerate(self._seen_ms):
            if seen_ms >= ms:
                yield self[i]

    @overload
    def __getitem__(self, index: int) -> SourceFile: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SourceFile]: ...
    def __getitem__(self, index: int | slice) -> SourceFile | Sequence[SourceFile]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return SourceFile(
            path=self._paths[index],
            size_bytes=self._sizes[index],
            etag=str(self._etags[index]),
            seen_ms=self._seen_ms[index],
        )


def seen_since(listing: Sequence[SourceFile], ms: int) -> Iterable[SourceFile]:
    """The listed files not older than this."""
    return listing.seen_since(ms) if isinstance(listing, Listing) else (f for f in listing if f.seen_ms >= ms)


def first_after(listing: Sequence[SourceFile], path: str) -> int:
    """The index of the first name after `path` in a sorted listing."""
    return bisect_right(listing, path, key=lambda f: f.path)


def find_file(listing: Sequence[SourceFile], path: str) -> SourceFile | None:
    i = first_after(listing, path) - 1
    return listing[i] if i >= 0 and listing[i].path == path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Where a task starts in one file. Only its report says where it ended."""

    path: str
    size_bytes: int
    etag: str
    from_record: int
    given_up: str | None = None  # not None: it is not read, and goes to quarantine for this reason
    # How its first records were read, if from_record > 0. Else the setting, which may be `auto`; the task decides.
    framing: str = LINES
    encoding: str = UTF8


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one task may use before it stops at the next record boundary."""

    output_bytes: int
    max_records: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """What is known about the processes that run the tasks."""

    per_executor: int = 1
    per_task: int = 1  # a task has them for itself, even if all slots are busy
    on_driver: bool = False  # they run on the driver's machine: a local session


ONE_CORE = Cores()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    slot: int
    slices: tuple[Slice, ...]
    budget: Budget
    threads: int = 1  # how many cores it may keep busy


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """One batch = one Spark job = one commit."""

    tasks: tuple[TaskPlan, ...]
    # Listed names after the mark, in order. Each is planned here, named in the position already, or held back. The mark
    # may move over these and over nothing else.
    frontier: tuple[str, ...]

    @property
    def slices(self) -> tuple[Slice, ...]:
        return tuple(s for task in self.tasks for s in task.slices)

    def only(self, slots: frozenset[int]) -> BatchPlan:
        return BatchPlan(tasks=tuple(t for t in self.tasks if t.slot in slots), frontier=self.frontier)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """One read for several targets: what is read, and from which record each target takes it."""

    tasks: tuple[TaskPlan, ...]  # each slice from the smallest record that a target wants
    wanted: Mapping[str, Mapping[str, int]]  # by target: path → the first record that it wants; no path: not this file

    def only(self, slots: frozenset[int], targets: Collection[str]) -> SharedPlan:
        """The same read for these targets alone. A slice that none of them wants is left out. The others begin where
        they did: how a file is read is known at that record."""
        wanted = {name: paths for name, paths in self.wanted.items() if name in targets}
        paths = {path for wanted_paths in wanted.values() for path in wanted_paths}
        tasks = []
        for task in self.tasks:
            slices = tuple(piece for piece in task.slices if piece.path in paths)
            if task.slot in slots and (slices or not task.slices):  # a task without slices reads no source
                tasks.append(replace(task, slices=slices))
        return SharedPlan(tasks=tuple(tasks), wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTicket:
    """What the tasks of a batch need to know beside their plan."""

    sequence: int
    planned_ms: int
    table_id: str
    batch_id: str = ""  # of the commit to come; its bad records carry it too


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReport:
    """What was read of one file: records [from_record, to_record), bad ones and blank lines included."""

    path: str
    size_bytes: int
    etag: str
    from_record: int
    to_record: int
    finished: bool
    rows: int
    bad: int = 0  # quarantined or dropped, as the policy says
    blank: int = 0
    filtered: int = 0  # records that the table does not take, good or not
    unrouted: int = 0  # how many of them no other target of the pipeline takes; known of the first target's slices
    # Why nothing more can be read of the file. It counts as finished; what was committed of it before stays.
    broken: str | None = None
    # How many of the bad records only the source file has whole: too long for the quarantine, or it was full. Records
    # that the policy drops do not count.
    cut: int = 0
    # How it was read. This holds for the file as long as it is in progress.
    framing: str = LINES
    encoding: str = UTF8


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file, written and closed but not yet visible."""

    path: str  # relative to the table
    size_bytes: int
    rows: int
    stats: str  # Delta's JSON: numRecords, minValues, maxValues, nullCount
    modified_ms: int
    # As the log writes them, in the order of the table's partition columns.
    partition_values: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedBatch:
    """What the quarantine holds of one batch of a pipeline and table, orphans not counted. `name`: see
    `overflow.batch_name`."""

    name: str
    sequence: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """Why a task gave up: data, files, or a table that cannot be written. Trouble that may pass is raised instead, so
    that Spark tries again."""

    kind: Kind
    path: str
    line: int | None  # 1-based
    message: str
    counts: str = "line"  # or record: what `line` is the number of
    # About the place that is written, not about the source: whether it may pass. None: about the source.
    passes: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """All that a task sends back. What it wrote counts only if its report is committed."""

    slot: int
    slices: tuple[SliceReport, ...] = ()
    files: tuple[DataFile, ...] = ()
    bytes_read: int = 0  # decompressed
    changed: tuple[str, ...] = ()  # no longer the file that was listed; nothing was taken of it
    unreadable: tuple[tuple[str, str], ...] = ()  # path and reason: nothing was taken, the next run tries again
    quarantine: tuple[DataFile, ...] = ()  # files of bad records, not yet visible either
    rescued: int = 0
    undeclared: Tally = NOTHING  # values of good records that have no column
    cut_times: Tally = NOTHING  # timestamps that were cut to microseconds, by column
    reasons: Reasons = NO_REASONS  # why lines are bad
    siblings: Tally = NOTHING  # values beside the array of array:KEY, by their keys; nothing reads them
    parser: str = ""  # which one read the lines: native, pyarrow or reference; empty: none was needed
    doubtful: int = 0  # lines that the fast parser left to the reference
    parser_defect: str | None = None  # how the native parser differed from the reference; then it was not used
    observed: Observations | None = None  # fields that the schema lacks, if new columns are wanted
    failure: TaskFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The reports of the successful attempts of one batch, one per task."""

    reports: tuple[TaskReport, ...] = field(default=())
    batch_id: str = ""  # of its ticket; the rows of its bad records carry it
    ignores_undeclared: bool = False  # values without a column were dropped
    dropped: tuple[QuarantinedBatch, ...] = ()  # older batches that leave the quarantine to make room for this one

    @property
    def slices(self) -> tuple[SliceReport, ...]:
        return tuple(s for report in self.reports for s in report.slices)

    @property
    def finished_files(self) -> int:
        """Source files of which the last line was read."""
        return sum(1 for s in self.slices if s.finished)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(f for report in self.reports for f in report.files)

    @property
    def changed(self) -> tuple[str, ...]:
        return tuple(path for report in self.reports for path in report.changed)

    @property
    def unreadable(self) -> dict[str, str]:
        return {path: why for report in self.reports for path, why in report.unreadable}

    @property
    def unread(self) -> tuple[str, ...]:
        """Files that were tried, but nothing was taken of them."""
        return (*self.changed, *self.unreadable)

    @property
    def broken(self) -> dict[str, str]:
        """Files of which nothing more can be read, and why. They count as finished."""
        return {s.path: s.broken for s in self.slices if s.broken is not None}

    @property
    def quarantine(self) -> tuple[DataFile, ...]:
        return tuple(f for report in self.reports for f in report.quarantine)

    @property
    def bad(self) -> int:
        return sum(s.bad for s in self.slices)

    @property
    def filtered(self) -> int:
        """Records that the table does not take."""
        return sum(s.filtered for s in self.slices)

    @property
    def unrouted(self) -> int:
        """Records that no target takes."""
        return sum(s.unrouted for s in self.slices)

    @property
    def rescued(self) -> int:
        return sum(r.rescued for r in self.reports)

    @property
    def undeclared(self) -> Tally:
        return reduce(Tally.merge, (report.undeclared for report in self.reports), NOTHING)

    @property
    def ignored(self) -> Tally:
        """Values of good records that were dropped."""
        return self.undeclared if self.ignores_undeclared else NOTHING

    @property
    def parsers(self) -> tuple[str, ...]:
        """Which parsers read the lines, by name."""
        return tuple(sorted({report.parser for report in self.reports} - {""}))

    @property
    def doubtful(self) -> int:
        """Lines that the fast parser left to the reference."""
        return sum(report.doubtful for report in self.reports)

    @property
    def cut_times(self) -> Tally:
        return reduce(Tally.merge, (report.cut_times for report in self.reports), NOTHING)

    @property
    def reasons(self) -> Reasons:
        """Why records are bad."""
        return reduce(Reasons.merge, (report.reasons for report in self.reports), NO_REASONS)

    @property
    def siblings(self) -> Tally:
        return reduce(Tally.merge, (report.siblings for report in self.reports), NOTHING)

    @property
    def failure(self) -> TaskFailure | None:
        return next((r.failure for r in self.reports if r.failure is not None), None)

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.slices)

    @property
    def bytes_read(self) -> int:
        return sum(r.bytes_read for r in self.reports)
