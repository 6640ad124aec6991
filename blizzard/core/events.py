"""What happens in a run, as values. Summary, progress and metrics are made from this one stream.

An event only reports. No decision may depend on an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.paths import Path
from blizzard.core.position import Position
from blizzard.core.types import BatchPlan, BatchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Something that a person may want to know."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something that a person should look at; it is not urgent."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A run, or a cycle of a run that follows."""

    pipeline: str
    source: str
    table: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run, or a cycle of a run that follows. `has_failed`: an exception follows."""

    seconds: float
    was_stopped: bool
    has_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaInferred:
    """The schema that a new table gets. `columns` are their definitions, one by one."""

    message: str
    columns: tuple[str, ...]
    ddl: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """How the position was found, or that it was refused."""

    path: Path
    seconds: float
    has_table: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StandsAt:
    """Where the pipeline stands before this run commits anything. `newest` is the position in the log."""

    newest: Position
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What a look at the source found."""

    backlog_files: int
    backlog_bytes: int
    late: int = 0
    rewritten: int = 0
    held: int = 0
    seconds: float = 0.0
    has_table: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    plan: BatchPlan
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How far the tasks of the batch are that is read now, some times a second. For people only: what a task tells may
    be lost. `is_told` is False while nobody tells anything; then only the tasks are known. `ended_tasks` None: nor is
    it known how many have ended. `stored_bytes` are those of the files as they are stored."""

    tasks: int
    ended_tasks: int | None
    is_told: bool
    files: int
    stored_bytes: int
    records: int
    json_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The tasks of a batch have ended; nothing of it is committed yet."""

    result: BatchResult
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsAdded:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFields:
    """Fields that records have and the table does not. Each is reported once."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Bad records that are dropped because the quarantine is full."""

    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A position is in the log. `kind` is the kind of its ledger; a renewal has read nothing."""

    kind: CommitKind
    position: Position
    result: BatchResult
    version: int
    payload_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed:
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """The mirror holds the positions up to this sequence."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFailed:
    """The mirror could not be written, or did not answer. The next commit or the next run makes up for it."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Planning had to wait for a commit."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Files that are left to the next run: young, unreadable, or changed while they were read."""

    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsBack:
    """The same files while the run goes on: how many, the first of them, and why. `is_all`: no others are held."""

    files: int
    first: Mapping[str, str]
    is_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """How many source files were archived or deleted, and how many stay because they have the only copy of a line."""

    done: int
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A run, or a cycle of a run that follows, has ended in an error."""

    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFailed:
    """One of several targets takes no further part in the run. What it has committed stands."""

    kind: Kind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTarget:
    """What happened for one of several targets."""

    target: str
    event: Event


Event = (
    Began
    | Ended
    | Noted
    | Warned
    | SchemaInferred
    | Recovered
    | StandsAt
    | Discovered
    | Planned
    | Reading
    | Ingested
    | ColumnsAdded
    | UnknownFields
    | Rejected
    | Committed
    | CommitFailed
    | Mirrored
    | MirrorFailed
    | Waited
    | Held
    | HoldsBack
    | Cleaned
    | Failed
    | TargetFailed
    | OfTarget
)
Emit = Callable[[Event], None]


def unheard(_: Event) -> None:
    """An Emit that drops every event."""
