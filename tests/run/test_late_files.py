"""Files that appear behind the mark, change after they were ingested, or cannot be read yet, on real logs."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.errors import BadData, Refused
from tests.flows.in_process import Flow, clean_up_log, newest, touch_again, write_foreign
from tests.flows.replaying import newest_position
from tests.flows.shell import Shell
from tests.ingesting import ids, line, write_ids
from tests.run.test_broken_files import truncated


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """File m, ids 0 to 2, is ingested; file b, ids 50 to 52, sorts before it and is late."""
    made = Flow(tmp_path)
    write_ids(made.src / "m.ndjson", 0, 3)
    made.run()
    write_ids(made.src / "b.ndjson", 50, 53)
    return made


def test_a_late_file_is_read_by_the_next_run_and_only_once(flow: Flow) -> None:
    write_ids(flow.src / "z.ndjson", 3, 6)
    summary = flow.run()
    assert (summary.late_files, summary.records) == (1, 6)
    assert any("late" in warning and "b.ndjson" in warning for warning in flow.told.warnings)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 50, 51, 52]
    again = flow.run()
    assert (again.late_files, again.commits) == (0, 0)


def test_a_late_file_alone_is_work_enough(flow: Flow) -> None:
    assert flow.run().records == 3
    assert ids(flow.table) == [0, 1, 2, 50, 51, 52]


def test_a_late_file_can_go_to_quarantine_unread(flow: Flow) -> None:
    summary = flow.run(late=LatePolicy(late="quarantine"))
    assert (summary.late_files, summary.bad_files, ids(flow.table)) == (1, 1, [0, 1, 2])
    assert [(row["source_file"], row["error_kind"]) for row in flow.quarantined()] == [("b.ndjson", "late")]
    assert flow.run().commits == 0


def test_a_late_file_can_stop_the_run(flow: Flow) -> None:
    with pytest.raises(BadData) as error:
        flow.run(late=LatePolicy(late="fail"))
    assert error.value.kind == "late_files"
    assert "b.ndjson" in str(error.value)
    assert ids(flow.table) == [0, 1, 2]


def test_a_late_file_can_be_left_out_and_is_told(flow: Flow) -> None:
    summary = flow.run(late=LatePolicy(late="ignore"))
    assert (summary.late_files, ids(flow.table)) == (1, [0, 1, 2])
    assert any("b.ndjson" in warning for warning in flow.told.warnings)


def test_more_late_files_than_a_payload_should_name_are_all_read(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.core.late._AT_ONCE", 3)
    for number in range(10):
        write_ids(flow.src / f"a{number}.ndjson", 100 + number, 101 + number)
    summary = flow.run(limits=Limits(max_files=2))
    assert summary.late_files == 11
    assert ids(flow.table) == [0, 1, 2, 50, 51, 52, *range(100, 110)]
    assert flow.run().late_files == 0


def test_a_run_that_ends_before_it_has_read_them_all_leaves_them_to_the_next(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.core.late._AT_ONCE", 2)
    for number in range(6):
        write_ids(flow.src / f"a{number}.ndjson", 100 + number, 101 + number)
    flow.run(limits=Limits(max_files=1), max_batches=2)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 50, 51, 52, *range(100, 106)]


def test_a_rewritten_file_is_told_and_not_read_again(flow: Flow) -> None:
    flow.run()
    touch_again(flow.src / "m.ndjson", line(7))
    summary = flow.run()
    assert (summary.rewritten_files, summary.commits) == (1, 0)
    assert any("rewritten" in warning and "m.ndjson" in warning for warning in flow.told.warnings)


@pytest.mark.parametrize(
    ("policy", "expected", "quarantined"),
    [("ingest", [0, 1, 2, 7, 50, 51, 52], []), ("quarantine", [0, 1, 2, 50, 51, 52], ["m.ndjson"])],
)
def test_a_rewritten_file_can_be_read_again_or_put_into_quarantine(
    flow: Flow, policy: str, expected: list[int], quarantined: list[str]
) -> None:
    flow.run()
    touch_again(flow.src / "m.ndjson", line(7))
    flow.run(late=LatePolicy(rewritten=policy))
    assert ids(flow.table) == expected
    assert [row["source_file"] for row in flow.quarantined()] == quarantined
    assert flow.run().rewritten_files == 0


def test_a_rewritten_file_can_stop_the_run(flow: Flow) -> None:
    touch_again(flow.src / "m.ndjson", line(7))
    with pytest.raises(BadData) as error:
        flow.run(late=LatePolicy(rewritten="fail"))
    assert error.value.kind == "rewritten_files"


def hide_ledgers(flow: Flow) -> None:
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)


def test_where_the_ledgers_are_gone_nothing_is_taken_for_late_while_the_young_names_are_the_same(flow: Flow) -> None:
    flow.run()
    hide_ledgers(flow)
    write_ids(flow.src / "z.ndjson", 3, 6)
    summary = flow.run()
    assert (summary.recovery, summary.late_files, summary.records) == ("delta_checkpoint", 0, 3)


def test_where_the_ledgers_are_gone_a_name_that_is_new_among_the_young_is_refused(flow: Flow) -> None:
    """It is late, and m may have been rewritten: nobody can tell any more."""
    flow.later_ms = 0
    flow.run()
    hide_ledgers(flow)
    write_ids(flow.src / "c.ndjson", 60, 63)
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "late_unclear"
    assert "late_files.unclear" in str(error.value)
    assert flow.run(late=LatePolicy(unclear="ignore")).commits == 0


def test_the_user_may_say_that_unclear_files_are_to_be_read(flow: Flow) -> None:
    flow.later_ms = 0
    flow.run()
    hide_ledgers(flow)
    for name in ("b.ndjson", "m.ndjson"):
        (flow.src / name).unlink()
    write_ids(flow.src / "c.ndjson", 60, 63)
    assert flow.run(late=LatePolicy(unclear="ingest")).records == 3


def test_young_files_are_held_back_and_read_when_they_are_old_enough(tmp_path: Path) -> None:
    flow = Flow(tmp_path, min_age_s=600)
    write_ids(flow.src / "a.ndjson", 0, 3)
    summary = flow.run()
    assert (summary.held_files, summary.commits, flow.table.exists()) == (1, 0, False)
    flow.later_ms = 700_000
    assert flow.run().records == 3


def test_a_young_file_before_an_old_one_is_named_and_not_lost(flow: Flow) -> None:
    flow.run()
    flow.later_ms = 0
    write_ids(flow.src / "n.ndjson", 3, 6)
    (flow.src / "o.ndjson").write_bytes(b"")  # may still be being written
    write_ids(flow.src / "p.ndjson", 6, 9)
    summary = flow.run()
    assert (summary.records, summary.held_files) == (6, 1)
    position = newest_position(flow)
    assert (position.marks.last_committed_file, list(position.marks.files)) == ("p.ndjson", ["o.ndjson"])
    assert "empty" in position.seen.held_back["o.ndjson"]
    write_ids(flow.src / "o.ndjson", 20, 23)
    summary = flow.run()
    assert (summary.records, summary.late_files, summary.held_files) == (3, 0, 0)
    assert ids(flow.table) == [*range(9), 20, 21, 22, 50, 51, 52]


def test_an_empty_file_that_stays_empty_is_finished(flow: Flow) -> None:
    (flow.src / "n.ndjson").write_bytes(b"")
    summary = flow.run()
    assert (summary.files, summary.held_files) == (2, 0)


def vanished(flow: Flow) -> None:
    """File n was held back, and the mark has passed it; then it is gone."""
    flow.run()
    flow.later_ms = 0
    (flow.src / "n.ndjson").write_bytes(b"")
    write_ids(flow.src / "p.ndjson", 6, 9)
    flow.run()
    assert list(newest_position(flow).marks.files) == ["n.ndjson"]
    (flow.src / "n.ndjson").unlink()
    write_ids(flow.src / "q.ndjson", 9, 12)
    flow.run()
    assert any("gone from the source" in warning for warning in flow.told.warnings)


def test_a_held_file_that_vanishes_is_read_when_it_comes_back(flow: Flow) -> None:
    """A folder that is not mounted for one run: only the position says that the file is not done with."""
    vanished(flow)
    assert list(newest_position(flow).marks.files) == ["n.ndjson"]
    clean_up_log(flow.table)
    write_ids(flow.src / "n.ndjson", 20, 23)
    flow.later_ms = 120_000
    flow.run()
    assert ids(flow.table) == [0, 1, 2, *range(6, 12), 20, 21, 22, 50, 51, 52]


def test_a_person_can_give_it_up(flow: Flow, shell: Shell) -> None:
    vanished(flow)
    assert shell("checkpoint", "skip", "--file", "n.ndjson", "--yes", *shell.where("--pipeline", "p")).code == 0
    assert dict(newest_position(flow).marks.files) == {}


def test_very_many_files_that_vanish_are_forgotten(flow: Flow) -> None:
    """Temporary files that match the pattern would fill the position in the end."""
    flow.run()
    flow.later_ms = 0
    for number in range(400):
        (flow.src / f"n-{number:03d}-{'x' * 30}.ndjson.gz").write_bytes(b"\x1f\x8b\x08\x00")
    write_ids(flow.src / "p.ndjson", 6, 9)
    flow.run()
    assert len(newest_position(flow).marks.files) == 400
    for path in flow.src.glob("n-*"):
        path.unlink()
    write_ids(flow.src / "q.ndjson", 9, 12)
    flow.run()
    assert 100 < len(newest_position(flow).marks.files) < 300
    assert any("forgotten" in warning for warning in flow.told.warnings)


@pytest.mark.parametrize("kind", ["late", "rewritten"])
def test_what_was_left_alone_is_found_again_under_another_policy(flow: Flow, kind: str) -> None:
    """And not before: an idle run under the same policy reads no ledger."""
    if kind == "rewritten":
        flow.run()
        touch_again(flow.src / "m.ndjson", line(70) + line(71))
    write_ids(flow.src / "z.ndjson", 3, 6)
    alone = {"late": LatePolicy(late="ignore"), "rewritten": LatePolicy()}[kind]
    found = flow.run(late=alone)
    assert (found.late_files, found.rewritten_files) == ((1, 0) if kind == "late" else (0, 1))
    again = flow.run(late=alone)
    assert (again.late_files, again.rewritten_files) == (0, 0)
    taken = flow.run(late=LatePolicy(late="ingest", rewritten="ingest"))
    assert taken.records == (3 if kind == "late" else 2)
    assert flow.run(late=LatePolicy(late="ingest", rewritten="ingest")).commits == 0


def test_a_file_that_cannot_be_read_is_passed_named_and_tried_again(flow: Flow) -> None:
    flow.run()
    whole = truncated(flow, "n.ndjson.gz")  # as if it were still arriving
    os.utime(flow.src / "n.ndjson.gz")
    write_ids(flow.src / "p.ndjson", 3, 6)
    summary = flow.run()
    assert (summary.records, summary.held_files, flow.quarantined()) == (3, 1, [])
    position = newest_position(flow)
    assert position.marks.last_committed_file == "p.ndjson"
    assert position.seen.held_back["n.ndjson.gz"].startswith("truncated")
    (flow.src / "n.ndjson.gz").write_bytes(whole)
    assert flow.run().records == len(gzip.decompress(whole).splitlines())
    assert newest_position(flow).seen.held_back == {}


def test_more_held_files_than_allowed_stop_the_run_after_the_others_are_committed(flow: Flow) -> None:
    flow.run()
    for number in range(3):
        truncated(flow, f"n{number}.ndjson.gz")
        os.utime(flow.src / f"n{number}.ndjson.gz")
    write_ids(flow.src / "p.ndjson", 3, 6)
    with pytest.raises(BadData) as error:
        flow.run(max_held_files=2)
    assert error.value.kind == "too_many_held_files"
    assert ids(flow.table) == [*range(6), 50, 51, 52]


@pytest.mark.parametrize("first", ["bad", "good"])
def test_more_held_files_than_a_position_can_name_do_not_keep_the_others_out(tmp_path: Path, first: str) -> None:
    """Naming each of them would make a position too large for the log."""
    flow = Flow(tmp_path)
    flow.src.mkdir()
    bad, good = ("a", "b") if first == "bad" else ("b", "a")
    for number in range(4_000):
        (flow.src / f"{bad}-{'long' * 20}-{number:05d}.ndjson.gz").write_bytes(b"\x1f\x8b\x08\x00")
    for number in range(10):
        write_ids(flow.src / f"{good}-{number}.ndjson", 100 + number, 101 + number)
    with pytest.raises(BadData) as error:
        flow.run()
    assert error.value.kind == "too_many_held_files"
    assert ids(flow.table) == list(range(100, 110))
    assert flow.quarantined() == []
    assert len(flow.told.plans) == 2  # the second has the files that the first had no room for
    for path in flow.src.glob(f"{bad}-*"):
        path.write_bytes(gzip.compress(b'{"id":1}\n'))
    assert flow.run().records == 4_000
    assert ids(flow.table) == [*[1] * 4_000, *range(100, 110)]


def test_a_source_with_regions_has_a_mark_for_each(tmp_path: Path) -> None:
    flow = Flow(tmp_path, marks_per="region")
    write_ids(flow.src / "region=us/1.ndjson", 0, 3)
    write_ids(flow.src / "region=us/2.ndjson", 3, 6)
    flow.run()
    write_ids(flow.src / "region=eu/1.ndjson", 6, 9)  # sorts before everything there is
    write_ids(flow.src / "region=us/3.ndjson", 9, 12)
    write_ids(flow.src / "loose.ndjson", 12, 15)
    summary = flow.run()
    assert (summary.late_files, summary.records) == (0, 9)
    marks = newest_position(flow).marks
    assert dict(marks.prefix_marks) == {"region=eu/": "region=eu/1.ndjson", "region=us/": "region=us/3.ndjson"}
    assert marks.last_committed_file == "loose.ndjson"
    write_ids(flow.src / "region=eu/0.ndjson", 20, 23)  # late in its own region
    assert flow.run().late_files == 1
    assert ids(flow.table) == [*range(15), 20, 21, 22]


def test_another_kind_of_marks_is_another_source(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "region=us/1.ndjson", 0, 3)
    flow.run()
    flow.marks_per = "region"
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "other_source"


def test_more_prefixes_than_a_payload_should_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.core.plan.MAX_PREFIX_MARKS", 3)
    flow = Flow(tmp_path, marks_per="day")
    for day in range(5):
        write_ids(flow.src / f"day={day}/1.ndjson", day, day + 1)
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "too_many_prefixes"
    assert newest(flow.table) == 0
