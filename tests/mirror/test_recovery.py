"""A table loses its position, and it comes back from the mirror: the text is followed blindly, each record is there
once. A mirror that is behind gets nobody into trouble."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, convert_to_deltalake

from tests.delta.test_hostile_log import change_payload
from tests.flows.in_process import write_foreign
from tests.flows.shell import Said, Shell
from tests.ingesting import ids, write_ids
from tests.mirror.postgres import Postgres
from tests.mirror.under_test import MirrorUnderTest
from tests.operate.test_positions_in_checkpoints import without_payloads


def run(shell: Shell, *words: str) -> Said:
    said = shell.run("--pipeline", "p", *words)
    assert said.code == 0, said.text
    return said


def partly_read(shell: Shell, *words: str) -> None:
    """Sequence 2; a is finished, b is in progress with two of its four records. Only what `words` say is mirrored."""
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    run(shell, *words)
    write_ids(shell.folder / "src/b.ndjson", 3, 7)
    run(shell, *words, "--set", "limits.max_records=2", "--set", "spark.slots=1", "--max-batches", "1")
    assert ids(shell.table) == [0, 1, 2, 3, 4]


def take(shell: Shell, mirror: MirrorUnderTest, *words: str) -> Said:
    table = ["--table", str(shell.table)]
    return shell("checkpoint", "import", *table, "--from-mirror", mirror.uri, *mirror.access, *words)


@pytest.mark.parametrize("with_fences", [True, False])
def test_a_lost_position_comes_back_from_the_mirror(shell: Shell, mirror: MirrorUnderTest, with_fences: bool) -> None:
    partly_read(shell, *mirror.words)
    without_payloads(shell.table, with_fences=with_fences)
    write_ids(shell.folder / "src/c.ndjson", 7, 9)
    said = shell.run("--pipeline", "p", *mirror.words)
    assert (said.code, said.kind) == (3, "position_not_found" if with_fences else "table_has_data")
    assert "--from-mirror" in said.last["error"]
    replaces = ["--replace"] if "import --replace" in said.last["error"] else []
    assert "--unverified" in said.last["error"]
    refused = take(shell, mirror, *replaces)
    assert (refused.code, refused.kind) == (3, "import_mismatch")  # as for any import: the log cannot tell
    done = take(shell, mirror, *replaces, "--unverified")
    assert done.code == 0, done.text
    run(shell, *mirror.words)
    assert ids(shell.table) == [*range(9), 9000]
    assert mirror.sequences()[-1] == 4


def test_a_damaged_position_is_judged_and_taken(shell: Shell, mirror: MirrorUnderTest) -> None:
    """The ledger of its commit is there, so nobody has to vouch for it."""
    write_ids(shell.folder / "src/a.ndjson", 0, 4)
    words = ("--set", "limits.max_records=2", "--set", "spark.slots=1", "--max-batches", "1")
    run(shell, *mirror.words, *words)
    change_payload(shell.table, lambda _: {})
    said = shell.run("--pipeline", "p", *mirror.words)
    assert (said.code, said.kind) == (3, "damaged_checkpoint")
    assert mirror.sequences() == [1]  # what refuses copies nothing
    done = take(shell, mirror, "--replace")
    assert done.code == 0, done.text
    run(shell, *mirror.words)
    assert ids(shell.table) == [0, 1, 2, 3]


def test_a_mirror_that_is_behind_is_refused_like_any_older_position(shell: Shell, mirror: MirrorUnderTest) -> None:
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    run(shell, *mirror.words)
    for number in (1, 2):  # the mirror was down
        write_ids(shell.folder / f"src/b{number}.ndjson", 3 * number, 3 * number + 3)
        run(shell)
    said = take(shell, mirror, "--replace")
    assert (said.code, said.kind) == (3, "import_mismatch")
    assert take(shell, mirror).kind == "usage"  # the table has a position: --replace is missing
    said = take(shell, mirror, "--replace", "--unverified")
    assert (said.code, said.kind) == (3, "import_mismatch")
    assert "the newest position in the mirror is sequence 1, but pipeline 'p' has committed sequence 3" in said.text
    run(shell, *mirror.words)
    assert (ids(shell.table), mirror.sequences()) == (list(range(9)), [1, 2, 3])


@pytest.mark.parametrize("with_fences", [True, False])
def test_a_mirror_that_was_behind_when_the_position_was_lost_doubles_nothing(
    shell: Shell, mirror: MirrorUnderTest, with_fences: bool
) -> None:
    """Its newest position is not the table's. Not even --unverified takes it, unless it is named."""
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    run(shell, *mirror.words)
    write_ids(shell.folder / "src/b.ndjson", 3, 7)
    run(shell)
    without_payloads(shell.table, with_fences=with_fences)
    replaces = ["--replace"] if with_fences else []
    said = take(shell, mirror, *replaces, "--unverified")
    assert (said.code, said.kind) == (3, "import_mismatch")
    assert "would double what came after it" in said.text
    assert ids(shell.table) == [*range(7), 9000]


