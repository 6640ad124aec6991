"""`checkpoint choose`: another pattern, other filters, another date. What the mark has passed needs a word; nothing is
read twice, and nothing is passed in silence."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core import choose as core_choose
from blizzard.core.plan import Limits
from blizzard.operate.choose import apply_choice, plan_choice
from blizzard.run.assemble import Assembly
from tests.failing import ends_with
from tests.flows.in_process import Flow, clean_up_log
from tests.flows.shell import Said, Shell, commands_in
from tests.ingesting import ids, versions, write_ids
from tests.run.test_choosing import at, ended, position


@pytest.fixture
def old(tmp_path: Path, shell: Shell) -> Shell:
    """A pipeline of the first releases over ids 0 to 2, with .json files before and after its mark."""
    write_ids(tmp_path / "src/m.ndjson", 0, 3)
    write_ids(tmp_path / "src/a.json", 50, 53)
    write_ids(tmp_path / "src/z.json", 60, 63)
    assert shell.run("--set", "source.pattern=default", "--pipeline", "p").code == 0
    assert ids(shell.table) == [0, 1, 2]
    return shell


def choose(shell: Shell, *words: str, pipeline: str = "p") -> Said:
    return shell("checkpoint", "choose", *shell.where(*words, "--pipeline", pipeline))


def refused(said: Said, kind: str) -> str:
    assert (said.code, said.kind) == (3, kind), said.text
    return said.text


def test_files_below_mark_is_answered_with_a_word(old: Shell) -> None:
    before = versions(old.table)
    text = refused(choose(old, "--pattern", "default-2", "--yes"), "files_below_mark")
    assert "1 file would be chosen that lie at or before the mark" in text
    assert "a.json" in text
    assert versions(old.table) == before
    assert choose(old, "--pattern", "default-2", "--below", "ingest", "--yes").code == 0
    ended(old.run("--pipeline", "p"), 0, "done", 6)
    assert ids(old.table) == [0, 1, 2, 50, 51, 52, 60, 61, 62]


def test_without_yes_it_only_says_what_would_be_done(old: Shell) -> None:
    before = versions(old.table)
    said = choose(old, "--pattern", "default-2", "--below", "ingest")
    assert (said.code, said.kind) == (2, "not_confirmed")
    assert "(default-2) from now on, instead of" in said.text
    assert "1 file that it chooses now lie at or before the mark and were not read: a.json" in said.text
    assert "1 file after the mark are read by the next run" in said.text
    assert versions(old.table) == before
    shown = json.loads(choose(old, "--pattern", "default-2", "--below", "skip", "--json").text.split("\nblizzard:")[0])
    assert (shown["done"], shown["below_files"], shown["ahead_files"]) == (False, ["a.json"], 1)


@pytest.mark.parametrize(("below", "expected"), [("ingest", [50, 51, 52]), ("skip", [])])
@pytest.mark.parametrize("is_cleaned_up", [False, True])
def test_what_the_mark_has_passed_is_read_once_or_left_out_for_good(
    old: Shell, below: str, expected: list[int], is_cleaned_up: bool
) -> None:
    if is_cleaned_up:
        clean_up_log(old.table)
    assert choose(old, "--pattern", "default-2", "--below", below, "--yes").code == 0
    ended(old.run("--pipeline", "p"), 0, "done", 3 + len(expected))
    ended(old.run("--pipeline", "p"), 0, "idle", 0)
    assert ids(old.table) == sorted([0, 1, 2, 60, 61, 62, *expected])
    if is_cleaned_up:
        clean_up_log(old.table)
    # The mark may be passed by others of either kind, and nothing that was left out comes back.
    write_ids(old.folder / "src/zz.json", 63, 66)
    ended(old.run("--pipeline", "p"), 0, "done", 3)
    found = json.loads(old("audit", *old.where("--pipeline", "p", "--json")).text)
    assert found["problems"] == (["unclear"] if is_cleaned_up else [])


def test_chosen_again_what_was_read_is_not_read_again(old: Shell) -> None:
    assert choose(old, "--pattern", "*.json", "--below", "ingest", "--yes").code == 0
    words = ["--pipeline", "p", "--set", "source.pattern=*.json"]
    ended(old.run(*words), 0, "done", 6)
    write_ids(old.folder / "src/b.ndjson", 3, 6)  # not chosen now, and before the mark
    ended(old.run(*words), 0, "idle", 0)
    said = choose(old, "--pattern", "default", "--below", "ingest", "--yes")
    assert "1 file at or before the mark were read or left out before, and stay so" in said.text
    ended(old.run("--pipeline", "p"), 0, "done", 3)
    assert ids(old.table) == [*range(6), 50, 51, 52, 60, 61, 62]


def test_late_unclear_where_an_earlier_pattern_may_have_read_it(old: Shell) -> None:
    """The ledgers are gone; the position remembers which patterns it has had."""
    assert choose(old, "--pattern", "*.json", "--below", "ingest", "--yes").code == 0
    words = ["--pipeline", "p", "--set", "source.pattern=*.json"]
    ended(old.run(*words), 0, "done", 6)
    clean_up_log(old.table)
    write_ids(old.folder / "src/b.ndjson", 3, 6)
    write_ids(old.folder / "src/c.log", 70, 73)  # never chosen before: that is certain
    text = refused(choose(old, "--pattern", "*.{ndjson,json,log}", "--below", "ingest", "--yes"), "late_unclear")
    assert "2 files at or before the mark may have been ingested with an earlier pattern" in text
    assert "b.ndjson, m.ndjson" in text
    # By the letter: skip, check, and read each that the table does not hold.
    assert choose(old, "--pattern", "*.{ndjson,json,log}", "--below", "skip", "--yes").code == 0
    where = old.where("--pipeline", "p", "--set", "source.pattern=*.{ndjson,json,log}")
    for name in ("b.ndjson", "c.log"):
        assert old("checkpoint", "reset", *where, "--file", name, "--from-record", "0", "--yes").code == 0
    assert old("run", *where).code == 0
    assert ids(old.table) == [*range(6), 50, 51, 52, 60, 61, 62, 70, 71, 72]


def test_files_in_progress_are_finished_first_or_given_up(tmp_path: Path, shell: Shell) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.json", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 7)
    flow.run(limits=Limits(max_records=5), max_batches=1, slots=1)
    assert ids(flow.table) == list(range(5))
    text = refused(choose(shell, "--pattern", "*.json", "--yes"), "files_in_progress")
    assert "b.ndjson" in text
    assert commands_in(text) == ["checkpoint skip --file NAME --yes"]
    assert shell.run("--pipeline", "p").code == 0  # with what it reads now
    assert choose(shell, "--pattern", "*.json", "--yes").code == 0
    assert shell.run("--pipeline", "p", "--set", "source.pattern=*.json").code == 0
    assert ids(flow.table) == list(range(7))


def test_files_in_progress_are_given_up(tmp_path: Path, shell: Shell) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "b.ndjson", 0, 4)
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1)
    said = choose(shell, "--pattern", "*.json", "--yes")
    refused(said, "files_in_progress")
    assert shell.obey(said, "checkpoint skip", NAME="b.ndjson").code == 0
    assert choose(shell, "--pattern", "*.json", "--yes").code == 0
    write_ids(flow.src / "a.json", 10, 12)
    assert shell.run("--pipeline", "p", "--set", "source.pattern=*.json").code == 0
    assert ids(flow.table) == [0, 1, 10, 11]


def test_a_run_with_another_pattern_names_the_command(old: Shell) -> None:
    """By the letter, with the word and --yes, it goes on, and every record is in the table once."""
    words = ["--pipeline", "p", "--set", "source.pattern=**/*.{json,ndjson}"]
    said = old.run(*words)
    assert (said.code, said.kind) == (3, "other_source")
    (command,) = commands_in(said.last["error"])
    given = [*shlex.split(command), "--table", str(old.table)]
    refused(old(*given, "--yes"), "files_below_mark")
    assert old(*given, "--below", "ingest", "--yes").code == 0
    ended(old.run(*words), 0, "done", 6)
    assert ids(old.table) == [0, 1, 2, 50, 51, 52, 60, 61, 62]


def test_a_run_without_a_name_and_with_another_pattern_names_it_too(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    assert shell.run().code == 0
    write_ids(tmp_path / "src/b.log", 3, 6)
    said = shell.run("--set", "source.pattern=*.{json,log}")
    assert (said.code, said.kind) == (3, "source_read_by_other")
    (command,) = [c for c in commands_in(said.last["error"]) if c.startswith("checkpoint choose")]
    assert shell(*shlex.split(command), "--table", str(shell.table), "--yes").code == 0
    name = position(shell).pipeline
    ended(shell.run("--set", "source.pattern=*.{json,log}", "--pipeline", name), 0, "done", 3)
    assert ids(shell.table) == list(range(6))


def test_filters_can_be_moved_and_taken_away(tmp_path: Path, shell: Shell) -> None:
    for i, month in enumerate(["2025-11", "2025-12", "2026-01", "2026-02"]):
        at(write_ids(tmp_path / f"src/{3 - i}.json", 3 * i, 3 * i + 3), f"{month}-15")
    first = ["--set", "source.modified_after=2026-01-01", "--set", "source.modified_before=2026-02-01"]
    ended(shell.run(*first, "--pipeline", "p"), 0, "done", 3)
    assert ids(shell.table) == [6, 7, 8]
    # Names run against time here: all of what a later filter lets in is before the mark, or after it.
    then = ["--set", "source.modified_after=2025-12-01"]
    text = refused(choose(shell, *then, "--yes"), "files_below_mark")
    assert "0.json" in text
    assert choose(shell, *then, "--below", "ingest", "--yes").code == 0
    ended(shell.run(*then, "--pipeline", "p"), 0, "done", 6)
    assert shell.run(*first, "--pipeline", "p").kind == "other_source"
    assert choose(shell, "--below", "ingest", "--yes").code == 0  # none given: none left
    ended(shell.run("--pipeline", "p"), 0, "done", 3)
    ended(shell.run("--pipeline", "p"), 0, "idle", 0)
    assert ids(shell.table) == list(range(12))


def test_the_date_of_the_beginning_can_be_moved(tmp_path: Path, shell: Shell) -> None:
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2025-06-01")
    at(write_ids(tmp_path / "src/b.json", 3, 6), "2026-06-01")
    at(write_ids(tmp_path / "src/0.json", 50, 53), "2024-06-01")
    assert shell.run("--start-from", "date:2026-01-01", "--pipeline", "p").code == 0
    assert shell.run("--start-from", "date:2025-01-01", "--pipeline", "p").kind == "start_from_rejected"
    assert choose(shell, "--start-from", "date:2025-01-01", "--below", "ingest", "--yes").code == 0
    ended(shell.run("--pipeline", "p"), 0, "done", 3)
    assert ids(shell.table) == list(range(6))
    assert position(shell).begun.start_from == "date:2025-01-01T00:00:00Z"
    assert choose(shell, "--start-from", "after:a.json").kind == "usage"
    assert choose(shell, "--start-from", "beginning", "--below", "skip", "--yes").code == 0
    ended(shell.run("--pipeline", "p"), 0, "idle", 0)


def test_a_rollback_goes_back_to_what_was_chosen_then(old: Shell) -> None:
    assert choose(old, "--pattern", "default-2", "--below", "ingest", "--yes").code == 0
    assert old.run("--pipeline", "p").code == 0
    assert old("checkpoint", "rollback", *old.where("--pipeline", "p", "--to", "1", "--yes")).code == 0
    assert ids(old.table) == [0, 1, 2]
    assert position(old).source.pattern == "default"
    ended(old.run("--pipeline", "p"), 0, "idle", 0)
    assert choose(old, "--pattern", "default-2", "--below", "ingest", "--yes").code == 0
    ended(old.run("--pipeline", "p"), 0, "done", 6)
    assert ids(old.table) == [0, 1, 2, 50, 51, 52, 60, 61, 62]


def test_a_choice_that_is_in_force_already_changes_nothing(old: Shell) -> None:
    before = versions(old.table)
    for words in [], ["--pattern", "default"]:  # without a pattern, the old default stays the old default
        said = choose(old, *words, "--yes")
        assert (said.code, "already" in said.text) == (0, True)
    assert versions(old.table) == before


@pytest.mark.parametrize("words", [["--set", "source.marks_per=day"], ["--source", "elsewhere"]])
def test_only_pattern_and_filters_can_be_changed(old: Shell, words: list[str]) -> None:
    (old.folder / "elsewhere").mkdir()
    refused(choose(old, *words, "--yes"), "other_source")


def test_without_a_name_it_is_the_one_pipeline_of_the_folder(old: Shell) -> None:
    words = old.where("--pattern", "default-2", "--below", "skip", "--yes")
    assert old("checkpoint", "choose", *words).code == 0
    assert position(old).source.pattern == "{default-2/"


def test_a_table_without_a_position_is_a_mistake(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    assert shell.run("--pipeline", "p").code == 0
    (tmp_path / "other").mkdir()
    assert shell("checkpoint", "choose", *shell.where("--yes", source="other")).kind == "usage"


def test_more_than_a_ledger_holds_is_left_out_in_several_commits(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_choose, "_SKIPPED_BYTES", 1_000)
    for i in range(10):
        write_ids(tmp_path / f"src/a{i}.json", 50 + i, 51 + i)
    write_ids(tmp_path / "src/m.ndjson", 0, 3)
    assert shell.run("--set", "source.pattern=default", "--pipeline", "p").code == 0
    before = versions(shell.table)
    assert choose(shell, "--pattern", "default-2", "--below", "skip", "--yes").code == 0
    assert versions(shell.table) - before == 5
    ended(shell.run("--pipeline", "p"), 0, "idle", 0)
    assert ids(shell.table) == [0, 1, 2]
    found = json.loads(shell("audit", *shell.where("--pipeline", "p", "--json")).text)
    assert (len(found["skipped"]), found["ok"]) == (10, True)


def test_more_than_a_position_can_name_is_refused_with_another_way(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_choose, "_NAMED_BYTES", 100)
    for i in range(10):
        write_ids(tmp_path / f"src/a{i}.json", 50 + i, 51 + i)
    write_ids(tmp_path / "src/m.ndjson", 0, 3)
    assert shell.run("--set", "source.pattern=default", "--pipeline", "p").code == 0
    said = choose(shell, "--pattern", "default-2", "--below", "ingest", "--yes")
    assert "more than a position can name" in refused(said, "files_below_mark")
    for step in range(0, 12, 3):  # by the letter: in steps
        pattern = f"{{*.ndjson,a[0-{min(9, step + 2)}].json}}"
        assert choose(shell, "--pattern", pattern, "--below", "ingest", "--yes").code == 0
        assert shell.run("--pipeline", "p", "--set", f"source.pattern={pattern}").code == 0
    assert ids(shell.table) == [0, 1, 2, *range(50, 60)]


def test_a_file_that_arrives_before_the_commit_is_not_left_out(old: Shell) -> None:
    """One that the word was not given for: nothing is done."""
    given = {"source.path": str(old.folder / "src"), "table.path": str(old.table), "source.pattern": "default-2"}
    assembly = Assembly(request=make_request(make_config(given), pipeline="p"))
    table = assembly.open_for_commit()
    change = plan_choice(assembly, table)
    write_ids(old.folder / "src/b.json", 70, 73)
    with ends_with("position_changed"):
        apply_choice(assembly, table, change, "skip", lambda: plan_choice(assembly, table))
    again = plan_choice(assembly, table)
    write_ids(old.folder / "src/y.json", 73, 76)  # after the mark: it does not matter
    apply_choice(assembly, table, again, "skip", lambda: plan_choice(assembly, table))
    ended(old.run("--pipeline", "p"), 0, "done", 6)


def test_times_on_disk_decide_not_names(tmp_path: Path, shell: Shell) -> None:
    """A file that modified_before leaves out is not passed in silence when the filter moves."""
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2026-03-01")
    at(write_ids(tmp_path / "src/b.json", 3, 6), "2026-01-01")
    until = ["--set", "source.modified_before=2026-02-01"]
    ended(shell.run(*until, "--pipeline", "p"), 0, "done", 3)
    os.utime(tmp_path / "src/b.json")  # a file that was read and leaves the choice takes nothing with it
    ended(shell.run(*until, "--pipeline", "p"), 0, "idle", 0)
    refused(choose(shell, "--set", "source.modified_before=2026-04-01", "--yes"), "files_below_mark")
    assert choose(shell, "--set", "source.modified_before=2026-04-01", "--below", "ingest", "--yes").code == 0
    ended(shell.run("--set", "source.modified_before=2026-04-01", "--pipeline", "p"), 0, "done", 3)
    assert ids(shell.table) == list(range(6))


def test_a_file_that_was_read_and_changed_since_is_not_read_again_where_its_ledger_is_gone(
    tmp_path: Path, shell: Shell
) -> None:
    until = ["--set", "source.modified_before=2026-02-01"]
    for i, name in enumerate(["a.json", "b.json"]):
        at(write_ids(tmp_path / "src" / name, 3 * i, 3 * i + 3), "2026-01-01")
        assert shell.run(*until, "--pipeline", "p").code == 0
    clean_up_log(shell.table)
    at(tmp_path / "src/a.json", "2026-03-01")  # copied again, with the same rows
    text = refused(choose(shell, "--below", "ingest", "--yes"), "late_unclear")
    assert "a.json" in text
    assert choose(shell, "--below", "skip", "--yes").code == 0
    ended(shell.run("--pipeline", "p"), 0, "idle", 0)
    assert ids(shell.table) == list(range(6))
