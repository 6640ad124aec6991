"""A mirror in a database: one table, one row a version, for a whole fleet. SQLite and PostgreSQL, through SQLAlchemy.

Every connection is new, and lives for one look or one change: a server that was stopped or restarted in between is
found out by a connect, which has a time limit.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    MetaData,
    NullPool,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from blizzard.core.kinds import Kind
from blizzard.core.mirror import Change, Held, Series, Version, VersionId, sqlite_file
from blizzard.errors import ConfigError, Temporary
from blizzard.store.local import require_writable
from blizzard.text.plain import plain
from blizzard.text.redaction import learn, redact

TABLE = "blizzard_positions"
VIEW = "blizzard_newest_positions"
_CONNECT_S = 5
_STATEMENT_MS = 10_000
# One look or one change has some statements.
_WHOLE_S = 20.0
_LAST_MS = 253_402_300_799_999  # a datetime holds no later moment
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_POSITIONS = Table(
    TABLE,
    MetaData(),
    Column("pipeline", Text, primary_key=True),
    Column("table_id", Text, primary_key=True),
    Column("place", Text, primary_key=True),  # stands for table_uri, which may be too long for an index
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("table_uri", Text, nullable=False),
    Column("delta_version", BigInteger, nullable=False),
    Column("taken_at", DateTime(timezone=True), nullable=False),  # in SQLite: UTC, as text
    Column("size_bytes", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("batch_id", Text, nullable=False),
    Column("payload", Text, nullable=False),
)
_NEWEST = (
    f"SELECT * FROM {TABLE} AS p WHERE sequence = (SELECT max(sequence) FROM {TABLE} AS q"
    " WHERE q.pipeline = p.pipeline AND q.table_id = p.table_id AND q.place = p.place)"
)


class SqlMirror:
    def __init__(self, uri: str) -> None:
        """Raises if it can be no URI of a database."""
        self._uri, self._file, self._url = uri, sqlite_file(uri), _parsed(uri)
        self._here = threading.local()

    @property
    def shown(self) -> str:
        return redact(self._uri)

    @contextmanager
    def opened(self) -> Iterator[_OpenMirror]:
        """MIRROR_UNAVAILABLE, whatever the database says."""
        self._here.watch = watch = _Watch()
        try:
            with self._engine.connect() as connection:
                yield _OpenMirror(connection)
        except (SQLAlchemyError, ValueError) as e:  # ValueError: a host that cannot be looked up, an option of no use
            said = plain(getattr(e, "orig", None) or e).rstrip(".")
            raise Temporary(f"its database says: {said}", kind=Kind.MIRROR_UNAVAILABLE) from e
        finally:
            watch.close()

    def look(self, series: Series) -> Held:
        if self._is_missing:
            return Held()
        with self.opened() as mirror:
            return mirror.look(series)

    def read(self, series: Series, sequence: int | None = None) -> bytes | None:
        if self._is_missing:
            return None
        with self.opened() as mirror:
            return mirror.read(series, sequence)

    def newest_of_each(self) -> list[Version]:
        if self._is_missing:
            return []
        with self.opened() as mirror:
            return mirror.newest_of_each()

    def check(self) -> None:
        if self._is_missing:
            folder = os.path.dirname(os.path.abspath(self._file or ""))
            if not os.path.isdir(folder):
                raise ConfigError(f"there is no folder {folder}: make it first", kind=Kind.UNUSABLE_PATH)
            require_writable(folder)
            return
        with self.opened() as mirror:
            mirror.check()

    @property
    def _is_missing(self) -> bool:
        """A SQLite database that is not there yet: connecting would make it."""
        return self._file is not None and not os.path.exists(self._file)

    @cached_property
    def _engine(self) -> Engine:
        url = self._url
        options: dict[str, Any] = {"timeout": _CONNECT_S}
        if self._file is None:
            learn(url.password)
            url = url.set(drivername="postgresql+psycopg")
            # Prepared statements do not work through every proxy.
            options = {"connect_timeout": _CONNECT_S, "application_name": "blizzard", "prepare_threshold": None}
            options["client_encoding"] = "utf8"  # else a database without an encoding answers in bytes
        given = {name: value for name, value in options.items() if name not in url.query}
        engine = create_engine(url, poolclass=NullPool, connect_args=given, hide_parameters=True)
        if self._file is None:
            event.listen(engine, "do_connect", self._connect)
        return engine

    def _connect(self, dialect: Any, _record: Any, given: Sequence[Any], named: dict[str, Any]) -> Any:
        """SQLAlchemy asks the server a few things on a new connection. That is watched, too."""
        connection = dialect.connect(*given, **named)
        self._here.watch.over(connection.fileno())
        return connection


def _parsed(uri: str) -> URL:
    """What is wrong is not quoted: it may be a part of the password."""
    with suppress(SQLAlchemyError, ValueError):
        url = make_url(uri)
        if "@" not in (url.host or ""):
            return url
    raise ConfigError(
        f"the mirror {redact(uri)} is not the URI of a database: write postgresql://HOST:PORT/DATABASE, %40 for an @"
        f" in a name or a password; several hosts are postgresql:///DATABASE?host=HOST:PORT&host=HOST:PORT",
        kind=Kind.USAGE,
    )


class _Watch:
    """Ends a connection that takes too long. Else a server that is stopped in between would keep its thread for ever:
    the limit for a statement is kept by the server itself."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(_WHOLE_S, self._end)
        self._timer.daemon = True

    def over(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))  # so that it cannot become that of another file
        self._timer.start()

    def _end(self) -> None:
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._timer.cancel()
        if self._socket is not None:
            self._socket.close()