@pytest.mark.parametrize("is_behind", [True, False])
@pytest.mark.parametrize("mirror", ["folder"], indirect=True)
def test_a_pipeline_beside_it_does_not_hide_that_the_mirror_was_behind(
    shell: Shell, mirror: MirrorUnderTest, is_behind: bool
) -> None:
    """What is left in the log is of the other one only. The names of data files have the sequence."""
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    run(shell, *mirror.words)
    write_ids(shell.folder / "src/b.ndjson", 3, 7)
    run(shell, *(() if is_behind else mirror.words))
    without_payloads(shell.table, with_fences=False)
    write_ids(shell.folder / "other/a.ndjson", 100, 103)
    said = shell.run("--pipeline", "q", "--start-from", "beginning", source="other")
    assert said.code == 0, said.text
    said = take(shell, mirror, "--unverified")
    if is_behind:
        assert (said.code, said.kind) == (3, "import_mismatch")
        assert "the table holds a file of sequence 2, of this pipeline or of q: the mirror was behind" in said.text
    else:
        assert said.code == 0, said.text
        run(shell, *mirror.words)
    assert ids(shell.table) == [*range(7), *range(100, 103), 9000]


@pytest.mark.parametrize("is_behind", [True, False])
@pytest.mark.parametrize("mirror", ["folder"], indirect=True)
def test_a_copy_with_a_new_id_does_not_hide_that_the_mirror_was_behind(
    shell: Shell, mirror: MirrorUnderTest, is_behind: bool
) -> None:
    """A clone has the data files and no position; the table that it was made of is gone."""
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    run(shell, *mirror.words)
    write_ids(shell.folder / "src/b.ndjson", 3, 7)
    run(shell, *(() if is_behind else mirror.words))
    table_id = str(DeltaTable(str(shell.table)).metadata().id)
    without_payloads(shell.table, with_fences=False)
    shutil.rmtree(shell.table / "_delta_log")
    convert_to_deltalake(str(shell.table))
    said = take(shell, mirror, "--unverified", "--table-id", table_id)
    if is_behind:
        assert (said.code, said.kind) == (3, "import_mismatch")
        assert "the table holds a file of sequence 2: the mirror was behind" in said.text
    else:
        assert said.code == 0, said.text
        run(shell, *mirror.words)
    assert ids(shell.table) == [*range(7), 9000]


