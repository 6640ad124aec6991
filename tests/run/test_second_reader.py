"""One source, one pipeline of a table: a second name over the same files never doubles them unless it is told to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.core.log import standings_of
from blizzard.core.readers import find_other_reader
from blizzard.core.recover import StartFrom
from blizzard.errors import Refused
from blizzard.testing.positions import changed
from tests.flows.histories import Beside
from tests.flows.in_process import BEGINNING, Flow, clean_up_log, write_foreign
from tests.flows.shell import Shell, options_in
from tests.ingesting import ids, write_ids

GO_ON = "To go on with the one there is: "
MOVED = "and go on with: "


def two_files(folder: Path, below: str = "src") -> None:
    write_ids(folder / below / "a.ndjson", 0, 3)
    write_ids(folder / below / "b.ndjson", 3, 6)


def more(folder: Path, below: str = "src") -> None:
    write_ids(folder / below / "c.ndjson", 6, 9)


def test_without_a_name_a_run_goes_on_with_the_pipeline_that_reads_the_source(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    assert shell.run("--pipeline", "orders").code == 0
    more(tmp_path)
    said = shell.run()
    assert (said.code, said.last["pipeline"], said.last["records"]) == (0, "orders", 3)
    assert "pipeline orders:" in said.text
    assert ids(shell.table) == list(range(9))
    for words in (
        ["plan", *shell.where()],
        ["audit", *shell.where(), "--check"],
        ["checkpoint", "rollback", *shell.where(), "--to", "1", "--dry-run"],
    ):
        assert shell(*words).code == 0, words
    assert shell("checkpoint", "skip", *shell.where(), "--file", "zzz").kind == "usage"  # no such file; the pipeline is


def test_it_is_found_in_a_delta_checkpoint_too(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    write_foreign(shell.table, 9000)
    clean_up_log(shell.table)
    more(tmp_path)
    said = shell.run()
    assert (said.code, said.last["pipeline"], said.last["recovery"]) == (0, "orders", "delta_checkpoint")
    assert ids(shell.table) == [*range(9), 9000]


def test_the_pipeline_of_the_default_name_goes_first(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    name = shell.run().last["pipeline"]
    assert shell.run("--pipeline", "again", "--start-from", "beginning", "--reads-again").code == 0
    assert ids(shell.table) == sorted([*range(6)] * 2)
    more(tmp_path)
    assert shell.run().last["pipeline"] == name


def test_of_several_pipelines_over_the_source_one_has_to_be_named(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "one")
    shell.run("--pipeline", "two", "--start-from", "beginning", "--reads-again")
    more(tmp_path)
    said = shell.run()
    assert (said.code, said.kind) == (3, "several_pipelines")
    assert "one, two" in said.last["error"]
    assert shell.run("--pipeline", "two").last["records"] == 3


@pytest.mark.parametrize("words", [[], ["--start-from", "beginning"], ["--start-from", "after:a.ndjson"]])
def test_a_second_name_is_refused_and_the_text_goes_on_with_the_first(
    shell: Shell, tmp_path: Path, words: list[str]
) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    more(tmp_path)
    said = shell.run("--pipeline", "order", *words)
    assert (said.code, said.kind) == (3, "source_read_by_other")
    assert "mark b.ndjson" in said.last["error"]
    assert shell("plan", *shell.where("--pipeline", "order", *words)).kind == "source_read_by_other"
    assert shell.run(*options_in(said, GO_ON)).code == 0
    assert ids(shell.table) == list(range(9))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["--source", "{tmp}/src"], ["--source", "{tmp}/src/sub"]),
        (["--source", "{tmp}/src/sub"], ["--source", "{tmp}/src"]),
        (["--source", "{tmp}/src"], ["--source", "{tmp}/src", "--set", "source.pattern=**/*.ndjson"]),
        (["--source", "{tmp}/src", "--set", "source.pattern=sub/*"], ["--source", "{tmp}/src/**/b.*"]),
        (["--source", "{tmp}/src"], ["--source", "{tmp}/src/sub/b.ndjson"]),
        (["--source", "{tmp}/src"], ["--source", "file://{tmp}/src", "--set", "source.marks_per=sub"]),
    ],
)
def test_roots_that_nest_and_globs_that_overlap(
    shell: Shell, tmp_path: Path, first: list[str], second: list[str]
) -> None:
    two_files(tmp_path, "src/sub")
    given, other = ([word.format(tmp=tmp_path) for word in words] for words in (first, second))
    shell.run("--pipeline", "orders", *given)
    said = shell.run("--pipeline", "other", *other, "--start-from", "beginning")
    assert (said.code, said.kind) == (3, "source_read_by_other")
    more(tmp_path, "src/sub")
    said = shell.run(*options_in(said, GO_ON))
    assert (said.code, said.last["pipeline"]) == (0, "orders")
    assert ids(shell.table) == list(range(9))


def test_sources_that_have_no_file_in_common_may_share_a_table(shell: Shell, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/eu/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/us/a.ndjson", 3, 6)
    write_ids(tmp_path / "src/us/_tmp/a.ndjson", 6, 9)
    assert shell.run("--pipeline", "eu", "--set", "source.pattern=eu/*").code == 0
    for name, words in (
        ("us", ["--set", "source.pattern=us/*"]),
        ("tmp", ["--source", str(tmp_path / "src/us/_tmp")]),
    ):
        assert shell.run("--pipeline", name, *words).kind == "table_has_data"
        assert shell.run("--pipeline", name, *words, "--start-from", "beginning").code == 0
    assert ids(shell.table) == list(range(9))


def moved(folder: Path) -> None:
    (folder / "src").rename(folder / "new")


def copied(folder: Path) -> None:
    shutil.copytree(folder / "src", folder / "new")


def linked(folder: Path) -> None:
    os.symlink(folder / "src", folder / "new")


@pytest.mark.parametrize("how", [moved, copied, linked])
@pytest.mark.parametrize("name", [[], ["--pipeline", "q"]])
def test_a_source_that_was_moved_is_noticed_by_its_files(
    shell: Shell, tmp_path: Path, how: Callable[[Path], None], name: list[str]
) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    how(tmp_path)
    said = shell.run(*name, source="new")
    assert said.kind == "table_has_data"
    said = shell.run(*name, "--start-from", "beginning", source="new")
    assert (said.code, said.kind) == (3, "source_read_by_other")
    plan = shell("plan", *shell.where(*name, "--start-from", "beginning", source="new"))
    assert plan.kind == "source_read_by_other"
    # What the text says: the old path leads to the files again, and the run goes on there.
    if not (tmp_path / "src").exists():
        os.symlink(tmp_path / "new", tmp_path / "src")
    more(tmp_path)
    assert shell.run(*options_in(said, MOVED)).code == 0
    assert ids(shell.table) == list(range(9))


def test_another_source_with_the_same_names_is_none_that_was_moved(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    write_ids(tmp_path / "new/a.ndjson", 6, 9)
    assert shell.run("--start-from", "beginning", source="new").code == 0
    assert ids(shell.table) == list(range(9))


def test_of_a_moved_source_only_what_would_be_read_counts(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    moved(tmp_path)
    more(tmp_path, "new")
    assert shell.run("--start-from", "after:b.ndjson", source="new").code == 0
    assert ids(shell.table) == list(range(9))


def test_a_file_that_was_only_skipped_there_may_be_read(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    more(tmp_path)
    assert shell("checkpoint", "skip", *shell.where(), "--file", "c.ndjson", "--yes").code == 0
    (tmp_path / "new").mkdir()
    (tmp_path / "src/c.ndjson").rename(tmp_path / "new/c.ndjson")
    assert shell.run("--start-from", "beginning", source="new").code == 0
    assert ids(shell.table) == list(range(9))


def test_a_table_that_was_emptied_is_not_read_into_again_under_another_name(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    DeltaTable(str(shell.table)).delete()
    assert shell.run("--pipeline", "other").kind == "source_read_by_other"


def test_of_two_pipelines_that_begin_at_once_the_second_is_known_at_its_commit(tmp_path: Path) -> None:
    mine, theirs = Flow(tmp_path, pipeline="p"), Flow(tmp_path, pipeline="q")
    mine.place.create("p")
    two_files(tmp_path)
    table = mine.open()
    late = mine.batch(table).state
    theirs.run()
    commits = table.commits_after(late.on.delta_version)
    refusal = find_other_reader(commits, late)
    assert refusal is not None
    assert (refusal.kind, "'q'" in refusal.message) == ("source_read_by_other", True)
    for allowed in (
        changed(late, reads_again=True),
        replace(late, sequence=2),
        replace(late, source=replace(late.source, root="file:///elsewhere")),
    ):
        assert find_other_reader(commits, allowed) is None
    assert find_other_reader(table.commits_after(table.version + 1), late) is None


@pytest.mark.parametrize("has_table", [True, False])
def test_of_two_pipelines_that_begin_at_once_only_one_commits(tmp_path: Path, has_table: bool) -> None:
    mine, theirs = Flow(tmp_path, pipeline="p"), Flow(tmp_path, pipeline="q")
    if has_table:
        mine.place.create("p")
    two_files(tmp_path)
    with pytest.raises(Refused) as error:
        mine.run(while_reading=lambda: ignore(theirs.run()))
    assert error.value.kind == "source_read_by_other"
    assert ids(mine.table) == list(range(6))
    more(tmp_path)
    assert theirs.run().records == 3
    assert ids(mine.table) == list(range(9))


def test_two_that_begin_at_once_over_different_sources_both_commit(tmp_path: Path) -> None:
    mine, theirs = Beside(tmp_path, pipeline="p"), Beside(tmp_path, pipeline="q")
    write_ids(mine.src / "a.ndjson", 0, 3)
    write_ids(theirs.src / "a.ndjson", 3, 6)
    assert mine.run(while_reading=lambda: ignore(theirs.run())).records == 3
    assert ids(mine.table) == list(range(6))


def ignore(_summary: object) -> None:
    return None


def test_the_word_is_kept_in_the_position(tmp_path: Path) -> None:
    mine, theirs = Flow(tmp_path, pipeline="p"), Flow(tmp_path, pipeline="q")
    two_files(tmp_path)
    mine.run()
    with pytest.raises(Refused) as error:
        theirs.run(start_from=StartFrom(after="a.ndjson"))
    assert error.value.kind == "source_read_by_other"
    theirs.run(start_from=BEGINNING, reads_again=True)
    more(tmp_path)
    theirs.run()
    standings = standings_of(mine.open().scan_back())
    assert {name: found.position.begun.reads_again for name, found in standings.items()} == {"p": False, "q": True}


def test_names_that_are_not_there_get_no_advice_to_begin(shell: Shell, tmp_path: Path) -> None:
    two_files(tmp_path)
    shell.run("--pipeline", "orders")
    table = ["--table", str(shell.table)]
    said = shell("checkpoint", "export", *table, "--pipeline", "order", "--out", "-")
    assert (said.code, said.kind, "--start-from" in said.text) == (2, "usage", False)
    (tmp_path / "new").mkdir()
    assert (
        "no pipeline of this table reads this source" in shell("status", *table, "--source", str(tmp_path / "new")).text
    )
    for command in (["audit"], ["checkpoint", "reset", "--file", "a.ndjson"], ["checkpoint", "rollback", "--to", "0"]):
        assert shell(*command, *shell.where("--pipeline", "order")).kind == "source_read_by_other"


@pytest.mark.parametrize("how", ["link", "moved", "copied"])
def test_a_part_of_a_source_under_another_path_is_not_read_again(shell: Shell, tmp_path: Path, how: str) -> None:
    """Its names have a folder less there; by their ends, sizes and times they are the same files."""
    write_ids(tmp_path / "src/dt=01/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/dt=02/a.ndjson", 3, 6)
    assert shell.run("--pipeline", "p").code == 0
    there, elsewhere = tmp_path / "src/dt=01", tmp_path / "elsewhere"
    if how == "link":
        elsewhere.symlink_to(there)
    elif how == "moved":
        shutil.move(there, elsewhere)
    else:
        shutil.copytree(there, elsewhere)  # with its times
    said = shell.run("--pipeline", "q", "--start-from", "beginning", source="elsewhere")
    assert (said.code, said.kind) == (3, "source_read_by_other")
    assert ids(shell.table) == list(range(6))


def test_files_that_only_have_a_name_in_common_are_others(shell: Shell, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/dt=01/a.ndjson", 0, 3)
    assert shell.run("--pipeline", "p").code == 0
    write_ids(tmp_path / "other/a.ndjson", 3, 6)
    assert shell.run("--pipeline", "q", "--start-from", "beginning", source="other").code == 0
    assert ids(shell.table) == list(range(6))
