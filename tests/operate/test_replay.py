"""Replaying quarantined records on real Delta tables: each record is in the table or in quarantine, once, whenever a
process dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard import faults, native
from blizzard.core.ledger import decode_ledger
from blizzard.core.position import Position
from blizzard.errors import ConfigError, Fenced, Refused
from blizzard.faults import InjectedFault
from blizzard.operate.replay import Replayed
from blizzard.quarantine import contents
from blizzard.quarantine import files as quarantine_files
from blizzard.quarantine import table as delta_quarantine
from blizzard.quarantine.ingestor import QuarantineIngestor
from blizzard.tasks.quarantine import Selection
from blizzard.testing.positions import changed
from tests.flows.in_process import Flow, newest
from tests.flows.replaying import (
    EVERYTHING,
    HOPELESS,
    LEFT,
    STRICT,
    in_quarantine,
    mendable,
    newest_position,
    quarantined_flow,
    replay_in,
)
from tests.ingesting import ids, line, rows, write, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return quarantined_flow(tmp_path)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    faults._visits.clear()
    return lambda rule: monkeypatch.setenv("BLIZZARD_FAULT", rule)


def test_a_replay_without_the_parser_it_was_told_to_use_says_the_way_out(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(native, "_why_not", "not built")
    before = in_quarantine(flow)
    with pytest.raises(ConfigError, match=r"\(not built\). Nothing of this batch was committed. Leave the key out"):
        replay_in(flow, parser="native")
    assert in_quarantine(flow) == before


def test_what_passes_now_becomes_rows_and_the_rest_stays_as_it_was(flow: Flow) -> None:
    before = {r["raw"]: r for r in flow.quarantined()}
    position = newest_position(flow).marks
    done = replay_in(flow)
    assert done == Replayed(replayed=2, still_bad=1, sequence=2, delta_version=newest(flow.table))
    assert [(r["id"], r["name"]) for r in rows(flow.table)][3:] == [(3, '{"n":3}'), (4, '{"n":4}')]
    (left,) = flow.quarantined()
    was = before[HOPELESS]
    assert (left["sequence"], left["run_id"]) == (2, "replay")
    own = {name: was[name] for name in ("sequence", "run_id", "batch_id")}
    assert left["batch_id"] == newest_position(flow).batch_id
    assert left | own == was  # its time, too: it has been here since then
    state = newest_position(flow)
    assert (state.sequence, state.marks, dict(state.quarantine.replayed)) == (2, position, {"through": "1"})
    (commit,) = flow.open().commits_after(newest(flow.table) - 1)
    ledger = decode_ledger(commit.user_metadata)
    assert ledger is not None
    assert (ledger.records, ledger.entries) == (2, ())


def test_what_is_still_bad_is_counted_among_what_was_replayed(flow: Flow) -> None:
    """It said that 1 of 0 records goes to quarantine, where that record was already."""
    flow.told.warnings.clear()
    replay_in(flow)
    (warning,) = flow.told.warnings
    assert warning.startswith("1 of 3 records (33.3%) stay in quarantine: ")


def test_a_second_replay_finds_nothing_and_changes_nothing(flow: Flow) -> None:
    replay_in(flow)
    version, quarantine, files = newest(flow.table), in_quarantine(flow), sorted(os.listdir(flow.quarantine.root))
    assert replay_in(flow) == Replayed(replayed=0, still_bad=1, sequence=2, delta_version=version)
    assert (newest(flow.table), in_quarantine(flow)) == (version, quarantine)
    assert sorted(os.listdir(flow.quarantine.root)) == files


def test_runs_go_on_after_a_replay_where_they_were(flow: Flow) -> None:
    replay_in(flow)
    write(flow.src / "c.ndjson", line(5) + HOPELESS + b"\n")
    summary = flow.run()
    assert (summary.recovery, summary.sequence, summary.files) == ("log", 3, 1)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]
    assert in_quarantine(flow) == [*LEFT, ("c.ndjson", 2, HOPELESS)]


def test_a_replay_without_quarantine_commits_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    assert replay_in(flow) == Replayed(replayed=0, still_bad=0, sequence=1, delta_version=1)
    assert not os.path.exists(flow.quarantine.root)


@pytest.mark.parametrize(
    ("chosen", "replayed"),
    [
        (Selection(source_file="b.ndjson"), [4]),
        (Selection(error_kind="no_such_kind"), []),
        (Selection(from_sequence=2, through_sequence=2), [6]),
        (Selection(from_sequence=1, through_sequence=1), [3, 4]),
    ],
)
def test_filters_take_what_they_name_and_leave_the_rest(flow: Flow, chosen: Selection, replayed: list[int]) -> None:
    write(flow.src / "c.ndjson", mendable(6) + b"\n")
    flow.run(spec=STRICT)
    done = replay_in(flow, chosen)
    assert (done.replayed, ids(flow.table)[3:]) == (len(replayed), replayed)
    assert len(flow.quarantined()) == 4 - len(replayed)
    assert Counter(r["raw"] for r in flow.quarantined())[HOPELESS] == 1
    replay_in(flow)
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4, 6], LEFT)


def test_records_of_another_pipeline_or_table_are_not_taken(flow: Flow) -> None:
    state = changed(newest_position(flow), replayed={}, pending=())
    for index, foreign in enumerate([replace(state, pipeline="q"), changed(state, table_id="gone")]):
        name = f"foreign-{index}.parquet"
        writer = delta_quarantine_writer(flow, foreign, name)
        writer.close()
        flow.quarantine.settle(changed(foreign, pending=(name,)))
    assert replay_in(flow).replayed == 2
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    assert len(flow.quarantined()) == 3


def delta_quarantine_writer(flow: Flow, state: Position, name: str) -> Any:
    from blizzard.tasks.quarantine import BadRow, QuarantineWriter

    raw = mendable(99)
    writer = QuarantineWriter(
        store=flow.quarantine.store,
        name=name,
        pipeline=state.pipeline,
        table_id=state.on.table_id,
        sequence=1,
        run_id="r",
    )
    row = BadRow(
        source_file="a.ndjson",
        source_etag="e",
        line=1,
        byte_offset=0,
        raw=raw,
        raw_bytes=len(raw),
        kind="bad_value",
        message="m",
    )
    writer.add(row)
    return writer


def test_a_byte_order_mark_and_lines_that_were_cut(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    marked, long = b"\xef\xbb\xbf" + mendable(1), b'{"id":2,"name":"' + b"x" * 200_000 + b'"}'
    write(flow.src / "a.ndjson", marked + b"\n" + long + b"\n" + b"\xef\xbb\xbf" + mendable(3) + b"\n")
    flow.run(spec=STRICT | {"max_record_bytes": 100_000})
    assert [r["complete"] for r in flow.quarantined()] == [True, False, True]
    done = replay_in(flow)
    assert (done.replayed, done.still_bad, ids(flow.table)) == (1, 1, [1])
    assert [(r["line"], r["error_kind"]) for r in flow.quarantined()] == [(2, "too_long"), (3, "not_json")]


def test_a_line_over_a_limit_that_has_shrunk_stays(flow: Flow) -> None:
    assert replay_in(flow, max_record_bytes=len(mendable(4))).replayed == 1  # the other one ends with \r
    assert ids(flow.table) == [0, 1, 2, 3]
    assert {r["error_kind"] for r in flow.quarantined() if r["raw"] != HOPELESS} == {"too_long"}


def test_many_batches_keep_every_record(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_files, "_READ_ROWS", 7)
    content = [mendable(i) if i % 3 else HOPELESS for i in range(10, 110)]
    write(flow.src / "c.ndjson", b"\n".join(content))
    flow.run(spec=STRICT)
    assert replay_in(flow).replayed == 2 + sum(1 for raw in content if raw != HOPELESS)
    assert ids(flow.table) == [0, 1, 2, 3, 4, *(i for i in range(10, 110) if i % 3)]
    assert len(flow.quarantined()) == 1 + content.count(HOPELESS)


def test_a_replay_refuses_what_a_run_refuses(flow: Flow) -> None:
    with pytest.raises(Refused) as caught:
        replay_in(replace(flow, pipeline="never-ran"))
    assert caught.value.kind == "source_read_by_other"
    assert len(flow.quarantined()) == 3


def test_of_two_replays_at_once_one_is_fenced(flow: Flow) -> None:
    class Overtaken(QuarantineIngestor):
        def run(self, *arguments: Any, **more: Any) -> Any:
            result = super().run(*arguments, **more)
            assert replay_in(flow, run_id="faster").replayed == 2
            return result

    with pytest.raises(Fenced):
        replay_in(flow, ingestor=Overtaken)
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4], LEFT)


def test_a_run_that_commits_meanwhile_fences_the_replay(flow: Flow) -> None:
    class Overtaken(QuarantineIngestor):
        def run(self, *arguments: Any, **more: Any) -> Any:
            result = super().run(*arguments, **more)
            write_ids(flow.src / "c.ndjson", 5, 7)
            flow.run()
            return result

    with pytest.raises(Fenced):
        replay_in(flow, ingestor=Overtaken)
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2, 5, 6], 3)
    assert replay_in(flow).replayed == 2
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4, 5, 6], LEFT)


def test_a_replay_settled_by_somebody_else_meanwhile_is_not_settled_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After this one has copied what stays; and what the other added is already gone again."""
    others: list[int] = []

    def reach(point: str, _root: str = "") -> None:
        if point == "quarantine.copied" and not others:
            others.append(0)
            flow.quarantine.settle(newest_position(flow))
            others.append(contents.purge(flow.quarantine, EVERYTHING))

    monkeypatch.setattr(delta_quarantine, "reach", reach)
    assert replay_in(flow).still_bad == 1
    assert others == [0, 1]
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4], [])


