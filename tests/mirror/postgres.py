"""A real PostgreSQL server for tests: Debian's, on a free loopback port, with a data folder of its own.

`initdb` and `postgres` refuse root, so as root they run as the user postgres.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import psycopg
import pytest

from tests.s3.processes import die_with_parent, free_port

PASSWORD = "Pg-planted/pa ss'wörd"
_VERSIONS = Path("/usr/lib/postgresql")
_READY_S = 60


def program(name: str) -> str:
    """Debian does not put it on the PATH. Where it is not installed its tests are skipped, but fail in CI."""
    versions = (
        sorted(_VERSIONS.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3])) if _VERSIONS.exists() else []
    )
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        _cannot_run("PostgreSQL is not installed: run make setup-postgres, which needs apt-get and root")
    return found


def _cannot_run(reason: str) -> NoReturn:
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)


def user() -> pwd.struct_passwd | None:
    """Whom the server runs as, if not as ourselves."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        _cannot_run("root cannot run PostgreSQL, and there is no user postgres: run make setup-postgres")


class Postgres:
    """One server, which can be killed, stopped and started again. It listens on loopback only.

    It is a child of this process, so that it can be waited for, and dies with it.
    """

    def __init__(self) -> None:
        self._user = user()
        # Not below pytest's own folder: only its owner may enter that.
        self.folder = Path(tempfile.mkdtemp(prefix="blizzard-postgres-"))
        self.data, self.port = self.folder / "data", free_port()
        self._server: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        made = self._start(
            *(program("initdb"), "--pgdata", str(self.data), "--username", "fleet", "--encoding", "UTF8"),
            *("--auth", "scram-sha-256", "--pwfile", str(password), "--no-sync", "--locale", "C"),
        )
        assert made.wait(_READY_S) == 0, self.log
        password.unlink()
        self.start()

    def uri(self, database: str = "postgres", *, scheme: str = "postgresql+psycopg", password: str = PASSWORD) -> str:
        return f"{scheme}://fleet:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def make_database(self, name: str) -> str:
        """An empty one; its URI."""
        self.sql(f"CREATE DATABASE {name}")
        return self.uri(name)

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.uri(database, scheme="postgresql"), autocommit=True) as connection:
            found = connection.execute(statement)
            rows: list[tuple[Any, ...]] = found.fetchall() if found.description else []
            return rows

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> None:
        assert self._server is None
        self._server = self._start(
            *(program("postgres"), "-D", str(self.data), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1"),
            *("-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off", "-c", "max_connections=20"),
        )
        until = time.monotonic() + _READY_S
        asks = [program("pg_isready"), "--quiet", "--host", "127.0.0.1", "--port", str(self.port)]
        while subprocess.run(asks, check=False).returncode:
            assert self._server.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is what `pg_ctl stop -m immediate` sends: as if the machine had lost its power."""
        assert self._server is not None
        self._server.send_signal(how)
        self._server.wait(60)
        self._server = None

    def kill(self) -> None:
        """The server and its children, with SIGKILL."""
        assert self._server is not None
        for pid in self.processes():
            with suppress(ProcessLookupError):  # children end by themselves when the first is gone
                os.kill(pid, signal.SIGKILL)
        self._server.wait(60)
        self._server = None

    def processes(self) -> list[int]:
        assert self._server is not None
        first = self._server.pid
        return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It keeps its connections, takes new ones, and answers nothing."""
        pids = self.processes()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def close(self) -> None:
        if self._server is not None:
            self.stop()
        shutil.rmtree(self.folder)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - one system call through a library that is already loaded
                user=None if self._user is None else self._user.pw_uid,
                group=None if self._user is None else self._user.pw_gid,
                extra_groups=None if self._user is None else (),
            )
