"""What goes wrong with one pipeline of a fleet stays with it: the others go on, and it says what it waits for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import Temporary
from blizzard.service import fleet as fleet_module
from blizzard.service import follow
from tests.flows.fleets import FleetFolder, Readers, Running, run_once, running
from tests.flows.in_process import Flow, write_foreign
from tests.flows.operating import ask, silent_server, wait_until
from tests.ingesting import write


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    """`good` has something to read."""
    made = FleetFolder(tmp_path).add("good", "bad")
    made.put("good", 0, 2)
    return made


def check_the_others_go_on(fleet: Running, folder: FleetFolder) -> None:
    wait_until(lambda: folder.ids("good") == [0, 1])
    folder.put("good", 2, 4, "b.ndjson")
    wait_until(lambda: folder.ids("good") == [0, 1, 2, 3])
    assert fleet.state("good") == "running"
    health = ask(f"{fleet.url}/health")
    assert (health.status, health.json["failing"]) == (200, ["bad"])


def refused(folder: FleetFolder, readers: Readers) -> None:
    """Its table has data of somebody else."""
    flow = Flow(folder.folder / "bad", pipeline="other")
    flow.place.create("other")
    write_foreign(flow.table, 1, 2)
    folder.put("bad", 0, 2)


def full_of_bad_lines(folder: FleetFolder, readers: Readers) -> None:
    write(folder.src("bad") / "a.ndjson", b"nonsense\n" * 10)


def without_a_source(folder: FleetFolder, readers: Readers) -> None:
    folder.src("bad").rmdir()


def with_a_schema_that_is_none(folder: FleetFolder, readers: Readers) -> None:
    folder.add("bad", schema={"ddl": "id NUMBER OF THINGS"})


def fenced(folder: FleetFolder, readers: Readers) -> None:
    """Each time it reads, another driver of the same pipeline is faster."""
    folder.put("bad", 0, 2)
    other = Flow(folder.folder / "bad", pipeline="bad")

    def be_faster() -> None:
        other.run(start_from=None)
        folder.put("bad", 0, 2, f"{other.runs}.ndjson")

    readers.hooks["bad"] = be_faster


def with_a_defect(folder: FleetFolder, readers: Readers) -> None:
    folder.put("bad", 0, 2)

    def fail() -> None:
        raise ValueError("nobody has thought of this")

    readers.hooks["bad"] = fail


class Panic(BaseException):
    """What a panic in Rust is to Python."""


def with_a_panic(folder: FleetFolder, readers: Readers) -> None:
    folder.put("bad", 0, 2)

    def fail() -> None:
        raise Panic("index out of bounds")

    readers.hooks["bad"] = fail


WAYS = {
    "table_has_data": (refused, 3),
    "mostly_bad": (full_of_bad_lines, 5),
    "source_not_found": (without_a_source, 2),
    "schema": (with_a_schema_that_is_none, 2),
    "fenced": (fenced, 4),
    "internal": (with_a_defect, 1),
}


@pytest.mark.parametrize("kind", WAYS)
def test_what_needs_a_person_is_told_and_tried_again_slowly(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(follow, "_SHORTEST_FOR_A_PERSON_S", 1000.0)
    make, code = WAYS[kind]
    make(folder, readers)
    with running(folder) as fleet:
        fleet.wait_for("bad", "failed")
        wait_until(lambda: fleet.row("bad")["next_try_at_ms"])
        row = fleet.row("bad")
        assert (row["error_kind"], row["needs_person"], row["failures"]) == (kind, True, 1)
        assert row["last_error"].endswith(f"[{kind}]")
        assert row["waits_for"] == "a person; tried again by itself, or at once by a resume"
        assert row["next_try_at_ms"] > time.time() * 1000 + 1_900_000
        check_the_others_go_on(fleet, folder)
        assert fleet.row("bad")["failures"] == 1
        summary = fleet.stop()
    assert (summary.status, summary.exit_code, summary.error_kind) == ("failed", code, kind)
    assert (summary.error or "").startswith("pipeline 'bad': ")
    assert (summary.pipelines["good"].status, summary.pipelines["good"].records) == ("stopped", 4)


def test_a_panic_is_an_error_of_its_pipeline(folder: FleetFolder, readers: Readers) -> None:
    with_a_panic(folder, readers)
    with running(folder) as fleet:
        row = fleet.wait_for("bad", "failed")
        assert row["error_kind"] == "internal"
        assert "index out of bounds" in row["last_error"]
        wait_until(lambda: fleet.row("bad")["next_try_at_ms"])
        check_the_others_go_on(fleet, folder)


def test_what_a_person_has_mended_goes_on_at_once_with_a_resume(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_SHORTEST_FOR_A_PERSON_S", 1000.0)
    without_a_source(folder, readers)
    with running(folder) as fleet:
        fleet.wait_for("bad", "failed")
        folder.put("bad", 5, 7)
        ask(f"{fleet.url}/pipelines/bad/resume", "POST")
        row = fleet.wait_for("bad", "running")
        wait_until(lambda: folder.ids("bad") == [5, 6])
        assert (row["last_error"], row["error_kind"], row["next_try_at_ms"]) == (None, None, None)
        summary = fleet.stop()
    assert (summary.status, summary.exit_code) == ("stopped", 0)


def test_what_a_person_has_mended_goes_on_by_itself(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_SHORTEST_FOR_A_PERSON_S", 0.05)
    monkeypatch.setattr(follow, "_LONGEST_FOR_A_PERSON_S", 0.05)
    without_a_source(folder, readers)
    with running(folder) as fleet:
        wait_until(lambda: fleet.row("bad")["failures"] > 2)
        folder.put("bad", 5, 7)
        wait_until(lambda: folder.ids("bad") == [5, 6])


def test_what_may_pass_is_retried_and_no_matter_for_a_person(folder: FleetFolder, readers: Readers) -> None:
    folder.put("bad", 0, 2)
    tries: list[int] = []

    def fail_twice() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise Temporary("the network is down", kind=Kind.STORE_UNAVAILABLE)

    readers.hooks["bad"] = fail_twice
    with running(folder) as fleet:
        wait_until(lambda: folder.ids("bad") == [0, 1])
        assert len(tries) == 3
        assert fleet.wait_for("bad", "running")["needs_person"] is False
    assert "bad: warning: the network is down [store_unavailable]; looking again in 0 s" in fleet.out.getvalue()
    assert fleet.summary.exit_code == 0


def test_the_exit_code_is_that_of_the_first_that_needs_a_person(folder: FleetFolder, readers: Readers) -> None:
    """In the order of the file; what may pass by itself comes last."""
    folder.add("passing", "lost").put("passing", 0, 1)
    folder.put("lost", 0, 1)

    def fail() -> None:
        raise Temporary("the network is down", kind=Kind.STORE_UNAVAILABLE)

    readers.hooks["passing"] = fail
    folder.pipelines = {name: folder.pipelines[name] for name in ("good", "passing", "bad", "lost")}
    full_of_bad_lines(folder, readers)
    folder.src("lost").joinpath("a.ndjson").unlink()
    folder.src("lost").rmdir()
    summary = run_once(folder)
    assert {name: s.exit_code for name, s in summary.pipelines.items()} == {
        "good": 0,
        "passing": 75,
        "bad": 5,
        "lost": 2,
    }
    assert (summary.exit_code, summary.error_kind) == (5, "mostly_bad")
    assert (summary.error or "").endswith("2 more failed.")
    for name in ("bad", "lost"):
        del folder.pipelines[name]
    assert run_once(folder).exit_code == 75


def test_a_store_that_never_answers_holds_up_nobody(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one turn only: who waits for an answer has none."""
    monkeypatch.setattr(fleet_module, "_GIVING_UP_S", 3)  # the good one may be slow to end
    folder.top |= {"stop_grace_s": 0.5, "fleet": {"max_active": 1}}
    with silent_server() as address:
        options = {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "bcdefgh",
        }
        for name in ("bad", "worse"):
            folder.add(name, source={"path": f"s3://bucket/{name}", "storage_options": options})
        with running(folder) as fleet:
            wait_until(lambda: folder.ids("good") == [0, 1])
            assert {fleet.row(name)["activity"] for name in ("bad", "worse")} == {"working"}
            folder.put("good", 2, 4, "b.ndjson")
            wait_until(lambda: folder.ids("good") == [0, 1, 2, 3])
            assert ask(f"{fleet.url}/pipelines").status == 200
            assert ask(f"{fleet.url}/").status == 200
            summary = fleet.stop()
    assert (summary.exit_code, summary.pipelines["bad"].error_kind) == (75, "interrupted")
    assert summary.pipelines["good"].status == "stopped"


