"""A run and its API together: what it tells is what is in the log, and what is asked of it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.flows.in_process import Flow
from tests.flows.operating import InProcessOperation, ask, going, wait_until
from tests.ingesting import ids, write_ids

ADDRESS: dict[str, Any] = {"api.address": "127.0.0.1:0"}


def test_a_run_that_follows_is_paused_resumed_and_stopped(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS)
    with going(operation) as (url, thread):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        assert ask(f"{url}/health").json["state"] == "running"
        assert ask(f"{url}/pause", "POST").json == {"state": "paused"}
        assert ask(f"{url}/status").json["state"] == "paused"
        wait_until(lambda: operation.control.is_paused)
        cycles = ask(f"{url}/status").json["cycles"]
        write_ids(flow.src / "b.ndjson", 3, 6)
        assert ask(f"{url}/status").json["cycles"] <= cycles + 1  # the one under way may have ended
        assert ids(flow.table) == [0, 1, 2]
        ask(f"{url}/resume", "POST")
        wait_until(lambda: ask(f"{url}/status").json["sequence"] == 2)
        assert ids(flow.table) == list(range(6))
        newest = ask(f"{url}/checkpoints").json["checkpoints"][0]
        assert (newest["sequence"], newest["records"]) == (2, 3)
        assert 'blizzard_sequence{pipeline="p"} 2.0' in ask(f"{url}/metrics").body
        assert ask(f"{url}/checkpoint", "POST").json == {"state": "running", "sequence": 3}
        assert ask(f"{url}/stop", "POST").json == {"state": "stopping"}
        thread.join(20)
        assert not thread.is_alive()
    assert (operation.summary.status, operation.summary.records) == ("stopped", 3)


def test_the_page_is_there_before_the_table_is(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.src.mkdir()
    with going(InProcessOperation(flow, ADDRESS | {"schema.ddl": "id BIGINT"})) as (url, _):
        page = ask(url)
        assert page.status == 200
        assert "There is no table yet" in page.body


def test_the_page_follows_the_log(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS)
    with going(operation) as (url, _):
        assert 'data-version="1"' in ask(url).body
        write_ids(flow.src / "b.ndjson", 3, 6)
        wait_until(lambda: 'data-version="2"' in ask(url).body)


def test_a_pause_does_not_end_a_run_that_would_end_by_itself(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(3):
        write_ids(flow.src / f"{number}.ndjson", number * 3, number * 3 + 3)
    operation = InProcessOperation(flow, ADDRESS | {"limits.max_files": 1})
    operation.settings = {"limits": operation._assembly.config.batch_limits, "while_reading": operation.control.pause}
    with going(operation, follows=False) as (url, thread):
        wait_until(lambda: ask(f"{url}/status").json["sequence"] == 1)
        thread.join(0.3)
        assert thread.is_alive()
        operation.settings["while_reading"] = lambda: None
        ask(f"{url}/resume", "POST")
        thread.join(20)
        assert not thread.is_alive()
    assert (operation.summary.status, operation.summary.commits) == ("done", 3)
    assert ids(flow.table) == list(range(9))


def test_a_paused_run_does_not_spin_and_still_stops(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS | {"follow.poll_s": 0})
    looks: list[float] = []
    wait = operation.control.wait

    def counted(seconds: float) -> None:
        looks.append(seconds)
        wait(seconds)

    operation.control.wait = counted  # type: ignore[method-assign]
    operation.control.pause()
    with going(operation) as (url, thread):
        thread.join(0.3)
        assert len(looks) <= 2
        ask(f"{url}/stop", "POST")
        thread.join(20)
        assert not thread.is_alive()
