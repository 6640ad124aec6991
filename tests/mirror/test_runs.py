"""Commands and runs with a mirror: every commit of a position is copied, whatever it is for, and what is missing is
made up for."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from blizzard.store.uri import show_uri
from tests.flows.in_process import Flow, clean_up_log, newest, write_foreign
from tests.flows.shell import Said, Shell
from tests.flows.targets import Targets
from tests.ingesting import ids, line, write, write_ids
from tests.mirror.under_test import MirrorUnderTest


def run(shell: Shell, mirror: MirrorUnderTest, *words: str) -> Said:
    said = shell.run("--pipeline", "p", *mirror.words, *words)
    assert said.code == 0, said.text
    return said


def source(shell: Shell, *numbers: int) -> None:
    for number in numbers:
        write_ids(shell.folder / f"src/{number}.ndjson", 3 * number, 3 * number + 3)


def command(shell: Shell, mirror: MirrorUnderTest, *words: str) -> Said:
    said = shell(*words, *shell.where("--pipeline", "p", *mirror.words))
    assert said.code == 0, said.text
    return said


def test_every_commit_of_a_run_is_copied(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0, 1, 2)
    run(shell, mirror, "--set", "limits.max_files=1")
    assert mirror.sequences() == [1, 2, 3]
    (copied,) = mirror.stored.newest_of_each()
    assert (copied.delta_version, copied.sequence) == (newest(shell.table), 3)
    exported = shell("checkpoint", "export", "--table", str(shell.table), "--pipeline", "p", "--out", "-")
    assert json.loads(exported.text) == json.loads(copied.payload)
    for sequence in (1, 2):
        exported = shell(
            "checkpoint",
            "export",
            *("--table", str(shell.table), "--pipeline", "p", "--sequence", str(sequence), "--out", "-"),
        )
        found = mirror.exported(copied.series, sequence)
        assert {name: found[name] for name in json.loads(exported.text)} == json.loads(exported.text)


def test_a_run_without_anything_new_makes_up_for_what_the_mirror_lacks(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0, 1, 2)
    assert shell.run("--pipeline", "p", "--set", "limits.max_files=1").code == 0  # nobody has set a mirror yet
    version = newest(shell.table)
    run(shell, mirror)
    assert (mirror.sequences(), newest(shell.table)) == ([1, 2, 3], version)
    run(shell, mirror)
    assert mirror.sequences() == [1, 2, 3]


def test_only_so_many_are_kept(shell: Shell, mirror: MirrorUnderTest) -> None:
    for number in range(5):
        source(shell, number)
        run(shell, mirror, "--set", "checkpoint.mirror_keep=2")
    assert mirror.sequences() == [4, 5]


def test_edits_rollbacks_replays_imports_and_pauses_are_copied_too(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0, 1)
    write(shell.folder / "src/2.ndjson", line(6) + b'{"id":"7","name":"n7"}\n' + line(8))
    run(shell, mirror, "--set", "limits.max_files=1")
    assert mirror.sequences() == [1, 2, 3]
    command(shell, mirror, "checkpoint", "skip", "--file", "0.ndjson", "--yes")
    assert mirror.sequences()[-1] == 4
    command(shell, mirror, "checkpoint", "rollback", "--to", "1", "--yes")
    assert mirror.sequences()[-1] == 5
    run(shell, mirror)
    assert mirror.sequences()[-1] == 6
    command(shell, mirror, "dlq", "replay", "--set", "schema.coerce.id=numbers_in_strings")
    assert mirror.sequences()[-1] == 7
    exported = ("checkpoint", "export", "--table", str(shell.table), "--pipeline", "p", "--out", "kept.json")
    assert shell(*exported).code == 0
    again = ("checkpoint", "import", "--table", str(shell.table), "--in", "kept.json", "--replace", *mirror.words)
    assert shell(*again).code == 0
    for word in ("pause", "resume"):
        assert shell(word, "--table", str(shell.table), "--pipeline", "p", *mirror.words).code == 0
    assert mirror.sequences() == list(range(1, 11))
    run(shell, mirror)
    assert ids(shell.table) == list(range(9))


def test_a_renewal_is_copied(shell: Shell, mirror: MirrorUnderTest) -> None:
    """Its position was only in a Delta checkpoint."""
    source(shell, 0)
    run(shell, mirror)
    write_foreign(shell.table, 9000)
    clean_up_log(shell.table)
    run(shell, mirror)
    assert mirror.sequences() == [1, 2]


def test_commands_that_look_copy_nothing(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0)
    assert shell.run("--pipeline", "p").code == 0
    for words in (("plan",), ("status", "--explain"), ("audit",), ("doctor",), ("report", "--json")):
        where = shell.where(*mirror.words) if words[0] in ("plan", "audit") else ["--table", str(shell.table)]
        said = shell(*words, *where, *(mirror.words if words[0] not in ("plan", "audit") else []))
        assert said.code == 0 or words == ("doctor",), said.text  # without Java it says that a run would stop
    assert mirror.stored.newest_of_each() == []


def status_of(shell: Shell, mirror: MirrorUnderTest) -> dict[str, Any]:
    said = shell("status", "--table", str(shell.table), "--json", *mirror.words)
    found: dict[str, Any] = json.loads(said.text)["pipelines"][0]["mirror"]
    return found


def findings(shell: Shell, mirror: MirrorUnderTest) -> list[tuple[str, str]]:
    said = shell("doctor", "--table", str(shell.table), "--json", *mirror.words)
    return [(f["verdict"], f["text"]) for f in json.loads(said.text) if f["about"] == "mirror"]


def test_status_and_doctor_say_where_it_stands(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0)
    assert shell.run("--pipeline", "p").code == 0
    assert status_of(shell, mirror)["sequence"] is None
    (can_be_written, empty) = findings(shell, mirror)
    assert (can_be_written[0], empty[0]) == ("ok", "warning")
    assert "p: holds nothing of this pipeline and table; the next run makes up for it" in empty[1]
    run(shell, mirror)
    assert status_of(shell, mirror) | {"mirror": ""} == {"mirror": "", "sequence": 1, "behind": 0, "error": None}
    assert [verdict for verdict, _ in findings(shell, mirror)] == ["ok"]
    source(shell, 1)
    assert shell.run("--pipeline", "p").code == 0
    assert status_of(shell, mirror)["behind"] == 1
    text = shell("status", "--table", str(shell.table), *mirror.words).text
    assert "at sequence 1, 1 behind; the next run makes up for it" in text
    assert shell("status", "--table", str(shell.table), "--json").text.count('"mirror": null') == 1


def sqlite_at(path: Path) -> MirrorUnderTest:
    return MirrorUnderTest(kind="sqlite", uri=f"sqlite:///{path}")


def test_doctor_says_that_there_is_no_folder_for_a_database(shell: Shell, tmp_path: Path) -> None:
    source(shell, 0)
    mirror = sqlite_at(tmp_path / "nowhere/positions.db")
    assert "unable to open database file" in run(shell, mirror).text
    (verdict, text), _ = findings(shell, mirror)
    assert verdict == "warning"
    assert text.endswith(f"there is no folder {tmp_path}/nowhere: make it first [unusable_path]")


def test_doctor_says_that_a_table_of_that_name_has_other_columns(shell: Shell, tmp_path: Path) -> None:
    source(shell, 0)
    mirror = sqlite_at(tmp_path / "positions.db")
    with sqlite3.connect(tmp_path / "positions.db") as other:
        other.execute("CREATE TABLE blizzard_positions (pipeline TEXT)")
    assert "no such column" in run(shell, mirror).text
    (verdict, text) = findings(shell, mirror)[0]
    assert (verdict, "cannot be written: its database says: " in text) == ("warning", True)


def test_doctor_leaves_nothing_in_a_database(shell: Shell, tmp_path: Path) -> None:
    source(shell, 0)
    assert shell.run("--pipeline", "p").code == 0
    with sqlite3.connect(tmp_path / "positions.db") as other:
        other.execute("CREATE TABLE theirs (a)")
        assert findings(shell, sqlite_at(tmp_path / "positions.db"))[0][0] == "ok"
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_a_mirror_that_is_not_set_costs_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise AssertionError("a thread for a mirror that there is not")

    monkeypatch.setattr("blizzard.run.mirror.MirrorThread.ask", no_thread)
    source(shell, 0)
    assert shell.run("--pipeline", "p").code == 0


def test_a_table_put_back_from_a_backup_takes_the_mirror_back_with_it(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0)
    run(shell, mirror)
    shutil.copytree(shell.table, shell.folder / "backup")
    source(shell, 1, 2)
    run(shell, mirror, "--set", "limits.max_files=1")
    assert mirror.sequences() == [1, 2, 3]
    shutil.rmtree(shell.table)
    (shell.folder / "backup").rename(shell.table)
    said = run(shell, mirror)  # reads both files again, in one batch
    assert "that the log of the table does not have: was it put back from a backup?" in said.text
    assert (mirror.sequences(), ids(shell.table)) == ([1, 2], list(range(9)))
    assert status_of(shell, mirror)["behind"] == 0


def test_a_copy_of_a_table_does_not_disturb_the_mirror_of_the_first(shell: Shell, mirror: MirrorUnderTest) -> None:
    source(shell, 0)
    run(shell, mirror)
    shutil.copytree(shell.table, shell.folder / "copy")
    source(shell, 1)
    where = ["--source", str(shell.folder / "src"), "--table", str(shell.folder / "copy")]
    assert shell("run", *where, "--pipeline", "p", *mirror.words).code == 0
    assert status_of(shell, mirror)["behind"] == 0
    source(shell, 2)
    run(shell, mirror)
    assert status_of(shell, mirror) | {"mirror": ""} == {"mirror": "", "sequence": 2, "behind": 0, "error": None}
    assert sorted(v.sequence for v in mirror.stored.newest_of_each()) == [2, 2]


# One SQL table for a fleet


def test_one_sql_query_shows_a_whole_fleet(shell: Shell, tmp_path: Path) -> None:
    database = tmp_path / "fleet.db"
    for name, commits in (("orders", 3), ("clicks", 1), ("refunds", 2)):
        flow = Flow(tmp_path / name)
        for number in range(commits):
            write_ids(flow.src / f"{number}.ndjson", number, number + 1)
            where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", name]
            given = ["--schema", flow.ddl, "--set", f"checkpoint.mirror=sqlite:///{database}"]
            said = shell("run", *where, *given)
            assert said.code == 0, said.text
    with sqlite3.connect(database) as connection:
        found = connection.execute(
            "SELECT pipeline, sequence, table_uri FROM blizzard_newest_positions ORDER BY pipeline"
        ).fetchall()
        assert found == [
            (name, n, f"file://{tmp_path}/{name}/table") for name, n in (("clicks", 1), ("orders", 3), ("refunds", 2))
        ]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(blizzard_positions)")]
    assert columns == [
        *("pipeline", "table_id", "place", "sequence", "table_uri", "delta_version", "taken_at", "size_bytes"),
        *("run_id", "batch_id", "payload"),
    ]


# Where a mirror may not be, and what it needs


@pytest.mark.parametrize(
    ("uri", "kind", "words"),
    [
        ("{src}/mirror", "usage", "neither may be in the other, since its files would be read"),
        ("{table}/mirror", "usage", "a VACUUM of the table deletes what it does not know"),
        ("{folder}", "usage", "neither may be in the other"),
        ("sqlite:///{table}/positions.db", "usage", "a VACUUM of the table deletes what it does not know"),
        ("sqlite://", "usage", "needs a file for its SQLite database"),
        ("sqlite:///:memory:", "usage", "needs a file for its SQLite database"),
        ("sqlite:///file:{folder}/positions.db?nolock=1&uri=true", "usage", "needs a file for its SQLite database"),
        ("mysql://host/fleet", "unsupported_scheme", "mysql: is not one of"),
        ("host=h dbname=fleet password=Zq7planted", "unsupported_scheme", "write postgresql://HOST/DATABASE"),
        ("postgresql+asyncpg://host/fleet", "unsupported_scheme", "a database is sqlite:////PATH or postgresql://"),
        ("postgresql:user:Zq7planted@host/fleet", "unsupported_scheme", "the mirror postgresql:… cannot be opened"),
        ("postgresql://user:Zq@7planted@host/fleet", "usage", "%40 for an @ in a name or a password"),
        ("postgresql://user:Zq@7planted:x@host/fleet", "usage", "%40 for an @ in a name or a password"),
        ("postgresql://user:Zq7planted@a:1,b:2/fleet", "usage", "several hosts are postgresql:///DATABASE?host="),
        ("postgresql://user:Zq7planted@host:port/fleet", "usage", "is not the URI of a database"),
        ("s3://user:Zq7planted@bucket/x", "usage", "do not put credentials into a URI"),
    ],
)
def test_a_place_that_cannot_be_used_is_said_before_anything_is_read(
    shell: Shell, uri: str, kind: str, words: str
) -> None:
    source(shell, 0)
    places = {"src": shell.folder / "src", "table": shell.table, "folder": shell.folder}
    said = shell.run("--set", f"checkpoint.mirror={uri.format(**places)}")
    assert (said.code, said.kind) == (2, kind)
    assert words in said.last["error"]
    assert "planted" not in said.text
    assert not shell.table.exists()


@pytest.mark.parametrize(("scheme", "package"), [("sqlite:///{}/x.db", "sqlalchemy"), ("postgresql://h/d", "psycopg")])
def test_a_missing_package_names_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else real(name, *a))
    source(shell, 0)
    said = shell.run("--set", f"checkpoint.mirror={scheme.format(shell.folder)}")
    assert (said.code, said.kind) == (2, "usage")
    assert f"needs the package {package}: pip install 'blizzard-delta[mirror-sql]'" in said.last["error"]


# Targets


def test_each_target_has_positions_of_its_own(shell: Shell, mirror: MirrorUnderTest) -> None:
    targets = Targets(shell.folder, {"first": {}})
    for number in (0, 1):
        source(shell, number)
        assert shell("run", *targets.words(*mirror.words)).code == 0
    targets.own["second"] = {"where": "id < 3"}
    said = shell("run", *targets.words(*mirror.words))
    assert said.code == 0, said.text
    found = {v.series.table: (v.series.pipeline, v.series.table_id, v.sequence) for v in mirror.stored.newest_of_each()}
    assert found == {
        show_uri(str(targets.table(name))): ("p", targets.table_id(name), targets.sequence(name))
        for name in targets.own
    }
    assert targets.sequence("first") > targets.sequence("second") > 0
    for name in targets.own:
        where = ["--table", str(targets.table(name)), "--pipeline", "p", "--from-mirror", mirror.uri, *mirror.access]
        assert shell("checkpoint", "import", *where, "--replace").code == 0
    source(shell, 2)
    assert shell("run", *targets.words(*mirror.words)).code == 0
    assert (sorted(targets.ids("first")), sorted(targets.ids("second"))) == (list(range(9)), [0, 1, 2])


@pytest.mark.parametrize("place", ["second", "second_quarantine"])
def test_a_mirror_is_in_the_folder_of_no_target(shell: Shell, place: str) -> None:
    targets = Targets(shell.folder, {"first": {}, "second": {}})
    source(shell, 0)
    said = shell("run", *targets.words("--set", f"checkpoint.mirror={shell.folder / place / 'mirror'}"))
    assert (said.code, said.kind) == (2, "usage")
    assert "a VACUUM of the" in said.last["error"]
    assert not targets.table("first").exists()