def test_any_version_that_is_kept_can_be_asked_for(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    said = take(shell, mirror, "--replace", "--sequence", "1")
    assert (said.code, said.kind) == (3, "import_mismatch")
    assert shell.obey(said, "checkpoint rollback").code == 0
    run(shell, *mirror.words)
    assert ids(shell.table) == list(range(7))
    said = take(shell, mirror, "--replace", "--sequence", "77")
    assert (said.code, said.kind) == (2, "checkpoint_not_found")
    assert "does not have sequence 77 of pipeline 'p'" in said.text


def test_into_another_table(shell: Shell, mirror: MirrorUnderTest) -> None:
    """The table is gone with its log; somebody has its rows in a table of another id."""
    partly_read(shell, *mirror.words)
    shutil.rmtree(shell.table)
    write_foreign(shell.table, 0, 1, 2, 3, 4)
    said = take(shell, mirror, "--unverified")
    assert (said.code, said.kind) == (2, "checkpoint_not_found")
    (lost,) = mirror.stored.newest_of_each()
    assert f"p of {lost.series.table} (id {lost.series.table_id}, sequence 2)" in said.text
    said = take(shell, mirror, "--table-id", lost.series.table_id)
    assert (said.code, said.kind) == (3, "import_mismatch")
    done = take(shell, mirror, "--table-id", lost.series.table_id, "--unverified")
    assert done.code == 0, done.text
    run(shell, *mirror.words)
    assert ids(shell.table) == list(range(7))


def test_a_table_that_was_moved_finds_what_was_copied_from_its_old_place(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    shell.table.rename(shell.folder / "moved")
    where = ["--table", str(shell.folder / "moved"), "--from-mirror", mirror.uri, *mirror.access]
    done = shell("checkpoint", "import", *where, "--replace")
    assert done.code == 0, done.text


def test_of_several_pipelines_one_has_to_be_named(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    write_ids(shell.folder / "other/a.ndjson", 100, 103)
    said = shell.run("--pipeline", "q", "--start-from", "beginning", *mirror.words, source="other")
    assert said.code == 0, said.text
    said = take(shell, mirror, "--replace")
    assert (said.code, said.kind) == (2, "usage")
    assert "several positions for this table: " in said.text
    done = take(shell, mirror, "--replace", "--pipeline", "q")
    assert done.code == 0, done.text
    assert take(shell, mirror, "--pipeline", "r").kind == "checkpoint_not_found"


def test_the_configured_mirror_needs_no_uri(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    importing = ["checkpoint", "import", "--table", str(shell.table), "--replace"]
    done = shell(*importing, "--from-mirror", *mirror.words)
    assert done.code == 0, done.text
    said = shell(*importing, "--from-mirror")
    assert (said.code, said.kind) == (2, "usage")
    assert "or the key checkpoint.mirror" in said.text


@pytest.mark.parametrize(
    "words", [["--in", "x", "--sequence", "1"], ["--in", "x", "--pipeline", "p"], ["--in", "x", "--table-id", "i"], []]
)
def test_words_that_do_not_go_together(shell: Shell, words: list[str]) -> None:
    said = shell("checkpoint", "import", "--table", str(shell.table), *words)
    assert (said.code, said.kind) == (2, "usage")


@pytest.mark.parametrize("mirror", ["folder"], indirect=True)
def test_a_file_of_the_mirror_is_an_export(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    (latest,) = Path(mirror.uri).rglob("latest.json")
    assert json.loads(latest.read_text()) == json.loads((latest.parent / "2.json").read_text())
    done = shell("checkpoint", "import", "--table", str(shell.table), "--in", str(latest), "--replace")
    assert done.code == 0, done.text
    (latest.parent / "2.json").write_text("{")
    said = take(shell, mirror, "--replace")
    assert (said.code, said.kind) == (2, "usage")
    assert "is not an exported position" in said.text


@pytest.mark.parametrize("mirror", ["folder"], indirect=True)
def test_a_file_that_was_copied_over_another_is_not_taken_for_it(shell: Shell, mirror: MirrorUnderTest) -> None:
    partly_read(shell, *mirror.words)
    without_payloads(shell.table, with_fences=False)
    (older,) = Path(mirror.uri).rglob("1.json")
    (older.parent / "2.json").write_bytes(older.read_bytes())
    said = take(shell, mirror, "--unverified", "--sequence", "2")
    assert (said.code, said.kind) == (3, "import_mismatch")
    assert "has a position of sequence 1" in said.text
    copied = older.parents[3] / "q" / Path(*older.parent.parts[-2:])
    shutil.copytree(older.parent, copied)
    said = take(shell, mirror, "--unverified", "--pipeline", "q")
    assert (said.code, said.kind) == (3, "import_mismatch")


def test_a_folder_that_is_no_mirror_has_nothing(shell: Shell, tmp_path: Path) -> None:
    partly_read(shell)
    said = take(shell, MirrorUnderTest(kind="folder", uri=str(tmp_path / "nowhere")), "--replace")
    assert (said.code, said.kind) == (2, "checkpoint_not_found")
    assert said.text.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.postgres
def test_mirror_unavailable(shell: Shell, postgres: Postgres) -> None:
    mirror = MirrorUnderTest(kind="postgres", uri=postgres.make_database("unavailable"))
    partly_read(shell, *mirror.words)
    postgres.stop()
    said = take(shell, mirror, "--replace")
    assert (said.code, said.kind) == (75, "mirror_unavailable")
    assert "cannot be read: its database says:" in said.text
    postgres.start()
    assert take(shell, mirror, "--replace").code == 0
    run(shell, *mirror.words)
    assert ids(shell.table) == list(range(7))
