"""A mirror that is down, hangs, is full or may not be written: the run goes on, says so, and a later one makes up."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from blizzard.core.mirror import Series
from blizzard.core.plan import Limits
from blizzard.errors import Temporary
from blizzard.mirror import open_mirror
from blizzard.run.mirror import MirrorThread, Wanted
from tests.flows.in_process import Flow, InProcessIngestor, newest
from tests.flows.operating import silent_server
from tests.flows.shell import Said, Shell
from tests.ingesting import ids, write_ids
from tests.mirror.postgres import PASSWORD, Postgres
from tests.mirror.under_test import MirrorUnderTest
from tests.run.test_disk_trouble import disk, fill, mount

__all__ = ["disk"]


def metrics(path: Path) -> dict[str, float]:
    found = text_string_to_metric_families(path.read_text())
    return {sample.name: sample.value for family in found for sample in family.samples}


@pytest.fixture
def textfile(tmp_path: Path) -> Path:
    return tmp_path / "blizzard.prom"


def run(shell: Shell, uri: str, textfile: Path, *words: str) -> Said:
    said = shell.run(
        *("--pipeline", "p", "--set", f"checkpoint.mirror={uri}", "--set", f"metrics.textfile={textfile}", *words)
    )
    assert said.code == 0, said.text
    return said


def source(shell: Shell, *numbers: int) -> None:
    for number in numbers:
        write_ids(shell.folder / f"src/{number}.ndjson", 3 * number, 3 * number + 3)


@pytest.fixture
def while_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    """What happens while the tasks of a batch run; it is given the number of the batch."""

    def set_hook(hook: Callable[[int], None]) -> None:
        real, batches = InProcessIngestor.run, [0]

        def run_with_hook(self: InProcessIngestor, *given: object, **named: object) -> object:
            batches[0] += 1
            hook(batches[0])
            return real(self, *given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(InProcessIngestor, "run", run_with_hook)

    return set_hook


# A real PostgreSQL server


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_server_that_dies_in_the_middle_of_a_run_is_made_up_for_by_the_next(
    shell: Shell,
    postgres: Postgres,
    textfile: Path,
    while_reading: Callable[[Callable[[int], None]], None],
    how: str,
) -> None:
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database(f"dies_{how}"))
    source(shell, 0, 1, 2, 3)
    while_reading(lambda batch: getattr(postgres, how)() if batch == 3 else None)
    said = run(shell, mirror.uri, textfile, "--set", "limits.max_files=1", "--set", "limits.max_inflight=1")
    assert (said.last["status"], ids(shell.table)) == ("done", list(range(12)))
    assert "could not be written: its database says:" in said.text
    assert "The run goes on; the next commit or the next run makes up for it" in said.text
    assert PASSWORD not in said.text
    numbers = metrics(textfile)
    assert numbers["blizzard_mirror_failures_total"] >= 1
    assert numbers["blizzard_sequence"] == 4
    assert numbers.get("blizzard_mirror_sequence", 0) < 4
    looked = shell("status", "--table", str(shell.table), "--set", f"checkpoint.mirror={mirror.uri}")
    assert looked.code == 0
    assert "cannot be read: its database says:" in looked.text
    assert "[mirror_unavailable]" in looked.text
    said = shell("doctor", "--table", str(shell.table), "--json", "--set", f"checkpoint.mirror={mirror.uri}")
    assert [f["verdict"] for f in json.loads(said.text) if f["about"] == "mirror"] == ["warning"]
    version = newest(shell.table)
    postgres.start()
    run(shell, mirror.uri, textfile)  # nothing new
    assert (mirror.sequences(), newest(shell.table)) == ([1, 2, 3, 4], version)
    assert metrics(textfile)["blizzard_mirror_sequence"] == 4
    assert metrics(textfile)["blizzard_mirror_failures_total"] == 0


@pytest.mark.postgres
def test_a_server_that_is_back_is_made_up_for_by_the_next_commit(
    shell: Shell, postgres: Postgres, textfile: Path, while_reading: Callable[[Callable[[int], None]], None]
) -> None:
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database("comes_back"))
    source(shell, *range(4))
    warned = threading.Event()

    def die_and_come_back(batch: int) -> None:
        if batch == 2:
            postgres.stop()
        elif batch == 4:
            assert warned.wait(120)
            postgres.start()

    while_reading(die_and_come_back)
    real = MirrorThread._report_failure

    def report(self: MirrorThread, wanted: Wanted, why: str) -> None:
        real(self, wanted, why)
        warned.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MirrorThread, "_report_failure", report)
        said = run(shell, mirror.uri, textfile, "--set", "limits.max_files=1", "--set", "limits.max_inflight=1")
    assert "holds everything up to sequence 4 again" in said.text
    assert mirror.sequences() == [1, 2, 3, 4]


@pytest.mark.postgres
def test_a_server_that_stops_answering_in_the_middle_of_a_statement_is_left(
    postgres: Postgres,
) -> None:
    """The connection is there, so no connect finds it out. The thread must come back by itself."""
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database("freezes"))
    series = Series(pipeline="p", table_id="t", table="file:///t")
    with pytest.raises(Temporary) as failed, pytest.MonkeyPatch.context() as patched:
        patched.setattr("blizzard.mirror.sql._WHOLE_S", 2)
        with mirror.stored.opened() as contents:
            contents.look(series)
            with postgres.frozen():
                contents.look(series)
    assert failed.value.kind == "mirror_unavailable"
    assert mirror.stored.look(series).highest == 0


@pytest.mark.postgres
def test_a_locked_table_holds_nobody_up(shell: Shell, postgres: Postgres, textfile: Path) -> None:
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database("locked"))
    source(shell, 0)
    run(shell, mirror.uri, textfile)
    with psycopg.connect(postgres.uri("locked", scheme="postgresql")) as other:
        other.execute("LOCK TABLE blizzard_positions IN ACCESS EXCLUSIVE MODE")
        source(shell, 1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("blizzard.mirror.sql._STATEMENT_MS", 200)
            said = run(shell, mirror.uri, textfile)
        assert "canceling statement due to statement timeout" in said.text
    run(shell, mirror.uri, textfile)
    assert mirror.sequences() == [1, 2]


@pytest.mark.postgres
def test_a_user_who_may_not_make_the_table_or_write_is_told_by_doctor(shell: Shell, postgres: Postgres) -> None:
    source(shell, 0)
    assert shell.run("--pipeline", "p").code == 0
    uri = postgres.make_database("no_rights")
    postgres.sql("CREATE ROLE reader LOGIN PASSWORD 'only to read'")
    theirs = uri.replace("fleet:", "reader:", 1).replace(uri.split("fleet:")[1].split("@")[0], "only%20to%20read")
    look = ["doctor", "--table", str(shell.table), "--json", "--set"]
    (found,) = [f for f in json.loads(shell(*look, f"checkpoint.mirror={theirs}").text) if f["about"] == "mirror"][:1]
    assert found["verdict"] == "warning"
    assert "permission denied" in found["text"]
    assert "only" not in found["text"]
    said = shell(*look, f"checkpoint.mirror={uri}")
    assert [f["verdict"] for f in json.loads(said.text) if f["about"] == "mirror"] == ["ok", "warning"]
    assert postgres.sql("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'blizzard%'", "no_rights") == [(0,)]


@pytest.mark.postgres
def test_a_wrong_password_is_said_and_not_shown(shell: Shell, postgres: Postgres, textfile: Path) -> None:
    source(shell, 0)
    said = run(shell, postgres.uri(password="Zq7-planted/S3cret"), textfile)
    assert "password authentication failed" in said.text
    assert "planted" not in said.text
    assert "S3cret" not in said.text
    assert ids(shell.table) == [0, 1, 2]


@pytest.mark.postgres
def test_a_table_that_somebody_drops_is_made_again(shell: Shell, postgres: Postgres, textfile: Path) -> None:
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database("dropped"))
    source(shell, 0)
    run(shell, mirror.uri, textfile)
    postgres.sql("DROP TABLE blizzard_positions CASCADE", "dropped")
    source(shell, 1)
    run(shell, mirror.uri, textfile)
    assert mirror.sequences() == [1, 2]
    assert postgres.sql("SELECT pipeline, sequence FROM blizzard_newest_positions", "dropped") == [("p", 2)]


@pytest.mark.postgres
@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_options_of_the_uri_reach_the_server(shell: Shell, postgres: Postgres, textfile: Path, scheme: str) -> None:
    name = f"options_{scheme.replace('+', '_')}"
    postgres.make_database(name)
    postgres.sql("CREATE SCHEMA ops", name)
    source(shell, 0)
    uri = postgres.uri(name, scheme=scheme) + "?options=-csearch_path=ops&connect_timeout=30"
    run(shell, uri, textfile)
    assert postgres.sql("SELECT pipeline, sequence FROM ops.blizzard_newest_positions", name) == [("p", 1)]


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_the_encoding_of_the_database_does_not_matter(
    shell: Shell, postgres: Postgres, textfile: Path, encoding: str
) -> None:
    name = f"in_{encoding.lower()}"
    postgres.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.uri(name))
    for number in (0, 1):
        source(shell, number)
        assert "could not be written" not in run(shell, mirror.uri, textfile).text
    assert mirror.sequences() == [1, 2]


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_host_can_have_is_reported(shell: Shell, textfile: Path, host: str) -> None:
    source(shell, 0)
    uri = f"postgresql://u:p@{host}/d"
    assert "could not be written: its database says:" in run(shell, uri, textfile).text
    looked = shell("status", "--table", str(shell.table), "--set", f"checkpoint.mirror={uri}")
    assert (looked.code, "[mirror_unavailable]" in looked.text) == (0, True)


# A server that accepts and never answers


@pytest.mark.parametrize("kind", ["postgres", "s3"])
def test_a_server_that_accepts_and_never_answers_does_not_hang_the_run(
    shell: Shell, textfile: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The run is given so little patience that it ends before any timeout of a client."""
    monkeypatch.setattr("blizzard.run.mirror.GIVE_UP_AFTER_S", 0.2)
    source(shell, 0, 1)
    with silent_server() as address:
        uri = f"postgresql://u:p@{address}/d" if kind == "postgres" else "s3://bucket/mirror"
        options = {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s-secret",
            "AWS_REGION": "us-east-1",
        }
        words = [word for name, value in options.items() for word in ("--set", f"storage_options.{name}={value}")]
        began = time.monotonic()
        said = run(shell, uri, textfile, "--set", "limits.max_files=1", *(words if kind == "s3" else []))
        assert time.monotonic() - began < 60  # no client would wait so short: see above
    assert (said.last["status"], ids(shell.table)) == ("done", list(range(6)))
    assert "it has not answered within 0.2 seconds" in said.text
    assert metrics(textfile)["blizzard_mirror_failures_total"] >= 1


