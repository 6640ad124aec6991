"""One tree of errors, grouped by what a caller would do about them.

Every error has a stable `kind` and the exit code of its branch. A message says what happened, to what, and what
to do next; it never carries an option value or a secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from blizzard.core.kinds import Kind
from blizzard.core.types import TaskFailure
from blizzard.text.shown import shown


class BlizzardError(Exception):
    """Anything blizzard raises on purpose."""

    kind: Kind = Kind.ERROR
    exit_code = 1
    further: Sequence[str] = ()

    def __init__(self, message: str, *, kind: Kind | None = None, further: Sequence[str] = ()) -> None:
        """`further` are lines below the message. Whatever a name in it holds, a message is one line."""
        super().__init__(message)
        if kind is not None:
            self.kind = kind
        if further:
            self.further = tuple(further)

    def __str__(self) -> str:
        return "\n".join(shown(line) for line in (super().__str__(), *self.further))


class ConfigError(BlizzardError):
    """Usage or configuration: the same command will fail again until it is changed."""

    kind = Kind.CONFIG
    exit_code = 2


class SchemaError(ConfigError):
    """A schema that cannot be read, or that does not fit the table."""

    kind = Kind.SCHEMA


class Refused(BlizzardError):
    """The state is unsafe: going on could lose or double data. A person decides."""

    kind = Kind.REFUSED
    exit_code = 3


class OutOfStep(Refused):
    """The quarantine is not the one that the position was written with, or not as far."""


class Fenced(BlizzardError):
    """Another run of the same pipeline has committed meanwhile. This one must stop."""

    kind = Kind.FENCED
    exit_code = 4


class BadData(BlizzardError):
    """Input that does not keep the record contract, or a file that cannot be decoded."""

    kind = Kind.BAD_DATA
    exit_code = 5


class BadRecord(BadData):
    """One line that is not a valid record."""

    kind = Kind.BAD_RECORD


class BadFile(BadData):
    """A whole file that cannot be read to its end."""

    kind = Kind.BAD_FILE


class Temporary(BlizzardError):
    """Nothing was committed and nothing is wrong with the state: the same command is worth a retry."""

    kind = Kind.TEMPORARY
    exit_code = 75


class SparkGone(Temporary):
    """The Spark session can never be used again; a new process gets a new one."""

    kind = Kind.SPARK_GONE


TOO_MANY_BAD = (
    "Look at the lines, and whether the schema fits them (blizzard schema diff); mend the files or the schema, or raise"
    " the limit."
)


def connect_without_jvm() -> ConfigError:
    return ConfigError(
        "the delta-spark committer works inside the driver's JVM, which a Spark Connect session does not give. Use the"
        " delta-rs committer, or a classic session.",
        kind=Kind.NO_JVM,
    )


def error_of_failure(failure: TaskFailure) -> BlizzardError:
    """The exception for what a task reported."""
    where = failure.path if failure.line is None else f"{failure.path} line {failure.line}"
    what = f"{where}: {failure.message}. Nothing of this batch was committed."
    match failure.kind:
        case Kind.BAD_RECORD:
            return BadRecord(f"{what} Mend the line, or move the file away, and run again.")
        case Kind.TOO_MANY_BAD_RECORDS:
            return BadData(f"{what} {TOO_MANY_BAD}", kind=Kind.TOO_MANY_BAD_RECORDS)
        case Kind.SOURCE_CHANGED:
            return Temporary(f"{what} Run again.", kind=Kind.SOURCE_CHANGED)
        case Kind.DISK_FULL:
            return Temporary(f"{what} Make space, and run again.", kind=Kind.DISK_FULL)
        case Kind.NOT_WRITABLE:
            return ConfigError(f"{what} Give the user who runs this the right to write there.", kind=Kind.NOT_WRITABLE)
        case kind:
            return BadFile(f"{what} Replace the file, or move it away, and run again.", kind=kind)
