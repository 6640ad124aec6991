"""What may be where: source, tables, quarantines, archives and mirrors. No VACUUM may delete what belongs to another,
and no run may read what it has written.
"""

from __future__ import annotations

import os
import re

from blizzard.core.kinds import Kind
from blizzard.core.mirror import is_sql, sqlite_file
from blizzard.errors import ConfigError
from blizzard.store.uri import is_local, lies_in, locate, name_below

_DATABASES = ("sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg")
# How libpq writes a connection. As the name of a folder it would be made, password and all.
_LIBPQ = re.compile(r"(?:^|\s)(?:dbname|password)\s*=")


def check_source_place(source: str, *, table: str, quarantine: str, is_new: bool) -> None:
    """Raises if the source is in a log: every commit would be a new file to read, so that a run would never end. For a
    new table also if a VACUUM would delete source files; it skips folders that begin with _ or a dot."""
    for what, root in ("table", table), ("quarantine", quarantine):
        inside = name_below(source, root)
        if lies_in(source, f"{root}/_delta_log"):
            why = f"in the log of the {what} {root}: each commit of a run would be a new file to read"
        elif is_new and lies_in(source, root) and not (inside or "").startswith(("_", ".")):
            why = f"in the {what} {root}: a VACUUM of it would delete source files before they are read"
        else:
            continue
        raise ConfigError(
            f"the source {source} is {why}. Choose another {what}, or another source.",
            kind=Kind.USAGE,
        )


def check_archive(root: str, *, source: str, table: str, quarantine: str) -> None:
    """Raises if an archive there would be deleted by a VACUUM or read again, or if no file can be moved there."""
    for what, other in ("table", table), ("quarantine", quarantine):
        if lies_in(root, other) or lies_in(other, root):
            raise ConfigError(
                f"after_ingest.archive_path {root} and the {what} {other}: neither may be in the other, since a VACUUM"
                f" of the {what} deletes what it does not know. Choose another after_ingest.archive_path.",
                kind=Kind.USAGE,
            )
    inside = name_below(root, source)
    if lies_in(source, root) or (inside is not None and not inside.startswith(("_", "."))):
        raise ConfigError(
            f"after_ingest.archive_path {root} and the source {source}: neither may be in the other, where its files"
            f" would be read again. Choose another, or a folder of the source whose name begins with _.",
            kind=Kind.USAGE,
        )
    if _kind(root) != _kind(source):
        raise ConfigError("after_ingest.archive_path must be in the same kind of store as the source", kind=Kind.USAGE)


def locate_mirror(uri: str) -> str:
    """The root of a store, or the URI of a database."""
    if _LIBPQ.search(uri):
        raise ConfigError(
            "the mirror is given as words for libpq (host=… dbname=…): write postgresql://HOST/DATABASE instead",
            kind=Kind.UNSUPPORTED_SCHEME,
        )
    if not is_sql(uri):
        return locate(uri, what="mirror")
    scheme, found, rest = uri.partition("://")
    if scheme.lower() not in _DATABASES or not found:
        raise ConfigError(
            f"the mirror {uri.partition(':')[0]}:… cannot be opened: a database is sqlite:////PATH or postgresql://HOST/DATABASE",
            kind=Kind.UNSUPPORTED_SCHEME,
        )
    file, query = sqlite_file(uri), uri.partition("?")[2]
    # With uri=true the file has a name that only SQLite can make out.
    if scheme.lower().startswith("sqlite") and (file is None or file.startswith(":") or "uri=" in query):
        raise ConfigError(
            "the mirror needs a file for its SQLite database, such as sqlite:////var/lib/positions.db", kind=Kind.USAGE
        )
    return f"{scheme.lower()}://{rest}"


def check_mirror(root: str, what: str, other: str) -> None:
    """Raises if the mirror would be deleted by a VACUUM, or be read as a source."""
    place = sqlite_file(root) if is_sql(root) else root
    if place is None:
        return
    place = os.path.abspath(place) if is_sql(root) else place
    if lies_in(place, other) or lies_in(other, place):
        why = "its files would be read" if what == "source" else f"a VACUUM of the {what} deletes what it does not know"
        raise ConfigError(
            f"checkpoint.mirror {place} and the {what} {other}: neither may be in the other, since {why}. Choose"
            f" another checkpoint.mirror.",
            kind=Kind.USAGE,
        )


def check_apart(quarantine: str, table: str) -> None:
    if lies_in(quarantine, table) or lies_in(table, quarantine):
        raise ConfigError(
            f"quarantine.path {quarantine} and the table {table}: neither may be in the other, since a VACUUM of the"
            f" outer one deletes the files of the inner. Choose another quarantine.path.",
            kind=Kind.USAGE,
        )


def _kind(root: str) -> str:
    return "file" if is_local(root) else root.split(":", 1)[0]