class _OpenMirror:
    """One connection. Each call is a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_postgres = connection.dialect.name == "postgresql"

    def look(self, series: Series) -> Held:
        with self._transaction():
            if not self._has_table():
                return Held()
            found = self._connection.execute(
                select(_POSITIONS.c.sequence, _POSITIONS.c.batch_id).where(*self._of(series))
            ).all()
        batches: dict[int, str | None] = {row.sequence: row.batch_id for row in found}
        highest = max(batches, default=None)
        newest = None if highest is None else VersionId(sequence=highest, batch_id=batches[highest])
        return Held(batches=batches, newest=newest)

    def batch_of(self, series: Series, sequence: int) -> str | None:
        """`look` has found all of them."""
        del series, sequence
        return None

    def apply(self, series: Series, change: Change) -> None:
        with self._transaction():
            if not self._has_table():
                self._make()
            if change.write:
                self._connection.execute(self._replacing(), [_row_of(version) for version in change.write])
            for gone in change.remove:
                exactly = (_POSITIONS.c.sequence == gone.sequence, _POSITIONS.c.batch_id == gone.batch_id)
                self._connection.execute(delete(_POSITIONS).where(*self._of(series), *exactly))

    def read(self, series: Series, sequence: int | None) -> bytes | None:
        wanted = select(_POSITIONS.c.payload).where(*self._of(series)).order_by(_POSITIONS.c.sequence.desc()).limit(1)
        if sequence is not None:
            wanted = wanted.where(_POSITIONS.c.sequence == sequence)
        with self._transaction():
            found = self._connection.execute(wanted).scalar() if self._has_table() else None
        return None if found is None else str(found).encode()

    def newest_of_each(self) -> list[Version]:
        with self._transaction():
            if not self._has_table():
                return []
            other = _POSITIONS.alias()
            same = (other.c[name] == _POSITIONS.c[name] for name in ("pipeline", "table_id", "place"))
            highest = select(func.max(other.c.sequence)).where(*same).scalar_subquery()
            rows = self._connection.execute(select(_POSITIONS).where(_POSITIONS.c.sequence == highest))
            return [found for row in rows if (found := _version_of(row._mapping)) is not None]

    def check(self) -> None:
        with self._connection.begin() as transaction:
            if not self._has_table():
                self._make()
            self._connection.execute(self._replacing(), [_row_of(_PROBE)])
            transaction.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.begin():
            if self._is_postgres:
                self._connection.execute(text(f"SET LOCAL statement_timeout = {_STATEMENT_MS}"))
            yield

    def _has_table(self) -> bool:
        return inspect(self._connection).has_table(TABLE)

    def _make(self) -> None:
        """Table and view, or neither. A fleet may begin on an empty database all at once."""
        if self._is_postgres:
            self._connection.execute(text(f"SELECT pg_advisory_xact_lock(hashtext('{TABLE}'))"))
        else:  # its driver begins no transaction for this
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._connection.execute(CreateTable(_POSITIONS, if_not_exists=True))
        way = "CREATE OR REPLACE VIEW" if self._is_postgres else "CREATE VIEW IF NOT EXISTS"
        self._connection.execute(text(f"{way} {VIEW} AS {_NEWEST}"))

    def _of(self, series: Series) -> tuple[ColumnElement[bool], ...]:
        columns = _POSITIONS.c
        return (
            columns.pipeline == series.pipeline,
            columns.table_id == series.table_id,
            columns.place == series.place,
        )

    def _replacing(self) -> Any:
        insert = postgresql.insert if self._is_postgres else sqlite.insert
        statement: Any = insert(_POSITIONS)
        others = {c.name: statement.excluded[c.name] for c in _POSITIONS.columns if not c.primary_key}
        return statement.on_conflict_do_update(index_elements=[*_POSITIONS.primary_key], set_=others)


def _row_of(version: Version) -> dict[str, Any]:
    series = version.series
    return {
        "pipeline": series.pipeline,
        "table_id": series.table_id,
        "place": series.place,
        "sequence": version.sequence,
        "table_uri": series.table,
        "delta_version": version.delta_version,
        "taken_at": _EPOCH + timedelta(milliseconds=min(version.taken_at_ms, _LAST_MS)),
        "size_bytes": version.size_bytes,
        "run_id": version.run_id,
        "batch_id": version.batch_id,
        "payload": version.payload.decode(),
    }


def _version_of(row: Mapping[Any, Any]) -> Version | None:
    """None: blizzard did not write it. SQLite keeps values of any type."""
    if any(not isinstance(row[c.name], c.type.python_type) for c in _POSITIONS.columns):
        return None
    taken_at: datetime = row["taken_at"]
    if taken_at.tzinfo is None:
        taken_at = taken_at.replace(tzinfo=timezone.utc)
    return Version(
        series=Series(pipeline=row["pipeline"], table_id=row["table_id"], table=row["table_uri"]),
        sequence=row["sequence"],
        batch_id=row["batch_id"],
        delta_version=row["delta_version"],
        taken_at_ms=(taken_at - _EPOCH) // timedelta(milliseconds=1),
        run_id=row["run_id"],
        payload=row["payload"].encode(),
    )


_PROBE = Version(
    series=Series(pipeline="", table_id="", table=""),
    sequence=0,
    batch_id="",
    delta_version=0,
    taken_at_ms=0,
    run_id="",
    payload=b"",
)