def test_a_connect_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the thread of a run that follows comes back, and tries again."""
    monkeypatch.setattr("blizzard.mirror.sql._CONNECT_S", 2)  # libpq takes less for this
    with silent_server() as address, pytest.raises(Temporary) as failed:
        open_mirror(f"postgresql://u:p@{address}/d").look(Series(pipeline="p", table_id="t", table="t"))
    assert failed.value.kind == "mirror_unavailable"
    assert "timeout" in str(failed.value)


# Disks


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
@pytest.mark.parametrize("trouble", ["read-only", "full"])
def test_a_disk_that_may_not_be_written_or_is_full(
    shell: Shell, textfile: Path, disk: Callable[[str], Path], kind: str, trouble: str
) -> None:
    place = disk("mirror")
    uri = str(place) if kind == "folder" else f"sqlite:///{place}/positions.db"
    mirror = MirrorUnderTest(kind=kind, uri=uri)
    source(shell, 0)
    run(shell, uri, textfile)
    fill(place) if trouble == "full" else mount("-o remount,ro", place)
    source(shell, 1, 2)
    said = run(shell, uri, textfile, "--set", "limits.max_files=1")
    assert f"the mirror {'file://' if kind == 'folder' else ''}" in said.text
    assert "could not be written" in said.text
    assert ids(shell.table) == list(range(9))
    assert metrics(textfile)["blizzard_mirror_failures_total"] >= 1
    assert mirror.sequences() == [1]  # whole, as it was
    os.unlink(place / "filled") if trouble == "full" else mount("-o remount,rw", place)
    run(shell, uri, textfile)
    assert mirror.sequences() == [1, 2, 3]


def test_a_sqlite_database_that_another_process_locks(
    shell: Shell, textfile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.mirror.sql._CONNECT_S", 0.1)
    mirror = MirrorUnderTest(kind="sqlite", uri=f"sqlite:///{tmp_path}/positions.db")
    source(shell, 0)
    run(shell, mirror.uri, textfile)
    with sqlite3.connect(tmp_path / "positions.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        source(shell, 1)
        said = run(shell, mirror.uri, textfile)
        assert "database is locked" in said.text
        other.execute("ROLLBACK")
    run(shell, mirror.uri, textfile)
    assert mirror.sequences() == [1, 2]


def test_a_file_in_the_place_of_the_folder_is_reported(shell: Shell, textfile: Path, tmp_path: Path) -> None:
    (tmp_path / "mirror").write_text("a file")
    source(shell, 0)
    said = run(shell, str(tmp_path / "mirror"), textfile)
    assert "could not be written" in said.text
    said = shell("doctor", "--table", str(shell.table), "--json", "--set", f"checkpoint.mirror={tmp_path / 'mirror'}")
    (found,) = [f for f in json.loads(said.text) if f["about"] == "mirror"][:1]
    assert found["verdict"] == "warning"


# Drivers


def test_a_driver_that_dies_between_its_commit_and_its_copy_is_made_up_for(
    tmp_path: Path, shell: Shell, textfile: Path
) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "0.ndjson", 0, 3)
    write_ids(flow.src / "1.ndjson", 3, 6)
    flow.run(limits=Limits(max_files=1))  # this one copies nothing, as if it had died each time
    write_ids(flow.src / "2.ndjson", 6, 9)
    mirror = MirrorUnderTest(kind="folder", uri=str(tmp_path / "mirror"))
    run(shell, mirror.uri, textfile)
    assert mirror.sequences() == [1, 2, 3]


def test_a_driver_that_is_fenced_copies_nothing_of_its_own(tmp_path: Path, shell: Shell) -> None:
    mirror = MirrorUnderTest(kind="folder", uri=str(tmp_path / "mirror"))
    flow = Flow(tmp_path).first_run()
    words = ["--pipeline", "p", *mirror.words]
    assert shell.run(*words).code == 0
    write_ids(flow.src / "b.ndjson", 3, 6)

    real = InProcessIngestor.run

    def overtaken(self: InProcessIngestor, *given: object, **named: object) -> object:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(InProcessIngestor, "run", real)
            Flow(tmp_path).run()
        return real(self, *given, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(InProcessIngestor, "run", overtaken)
        said = shell.run(*words)
    assert (said.code, said.kind) == (4, "fenced")
    assert mirror.sequences() == [1]  # the other one had none
    assert shell.run(*words).code == 0
    assert (mirror.sequences(), ids(flow.table)) == ([1, 2], list(range(6)))
