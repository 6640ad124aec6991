"""Settings that change while a file is half read: it is said, once, and nothing is read twice or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blizzard.core.plan import Limits
from blizzard.tasks.policy import Coercion, ParsePolicy
from tests.flows.in_process import Flow
from tests.flows.replaying import newest_position, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, rows, write, write_ids

OTHER: dict[str, Any] = {"parsing": ParsePolicy(coerce={("id",): frozenset({Coercion.NUMBERS_IN_STRINGS})})}


def begun(folder: Path) -> Flow:
    """Of b.ndjson, 2 of 6 lines are committed."""
    flow = Flow(folder)
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 9)
    flow.run(limits=Limits(max_records=5), max_batches=1, slots=1)
    assert newest_position(flow).marks.records_read("b.ndjson") == 2
    return flow


def told_of_settings(flow: Flow) -> list[str]:
    return [warning for warning in flow.told.warnings if "the settings that decide" in warning]


def test_a_run_that_goes_on_inside_a_file_under_other_settings_says_so_once(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    flow.run(spec=OTHER, limits=Limits(max_records=1), max_batches=2, slots=1)
    (warning,) = told_of_settings(flow)
    assert "b.ndjson" in warning
    assert newest_position(flow).on.settings_fingerprint == OTHER["parsing"].fingerprint
    flow.run(spec=OTHER, limits=Limits(max_records=1), max_batches=1, slots=1)
    assert len(told_of_settings(flow)) == 1, "these are the settings now"
    flow.run()
    assert len(told_of_settings(flow)) == 2
    assert ids(flow.table) == list(range(9))
    assert newest_position(flow).on.settings_fingerprint is None


def test_nothing_is_said_between_files_or_under_the_same_settings(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    flow.run()
    write_ids(flow.src / "c.ndjson", 9, 11)
    flow.run(spec=OTHER)
    assert told_of_settings(flow) == []


def test_a_replay_uses_its_own_settings_and_leaves_those_of_the_files_in_progress(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":"7","name":"n"}\n{"id":1,"name":"m"}\n{"id":2,"name":"o"}\n')
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1)
    assert [r["error_kind"] for r in flow.quarantined()] == ["bad_value"]
    assert replay_in(flow).replayed == 0, "under the settings of the run it is bad again"
    assert replay_in(flow, run_id="again", **OTHER).replayed == 1
    assert sorted(row["id"] for row in rows(flow.table)) == [1, 7]
    assert newest_position(flow).on.settings_fingerprint is None
    flow.run()
    assert told_of_settings(flow) == []


def test_a_replay_reads_no_file_on_and_warns_of_none(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":"seven","name":"n"}\n{"id":1,"name":"m"}\n{"id":2,"name":"o"}\n')
    flow.run(spec=OTHER, limits=Limits(max_records=2), max_batches=1, slots=1)
    assert newest_position(flow).marks.records_read("a.ndjson") == 2
    assert replay_in(flow).still_bad == 1
    assert told_of_settings(flow) == []


def test_a_rollback_takes_the_settings_of_its_target_back(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    flow.run(spec=OTHER, limits=Limits(max_records=1), max_batches=1, slots=1)
    roll_back(flow, 1)
    assert newest_position(flow).on.settings_fingerprint is None
