"""The edges of a run, as the driver sees them. The real ones are Spark, Delta and a store; tests have others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from blizzard.core.cleanable import OneCleaned
from blizzard.core.clock import Clock
from blizzard.core.commit import CommitRequest
from blizzard.core.events import Emit
from blizzard.core.late import Scope
from blizzard.core.ledger import LedgerEntry
from blizzard.core.log import CommitFacts, History, TableFacts
from blizzard.core.look import Listed
from blizzard.core.mirror import Change, Held, Series
from blizzard.core.position import Position
from blizzard.core.types import (
    BatchPlan,
    BatchResult,
    BatchTicket,
    Cores,
    DataFile,
    QuarantinedBatch,
    SharedPlan,
    SourceFile,
    SourceIdentity,
)
from blizzard.run.remarks import Remarks
from blizzard.schema import DeltaSchema

if TYPE_CHECKING:
    import pyarrow as pa


class Source(Protocol):
    @property
    def identity(self) -> SourceIdentity: ...

    def list(self) -> Sequence[SourceFile]:
        """Every matching file now, sorted by path."""

    def look(self, scope: Scope) -> Listed:
        """At least the part that is asked for; maybe more."""

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        """Delete or put back files that a dead process has hidden. Returns what a person has to look at."""

    def now_ms(self) -> int:
        """By the clock of the store that holds the files."""


class Sample(Protocol):
    """Some records of a source. `read` yields them once; the counts are of what it has yielded or skipped so far."""

    listing: Sequence[SourceFile]
    records: int
    files: int
    bad_lines: int
    first_bad_line: str | None
    skipped_files: list[str]

    @property
    def chosen(self) -> Sequence[int]: ...

    def read(self) -> Iterator[dict[str, Any]]: ...


class Table(Protocol):
    """A Delta table. `append` must be atomic, and must fail if another commit took the same fence since `refresh`.

    Every exception from `append` means that the outcome is unknown.
    """

    @property
    def root(self) -> str:
        """Where it is."""

    @property
    def table_id(self) -> str: ...
    @property
    def schema(self) -> DeltaSchema: ...
    @property
    def schema_fingerprint(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def txn_retention_ms(self) -> int | None:
        """After this time Delta may drop a Txn; None: never."""

    def add_columns(self, schema: DeltaSchema, *, pipeline: str) -> None:
        """Replace the schema by this one, which only adds nullable columns. Raises if another writer was faster."""

    def refresh(self) -> None: ...
    def fence(self, pipeline: str) -> int | None: ...
    def observe(self, pipeline: str, *, scan_commits: int) -> TableFacts: ...
    def commits_after(self, version: int) -> tuple[CommitFacts, ...]: ...
    def scan_back(self) -> Iterator[CommitFacts]: ...
    def append(self, request: CommitRequest) -> None: ...
    def find_missing(self, files: Sequence[DataFile]) -> str | None:
        """A file that is not in the table's folder with its size; None if all are."""

    def make_durable(self, version: int) -> None: ...
    def check_writable(self) -> None:
        """Raises if the table has a feature that an append would break."""


class TableWithFiles(Table, Protocol):
    """A table that also shows what each commit did to its files."""

    @property
    def is_append_only(self) -> bool: ...
    def history(self, pipeline: str, back_to: int) -> History | None:
        """The log with what every commit did to files, back to this sequence of the pipeline. The whole log that is
        left, if somebody has removed rows since, or for sequence 0."""

    @property
    def sequence_column(self) -> str | None:
        """The column that says which batch a row is from, if the table has one."""

    def read_column(self, name: str) -> Iterator[pa.Array]:
        """The values of one column in all data files, a part at a time."""

    def schema_at(self, version: int) -> DeltaSchema | None:
        """The schema at that version; None if the version can no longer be opened."""

    def metadata_action(self, schema: DeltaSchema) -> dict[str, Any]:
        """The table's metadata as the log writes it, with another schema."""


class Quarantine(Protocol):
    """Where bad records go."""

    def announce(self, position: Position, files: Sequence[DataFile] = ()) -> Position:
        """The position as it must be committed: it names the quarantine table if its commit changes the quarantine.
        Raises if a file of its bad records is missing or changed."""

    def settle(self, position: Position) -> None:
        """Make the quarantine hold the bad records that this committed position named, each once, even if called again.
        OutOfStep if it is another quarantine than the position was written with, or one that is behind or ahead."""

    def is_settled(self, position: Position) -> bool:
        """Whether it holds them already. Raises as `settle` does."""

    def check_pending(self, position: Position) -> None:
        """Raises as `settle` would if bad records that must be added are gone. Changes nothing."""

    def count(self, pipeline: str | None = None, table_id: str | None = None) -> int:
        """How many records it holds: of this pipeline and table, or of all."""

    def batches(self, pipeline: str, table_id: str) -> Sequence[QuarantinedBatch]:
        """What it holds of this pipeline and table, oldest batch first."""

    def took_in(self, position: Position, sequences: Collection[int]) -> Collection[int]:
        """Those of these sequences whose bad records were all added here. What a person did with them later does not
        matter."""

    def take_back(self, run_id: str, table_id: str) -> None:
        """Remove the files of bad records of this table that this run wrote, where that is safe. For a run that has
        committed nothing to the table. Other targets of the run may share the quarantine."""


