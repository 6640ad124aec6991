"""One tree of errors, grouped by what a caller would do about them, and the place of foreign exceptions in it.

Every error has a stable `kind` and the exit code of its branch. A message says what happened, to what, and what to do
next, never a secret. The type of an exception is only for reporting. It must never decide what became of a commit: only
the log says that.
"""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Sequence

from blizzard.core.kinds import Kind
from blizzard.text.shown import shown
from blizzard.text.trace import TRACEBACK_VARIABLE


class BlizzardError(Exception):
    """Anything blizzard raises on purpose."""

    kind: Kind = Kind.ERROR
    exit_code = 1
    further: Sequence[str] = ()

    def __init__(self, message: str, *, kind: Kind | None = None, further: Sequence[str] = ()) -> None:
        """`further` are lines below the message. The message itself is always one line, whatever names are in it."""
        super().__init__(message)
        if kind is not None:
            self.kind = kind
        if further:
            self.further = tuple(further)

    def __str__(self) -> str:
        return "\n".join(shown(line) for line in (super().__str__(), *self.further))


class ConfigError(BlizzardError):
    """Wrong usage or configuration: the same command fails again until it is changed."""

    kind = Kind.CONFIG
    exit_code = 2


class SchemaError(ConfigError):
    """A schema that cannot be read, or that does not fit the table."""

    kind = Kind.SCHEMA


class Refused(BlizzardError):
    """Going on could lose or double data. A person decides."""

    kind = Kind.REFUSED
    exit_code = 3


class OutOfStep(Refused):
    """The quarantine does not fit the position: it is another one, or it is ahead or behind."""


class Fenced(BlizzardError):
    """Another run of the same pipeline has committed meanwhile. This run must stop."""

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
    """The trouble may pass, and nothing is lost or doubled: run the same command again."""

    kind = Kind.TEMPORARY
    exit_code = 75


class SparkGone(Temporary):
    """The Spark session cannot be used any more. A new process gets a new one."""

    kind = Kind.SPARK_GONE


def connect_without_jvm() -> ConfigError:
    return ConfigError(
        "the delta-spark committer works inside the driver's JVM, which a Spark Connect session does not give. Use the"
        " delta-rs committer, or a classic session.",
        kind=Kind.NO_JVM,
    )


_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_PATH = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_MAY_PASS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY)
# delta-rs and Java give the number only as text.
_OS_ERROR = re.compile(r"os error (\d{1,3})|\[[Ee]rrno (\d{1,3})\]")
_WORDS = {"No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT}


def errno_of(error: BaseException | str) -> int | None:
    """The errno, if the error comes from the operating system. It may be only in the text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    for words, meant in _WORDS.items():
        if words in text:
            return meant
    found = _OS_ERROR.search(text)
    return None if found is None else int(found[1] or found[2])


def said(error: BaseException | str) -> str:
    """The operating system's text for the error."""
    number = errno_of(error)
    return str(error) if number is None else os.strerror(number)


def failure_to_write(error: BaseException | str, what: str, *, then: str = "") -> BlizzardError | None:
    """The error if the disk is full or not writable. None: another reason. `then` is added to the message."""
    text = f"{what} cannot be written: {said(error)}.{' ' if then else ''}{then}"
    number = errno_of(error)
    if number in _FULL:
        return Temporary(f"{text} Make space, and run again.", kind=Kind.DISK_FULL)
    if number in _NOT_ALLOWED:
        return ConfigError(f"{text} Give the user who runs this the right to write there.", kind=Kind.NOT_WRITABLE)
    return None


def known_failure(error: BaseException) -> BlizzardError | None:
    """For the end of a command: our error for this exception. None: it may be a defect of blizzard."""
    if isinstance(error, BlizzardError):
        return error
    if not isinstance(error, OSError) or error.errno is None:
        return None
    what = error.filename if isinstance(error.filename, str) else "a file"
    if error.errno in (*_FULL, errno.EROFS):
        return failure_to_write(error, what)
    if error.errno in _NOT_ALLOWED:
        return ConfigError(f"{what}: {error.strerror}. Check its rights.", kind=Kind.ACCESS_DENIED)
    if error.errno in _NO_PATH:
        return ConfigError(f"{what} cannot be used: {error.strerror}", kind=Kind.UNUSABLE_PATH)
    if error.errno in _MAY_PASS:
        return Temporary(f"{what}: {error.strerror}. Run again.")
    return None


_SHOWN_CHARS = 300


def failure_of(error: BaseException) -> BlizzardError:
    """For the end of a command or of a cycle: our error for any exception."""
    return known_failure(error) or BlizzardError(_describe_unknown(error), kind=Kind.INTERNAL)


def _describe_unknown(error: BaseException) -> str:
    """One line about a bug in blizzard, with the place where it was raised."""
    try:
        said = " ".join(repr(error).split())
    except Exception:  # its own repr may fail
        said = type(error).__name__
    ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}blizzard{os.sep}" in f.filename]
    where = f" at {os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else ""
    return f"unexpected: {said[:_SHOWN_CHARS]}{where}. Please report it; {TRACEBACK_VARIABLE}=1 shows the traceback."
