"""Where copies of positions are kept: a folder on disk or in a bucket, or a table in a database.

What is written is decided in `core/mirror.py`; when, in `run/mirror.py`. Here it is only carried out.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Protocol

from blizzard.core.kinds import Kind
from blizzard.core.mirror import Change, Held, Series, Version, is_sql
from blizzard.errors import ConfigError
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.text.redaction import learn_uri


class Contents(Protocol):
    """A mirror while it is open."""

    def look(self, series: Series) -> Held: ...
    def batch_of(self, series: Series, sequence: int) -> str | None: ...
    def apply(self, series: Series, change: Change) -> None: ...


class StoredMirror(Protocol):
    @property
    def shown(self) -> str:
        """Where it is, without a secret."""

    def opened(self) -> AbstractContextManager[Contents]: ...
    def look(self, series: Series) -> Held: ...
    def read(self, series: Series, sequence: int | None = None) -> bytes | None:
        """One version, or the newest, as an export; None if it is not there."""

    def newest_of_each(self) -> list[Version]:
        """Of every series. What cannot be read is left out."""

    def check(self) -> None:
        """Raises if it could not be written. Leaves nothing behind."""


@lru_cache(maxsize=32)
def open_mirror(root: str, access: Access = NO_ACCESS) -> StoredMirror:
    """Makes no request. Raises if the packages for it are not installed."""
    if is_sql(root):
        return _in_database(root)
    from blizzard.mirror.files import FileMirror

    return FileMirror(open_store(root, access))


def _in_database(uri: str) -> StoredMirror:
    for package in ["sqlalchemy"] if uri.startswith("sqlite") else ["sqlalchemy", "psycopg"]:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"a mirror in a database needs the package {package}: pip install 'blizzard-delta[mirror-sql]'",
                kind=Kind.USAGE,
            )
    from blizzard.mirror.sql import SqlMirror

    learn_uri(uri)
    return SqlMirror(uri)


# A child must not share connections.
os.register_at_fork(after_in_child=open_mirror.cache_clear)