@pytest.mark.parametrize(
    "rule",
    [
        *("commit.during=raise@1", "commit.answer=raise@1", "quarantine.copied=raise@1", "quarantine.before=raise@1"),
        *("quarantine.after=raise@1", "quarantine.copied=raise@1;quarantine.after=raise@1"),
    ],
)
def test_a_lost_answer_changes_nothing_about_the_outcome(flow: Flow, fault: Callable[[str], None], rule: str) -> None:
    fault(rule)
    done = replay_in(flow)
    assert (done.replayed, done.still_bad, done.sequence) == (2, 1, 2)
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4], LEFT)


def test_nothing_has_happened_before_the_commit(flow: Flow, fault: Callable[[str], None]) -> None:
    version, quarantine = newest(flow.table), in_quarantine(flow)
    fault("replay.before_commit=raise")
    with pytest.raises(InjectedFault):
        replay_in(flow)
    assert (newest(flow.table), in_quarantine(flow)) == (version, quarantine)


BEFORE, AFTER = (
    ["replay.before_commit", "commit.before", "commit.during"],
    [
        *("commit.answer", "commit.after", "quarantine.copied", "quarantine.before", "quarantine.after"),
    ],
)


@pytest.mark.process
@pytest.mark.parametrize("point", BEFORE + AFTER)
def test_a_replay_killed_anywhere_leaves_each_record_once_after_the_next_start(flow: Flow, point: str) -> None:
    before = ids(flow.table), in_quarantine(flow)
    code = "import sys; from tests.flows.replaying import *; replay_in(Flow(Path(sys.argv[1])))"
    killed = subprocess.run(
        [sys.executable, "-c", code, str(flow.folder)],
        env=os.environ | {"BLIZZARD_FAULT": f"{point}=kill"},
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    assert killed.returncode == -9
    flow.run()  # nothing is new in the source: it settles, and that is all
    assert (ids(flow.table), in_quarantine(flow)) == (before if point in BEFORE else ([0, 1, 2, 3, 4], LEFT))
    assert replay_in(flow, run_id="again").replayed == (2 if point in BEFORE else 0)
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4], LEFT)
