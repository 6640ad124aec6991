"""What an exception that nobody has raised on purpose is: trouble of the machine, with a kind of its own, or a mistake
in blizzard.

Used where the trouble is reported, never to judge what became of a commit: only the log says that.
"""

from __future__ import annotations

import errno
import os
import re
import traceback

from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, ConfigError, Temporary

_TRACEBACK_VARIABLE = "BLIZZARD_TRACEBACK"
_SHOWN_CHARS = 300
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_PATH = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_MAY_PASS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY)
# delta-rs and Java say it in words only.
_OS_ERROR = re.compile(r"os error (\d{1,3})|\[[Ee]rrno (\d{1,3})\]")
_WORDS = {"No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT}


def errno_of(error: BaseException | str) -> int | None:
    """The operating system's number, where the error, or what it wraps, comes from there."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    for words, meant in _WORDS.items():
        if words in text:
            return meant
    found = _OS_ERROR.search(text)
    return None if found is None else int(found[1] or found[2])


def said(error: BaseException | str) -> str:
    """The operating system's words for it."""
    number = errno_of(error)
    return str(error) if number is None else os.strerror(number)


def failure_to_write(error: BaseException | str, what: str, *, then: str = "") -> BlizzardError | None:
    """Why `what` cannot be written, if that is the disk's doing; None: it is something else. `then` is what follows."""
    text = f"{what} cannot be written: {said(error)}.{' ' if then else ''}{then}"
    number = errno_of(error)
    if number in _FULL:
        return Temporary(f"{text} Make space, and run again.", kind=Kind.DISK_FULL)
    if number in _NOT_ALLOWED:
        return ConfigError(f"{text} Give the user who runs this the right to write there.", kind=Kind.NOT_WRITABLE)
    return None


def require_writable(folder: str) -> None:
    """On local disk: before anything is read for it, and not after."""
    if not os.access(folder, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
        failure = failure_to_write(OSError(number, os.strerror(number)), folder)
        if failure is not None:
            raise failure


def known_failure(error: BaseException) -> BlizzardError | None:
    """For the end of a command: what is not our mistake."""
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


def describe_unknown(error: BaseException) -> str:
    """One line about a mistake in blizzard, with the place where it showed."""
    try:
        said = " ".join(repr(error).split())
    except Exception:  # an exception may be as broken as anything else
        said = type(error).__name__
    ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}blizzard{os.sep}" in f.filename]
    where = f" at {os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else ""
    return f"not foreseen: {said[:_SHOWN_CHARS]}{where}. Please report it; {_TRACEBACK_VARIABLE}=1 shows the whole way."


def is_traced() -> bool:
    """Whether tracebacks were asked for."""
    return os.environ.get(_TRACEBACK_VARIABLE, "") not in ("", "0")
