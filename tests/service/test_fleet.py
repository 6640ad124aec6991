"""Many pipelines in one process: each does its own work, in its turn, and what happens to one happens to it alone."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from blizzard.core.types import BatchPlan, BatchTicket
from blizzard.errors import SparkGone, Temporary
from blizzard.run.ports import NeverStop
from blizzard.service.turns import InTurn, Turns
from blizzard.spark.session import fair_settings
from tests.flows.fleets import FleetFolder, Readers, run_once, running
from tests.flows.in_process import Flow, InProcessIngestor
from tests.flows.operating import LONGEST_S, ask, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    return FleetFolder(tmp_path)


def test_every_pipeline_is_drained_once(folder: FleetFolder, readers: Readers) -> None:
    for number, name in enumerate(("a", "b", "c")):
        folder.add(name).put(name, number * 10, number * 10 + 5)
    summary = run_once(folder)
    assert (summary.status, summary.exit_code, summary.error) == ("done", 0, None)
    assert {name: s.records for name, s in summary.pipelines.items()} == {"a": 5, "b": 5, "c": 5}
    assert [folder.ids(name) for name in "abc"] == [[*range(5)], [*range(10, 15)], [*range(20, 25)]]
    again = run_once(folder)
    assert (again.status, [s.status for s in again.pipelines.values()]) == ("idle", ["idle"] * 3)
    assert len(readers.batches) == 3


def test_new_files_are_taken_up_until_it_is_stopped(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("a", 0, 3)
    with running(folder) as fleet:
        wait_until(lambda: folder.ids("a") == [0, 1, 2])
        folder.put("b", 5, 8)
        folder.put("a", 3, 6, "b.ndjson")
        wait_until(lambda: (folder.ids("a"), folder.ids("b")) == ([*range(6)], [5, 6, 7]))
        summary = fleet.stop()
    assert (summary.status, summary.exit_code) == ("stopped", 0)
    assert [s.status for s in summary.pipelines.values()] == ["stopped", "stopped"]
    assert len(readers.batches) == 3


def test_no_more_read_at_once_than_may(folder: FleetFolder, readers: Readers) -> None:
    names = [f"p{i}" for i in range(6)]
    folder.top["fleet"] = {"max_active": 2}
    together = threading.Barrier(2, timeout=LONGEST_S)  # nobody goes on alone: so two do read at once
    for name in names:
        folder.add(name).put(name, 0, 2)
        readers.hooks[name] = together.wait
    assert run_once(folder).status == "done"
    assert readers.at_once == 2
    assert all(folder.ids(name) == [0, 1] for name in names)


def test_a_long_backlog_lets_the_others_read_between_its_batches(folder: FleetFolder, readers: Readers) -> None:
    folder.top |= {"fleet": {"max_active": 1}, "limits": {"max_files": 1, "max_inflight": 1}}
    for number in range(8):
        folder.add("long").put("long", number, number + 1, f"{number}.ndjson")
    folder.add("small").put("small", 0, 1)
    begun = threading.Event()

    def wait_for_the_other() -> None:
        begun.set()
        wait_until(lambda: fleet.fleet.turns.waiting == 1 or "small" in readers.batches)

    readers.hooks["long"] = wait_for_the_other
    readers.hooks["small"] = lambda: None
    with running(folder, follows=False) as fleet:
        fleet.thread.join(LONGEST_S)
    assert folder.ids("long") == list(range(8))
    assert readers.batches.index("small") <= 1  # not after the whole backlog of the other


def test_who_waits_for_a_turn_gives_it_up_when_it_is_stopped(folder: FleetFolder, readers: Readers) -> None:
    folder.top["fleet"] = {"max_active": 1}
    folder.add("a").put("a", 0, 1)
    folder.add("b").put("b", 0, 1)
    free = threading.Event()
    for name in ("a", "b"):
        readers.hooks[name] = lambda: free.wait(LONGEST_S)
    with running(folder) as fleet:
        wait_until(lambda: sorted(fleet.row(n)["activity"] for n in "ab") == ["queued", "reading"])
        (queued,) = [n for n in "ab" if fleet.row(n)["activity"] == "queued"]
        assert fleet.row(queued)["waits_for"] == "its turn to read"
        assert ask(f"{fleet.url}/pipelines/{queued}/stop", "POST").json == {"state": "stopping"}
        row = fleet.wait_for(queued, "stopped")
        assert (row["waits_for"], row["last_error"]) == ("a resume", None)
        free.set()
    assert (folder.ids(queued), len(readers.batches)) == ([], 1)
    assert fleet.summary.exit_code == 0


def test_a_batch_that_is_cancelled_while_it_waits_for_its_turn_does_not_end_well(tmp_path: Path) -> None:
    """The one before it has failed: what this one would have read is not committed, and it must not look drained."""

    class Cancelled(NeverStop):
        def must_cancel(self) -> bool:
            return True

    turns, done, plan = Turns(0), list[str](), BatchPlan(tasks=(), frontier=())
    waiting = InTurn(ingestor=InProcessIngestor(Flow(tmp_path).spec()), turns=turns, does=done.append)
    with pytest.raises(Temporary, match="the batch was cancelled") as cancelled:
        waiting.run(plan, ticket=BatchTicket(sequence=1, planned_ms=0, table_id="t"), stop=Cancelled())
    assert (cancelled.value.kind, turns.waiting, done) == ("interrupted", 0, ["queued", "working"])


def test_one_that_is_stopped_can_be_started_again(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("a", 0, 2)
    with running(folder) as fleet:
        wait_until(lambda: folder.ids("a") == [0, 1])
        ask(f"{fleet.url}/pipelines/a/stop", "POST")
        fleet.wait_for("a", "stopped")
        folder.put("a", 2, 4, "b.ndjson")
        folder.put("b", 7, 8)
        wait_until(lambda: folder.ids("b") == [7])
        assert folder.ids("a") == [0, 1]
        assert ask(f"{fleet.url}/pipelines/a/resume", "POST").json == {"state": "resuming"}
        wait_until(lambda: folder.ids("a") == [0, 1, 2, 3])
    assert fleet.summary.pipelines["a"].records == 4


def test_pause_resume_and_checkpoint_are_of_one_pipeline(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("a", 0, 1)
    folder.put("b", 0, 1)
    with running(folder) as fleet:
        wait_until(lambda: folder.ids("a") == folder.ids("b") == [0])
        assert ask(f"{fleet.url}/pipelines/a/pause", "POST").json == {"state": "pausing"}
        fleet.wait_for("a", "paused")
        folder.put("a", 1, 2, "b.ndjson")
        folder.put("b", 1, 2, "b.ndjson")
        wait_until(lambda: folder.ids("b") == [0, 1])
        assert (folder.ids("a"), fleet.state("a"), fleet.state("b")) == ([0], "paused", "running")
        wait_until(lambda: fleet.row("b")["sequence"] == 2)
        assert ask(f"{fleet.url}/pipelines/b/checkpoint", "POST").json == {"state": "running", "sequence": 3}
        ask(f"{fleet.url}/pipelines/a/resume", "POST")
        wait_until(lambda: folder.ids("a") == [0, 1])


def test_a_session_that_dies_ends_all_of_them(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("a", 0, 1)

    def lose() -> None:
        raise SparkGone("the session died")

    readers.hooks["a"] = lose
    with running(folder) as fleet:
        fleet.thread.join(LONGEST_S)
        assert not fleet.thread.is_alive()
    summary = fleet.summary
    assert (summary.status, summary.exit_code, summary.error_kind) == ("failed", 75, "spark_gone")
    assert summary.pipelines["b"].status == "stopped"


def test_while_it_ends_nothing_is_started_again(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("b", 0, 1)
    reading, free = threading.Event(), threading.Event()

    def wait_for_it() -> None:
        reading.set()
        free.wait(LONGEST_S)

    readers.hooks["b"] = wait_for_it
    with running(folder) as fleet:
        assert reading.wait(LONGEST_S)
        fleet.control.stop()
        fleet.wait_for("a", "stopped")
        refusal = ask(f"{fleet.url}/pipelines/a/resume", "POST")
        assert (refusal.status, refusal.json["state"]) == (409, "stopped")
        free.set()
        fleet.thread.join(LONGEST_S)
        assert not fleet.thread.is_alive()
    assert folder.ids("b") == [0]


def test_a_signal_that_comes_before_the_pipelines_start_stops_them(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a").put("a", 0, 1)
    with running(folder) as fleet:
        fleet.control.stop()
        fleet.thread.join(LONGEST_S)
        assert not fleet.thread.is_alive()
    assert fleet.summary.status == "stopped"


def test_lines_name_their_pipeline(folder: FleetFolder, readers: Readers) -> None:
    folder.add("orders", "users").put("orders", 0, 2)
    with running(folder) as fleet:
        wait_until(lambda: min(fleet.row("orders")["cycles"], fleet.row("users")["cycles"]) > 3)
    lines = fleet.out.getvalue().splitlines()
    assert lines[0] == "2 pipelines in one process; 2 may read at once"
    assert sum(line.startswith("orders: file:///") for line in lines) == 1  # not in every cycle
    assert sum("no file of the source matches" in line for line in lines) == 1
    assert any(line.startswith("orders: batch 1: committed version 1, sequence 1: 2 records") for line in lines)
    assert {line.split(": ")[0] for line in lines[1:]} == {"orders", "users"}


def test_json_lines_name_their_pipeline(folder: FleetFolder, readers: Readers) -> None:
    folder.add("orders", "users").put("orders", 0, 2)
    with running(folder, log="json") as fleet:
        wait_until(lambda: fleet.row("orders")["cycles"] > 3 and fleet.row("users")["cycles"])
    said = [json.loads(line) for line in fleet.out.getvalue().splitlines()]
    assert said[0]["pipeline"] is None
    assert {line["pipeline"] for line in said} == {None, "orders", "users"}
    assert [line["pipeline"] for line in said if line["message"] == "committed"] == ["orders"]
    assert len([line for line in said if line["message"].startswith("pipeline orders: ")]) == 1


def test_under_connect_it_says_that_there_are_no_pools(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert fair_settings({"spark.master": "local[2]"})["spark.scheduler.mode"] == "FAIR"
    assert fair_settings({"spark.scheduler.mode": "FIFO"}) == {"spark.scheduler.mode": "FIFO"}
    assert fair_settings({"spark.remote": "sc://x"}) == {"spark.remote": "sc://x"}  # the server has its own
    folder.top["spark"] = {"remote": "sc://127.0.0.1:1"}
    folder.add("a")
    with running(folder) as fleet:
        wait_until(lambda: fleet.fleet.is_ready)
    assert "Spark Connect has no scheduler pools" in fleet.out.getvalue()


def test_metrics_of_all_pipelines_are_one_text(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a", "b").put("a", 0, 2)
    folder.put("b", 0, 1)
    with running(folder) as fleet:
        wait_until(lambda: fleet.fleet.is_ready and folder.ids("a") == [0, 1])
        ask(f"{fleet.url}/pipelines/b/pause", "POST")
        fleet.wait_for("b", "paused")
        text = ask(f"{fleet.url}/metrics").body
    assert 'blizzard_records_ingested_total{pipeline="a"} 2.0' in text
    assert 'blizzard_records_ingested_total{pipeline="b"} 1.0' in text
    assert 'blizzard_pipeline_state{pipeline="b",state="paused"} 1.0' in text
    assert 'blizzard_pipeline_state{pipeline="b",state="running"} 0.0' in text
    helps = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert len(helps) == len(set(helps)) > 20


def test_a_file_that_has_changed_is_told_and_not_read(folder: FleetFolder, readers: Readers) -> None:
    folder.add("a")
    with running(folder) as fleet:
        assert ask(f"{fleet.url}/pipelines").json["config_changed"] is False
        folder.add("b")
        _ = folder.file
        told = ask(f"{fleet.url}/pipelines").json
        assert told["config_changed"] is True
        assert [row["pipeline"] for row in told["pipelines"]] == ["a"]
