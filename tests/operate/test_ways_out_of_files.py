"""Refusals that are about source files: produce the state, follow the text by the letter, compare every record."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from blizzard.core.plan import Limits
from tests.flows.in_process import Flow, clean_up_log, touch_again, write_foreign
from tests.flows.shell import Said, Shell
from tests.ingesting import ids, line, write, write_ids
from tests.operate.test_positions_in_checkpoints import partly_read


def stopped(said: Said, code: int, kind: str) -> Said:
    assert (said.code, said.kind) == (code, kind), said.text
    return said


def lines(*record_ids: int) -> bytes:
    return b"".join(map(line, record_ids))


def goes_on(shell: Shell, *words: str) -> None:
    said = shell.run("--pipeline", "p", *words)
    assert said.code == 0, said.text
    again = shell.run("--pipeline", "p")
    assert (again.code, again.last["commits"]) == (0, 0), again.text


# source_changed: a file of which a part is committed


def test_source_changed_and_the_original_is_put_back(tmp_path: Path, shell: Shell) -> None:
    flow = partly_read(tmp_path)
    shutil.copy2(flow.src / "b.ndjson", tmp_path / "kept")
    touch_again(flow.src / "b.ndjson", lines(90))
    text = stopped(shell.run("--pipeline", "p"), 3, "source_changed").last["error"]
    assert "Put the original file back and run again" in text
    shutil.copy2(tmp_path / "kept", flow.src / "b.ndjson")
    goes_on(shell)
    assert ids(shell.table) == list(range(7))


@pytest.mark.parametrize("last", [7, 12])
def test_source_changed_and_its_beginning_is_as_it_was(tmp_path: Path, shell: Shell, last: int) -> None:
    flow = partly_read(tmp_path)
    touch_again(flow.src / "b.ndjson", lines(*range(3, last)))
    said = stopped(shell.run("--pipeline", "p"), 3, "source_changed")
    assert "the same first 2 lines" in said.last["error"]
    assert shell.obey(said, "checkpoint reset").code == 0
    goes_on(shell)
    assert ids(shell.table) == list(range(last))


@pytest.mark.parametrize("is_gone", [False, True])
def test_source_changed_and_the_rest_is_given_up(tmp_path: Path, shell: Shell, is_gone: bool) -> None:
    flow = partly_read(tmp_path)
    if is_gone:
        (flow.src / "b.ndjson").unlink()
    else:
        touch_again(flow.src / "b.ndjson", lines(90))
    write_ids(flow.src / "c.ndjson", 7, 9)
    said = stopped(shell.run("--pipeline", "p"), 3, "source_changed")
    assert ("checkpoint reset" in said.last["error"]) is not is_gone
    assert shell.obey(said, "checkpoint skip").code == 0
    goes_on(shell)
    assert ids(shell.table) == [0, 1, 2, 3, 4, 7, 8]


# late_unclear: the ledgers that would know are gone


def unclear(folder: Path) -> Flow:
    """m is in the table and its ledger is gone; c is not in the table; both seem to be new."""
    flow = Flow(folder)
    flow.later_ms = 0
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    os.chmod(flow.src / "m.ndjson", 0o600)
    write_ids(flow.src / "c.ndjson", 60, 63)
    return flow


def test_late_unclear_is_answered_file_by_file(tmp_path: Path, shell: Shell) -> None:
    unclear(tmp_path)
    said = stopped(shell.run("--pipeline", "p"), 3, "late_unclear")
    assert "2 files" in said.last["error"]
    assert shell.obey(said, "checkpoint skip", NAME="m.ndjson").code == 0
    said = stopped(shell.run("--pipeline", "p"), 3, "late_unclear")
    assert "1 file at or before the mark" in said.last["error"]
    assert shell.obey(said, "checkpoint reset", NAME="c.ndjson").code == 0
    goes_on(shell)
    assert ids(shell.table) == [0, 1, 2, 60, 61, 62, 9000]


def test_late_unclear_and_the_table_holds_none_of_them(tmp_path: Path, shell: Shell) -> None:
    flow = unclear(tmp_path)
    (flow.src / "m.ndjson").unlink()
    text = stopped(shell.run("--pipeline", "p"), 3, "late_unclear").last["error"]
    assert "=ingest if it holds none" in text
    goes_on(shell, "--set", "late_files.unclear=ingest")
    assert ids(shell.table) == [0, 1, 2, 60, 61, 62, 9000]


def test_late_unclear_and_the_table_holds_all_of_them(tmp_path: Path, shell: Shell) -> None:
    flow = unclear(tmp_path)
    (flow.src / "c.ndjson").unlink()
    touch_again(flow.src / "m.ndjson", lines(0, 1, 2))  # the same records, written anew
    text = stopped(shell.run("--pipeline", "p"), 3, "late_unclear").last["error"]
    assert "=ignore if it holds every one" in text
    goes_on(shell, "--set", "late_files.unclear=ignore")
    assert ids(shell.table) == [0, 1, 2, 9000]


def test_audit_names_what_is_unclear(tmp_path: Path, shell: Shell) -> None:
    unclear(tmp_path)
    said = shell("audit", *shell.where("--pipeline", "p", "--check"))
    assert said.code == 5
    assert "the ledgers that would know more are gone: c.ndjson, m.ndjson" in said.text


# late_files, rewritten_files: their policy is fail


LATE_FAILS = ("--set", "late_files.policy=fail")
REWRITTEN_FAILS = ("--set", "rewritten_files.policy=fail")


def late(folder: Path) -> None:
    flow = Flow(folder)
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 6)


@pytest.mark.parametrize(("way", "expected"), [("reset", range(6)), ("skip", range(3)), ("policy", range(6))])
def test_late_files(tmp_path: Path, shell: Shell, way: str, expected: range) -> None:
    late(tmp_path)
    said = stopped(shell.run("--pipeline", "p", *LATE_FAILS), 5, "late_files")
    assert "b.ndjson" in shell("audit", *shell.where("--pipeline", "p")).text
    if way == "policy":
        goes_on(shell, "--set", "late_files.policy=ingest")
    else:
        assert shell.obey(said, f"checkpoint {way}", NAME="b.ndjson").code == 0
    goes_on(shell, *LATE_FAILS)
    assert ids(shell.table) == list(expected)


@pytest.mark.parametrize("way", ["back", "reset", "skip"])
def test_rewritten_files(tmp_path: Path, shell: Shell, way: str) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    shutil.copy2(flow.src / "m.ndjson", tmp_path / "kept")
    touch_again(flow.src / "m.ndjson", lines(*range(5)))
    said = stopped(shell.run("--pipeline", "p", *REWRITTEN_FAILS), 5, "rewritten_files")
    if way == "back":
        shutil.copy2(tmp_path / "kept", flow.src / "m.ndjson")
    else:
        assert shell.obey(said, f"checkpoint {way}", NAME="m.ndjson", N="3").code == 0
    goes_on(shell, *REWRITTEN_FAILS)
    assert ids(shell.table) == list(range(5 if way == "reset" else 3))


def test_what_is_ingested_whole_is_not_read_again_by_accident(tmp_path: Path, shell: Shell) -> None:
    Flow(tmp_path).first_run()
    said = shell("checkpoint", "reset", "--file", "a.ndjson", "--yes", *shell.where("--pipeline", "p"))
    assert (said.code, said.kind) == (2, "usage")
    assert "doubles its records" in said.text


# too_many_prefixes


def test_too_many_prefixes_before_anything_is_read(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.core.plan.MAX_PREFIX_MARKS", 3)
    for day in range(5):
        write_ids(tmp_path / f"src/day={day}/1.ndjson", day, day + 1)
    said = stopped(shell.run("--pipeline", "p", "--set", "source.marks_per=day"), 3, "too_many_prefixes")
    assert "leave source.marks_per out" in said.last["error"]
    goes_on(shell)
    assert ids(shell.table) == list(range(5))


def test_too_many_prefixes_in_a_pipeline_that_has_begun(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.core.plan.MAX_PREFIX_MARKS", 3)
    by_day = ("--set", "source.marks_per=day")
    for day in range(3):
        write_ids(tmp_path / f"src/day={day}/1.ndjson", day, day + 1)
    assert shell.run("--pipeline", "p", *by_day).code == 0
    write_ids(tmp_path / "src/day=2/2.ndjson", 3, 4)
    write_ids(tmp_path / "src/day=3/1.ndjson", 4, 5)
    said = stopped(shell.run("--pipeline", "p", *by_day), 3, "too_many_prefixes")
    assert "cannot be changed" in said.last["error"]
    (tmp_path / "more").mkdir()
    (tmp_path / "src/day=3").rename(tmp_path / "more/day=3")
    assert shell.run("--pipeline", "p", *by_day).code == 0
    more = stopped(shell.run("--pipeline", "more", *by_day, source="more"), 3, "table_has_data")
    assert "--start-from beginning" in more.last["error"]
    assert shell.run("--pipeline", "more", *by_day, "--start-from", "beginning", source="more").code == 0
    assert ids(shell.table) == list(range(5))


# exit 5: the data


def test_bad_record(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", lines(0) + b"{no\n" + lines(2))
    said = stopped(shell.run("--pipeline", "p", "--set", "bad_records.policy=fail"), 5, "bad_record")
    assert "a.ndjson line 2" in said.last["error"]
    write(tmp_path / "src/a.ndjson", lines(0, 1, 2))
    goes_on(shell, "--set", "bad_records.policy=fail")
    assert ids(shell.table) == [0, 1, 2]


def test_bad_record_in_a_file_of_which_a_part_is_committed(tmp_path: Path, shell: Shell) -> None:
    """Mending it makes it another file; the text of that refusal goes on."""
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", lines(0, 1) + b"{no\n" + lines(3))
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1)
    fails = ("--set", "bad_records.policy=fail")
    stopped(shell.run("--pipeline", "p", *fails), 5, "bad_record")
    touch_again(flow.src / "a.ndjson", lines(0, 1, 2, 3))
    said = stopped(shell.run("--pipeline", "p", *fails), 3, "source_changed")
    assert shell.obey(said, "checkpoint reset").code == 0
    goes_on(shell, *fails)
    assert ids(shell.table) == [0, 1, 2, 3]


@pytest.mark.parametrize("way", ["replace", "move"])
def test_a_file_that_cannot_be_read_to_its_end(tmp_path: Path, shell: Shell, way: str) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/b.ndjson.gz", 3, 9)
    whole = (tmp_path / "src/b.ndjson.gz").read_bytes()
    (tmp_path / "src/b.ndjson.gz").write_bytes(whole[:-9])
    os.utime(tmp_path / "src/b.ndjson.gz", (1_700_000_000, 1_700_000_000))
    fails = ("--set", "bad_files.policy=fail")
    stopped(shell.run("--pipeline", "p", *fails), 5, "truncated")
    if way == "replace":
        (tmp_path / "src/b.ndjson.gz").write_bytes(whole)
    else:
        (tmp_path / "src/b.ndjson.gz").rename(tmp_path / "b.ndjson.gz")
    goes_on(shell, *fails)
    assert ids(shell.table) == list(range(9 if way == "replace" else 3))


@pytest.mark.parametrize("way", ["mend", "move", "limit"])
def test_too_many_held_files(tmp_path: Path, shell: Shell, way: str) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    whole = {}
    for number in range(2):  # young: they may still be arriving
        path = write_ids(tmp_path / f"src/b{number}.ndjson.gz", 10 * number + 10, 10 * number + 16)
        whole[path] = path.read_bytes()
        path.write_bytes(whole[path][:-9])
    write_ids(tmp_path / "src/c.ndjson", 3, 6)
    held = ("--set", "limits.max_held_files=1")
    said = stopped(shell.run("--pipeline", "p", *held), 5, "too_many_held_files")
    assert "Fix or move them, or raise the limit" in said.last["error"]
    assert ids(shell.table) == list(range(6))
    for path, content in whole.items():
        path.write_bytes(content) if way == "mend" else path.rename(tmp_path / path.name) if way == "move" else None
    assert shell.run("--pipeline", "p", *(held if way != "limit" else ())).code == 0
    expected = [*range(6), *range(10, 16), *range(20, 26)] if way == "mend" else list(range(6))
    assert ids(shell.table) == expected


@pytest.mark.parametrize("how", ["mend", "limit"])
def test_too_many_bad_records(tmp_path: Path, shell: Shell, how: str) -> None:
    write(tmp_path / "src/a.ndjson", lines(0) + b'{"id":"seven"}\n{"id":"eight"}\n')
    limit = ("--set", "bad_records.max_records=1")
    said = stopped(shell.run("--pipeline", "p", *limit), 5, "too_many_bad_records")
    assert "blizzard plan --validate" in said.last["error"]
    validated = shell("plan", "--validate", *shell.where("--pipeline", "p"))
    assert (validated.code, "id BIGINT holds a text" in validated.text) == (0, True)
    if how == "mend":
        write(tmp_path / "src/a.ndjson", lines(0, 7, 8))
    goes_on(shell, *(limit if how == "mend" else ()))
    assert ids(shell.table) == ([0, 7, 8] if how == "mend" else [0])
    assert len(Flow(tmp_path).quarantined()) == (0 if how == "mend" else 2)


def test_beyond_end(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    assert shell.run("--pipeline", "p").code == 0
    reset = ("checkpoint", "reset", "--file", "a.ndjson", "--yes", *shell.where("--pipeline", "p"), "--from-record")
    assert shell(*reset, "10").code == 0
    said = stopped(shell.run("--pipeline", "p"), 3, "beyond_end")
    assert "the file has 3 lines" in said.last["error"]
    assert shell.obey(said, "checkpoint reset", N="3").code == 0
    goes_on(shell)
    assert ids(shell.table) == [0, 1, 2]
