"""Makes the class-data archive, and removes it. Nothing that the JVM prints meanwhile reaches the terminal.

The archive holds the classes that one small run has loaded. That run is a real `blizzard run` in a process of its own,
so that nothing a run needs is missing. The archive gets its name only when it is complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.spark.archive import (
    OPTIONS,
    Archive,
    Jvm,
    NoArchive,
    archive_path,
    cache_folder,
    checksum,
    find_archive,
    java_option,
    jvm_for,
    make_cache_folder,
    note_path,
    require_private,
    require_usable_path,
)
from blizzard.spark.session import local_options, starts_jvm_here

_TIME_LIMIT_S = 600
_DDL = "id BIGINT, at TIMESTAMP, name STRING, tags ARRAY<STRING>, place STRUCT<x: DOUBLE, y: DOUBLE>"
_RECORD = b'{"id":1,"at":"2024-05-01T12:00:00Z","name":"a","tags":["b"],"place":{"x":0.5,"y":1.5}}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """`was_made` is False if it was there already. `removed`: archives of other JVMs that no run can use any more."""

    archive: Archive
    was_made: bool
    seconds: float
    removed: int


def warm_up(
    conf: Mapping[str, str], *, committer: str = "delta-rs", before: Callable[[], None] = lambda: None
) -> WarmUp:
    """`conf`: the settings of the sessions that it is for. `before` is called if one has to be made."""
    started = time.monotonic()
    try:
        if not starts_jvm_here(conf):
            raise NoArchive("it is for sessions on this machine (spark.master local); this one is elsewhere")
        jvm = jvm_for(conf, local_options(conf))
        require_usable_path(archive_path(jvm))
        with _locked_folder():
            archive, was_made = _find(jvm), False
            if archive is None:
                before()
                archive, was_made = _make(jvm, conf, committer), True
            removed = _remove_useless(jvm)
    except NoArchive as e:
        raise ConfigError(f"no archive can be made: {e}", kind=Kind.NO_ARCHIVE) from e
    except OSError as e:
        raise ConfigError(f"no archive can be kept in {cache_folder()}: {e}", kind=Kind.NO_ARCHIVE) from e
    return WarmUp(archive=archive, was_made=was_made, seconds=time.monotonic() - started, removed=removed)


def remove_archives() -> int:
    """All of them, of every JVM. Returns how many there were."""
    try:
        with _locked_folder():
            return _remove(os.listdir(cache_folder()))
    except NoArchive as e:
        raise ConfigError(f"nothing was removed: {e}", kind=Kind.NO_ARCHIVE) from e
    except OSError as e:
        raise ConfigError(f"nothing was removed from {cache_folder()}: {e}", kind=Kind.NO_ARCHIVE) from e


@contextmanager
def _locked_folder() -> Iterator[None]:
    """A second process waits here, and then finds the archive of the first one."""
    make_cache_folder()
    with open(
        os.open(os.path.join(cache_folder(), "lock"), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600), "w"
    ) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _find(jvm: Jvm) -> Archive | None:
    try:
        return find_archive(jvm)
    except NoArchive as e:
        if not e.can_be_made:
            raise
        return None


def _make(jvm: Jvm, conf: Mapping[str, str], committer: str) -> Archive:
    path = archive_path(jvm)
    _remove([os.path.basename(path)])  # a damaged one: no JVM may map it while it is replaced
    with tempfile.TemporaryDirectory(prefix="making-", dir=cache_folder()) as folder:
        written = os.path.join(folder, "archive.jsa")
        flags = (f"-XX:ArchiveClassesAtExit={written}", "-Xlog:disable", "-Xlog:all=off")
        options = " ".join((local_options(conf), *map(java_option, flags)))
        said = _run_once(folder, {**conf, OPTIONS: options}, committer)
        if not os.path.exists(written):
            raise NoArchive(f"the JVM wrote none. Its last words: {said or 'none'}")
        os.chmod(written, 0o600)
        note = {"spark_home": jvm.spark_home, "bytes": os.path.getsize(written), "crc32": checksum(written)}
        with open(note_path(written), "x", encoding="utf-8") as file:
            json.dump(note, file)
        os.rename(note_path(written), note_path(path))
        os.rename(written, path)
    return find_archive(jvm)


def _run_once(folder: str, conf: Mapping[str, str], committer: str) -> str:
    """One small run. Returns the last line of what it and its JVM said. The JVM writes the archive when it ends, which
    is after the end of the run: it is over when nobody can write to the pipe any more."""
    source, config = os.path.join(folder, "source"), os.path.join(folder, "config.json")
    os.mkdir(source)
    with open(os.path.join(source, "one.ndjson"), "xb") as file:
        file.write(_RECORD)
    with open(config, "x", encoding="utf-8") as text:
        json.dump({"spark": {"conf": dict(conf)}, "table": {"committer": committer, "sole_writer": True}}, text)
    command = [sys.executable, "-m", "blizzard", "run", "--config", config, "--source", source, "--schema", _DDL]
    child = subprocess.Popen(
        [*command, "--table", os.path.join(folder, "table")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that its JVM can be ended with it
    )
    try:
        said, _ = child.communicate(timeout=_TIME_LIMIT_S)
    except BaseException as e:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if isinstance(e, subprocess.TimeoutExpired):
            raise NoArchive(f"a small run did not end in {_TIME_LIMIT_S} seconds") from None
        raise
    lines = said.decode(errors="replace").strip().splitlines()
    if child.returncode != 0:
        failed = [line for line in lines if line.startswith("blizzard: ")] or lines or ["no output"]
        raise NoArchive(f"a small run failed: {failed[-1]}")
    return next((line for line in reversed(lines) if not line.startswith("{")), "")


def _remove_useless(jvm: Jvm) -> int:
    """Archives of a Spark that has another one now, or is gone. Another environment keeps its own."""
    folder = cache_folder()
    others = (name for name in os.listdir(folder) if name.endswith(".jsa") and name != f"{jvm.key}.jsa")
    return _remove([name for name in others if _spark_home_of(os.path.join(folder, name)) in (None, jvm.spark_home)])


def _spark_home_of(archive: str) -> str | None:
    """None: unknown, or gone."""
    try:
        require_private(note_path(archive))
        with open(note_path(archive), encoding="utf-8") as file:
            home = json.load(file)["spark_home"]
        return home if os.path.isdir(home) else None
    except (OSError, ValueError, LookupError, TypeError, NoArchive):
        return None


def _remove(names: list[str]) -> int:
    """The archives among these names, each with its note. Returns how many there were."""
    removed = 0
    for name in names:
        if name.endswith(".jsa"):
            path = os.path.join(cache_folder(), name)
            for part in (path, note_path(path)):
                with suppress(FileNotFoundError):
                    os.unlink(part)
                    removed += part == path
    return removed
