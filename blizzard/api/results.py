"""What the functions return: frozen values that show themselves on one line, and in a notebook as a small table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from blizzard.core import audit as core_audit
from blizzard.core.lists import count, some
from blizzard.core.paths import WORDS, Path
from blizzard.operate import rollback, status
from blizzard.text.arguments import in_python
from blizzard.text.html import table_html

T = TypeVar("T")


class Shown:
    """How a result shows itself."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        header, rows = self._table()
        return table_html(str(self), rows, header)

    def _table(self) -> tuple[list[str], list[list[object]]]:
        """The header and the rows of what a notebook shows. Without a header: names and values, those that say
        something."""
        return [], [[name, _cell(value)] for name, value in self._values() if value not in (None, (), {}, False, 0)]

    def to_dict(self) -> dict[str, Any]:
        """As the command shows it with --json."""
        plain = asdict(cast(Any, self))
        return {name: value for name, value in plain.items() if not name.startswith("_")}

    def _values(self) -> Iterator[tuple[str, Any]]:
        for one in fields(cast(Any, self)):
            if not one.name.startswith("_"):
                yield one.name, getattr(self, one.name)


def copied(kind: Callable[..., T], value: Any, **more: Any) -> T:
    """The value as one of another class that has the same fields."""
    return kind(**{one.name: getattr(value, one.name) for one in fields(value)}, **more)


def _cell(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return some([f"{name}: {one}" for name, one in value.items()])
    return some(list(map(str, value))) if isinstance(value, tuple | list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """A part of a file that the first batch would read."""

    slot: int  # the task
    path: str
    from_record: int
    size: int  # bytes of the file
    framing: str
    given_up: str | None = None  # why it would go to quarantine unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Shown):
    """What a run would do first."""

    pipeline: str
    table: str
    source: str
    pattern: str
    filters: Mapping[str, str]
    recovery: Path  # how it would begin
    paused: Mapping[str, Any] | None  # since when and why; the rest is what the first run after the resume would do
    creates_table: bool
    mark: str | None
    prefix_marks: Mapping[str, str]
    listed_files: int
    listed_all: bool  # the whole source was listed, not only what comes after the mark
    backlog_files: int
    backlog_bytes: int
    late_files: tuple[str, ...]
    rewritten_files: tuple[str, ...]
    unclear_files: tuple[str, ...]
    held_files: Mapping[str, str]  # left to a later run, and why
    held_back: Mapping[str, str]  # by the last run, and why; they are tried again
    missed_files: tuple[str, ...]
    unmatched_files: int  # in the folder, and no part of the source
    unmatched_by_suffix: Mapping[str, int]
    filtered_files: int
    half_deleted_files: tuple[str, ...]
    renewal: bool  # the position would be committed once more, without data
    cleans_through: int | None  # the sequence up to which source files would be archived or deleted
    first_batch: tuple[PlannedSlice, ...]
    settles: tuple[Mapping[str, int], ...]  # bad records that the quarantine would get first
    validation: Mapping[str, Any] | None = None  # with `validate`: what records of the first batch would become

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> Plan:
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in shown.items()
        }
        return cls(**plain | {"first_batch": tuple(PlannedSlice(**one) for one in shown["first_batch"])})

    def __str__(self) -> str:
        files = f"{count(self.backlog_files, 'file')}, {self.backlog_bytes:,} bytes"
        return f"pipeline {self.pipeline}: {WORDS[self.recovery].status}; {files} to read"

    def _table(self) -> tuple[list[str], list[list[object]]]:
        shown = [[name, value] for name, value in Shown._table(self)[1] if name not in ("first_batch", "validation")]
        batch = [one.path for one in self.first_batch]
        return [], [*shown, ["first batch", f"{count(len(batch), 'file')}: {some(batch)}" if batch else "nothing"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(status.TableStatus, Shown):
    """A table, and where each of its pipelines stands."""

    @classmethod
    def of(cls, found: status.TableStatus) -> Status:
        spoken = tuple(
            replace(
                one,
                recovery_message=None if one.recovery_message is None else in_python(one.recovery_message),
                explanation=None if one.explanation is None else tuple(map(in_python, one.explanation)),
            )
            for one in found.pipelines
        )
        return copied(cls, replace(found, pipelines=spoken))

    def __str__(self) -> str:
        return f"{self.table}, version {self.version}: {count(len(self.pipelines), 'pipeline')}"

    def _table(self) -> tuple[list[str], list[list[object]]]:
        header = ["pipeline", "sequence", "version", "mark", "in progress", "backlog", "next start"]
        return header, [
            [
                p.pipeline,
                p.sequence,
                p.delta_version,
                p.mark or "-",
                len(p.in_progress),
                "-" if p.backlog_files is None else count(p.backlog_files, "file"),
                p.recovery_message or WORDS[p.recovery].status,
            ]
            for p in self.pipelines
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(core_audit.Audit, Shown):
    """The source compared with what was ingested. Names of files, sorted; `problems` are what a person should check."""

    @classmethod
    def of(cls, found: core_audit.Audit) -> Audit:
        return copied(cls, found)

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As the command shows it with --json."""
        return {**asdict(self), "ok": self.ok, "problems": list(self.problems)}

    def __str__(self) -> str:
        wrong = "nothing is wrong" if self.ok else f"problems: {', '.join(self.problems)}"
        return f"{count(self.listed, 'file')} listed, {self.ingested:,} ingested whole; {wrong}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(rollback.RolledBack, Shown):
    """What was taken back, or would be, if it is not `done`."""

    @classmethod
    def of(cls, found: rollback.RolledBack) -> RolledBack:
        return copied(cls, replace(found, sentences=tuple(map(in_python, found.sentences))))

    def __str__(self) -> str:
        done = f"done: sequence {self.sequence}, version {self.delta_version}" if self.done else "nothing was changed"
        return f"{self.sentences[0]}; {count(self.records, 'record')} leave the table; {done}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedFile:
    """What one commit took from one source file."""

    path: str
    from_record: int
    to_record: int
    finished: bool  # to the end of the file
    bad: int
    filtered: int
    unrouted: int
    size: int
    etag: str
    framing: str
    encoding: str
    delta_version: int
    sequence: int
    pipeline: str
    run_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> IngestedFile:
        """`from` is a word of Python."""
        return cls(**{{"from": "from_record", "to": "to_record"}.get(name, name): row[name] for name in row})


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Shown):
    """Which source file went in at which version, the newest commit first."""

    table: str
    files: tuple[IngestedFile, ...]
    notes: tuple[str, ...] = ()  # what the log no longer says

    def __iter__(self) -> Iterator[IngestedFile]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __str__(self) -> str:
        return f"{self.table}: {count(len({one.path for one in self.files}), 'source file')}"

    def _table(self) -> tuple[list[str], list[list[object]]]:
        header = ["file", "from", "to", "finished", "version", "sequence", "pipeline"]
        return header, [
            [f.path, f.from_record, f.to_record, f.finished, f.delta_version, f.sequence, f.pipeline]
            for f in self.files
        ]
