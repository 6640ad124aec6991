"""What is asked of a pipeline of a fleet, in whatever state it is: what is promised is done, or it is refused."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.config.load import Config
from blizzard.core.commit import CommitRequest
from blizzard.core.kinds import Kind
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Temporary
from blizzard.service import follow
from blizzard.service.control import RunControl
from blizzard.service.fleet_control import FleetControl
from blizzard.service.member import Member
from tests.flows.fleets import FleetFolder, Readers, Running, run_once, running
from tests.flows.operating import LONGEST_S, ask, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    made = FleetFolder(tmp_path).add("a", "b")
    made.put("a", 0, 2)
    made.put("b", 0, 2)
    return made


@pytest.fixture
def refused(folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch) -> FleetFolder:
    """The table of `a` was restored: neither a run nor a pause nor a resume can go on from there."""
    monkeypatch.setattr(follow, "_SHORTEST_FOR_A_PERSON_S", 1000.0)
    run_once(folder)
    folder.put("a", 2, 4, "b.ndjson")
    run_once(folder)
    DeltaTable(folder.table("a")).restore(1)
    return folder


@pytest.fixture
def held(folder: FleetFolder, readers: Readers) -> tuple[threading.Event, threading.Event]:
    """The second batch of `a` has begun; and it may go on."""
    run_once(folder)
    folder.put("a", 2, 4, "b.ndjson")
    begun, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_go_on.wait(LONGEST_S)

    readers.hooks["a"] = hold
    return begun, may_go_on


def tell(fleet: Running, action: str, name: str = "a") -> tuple[int, str]:
    """The status of the answer, and the state in it."""
    answered = ask(f"{fleet.url}/pipelines/{name}/{action}", "POST")
    return answered.status, answered.json["state"]


def test_the_page_is_there_in_every_state(folder: FleetFolder, held: tuple[threading.Event, threading.Event]) -> None:
    begun, may_go_on = held
    with running(folder) as fleet:
        assert begun.wait(LONGEST_S)
        for action, state in ("pause", "pausing"), ("resume", "resuming"), ("stop", "stopping"):
            assert tell(fleet, action) == (202, state)
            page = ask(fleet.url)
            assert (page.status, f'warn">{state}<' in page.body) == (200, True)
        may_go_on.set()


@pytest.mark.parametrize("action", ["resume", "pause"])
def test_what_is_asked_of_one_that_goes_on_failing_does_not_hide_that_it_fails(
    refused: FleetFolder, readers: Readers, action: str
) -> None:
    with running(refused) as fleet:
        fleet.wait_for("a", "failed")
        assert tell(fleet, action)[0] == 202
        wait_until(lambda: fleet.row("a")["failures"] == 2)
        row = fleet.wait_for("a", "failed")
        assert (row["error_kind"], row["waits_for"]) == (
            "table_rewritten",
            "a person; tried again by itself, or at once by a resume",
        )
        assert row["next_try_at_ms"] is not None
        assert 'blizzard_pipeline_state{pipeline="a",state="failed"} 1.0' in ask(f"{fleet.url}/metrics").body
        assert ask(f"{fleet.url}/health").json["pipelines"]["failed"] == 1
        DeltaTable(refused.table("a")).restore(2)  # what was asked for is still wanted
        tell(fleet, action)
        fleet.wait_for("a", "running" if action == "resume" else "paused")


def test_what_is_read_while_the_batch_before_it_commits_has_the_sequence_after_that(
    folder: FleetFolder, held: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.top["limits"] = {"max_files": 1}
    folder.put("a", 4, 6, "c.ndjson")
    (begun, may_go_on), commits, may_commit = held, threading.Event(), threading.Event()
    append = DeltaRsTable.append

    def append_later(table: DeltaRsTable, request: CommitRequest) -> None:
        commits.set()
        assert may_commit.wait(LONGEST_S)
        append(table, request)

    monkeypatch.setattr(DeltaRsTable, "append", append_later)
    with running(folder) as fleet:
        assert begun.wait(LONGEST_S)
        begun.clear()
        may_go_on.set()
        assert commits.wait(LONGEST_S)
        assert begun.wait(LONGEST_S)  # sequence 3 is read, and 2 is not in the log yet
        assert ask(f"{fleet.url}/pipelines/a/checkpoint", "POST").json["sequence"] == 3
        may_commit.set()
        wait_until(lambda: fleet.row("a")["sequence"] == 3)
        assert ask(f"{fleet.url}/pipelines/a/checkpoint", "POST").json["sequence"] == 4
    assert folder.ids("a") == list(range(6))


def test_a_pipeline_that_is_stopped_takes_no_request_that_nobody_would_grant(
    folder: FleetFolder, readers: Readers
) -> None:
    with running(folder) as fleet:
        wait_until(lambda: fleet.row("a")["sequence"] == 1)
        tell(fleet, "stop")
        fleet.wait_for("a", "stopped")
        for action in ("pause", "checkpoint"):
            refusal = ask(f"{fleet.url}/pipelines/a/{action}", "POST")
            assert (refusal.status, refusal.json["state"]) == (409, "stopped")
            assert refusal.json["error"].startswith("pipeline 'a' is stopped in this process, and nobody would commit")
        assert tell(fleet, "stop") == (202, "stopped")
        assert tell(fleet, "resume") == (202, "resuming")
        wait_until(lambda: fleet.state("a") == "running")
        assert ask(f"{fleet.url}/pipelines/a").json["total"]["status"] != "stopped"


def test_one_that_is_stopping_is_not_resumed_before_it_has_stopped(
    folder: FleetFolder, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, may_go_on = held
    with running(folder) as fleet:
        assert begun.wait(LONGEST_S)
        tell(fleet, "stop")
        refusal = ask(f"{fleet.url}/pipelines/a/resume", "POST")
        assert (refusal.status, refusal.json) == (
            409,
            {"error": "pipeline 'a' is stopping. Resume it when it is stopped.", "state": "stopping"},
        )
        may_go_on.set()
        fleet.wait_for("a", "stopped")
        assert tell(fleet, "resume") == (202, "resuming")
        fleet.wait_for("a", "running")


def test_a_fleet_that_ends_when_all_is_read_resumes_nothing(folder: FleetFolder, readers: Readers) -> None:
    free = threading.Event()
    readers.hooks["b"] = lambda: free.wait(LONGEST_S)
    with running(folder, follows=False) as fleet:
        assert fleet.wait_for("a", "stopped")["waits_for"] is None
        refusal = ask(f"{fleet.url}/pipelines/a/resume", "POST")
        assert (refusal.status, refusal.json["error"]) == (
            409,
            "pipeline 'a' has ended, and so does this process. Start it again.",
        )
        free.set()


def test_a_pause_that_is_asked_for_at_the_very_end_is_committed(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, answers = Member.work, list[int]()

    def and_ask(self: Member, *, follows: bool) -> None:
        work(self, follows=follows)
        if self.name == "a" and not answers:
            answers.append(self.pause().status)

    monkeypatch.setattr(Member, "work", and_ask)
    summary = run_once(folder)
    assert (answers, summary.pipelines["a"].paused is not None, summary.pipelines["b"].paused) == ([202], True, None)
    assert run_once(folder).pipelines["a"].status == "paused"


def test_a_pause_waits_for_the_session_that_says_where_the_table_is(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(folder)
    folder.put("a", 2, 4, "b.ndjson")
    folder.pipelines["a"]["table"] = {"path": "lake.a", "committer": "delta-spark"}
    has_session = threading.Event()

    def resolve(config: Config, _: object) -> Config:
        if config.table.path != "lake.a":
            return config
        if not has_session.is_set():
            raise Temporary("the session did not start", kind=Kind.SPARK_SESSION)
        return replace(config, table=replace(config.table, path=str(folder.table("a")), committer="delta-rs"))

    monkeypatch.setattr("blizzard.service.member.resolve_table", resolve)
    with running(folder) as fleet:
        fleet.wait_for("a", "retrying")
        assert tell(fleet, "pause") == (202, "pausing")
        cycles = fleet.row("a")["cycles"]
        wait_until(lambda: fleet.row("a")["cycles"] > cycles)
        assert fleet.state("a") == "retrying"
        has_session.set()
        fleet.wait_for("a", "paused")
    assert folder.ids("a") == [0, 1]


def test_a_process_that_is_asked_to_end_while_one_is_started_again_ends(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes between the question whether it may start and its new control."""
    with running(folder) as fleet:
        wait_until(lambda: fleet.row("a")["sequence"] == 1)
        tell(fleet, "stop")
        fleet.wait_for("a", "stopped")
        member, make = fleet.fleet.members["a"], RunControl

        def after_a_signal(grace_s: float) -> RunControl:
            fleet.control.handle(signal.SIGTERM, None)
            return make(grace_s)

        monkeypatch.setattr("blizzard.service.member.RunControl", after_a_signal)
        member.resume()
        fleet.thread.join(LONGEST_S)
        assert not fleet.thread.is_alive()
    assert (fleet.summary.status, fleet.summary.exit_code) == ("stopped", 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_only_a_second_signal_gives_batches_up(is_first: bool) -> None:
    control, stopping, working = FleetControl(), RunControl(), RunControl()
    control.members = lambda: (stopping, working)
    stopping.stop_gracefully()
    stopping.stop_gracefully()
    control.handle(signal.SIGTERM, None)
    if not is_first:
        control.handle(signal.SIGTERM, None)
    assert [member.is_stopping for member in (stopping, working)] == [True, True]
    assert [member.must_cancel() for member in (stopping, working)] == [not is_first] * 2


def test_a_stop_that_is_asked_for_twice_commits_what_is_read(
    folder: FleetFolder, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, may_go_on = held
    with running(folder) as fleet:
        assert begun.wait(LONGEST_S)
        assert [tell(fleet, "stop") for _ in range(3)] == [(202, "stopping")] * 3
        assert not fleet.fleet.members["a"].control.must_cancel()
        may_go_on.set()
        fleet.wait_for("a", "stopped")
    assert (folder.ids("a"), fleet.summary.exit_code) == ([0, 1, 2, 3], 0)


def rests(control: RunControl, *, is_paused: bool) -> None:
    control.wish, control.is_paused = None, is_paused


def test_a_signal_pauses_what_works_and_resumes_what_was_paused() -> None:
    """Whoever has paused or resumed them meanwhile: by the API, by a command, or before a restart."""
    control, a, b = FleetControl(), RunControl(), RunControl()
    control.members = lambda: (a, b)

    def toggle() -> None:
        control.handle(signal.SIGUSR1, None)

    def asked() -> list[str | None]:
        return [member.wish and member.wish.value for member in (a, b)]

    for member in (a, b):
        rests(member, is_paused=True)  # the process has just started
    toggle()
    assert asked() == ["resuming", "resuming"]
    for member in (a, b):
        rests(member, is_paused=False)
    toggle()
    assert asked() == ["pausing", "pausing"]
    for member in (a, b):
        rests(member, is_paused=False)  # somebody has resumed both since
    toggle()
    assert asked() == ["pausing", "pausing"]
    rests(a, is_paused=True)
    rests(b, is_paused=False)  # it has no position, and cannot be paused
    toggle()
    assert asked() == ["resuming", "resuming"]
    rests(a, is_paused=True)
    rests(b, is_paused=False)
    toggle()
    assert asked() == ["pausing", "pausing"]
    rests(b, is_paused=False)
    b.stop()
    rests(a, is_paused=True)
    toggle()
    assert asked() == ["resuming", "resuming"]
