"""A run and its API together: what it tells is what is in the log, and what is asked of it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import Temporary
from blizzard.run.commit import Committing
from tests.flows.in_process import Flow
from tests.flows.operating import LONGEST_S, InProcessOperation, ask, going, wait_until
from tests.flows.pausing import pause, paused_in, resume
from tests.ingesting import ids, is_table, write_ids

ADDRESS: dict[str, Any] = {"api.address": "127.0.0.1:0"}


def test_a_run_that_follows_is_paused_resumed_and_stopped(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    operation = InProcessOperation(flow, ADDRESS)
    with going(operation) as (url, thread):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        assert ask(f"{url}/health").json["state"] == "running"
        assert ask(f"{url}/status").json["paused"] is None
        asked = ask(f"{url}/pause", "POST")
        assert (asked.status, asked.json) == (202, {"state": "pausing"})
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        assert (paused_in(flow), flow.open().fence("p")) != (None, 1)
        assert ask(f"{url}/status").json["paused"] == {"at_ms": since(flow), "reason": None}
        assert 'blizzard_paused{pipeline="p"} 1.0' in ask(f"{url}/metrics").body
        write_ids(flow.src / "b.ndjson", 3, 6)
        cycles = ask(f"{url}/status").json["cycles"]
        wait_until(lambda: ask(f"{url}/status").json["cycles"] > cycles + 1)
        assert ids(flow.table) == [0, 1, 2]
        assert ask(f"{url}/resume", "POST").json == {"state": "resuming"}
        wait_until(lambda: ask(f"{url}/status").json["sequence"] == 4)
        assert ids(flow.table) == list(range(6))
        newest = ask(f"{url}/checkpoints").json["checkpoints"]
        assert [(row["sequence"], row["kind"], row["records"]) for row in newest] == [
            (4, "batch", 3),
            (3, "resume", 0),
            (2, "pause", 0),
            (1, "batch", 3),
        ]
        shown = ask(f"{url}/metrics").body
        assert 'blizzard_sequence{pipeline="p"} 4.0' in shown
        assert 'blizzard_paused{pipeline="p"} 0.0' in shown
        assert 'blizzard_batch_commit_total{pipeline="p"} 1.0' in shown
        assert ask(f"{url}/checkpoint", "POST").json == {"state": "running", "sequence": 5}
        assert ask(f"{url}/stop", "POST").json == {"state": "stopping"}
        thread.join(LONGEST_S)
        assert not thread.is_alive()
    assert (operation.summary.status, operation.summary.records, operation.summary.commits) == ("stopped", 3, 1)


def since(flow: Flow) -> int:
    paused = paused_in(flow)
    assert paused is not None
    return paused.at_ms


def test_after_a_restart_a_paused_run_is_still_paused(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        ask(f"{url}/pause", "POST")
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
    write_ids(flow.src / "b.ndjson", 3, 6)
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        wait_until(lambda: ask(f"{url}/status").json["cycles"] > 1)
        assert ids(flow.table) == [0, 1, 2]
        ask(f"{url}/resume", "POST")
        wait_until(lambda: ids(flow.table) == list(range(6)))


def test_a_run_that_follows_is_paused_and_resumed_by_commands_from_elsewhere(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    with going(InProcessOperation(flow, ADDRESS)) as (url, _):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        pause(Flow(tmp_path), "from elsewhere")
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        assert ask(f"{url}/status").json["paused"]["reason"] == "from elsewhere"
        write_ids(flow.src / "b.ndjson", 3, 6)
        resume(Flow(tmp_path))
        wait_until(lambda: ids(flow.table) == list(range(6)))
        assert ask(f"{url}/status").json["state"] == "running"


def test_what_has_no_position_cannot_be_paused(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.src.mkdir()
    operation = InProcessOperation(flow, ADDRESS | {"schema.ddl": "id BIGINT"})
    with going(operation) as (url, _):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        refused = ask(f"{url}/pause", "POST")
        assert (refused.status, refused.json["state"]) == (409, "running")
        assert "has committed nothing to this table" in refused.json["error"]
        operation.control.pause()  # a signal does not wait for an answer
        wait_until(lambda: any("has committed nothing" in warning for warning in flow.told.warnings))
        write_ids(flow.src / "a.ndjson", 0, 3)
        wait_until(lambda: is_table(flow.table) and ids(flow.table) == [0, 1, 2])


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


def test_a_pause_ends_a_run_that_does_not_follow_after_its_batch(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(3):
        write_ids(flow.src / f"{number}.ndjson", number * 3, number * 3 + 3)
    operation = InProcessOperation(flow, ADDRESS | {"limits.max_files": 1})
    operation.settings = {"limits": operation._assembly.config.batch_limits, "while_reading": operation.control.pause}
    operation.go()
    assert (operation.summary.status, operation.summary.commits, operation.summary.sequence) == ("paused", 1, 2)
    assert ids(flow.table) == [0, 1, 2]
    resume(flow)
    flow.run()
    assert ids(flow.table) == list(range(9))


@pytest.mark.parametrize("follows", [False, True])
def test_a_pause_that_was_asked_for_before_a_stop_lasts(tmp_path: Path, follows: bool) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    operation = InProcessOperation(flow, {})

    def pause_and_stop() -> None:
        operation.control.pause()
        operation.control.stop()

    operation.settings = {"while_reading": pause_and_stop}
    operation.go(follows=follows)
    assert (operation.summary.status, operation.summary.records) == ("stopped", 3)
    assert operation.summary.paused == paused_in(flow) != None  # noqa: E711


def test_a_pause_that_is_asked_for_when_all_is_read_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API answers until it is closed, and the run has looked for the last time before that."""
    operation = InProcessOperation(flow := Flow(tmp_path).first_run(), {})
    work = operation._work

    def and_pause(*given: Any, **more: Any) -> None:
        work(*given, **more)
        assert operation.pause().status == 202

    monkeypatch.setattr(operation, "_work", and_pause)
    operation.go()
    assert operation.summary.paused == paused_in(flow) != None  # noqa: E711


def test_a_pause_that_cannot_be_committed_yet_is_tried_again_and_nothing_is_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    tries: list[int] = []
    commit = Committing.commit_edit

    def fail_twice(self: Committing, *given: Any, **more: Any) -> tuple[int, int]:
        tries.append(len(tries))
        if len(tries) < 3:
            raise Temporary("the store is down", kind=Kind.STORE_UNAVAILABLE)
        return commit(self, *given, **more)

    monkeypatch.setattr(Committing, "commit_edit", fail_twice)
    operation = InProcessOperation(flow, ADDRESS)
    operation.control.pause()
    with going(operation) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        assert len(tries) == 3
        assert ids(flow.table) == [0, 1, 2]


def test_a_paused_run_does_not_spin_and_still_stops(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    pause(flow)
    operation = InProcessOperation(flow, ADDRESS | {"follow.poll_s": 0})
    waits: list[float] = []
    wait = operation.control.wait

    def counted(seconds: float) -> None:
        waits.append(seconds)
        wait(seconds)

    operation.control.wait = counted  # type: ignore[method-assign]
    with going(operation) as (url, thread):
        wait_until(lambda: len(waits) > 1)
        assert set(waits) == {1.0}
        ask(f"{url}/stop", "POST")
        thread.join(LONGEST_S)
        assert not thread.is_alive()
