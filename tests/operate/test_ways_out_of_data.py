"""Runs that data stopped (exit 5): produce the state, do what the text says by the letter, compare every record."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests.flows.in_process import Flow
from tests.flows.replaying import mendable
from tests.flows.shell import Shell
from tests.ingesting import ids, line, rows, write, write_ids
from tests.operate.test_ways_out_of_files import goes_on, lines, stopped
from tests.source.test_recognise import KINDS

BAD = b'{"id":"seven","name":"n"}\n'


@pytest.mark.parametrize("way", ["mend", "setting"])
def test_unreadable_files(tmp_path: Path, shell: Shell, way: str) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    gzipped = ("--set", "source.compression=gzip")
    text = stopped(shell.run("--pipeline", "p", *gzipped), 5, "unreadable_files").last["error"]
    assert "a.ndjson" in text
    assert "Every run tries them again" in text
    if way == "mend":
        write_ids(tmp_path / "src/b.gz", 0, 3)
        os.replace(tmp_path / "src/b.gz", tmp_path / "src/a.ndjson")
    goes_on(shell, *(gzipped if way == "mend" else ()))
    assert ids(shell.table) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["quarantine", "fail"])
@pytest.mark.parametrize("way", ["move", "skip"])
def test_other_kind(tmp_path: Path, shell: Shell, way: str, policy: str) -> None:
    """A file that does not belong here, in a source that is read up to it."""
    fails = ("--set", f"bad_files.policy={policy}")
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    assert shell.run("--pipeline", "p").code == 0
    image = write(tmp_path / "src/an image.ndjson", KINDS["a PNG image"])
    said = stopped(shell.run("--pipeline", "p", *fails), 5, "other_kind" if policy == "fail" else "unreadable_files")
    assert "a PNG image, not lines of JSON; move it away, narrow source.pattern, or" in said.last["error"]
    if way == "move":
        image.rename(tmp_path / "an image")
    else:
        assert shell.obey(said, "checkpoint skip").code == 0
    write_ids(tmp_path / "src/b.ndjson", 3, 6)
    goes_on(shell, *fails)
    assert (ids(shell.table), Flow(tmp_path).quarantined()) == ([*range(6)], [])


def test_other_kind_in_a_source_that_nothing_was_read_of(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write(tmp_path / "src/a.jsonl", KINDS["a PNG image"])
    said = stopped(shell.run("--pipeline", "p", "--set", "bad_files.policy=fail"), 5, "other_kind")
    assert "narrow source.pattern" in said.last["error"]
    narrow = ("--set", "source.pattern=*.ndjson")
    assert shell.run("--pipeline", "p", *narrow).code == 0
    assert shell.run("--pipeline", "p", *narrow).last["commits"] == 0
    assert ids(shell.table) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["quarantine", "fail"])
def test_wrong_encoding(tmp_path: Path, shell: Shell, policy: str) -> None:
    """The setting that the text names reads the file; the one after it is UTF-8 again."""
    fails = ("--set", f"bad_files.policy={policy}")
    write(tmp_path / "src/a.ndjson", lines(0, 1, 2).decode().encode("utf-16"))
    kind = "wrong_encoding" if policy == "fail" else "unreadable_files"
    text = stopped(shell.run("--pipeline", "p", *fails), 5, kind).last["error"]
    (setting,) = re.findall(r"to read it set (source\.encoding=[\w-]+)", text)
    assert shell.run("--pipeline", "p", *fails, "--set", setting).code == 0
    write_ids(tmp_path / "src/b.ndjson", 3, 6)
    text = stopped(shell.run("--pipeline", "p", *fails, "--set", setting), 5, kind).last["error"]
    assert "b.ndjson" in text
    assert "to read it leave the key out" in text
    goes_on(shell, *fails)
    assert ids(shell.table) == list(range(6))


def test_wrong_compression_and_corrupt(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.ndjson.gz", 0, 300)
    whole = (tmp_path / "src/a.ndjson.gz").read_bytes()
    fails = ("--set", "bad_files.policy=fail")
    for content, kind in (
        (b"\0" * 300, "wrong_compression"),
        (whole[:40] + b"\0" * 40 + whole[80:], "corrupt"),
    ):
        (tmp_path / "src/a.ndjson.gz").write_bytes(content)
        os.utime(tmp_path / "src/a.ndjson.gz", (1_700_000_000, 1_700_000_000))
        text = stopped(shell.run("--pipeline", "p", *fails), 5, kind).last["error"]
        assert "Replace the file, or move it away, and run again" in text
    (tmp_path / "src/a.ndjson.gz").write_bytes(whole)
    zstd = ("--set", "source.compression=zstd")
    text = stopped(shell.run("--pipeline", "p", *fails, *zstd), 5, "wrong_compression").last["error"]
    assert "to read it leave the key out" in text
    goes_on(shell, *fails)
    assert ids(shell.table) == list(range(300))


@pytest.mark.parametrize("way", ["rename", "move"])
def test_bad_path(tmp_path: Path, shell: Shell, way: str) -> None:
    """A path that gives no value for a partition."""
    by_day = ("--set", "table.partition_by=day=path(day) DATE", "--set", "bad_files.policy=fail")
    write_ids(tmp_path / "src/day=2024-02-28/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/day=2024-02-30/b.ndjson", 3, 6)
    stopped(shell.run("--pipeline", "p", *by_day), 5, "bad_path")
    target = tmp_path / ("src/day=2024-03-01" if way == "rename" else "day=2024-02-30")
    (tmp_path / "src/day=2024-02-30").rename(target)
    goes_on(shell, *by_day)
    assert ids(shell.table) == list(range(6 if way == "rename" else 3))


@pytest.mark.parametrize("way", ["replay", "purge", "limit"])
def test_quarantine_full(tmp_path: Path, shell: Shell, way: str) -> None:
    """Two bad records, one of which can be mended, and room for no more."""
    strict = ("--set", "schema.json_in_strings=bad")
    full = ("--set", "quarantine.max_records=2")
    write(tmp_path / "src/a.ndjson", line(0) + mendable(1) + b"\n" + BAD)
    assert shell.run("--pipeline", "p", *strict, *full).code == 0
    write(tmp_path / "src/b.ndjson", line(2) + BAD)
    text = stopped(shell.run("--pipeline", "p", *strict, *full), 5, "quarantine_full").last["error"]
    assert "blizzard dlq replay" in text
    assert ids(shell.table) == [0]
    place = ("--table", str(shell.table), "--pipeline", "p")
    assert "2" in shell("dlq", "list", *place).text
    exported: list[bytes] = []
    if way == "replay":
        done = shell("dlq", "replay", *place, "--source", str(tmp_path / "src"))
        assert done.code == 0, done.text
    elif way == "purge":
        assert shell("dlq", "export", *place, "--out", str(tmp_path / "kept.ndjson")).code == 0
        exported = (tmp_path / "kept.ndjson").read_bytes().splitlines()
        assert shell("dlq", "purge", *place, "--all", "--yes").code == 0
    goes_on(shell, *strict, *(() if way == "limit" else full))
    assert ids(shell.table) == ([0, 1, 2] if way == "replay" else [0, 2])
    kept = [row["raw"] for row in Flow(tmp_path).quarantined()]
    assert len(rows(shell.table)) + len(kept) + len(exported) == 5


@pytest.mark.parametrize("way", ["settings", "schema", "mend", "key"])
def test_mostly_bad(tmp_path: Path, shell: Shell, way: str) -> None:
    """No table stays, so that the next run may make it with other types."""
    records = [{"id": str(i), "name": "n"} for i in range(30)] + [{"id": i, "name": "n"} for i in range(30, 40)]
    write(tmp_path / "src/a.ndjson", b"".join(json.dumps(r).encode() + b"\n" for r in records))
    said = stopped(shell.run("--pipeline", "p"), 5, "mostly_bad")
    assert (said.last["commits"], shell.table.exists()) == (0, False)
    assert "30 of 40 records" in said.last["error"]
    _, reason, remedies, *_ = said.last["error"].split("\n")
    assert "id BIGINT holds a number in a text (the first: a.ndjson line 1)" in reason
    match way:
        case "settings":
            goes_on(shell, *shlex.split(remedies.split(" or ")[0]))
        case "schema":
            assert shell("run", *shell.where("--pipeline", "p", "--schema", "id STRING, name STRING")).code == 0
            goes_on(shell)
        case "mend":
            write_ids(tmp_path / "src/a.ndjson", 0, 40)
            goes_on(shell)
        case "key":
            goes_on(shell, "--set", "bad_records.first_batch_max_ratio=1")
    kept = [row["raw"] for row in Flow(tmp_path).quarantined()]
    assert len(rows(shell.table)) + len(kept) == 40
    assert len(kept) == (30 if way == "key" else 0)


def test_too_many_columns(tmp_path: Path, shell: Shell) -> None:
    records = [{"id": number, f"user_{number}": 1} for number in range(1_500)]
    write(tmp_path / "src/a.ndjson", b"".join(json.dumps(r).encode() + b"\n" for r in records))
    said = stopped(shell.run("--pipeline", "p", "--set", "schema.evolution=add_columns"), 5, "too_many_columns")
    assert "schema.evolution=rescue" in said.last["error"]
    goes_on(shell, "--set", "schema.evolution=ignore")
    assert ids(shell.table) == list(range(1_500))


def test_schema_unstable(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.run.read._MAX_ROUNDS", 1)
    write(tmp_path / "src/a.ndjson", b'{"id":0,"new":1}\n')
    said = stopped(shell.run("--pipeline", "p", "--set", "schema.evolution=add_columns"), 5, "schema_unstable")
    assert "schema.evolution" in said.last["error"]
    goes_on(shell, "--set", "schema.evolution=ignore")
    assert ids(shell.table) == [0]


def test_names_that_cannot_be_read(tmp_path: Path, shell: Shell) -> None:
    """Each is taken out of the way as the text says, and the rest is read once."""
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    strange = os.fsencode(tmp_path / "src") + b"/\xff.ndjson"
    with open(strange, "wb") as file:
        file.write(lines(3))
    assert "Rename the file" in stopped(shell.run("--pipeline", "p"), 5, "source_name").last["error"]
    os.rename(strange, tmp_path / "src/b.ndjson")
    goes_on(shell)
    assert ids(shell.table) == [0, 1, 2, 3]

    link = tmp_path / "src/linked"
    os.symlink(write_ids(tmp_path / "other/c.ndjson", 4, 6).parent, link)
    said = stopped(shell.run("--pipeline", "p"), 5, "source_linked_folder")
    assert "Remove it" in said.last["error"]
    link.unlink()
    goes_on(shell)

    (tmp_path / "src/d.ndjson").mkdir()
    said = stopped(shell.run("--pipeline", "p"), 5, "source_is_directory")
    assert "Remove it" in said.last["error"]
    (tmp_path / "src/d.ndjson").rmdir()
    goes_on(shell)

    os.symlink(tmp_path / "nowhere", tmp_path / "src/e.ndjson")
    stopped(shell.run("--pipeline", "p"), 5, "source_not_readable")
    write_ids(tmp_path / "nowhere", 4, 6)
    goes_on(shell)
    assert ids(shell.table) == list(range(6))


def test_nothing_to_infer_from(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b"{no\n")
    words = ["--source", str(tmp_path / "src"), "--table", str(shell.table), "--pipeline", "p"]
    said = stopped(shell("run", *words, "--infer"), 5, "nothing_to_infer_from")
    assert "give a schema" in said.last["error"]
    stopped(shell.run("--pipeline", "p"), 5, "mostly_bad")  # with --schema
    goes_on(shell, "--set", "bad_records.first_batch_max_ratio=1")
    assert [row["raw"] for row in Flow(tmp_path).quarantined()] == [b"{no"]


def test_schema_missing(tmp_path: Path, shell: Shell) -> None:
    """The command that is suggested works as it stands."""
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    words = ["--source", str(tmp_path / "src"), "--table", str(shell.table), "--pipeline", "p"]
    said = stopped(shell("run", *words), 2, "schema_missing")
    assert "a new table needs a schema" in said.last["error"]
    (command,) = [text.strip() for text in said.text.splitlines() if text.startswith("  blizzard run")]
    assert shell(*shlex.split(command)[1:]).code == 0
    goes_on(shell)
    assert ids(shell.table) == [0, 1, 2]


@pytest.mark.parametrize("way", ["mend", "policy"])
def test_missing_value(tmp_path: Path, shell: Shell, way: str) -> None:
    words = ["--source", str(tmp_path / "src"), "--table", str(shell.table), "--pipeline", "p"]
    needed = ("--schema", "id BIGINT, name STRING NOT NULL", "--set", "bad_records.policy=fail")
    write(tmp_path / "src/a.ndjson", line(0) + b'{"id":1}\n')
    text = stopped(shell("run", *words, *needed), 5, "bad_record").last["error"]
    assert "a.ndjson line 2: missing_value" in text
    if way == "mend":
        write(tmp_path / "src/a.ndjson", lines(0, 1))
    goes_on(shell, *(needed if way == "mend" else needed[:2]))
    assert ids(shell.table) == ([0, 1] if way == "mend" else [0])
    assert len(Flow(tmp_path).quarantined()) == (0 if way == "mend" else 1)


def test_transform_failed(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a file, and with a first part of it committed: the transform is corrected, and every record is
    in the table once."""
    write(tmp_path / "src/a.ndjson", lines(*range(6)))
    (tmp_path / "cleaning_that_breaks.py").write_text(
        "def clean(batch):\n"
        "    late = batch.num_rows and max(batch['id'].to_pylist()) > 3\n"
        "    return batch.drop_columns(['_blizzard_line']) if late else batch\n"
        "def corrected(batch):\n"
        "    return batch\n"
    )
    monkeypatch.chdir(tmp_path)

    def words(name: str) -> tuple[str, ...]:
        schema = ("--schema", "id BIGINT, name STRING") if shell.table.exists() else ()
        return (*schema, "--set", f"transform.python=cleaning_that_breaks:{name}", "--set", "limits.max_records=3")

    said = stopped(shell.run("--pipeline", "p", *words("clean")), 5, "transform_failed")
    assert "cleaning_that_breaks:clean returned rows without the column _blizzard_line" in said.last["error"]
    assert "Correct the transform, and run again" in said.last["error"]
    assert ids(shell.table) == [0, 1, 2], "what was committed before stays"
    goes_on(shell, *words("corrected"))
    assert ids(shell.table) == [*range(6)]
