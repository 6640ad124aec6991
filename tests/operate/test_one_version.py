"""Every command that moves a position commits on the version it looked at: a run or a writer in between is seen."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.plan import Limits
from blizzard.core.recover import StartFrom
from blizzard.errors import Fenced, Refused
from blizzard.faults import reach
from blizzard.run import commit as committing
from blizzard.run.commit import FilesGone
from tests.flows.in_process import Flow, newest, write_foreign
from tests.flows.replaying import quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write, write_ids
from tests.operate.test_judgement import put_back


def just_before_the_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody else acts once, when everything has been looked at."""
    once: list[str] = []

    def at_point(point: str, root: str = "") -> None:
        if point == "commit.before" and not once:
            once.append(point)
            act()
        reach(point, root)

    monkeypatch.setattr(committing, "reach", at_point)


def cli(flow: Flow, *words: str) -> int:
    named = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", flow.pipeline]
    return main(["checkpoint", words[0], *named, *words[1:]])


def halfway(folder: Path) -> Flow:
    """Ten records in one file, of which three are committed, and two files after it."""
    flow = Flow(folder)
    write_ids(flow.src / "a.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=3), max_batches=1)
    write_ids(flow.src / "b.ndjson", 10, 12)
    return flow


EDITS: list[tuple[str, ...]] = [
    ("reset", "--file", "a.ndjson", "--yes"),
    ("reset", "--file", "a.ndjson", "--from-record", "3", "--yes"),
    ("skip", "--file", "a.ndjson", "--yes"),
    ("skip", "--file", "b.ndjson", "--yes"),
]


@pytest.mark.parametrize("words", EDITS, ids=" ".join)
def test_a_run_that_ends_between_look_and_commit_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    flow = halfway(tmp_path)
    just_before_the_commit(monkeypatch, flow.run)
    assert cli(flow, *words) == Fenced.exit_code
    flow.run()
    assert ids(flow.table) == list(range(12))


@pytest.mark.parametrize("words", EDITS[:2], ids=" ".join)
def test_a_foreign_writer_in_between_stops_no_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    flow = halfway(tmp_path)
    just_before_the_commit(monkeypatch, lambda: write_foreign(flow.table, 1_000))
    assert cli(flow, *words) == 0
    flow.run()
    assert ids(flow.table) == [*range(12), 1_000]


@pytest.mark.parametrize("words", EDITS, ids=" ".join)
def test_a_restore_in_between_stops_every_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    flow = halfway(tmp_path)
    just_before_the_commit(monkeypatch, lambda: DeltaTable(str(flow.table)).restore(0))
    assert cli(flow, *words) == Refused.exit_code
    roll_back(flow, 0)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_a_source_file_that_changed_in_between_stops_a_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = halfway(tmp_path)
    before = newest(flow.table)

    def grow() -> None:
        with (flow.src / "a.ndjson").open("ab") as file:
            file.write(line(99))

    just_before_the_commit(monkeypatch, grow)
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "3", "--yes") == Refused.exit_code
    assert newest(flow.table) == before


def test_a_run_between_look_and_commit_fences_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    just_before_the_commit(monkeypatch, flow.run)
    with pytest.raises(Fenced):
        put_back(flow, 1)
    flow.run()
    assert ids(flow.table) == list(range(6))


def test_a_run_between_look_and_commit_fences_a_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    write_ids(flow.src / "c.ndjson", 6, 9)
    just_before_the_commit(monkeypatch, flow.run)
    with pytest.raises(Fenced):
        roll_back(flow, 1)
    flow.run()
    assert ids(flow.table) == list(range(9))


@pytest.mark.parametrize("change", ["optimize", "delete"])
def test_a_rewrite_of_its_files_in_between_stops_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()

    def act() -> None:
        table = DeltaTable(str(flow.table))
        table.optimize.compact() if change == "optimize" else table.delete("id = 4")

    just_before_the_commit(monkeypatch, act)
    with pytest.raises(Refused) as error:
        roll_back(flow, 1)
    assert error.value.kind == "rollback_files"
    flow.run()
    assert ids(flow.table) == ([0, 1, 2, 3, 4, 5] if change == "optimize" else [0, 1, 2, 3, 5])


def test_a_run_between_look_and_commit_fences_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = quarantined_flow(tmp_path)
    write_ids(flow.src / "z.ndjson", 10, 12)
    just_before_the_commit(monkeypatch, flow.run)
    with pytest.raises(Fenced):
        replay_in(flow)
    flow.run()
    replay_in(flow)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 10, 11]


def vacuum(flow: Flow) -> None:
    DeltaTable(str(flow.table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


@pytest.mark.parametrize("harm", ["vacuumed", "cut", "emptied"])
def test_files_that_are_gone_before_their_commit_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)

    def act() -> None:
        if harm == "vacuumed":
            return vacuum(flow)
        for path in flow.table.glob("blizzard-run2-*.parquet"):
            os.truncate(path, 0 if harm == "emptied" else path.stat().st_size - 1)
        return None

    just_before_the_commit(monkeypatch, act)
    summary = flow.run()
    assert (summary.commits, summary.records) == (1, 3)
    assert ids(flow.table) == list(range(6))
    assert any("gone from the table's folder" in told for told in flow.told.warnings)


def test_a_vacuum_that_never_ends_ends_the_run_and_harms_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    with pytest.raises(FilesGone) as error:
        flow.run(while_reading=lambda: vacuum(flow))
    assert (error.value.kind, error.value.exit_code) == ("files_gone", 75)
    assert ids(flow.table) == [0, 1, 2]
    flow.run()
    assert ids(flow.table) == list(range(6))


def test_the_first_batch_of_a_pipeline_that_joined_is_read_again_from_where_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.place.create("other")
    write_foreign(flow.table, 0, 1, 2)
    just_before_the_commit(monkeypatch, lambda: vacuum(flow))
    flow.run(start_from=StartFrom(after="a.ndjson"))
    assert ids(flow.table) == list(range(6))


def test_a_replay_whose_file_is_gone_leaves_the_quarantine_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = quarantined_flow(tmp_path)
    before = len(flow.quarantined())
    just_before_the_commit(monkeypatch, lambda: vacuum(flow))
    with pytest.raises(FilesGone):
        replay_in(flow)
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2], before)


def test_a_truncated_gzip_that_is_reset_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reset is planned on where the file broke; a second reset was faster and a run has read the rest."""
    flow = Flow(tmp_path)
    whole = gzip.compress(b"".join(map(line, range(3_000))))
    write(flow.src / "a.ndjson.gz", b"")
    (flow.src / "a.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    os.utime(flow.src / "a.ndjson.gz", (1, 1))
    flow.run()
    (flow.src / "a.ndjson.gz").write_bytes(whole)

    def faster() -> None:
        assert cli(flow, "reset", "--file", "a.ndjson.gz", "--yes") == 0
        flow.run()

    just_before_the_commit(monkeypatch, faster)
    assert cli(flow, "reset", "--file", "a.ndjson.gz", "--yes") == Fenced.exit_code
    flow.run()
    assert ids(flow.table) == list(range(3_000))