def test_a_table_that_never_answers_holds_up_nobody(
    folder: FleetFolder, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "_GIVING_UP_S", 0.5)
    folder.top["stop_grace_s"] = 0.5
    folder.put("bad", 0, 1)
    with silent_server() as address:
        options = {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "bcdefgh",
        }
        folder.add("bad", table={"path": "s3://bucket/table", "storage_options": options})
        with running(folder) as fleet:
            wait_until(lambda: folder.ids("good") == [0, 1])
            assert fleet.row("bad")["activity"] == "working"
            fleet.stop()


def test_if_all_of_them_fail_a_restart_may_help(folder: FleetFolder, readers: Readers) -> None:
    del folder.pipelines["good"]
    folder.put("bad", 0, 1)
    run_once(folder)  # only a pipeline that has a position can be paused
    folder.put("bad", 1, 2, "b.ndjson")

    def fail() -> None:
        raise Temporary("the network is down", kind=Kind.STORE_UNAVAILABLE)

    readers.hooks["bad"] = fail
    with running(folder) as fleet:
        wait_until(lambda: ask(f"{fleet.url}/health").status == 503)
        assert fleet.state("bad") == "retrying"
        assert ask(f"{fleet.url}/ready").json == {"ready": True}
        ask(f"{fleet.url}/pipelines/bad/pause", "POST")
        fleet.wait_for("bad", "paused")
        assert ask(f"{fleet.url}/health").status == 200