class Cleaner(Protocol):
    """Archives or deletes source files, one at a time."""

    @property
    def verb(self) -> str:
        """`archived` or `deleted`."""

    def is_listed(self, path: str) -> bool:
        """Whether a listing of the source shows it now."""

    def clean(self, entry: LedgerEntry) -> OneCleaned:
        """Only if it is still the file that was ingested, and a listing shows it. A file that is gone is no problem."""


class TablePlace(Protocol):
    """Where a table is, or will be made."""

    def open(self) -> Table | None: ...
    def create(self, pipeline: str) -> None:
        """Make the table, with fence 0 of the pipeline. Losing a race to another creator is not an error."""

    def take_back(self, pipeline: str, run_id: str) -> bool:
        """Remove a table that this run has made, and the files that it wrote, if nothing was ever committed to it.
        False: it stays."""


class StopRequest(Protocol):
    def requested(self) -> bool:
        """Plan nothing more."""

    def must_cancel(self) -> bool:
        """Give up the batch under way."""

    def ends_batch(self) -> bool:
        """End the batch under way at the next record boundary, and commit what it has read."""

    def batch_ended(self) -> None:
        """A batch has ended: what was asked of it is done."""


class NeverStop:
    """Nobody can ask this run to stop."""

    def requested(self) -> bool:
        return False

    def must_cancel(self) -> bool:
        return False

    def ends_batch(self) -> bool:
        return False

    def batch_ended(self) -> None:
        return None


class Ingestor(Protocol):
    @property
    def schema_fingerprint(self) -> str:
        """Of the schema the tasks write."""

    def prepare(self) -> None:
        """There will be work: begin to start what starts slowly."""

    def start(self, stop: StopRequest) -> int:
        """Start if needed, and return how many tasks run at once. Called before every batch: a cluster may grow. 0: it
        was asked to stop before anything could run."""

    @property
    def cores(self) -> Cores:
        """Of the processes that run the tasks. Asked after `start`."""

    def adopt(self, schema: DeltaSchema) -> None:
        """Write under this schema from now on."""

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult: ...


class Reader(Protocol):
    """Reads a batch once for several targets, each with the schema that its ingestor has adopted."""

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopRequest
    ) -> Mapping[str, BatchResult]:
        """By target. A target that failed alone has the failure in its result."""


Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Pending(Protocol[Result_co]):
    """A commit under way."""

    def done(self) -> bool: ...
    def result(self) -> Result_co:
        """Where it landed; raises what it raised."""

    def exception(self) -> BaseException | None: ...


class Background(Protocol):
    """Runs commits one after the other, in the order they are given, beside the next batch."""

    def start(self, commit: Callable[[], Result]) -> Pending[Result]: ...


class Mirror(Protocol):
    """Follows the positions in the log, for people. Nothing is decided by it."""

    def follow(self, position: Position, version: int) -> None:
        """This version of the log holds the newest position. Returns at once and never raises: what goes wrong is
        reported, and a later call makes up for it."""


class NoMirror:
    """The positions are in the log only."""

    def follow(self, position: Position, version: int) -> None:
        del position, version


class MirrorContents(Protocol):
    """A mirror while it is open. Every call may fail, and none takes longer than some seconds."""

    def look(self, series: Series) -> Held: ...
    def batch_of(self, series: Series, sequence: int) -> str | None:
        """Of one version; None if it is not there or cannot be read."""

    def apply(self, series: Series, change: Change) -> None:
        """Repeatable. If it fails in between, nothing looks newer than it is."""


class MirrorPlace(Protocol):
    def opened(self) -> AbstractContextManager[MirrorContents]: ...

    @property
    def shown(self) -> str:
        """Where it is, without a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    source: Source
    place: TablePlace
    quarantine: Quarantine
    ingestor: Ingestor
    background: Background
    clock: Clock
    stop: StopRequest
    emit: Emit
    remarks: Remarks = field(default_factory=Remarks)
    mirror: Mirror = field(default_factory=NoMirror)
