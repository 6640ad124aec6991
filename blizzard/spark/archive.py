"""The class-data archive of the JVM: where it is kept, what it must fit, and whether it may be used.

Made by `blizzard warm-up`. The JVM runs what is in it as code and checks little: JDK 17 dies of a truncated one. So
it is used only for the JVM that made it, from a folder that nobody else can write to, and if every byte is still the
same. In every other case a run goes on without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from blizzard.spark.java import find_java
from blizzard.spark.user import home_folder

OPTIONS = "spark.driver.extraJavaOptions"
_OLDEST_JDK = 17
_READ_BYTES = 1 << 20
# Settings that add to the class path or to the flags of the JVM.
_SETTINGS = ("spark.driver.defaultJavaOptions", "spark.driver.extraClassPath")
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS", "SPARK_DIST_CLASSPATH")
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
# Whoever gives one of these decides for himself, `-Xshare:off` included.
_OF_THE_USER = re.compile(r"-Xshare:|SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive")


class NoArchive(Exception):
    """There is none to use, and why. `can_be_made`: `blizzard warm-up` would make one."""

    def __init__(self, reason: str, *, can_be_made: bool = False) -> None:
        super().__init__(reason)
        self.can_be_made = can_be_made


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """Everything that decides whether an archive fits."""

    java: str
    release: str  # the text of the JDK's release file
    spark_home: str
    spark_version: str
    jars: tuple[tuple[str, int, int], ...]  # name, bytes, time of change: the JVM compares these as well
    flags: tuple[str, ...]

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    path: str
    size_bytes: int

    @property
    def options(self) -> str:
        """Without the last one, an archive that does not fit is a warning on stdout."""
        flags = ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds*=off")
        return " ".join(map(java_option, flags))


def java_option(flag: str) -> str:
    """As one word for Spark's launcher."""
    return '"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"' if re.search(r"[\s'\"\\]", flag) else flag


def jvm_for(conf: Mapping[str, str], options: str) -> Jvm:
    """The JVM that Spark would start with these settings. Raises if it can have no archive of ours."""
    from pyspark import __version__
    from pyspark.find_spark_home import _find_spark_home

    said = [options, *(conf.get(name, "") for name in _SETTINGS), *(os.environ.get(name, "") for name in _VARIABLES)]
    if _OF_THE_USER.search(" ".join(said)):
        raise NoArchive("the Java options name an archive themselves, or switch sharing off")
    java, release = _jdk()
    home = os.path.realpath(_find_spark_home())
    _require_no_files_on_class_path(home)
    return Jvm(
        java=java,
        release=release,
        spark_home=home,
        spark_version=__version__,
        jars=tuple(sorted(_jars(os.path.join(home, "jars")))),
        flags=(*_flags(options), *said[1:], *(os.environ.get(name, "") for name in _FOLDERS)),
    )


def _jdk() -> tuple[str, str]:
    java = find_java()
    if java is None:
        raise NoArchive("there is no Java")
    java = os.path.realpath(java)
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(java)), "release"), encoding="utf-8") as file:
            release = file.read(100_000)
    except (OSError, ValueError):
        raise NoArchive(f"the JDK of {java} has no release file that says its version") from None
    version = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    if version is None or int(version[1]) < _OLDEST_JDK:
        raise NoArchive(f"it needs a JDK {_OLDEST_JDK} or newer; {java} is {version[1] if version else 'unknown'}")
    return java, release


def _require_no_files_on_class_path(home: str) -> None:
    """The JVM archives nothing if a folder of its class path has files. Among them is also spark-env.sh, which may
    choose another Java, and spark-defaults.conf, which may choose other flags."""
    conf = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    for folder in (conf, *filter(None, map(os.environ.get, _FOLDERS[1:]))):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        if names:
            raise NoArchive(f"{folder} is on the class path of the JVM and has files in it")


def _jars(folder: str) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat()
                yield entry.name, found.st_size, found.st_mtime_ns
    except OSError as e:
        raise NoArchive(f"the JARs of Spark cannot be listed: {e}") from None


def _flags(options: str) -> Iterator[str]:
    """Without properties: they change no class."""
    try:
        words = shlex.split(options)
    except ValueError:
        raise NoArchive("the Java options cannot be split into words") from None
    yield from (word for word in words if not word.startswith("-D"))


def cache_folder() -> str:
    """$XDG_CACHE_HOME counts only if it is absolute, as its specification says."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home_folder(), ".cache"), "blizzard")


def archive_path(jvm: Jvm) -> str:
    return os.path.join(cache_folder(), f"{jvm.key}.jsa")


def note_path(archive: str) -> str:
    """The file beside it that says what was written and for which Spark."""
    return archive.removesuffix(".jsa") + ".json"


def find_archive(jvm: Jvm) -> Archive:
    """The archive for this JVM. Raises if there is none, or none that can be trusted."""
    path = archive_path(jvm)
    require_usable_path(path)
    try:
        require_private(cache_folder(), is_folder=True)
        require_private(path)
        require_private(note_path(path))
        with open(note_path(path), encoding="utf-8") as file:
            note = json.load(file)
        size_bytes, crc = note["bytes"], note["crc32"]
        if os.path.getsize(path) != size_bytes or checksum(path) != crc:
            raise NoArchive(f"{path} is damaged", can_be_made=True)
    except FileNotFoundError:
        raise NoArchive("there is none for this Java, this Spark and these flags", can_be_made=True) from None
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise NoArchive(f"{path} cannot be read: {e}", can_be_made=True) from None
    return Archive(path=path, size_bytes=size_bytes)


def require_usable_path(path: str) -> None:
    """The JVM takes a colon for the end of a path, and Spark's launcher a line end for the end of its answer."""
    if ":" in path or not path.isprintable():
        raise NoArchive(f"{path!r} cannot be given to the JVM: set XDG_CACHE_HOME to a plain path")


def require_private(path: str, *, is_folder: bool = False) -> None:
    """Raises if it is a link, or if another user owns it or could have written it."""
    found = os.lstat(path)
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(found.st_mode):
        raise NoArchive(f"{path} is not a plain {'folder' if is_folder else 'file'}")
    if found.st_uid != os.geteuid():
        raise NoArchive(f"{path} belongs to another user")
    if found.st_mode & (0o077 if is_folder else 0o022):
        raise NoArchive(f"{path} is open to other users: chmod go= {shlex.quote(path)}")


def checksum(path: str) -> int:
    """0.06 s for 140 MB; and the JVM finds the file in memory then."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(_READ_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def make_cache_folder() -> None:
    folder = cache_folder()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    require_private(folder, is_folder=True)


def is_first_cold_start() -> bool:
    """True once for a user on a machine. False where nothing can be remembered: then warm-up would not work either."""
    try:
        make_cache_folder()
        os.close(os.open(os.path.join(cache_folder(), "told-of-warm-up"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (OSError, NoArchive):
        return False
    return True
