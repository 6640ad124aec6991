"""A run with several targets, with everything around it: what it counts, what it tells, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from blizzard.core.events import Held, OfTarget, TargetFailed
from blizzard.core.kinds import Kind
from blizzard.errors import BadData, BlizzardError, Temporary
from blizzard.run.commit import FilesGone
from blizzard.service.metrics import Metrics
from blizzard.service.resting import Resting
from blizzard.service.target_metrics import TargetMetrics
from tests.flows.fleets import running, several_in_a_fleet
from tests.flows.operating import LONGEST_S, SeveralOperation, ask, going, wait_until
from tests.ingesting import ids, write_ids

pytestmark = pytest.mark.usefixtures("in_process")
TWO: dict[str, dict[str, Any]] = {"caught_up": {}, "lagging": {}}
ONE_FILE = {"limits.max_files": 1}


def write_files(folder: Path, names: str) -> None:
    for name in names:
        first = (ord(name) - ord("a")) * 3
        write_ids(folder / "src" / f"{name}.ndjson", first, first + 3)


def lag(folder: Path, names: str = "abcdef") -> None:
    """One target has read these files, the other is new."""
    write_files(folder, names)
    SeveralOperation(folder, {"caught_up": {}}, ONE_FILE).go()


def stop_after(operation: SeveralOperation, files: int) -> None:
    if len(operation.landed) == files:
        operation.control.stop()


def stop_in_the_end(operation: SeveralOperation) -> None:
    """If one of them starved, it would go on for ever."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 50:
            operation.control.stop()

    operation.control.wait = wait  # type: ignore[method-assign]


def test_a_target_that_lags_does_not_keep_new_files_from_the_others(tmp_path: Path) -> None:
    lag(tmp_path)
    operation = SeveralOperation(tmp_path, TWO, ONE_FILE)

    def meanwhile() -> None:
        if len(operation.landed) == 1:
            write_files(tmp_path, "z")
        stop_after(operation, 8)

    operation.on_commit = meanwhile
    stop_in_the_end(operation)
    operation.go(follows=True)
    new = operation.landed.index(("caught_up", "z.ndjson"))
    assert new < operation.landed.index(("lagging", "f.ndjson"))
    assert ids(tmp_path / "caught_up") == ids(tmp_path / "lagging")


def test_a_target_that_lags_gets_its_turn_while_new_files_come_all_the_time(tmp_path: Path) -> None:
    lag(tmp_path, "abc")
    operation = SeveralOperation(tmp_path, TWO, ONE_FILE)
    names: Iterator[str] = iter("ghijklmnopqrstuvwxyz")

    def meanwhile() -> None:
        if ("lagging", "c.ndjson") in operation.landed:
            operation.control.stop()
        else:
            write_files(tmp_path, next(names, "z"))

    operation.on_commit = meanwhile
    stop_in_the_end(operation)
    operation.go(follows=True)
    assert [path for target, path in operation.landed if target == "lagging"][:3] == [
        "a.ndjson",
        "b.ndjson",
        "c.ndjson",
    ]


def test_a_run_that_ends_by_itself_goes_on_until_all_are_through(tmp_path: Path) -> None:
    lag(tmp_path)
    operation = SeveralOperation(tmp_path, TWO, ONE_FILE)
    operation.on_commit = lambda: write_files(tmp_path, "z")
    assert operation.go().status == "done"
    assert operation.landed == [("lagging", f"{name}.ndjson") for name in "abcdef"]


def test_before_its_time_has_passed_a_cycle_goes_on(tmp_path: Path) -> None:
    lag(tmp_path, "abc")
    operation = SeveralOperation(tmp_path, TWO, ONE_FILE | {"follow.poll_s": 3600})
    operation.on_commit = lambda: stop_after(operation, 3)
    operation.go(follows=True)
    assert operation._following.cycles == 1
    assert len(operation.landed) == 3


def test_a_target_that_failed_rests_and_its_batch_is_not_read_in_every_cycle(tmp_path: Path) -> None:
    write_files(tmp_path, "a")
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False, "schema.ddl": "id DATE"}}
    operation = SeveralOperation(tmp_path, targets, {})
    names: Iterator[str] = iter("bcdef")

    def meanwhile() -> None:
        name = next(names, None)
        operation.control.stop() if name is None else write_files(tmp_path, name)

    operation.on_commit = meanwhile
    summary = operation.go(follows=True)
    assert operation._following.cycles > 3
    assert operation.planned.count("bad") == 1
    assert (summary.targets["bad"].status, summary.targets["bad"].error_kind) == ("failed", "mostly_bad")
    assert len(ids(tmp_path / "good")) == 18


def test_when_a_target_is_tried_again() -> None:
    now = [0.0]
    resting = Resting(10, now_s=lambda: now[0])
    bad, down = BadData("bad", kind=Kind.MOSTLY_BAD), Temporary("down", kind=Kind.STORE_UNAVAILABLE)
    resting.learn({"a": bad, "b": down})
    first = resting.errors()
    assert {name: (type(e), str(e), e.kind) for name, e in first.items()} == {
        "a": (BadData, "bad", Kind.MOSTLY_BAD),
        "b": (Temporary, "down", Kind.STORE_UNAVAILABLE),
    }
    resting.learn(first)  # a cycle that did not try them
    now[0] = 21.0
    assert list(resting.errors()) == ["a"]
    resting.learn({"a": first["a"], "b": down})  # it was down again: twice as long
    now[0] = 60.5
    assert list(resting.errors()) == ["b"]
    resting.learn({"b": resting.errors()["b"]})  # a went well
    resting.learn({"a": bad, "b": resting.errors()["b"]})
    now[0] = 100.0
    assert list(resting.errors()) == ["a"]
    resting.end()
    assert resting.errors() == {}


def test_an_error_that_a_run_acts_on_rests_as_a_plain_one() -> None:
    resting = Resting(10)
    resting.learn({"a": FilesGone("gone", kind=Kind.FILES_GONE, further=["look there"])})
    (error,) = resting.errors().values()
    assert (type(error), str(error)) == (FilesGone.__mro__[1], "gone\nlook there")
    resting.learn({"a": KeyError("x")})
    assert type(resting.errors()["a"]) is BlizzardError


def test_what_a_run_tells_about_its_targets(tmp_path: Path) -> None:
    write_files(tmp_path, "ab")
    address: dict[str, Any] = {"api.address": "127.0.0.1:0", "follow.poll_s": 0.05}
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False, "schema.ddl": "id DATE"}}
    operation = SeveralOperation(tmp_path, targets, address)
    with going(operation) as (url, thread):
        wait_until(lambda: ask(f"{url}/status").json["cycles"] > 1)
        status = ask(f"{url}/status").json
        assert (status["commit_policy"], status["sequence"]) == ("required", None)
        good, bad = status["targets"]["good"], status["targets"]["bad"]
        assert (good["sequence"], good["is_up"], good["backlog_files"], good["last_error"]) == (1, True, 0, None)
        assert (bad["sequence"], bad["is_up"], bad["required"]) == (0, False, False)
        assert "[mostly_bad]" in bad["last_error"]
        assert ask(f"{url}/health").status == ask(f"{url}/ready").status == 200
        found = ask(f"{url}/checkpoints").json["targets"]
        assert [len(found[name]["checkpoints"]) for name in ("good", "bad")] == [1, 0]
        assert ask(f"{url}/checkpoint", "POST").json["sequences"] == {"good": 2, "bad": 1}
        metrics = ask(f"{url}/metrics").body
        assert 'blizzard_sequence{pipeline="p",target="good"} 1.0' in metrics
        assert 'blizzard_target_up{pipeline="p",target="bad"} 0.0' in metrics
        page = ask(url).body
        assert "commit_policy <b>required</b>" in page
        assert "failed in this run" in page
        assert "[mostly_bad]" in page
        assert 'data-sequence="1 0"' in page
        ask(f"{url}/stop", "POST")
        thread.join(LONGEST_S)
        assert not thread.is_alive()


def test_a_pause_and_a_resume_by_the_api_are_for_all_targets(tmp_path: Path) -> None:
    write_files(tmp_path, "a")
    operation = SeveralOperation(
        tmp_path, {"one": {}, "two": {}}, {"api.address": "127.0.0.1:0", "follow.poll_s": 0.05}
    )
    with going(operation) as (url, _):
        wait_until(lambda: len(operation.landed) == 2)
        assert ask(f"{url}/pause", "POST").status == 202
        wait_until(lambda: ask(f"{url}/status").json["state"] == "paused")
        write_files(tmp_path, "b")
        cycles = ask(f"{url}/status").json["cycles"]
        wait_until(lambda: ask(f"{url}/status").json["cycles"] > cycles)
        assert len(operation.landed) == 2
        ask(f"{url}/resume", "POST")
        wait_until(lambda: len(operation.landed) == 4)
    assert ids(tmp_path / "one") == ids(tmp_path / "two") == list(range(6))


def test_a_pipeline_of_a_fleet_may_have_several_targets(tmp_path: Path) -> None:
    with running(several_in_a_fleet(tmp_path)) as fleet:
        wait_until(lambda: fleet.row("orders")["cycles"] > 1)
        row = fleet.row("orders")
        assert (row["state"], row["sequence"], row["backlog_files"]) == ("running", None, 1)  # the bad one's
        assert (row["targets"]["good"]["sequence"], row["targets"]["bad"]["is_up"]) == (1, False)
        assert row["quarantined_records"] == 0
        (newest,) = ask(f"{fleet.url}/checkpoints").json["checkpoints"]
        assert (newest["sequence"], newest["targets"]["good"]["mark"]) == (None, "a.ndjson")
        found = ask(f"{fleet.url}/checkpoints/orders").json["targets"]
        assert [len(found[name]["checkpoints"]) for name in ("good", "bad")] == [1, 0]
        text = ask(f"{fleet.url}/metrics").body
        assert 'blizzard_target_up{pipeline="orders",target="bad"} 0.0' in text
        assert 'blizzard_pipeline_state{pipeline="orders",state="running"} 1.0' in text
        # It has never committed: how long it is behind is not known, and surely not 0.
        assert (fleet.row("orders")["lag_seconds"], fleet.row("orders")["backlog_files"]) == (None, 1)
        assert "target bad: the first batch is mostly bad" in ask(fleet.url).body
        page = ask(f"{fleet.url}/pipelines/orders/report").body
        assert "failed in this run" in page
        assert "orders: warning: bad: this target stays where it is" in fleet.out.getvalue()
    assert ids(tmp_path / "good") == [0, 1, 2]


def test_each_target_has_the_series_of_a_table_with_its_name_on_them() -> None:
    plain = {family.name: family for family in Metrics("p").registry.collect()}
    several = {family.name: family for family in TargetMetrics("p", {"a": True, "b": False}).collect()}
    assert set(several) - set(plain) == {"blizzard_target_failed", "blizzard_target_up", "blizzard_target_required"}
    assert set(plain) <= set(several)
    for name, family in plain.items():
        if name == "blizzard_errors":
            continue
        wanted = [(s.name, {**s.labels, "target": target}) for target in "ab" for s in family.samples]
        assert [(s.name, s.labels) for s in several[name].samples] == wanted
        assert (family.type, family.documentation) == (several[name].type, several[name].documentation)


def test_a_target_is_down_until_it_went_well_again() -> None:
    metrics = TargetMetrics("p", {"a": True})
    at = {"pipeline": "p", "target": "a"}

    def value(name: str, **more: str) -> float | None:
        samples = [s for f in text_string_to_metric_families(metrics.text().decode()) for s in f.samples]
        return next((s.value for s in samples if s.name == f"blizzard_{name}" and s.labels == at | more), None)

    assert (value("target_up"), value("target_required")) == (None, 1)
    metrics.see(OfTarget(target="a", event=TargetFailed(kind=Kind.COMMIT_FAILED, message="down")))
    assert (value("target_up"), value("target_failed_total", kind="commit_failed")) == (0, 1)
    assert metrics.errors == {"a": "down [commit_failed]"}
    metrics.see(OfTarget(target="a", event=Held(files=0)))
    assert (value("target_up"), metrics.errors) == (1, {})
    assert value("target_failed_total", kind="commit_failed") == 1


def test_the_textfile_has_what_became_of_each_target(tmp_path: Path) -> None:
    write_files(tmp_path, "ab")
    textfile = tmp_path / "blizzard.prom"
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False, "schema.ddl": "id DATE"}}
    SeveralOperation(tmp_path, targets, {"metrics.textfile": str(textfile)}).go()
    text = textfile.read_text()
    assert 'blizzard_records_ingested_total{pipeline="p",target="good"} 6.0' in text
    assert 'blizzard_target_failed_total{kind="mostly_bad",pipeline="p",target="bad"} 1.0' in text
    assert 'blizzard_target_required{pipeline="p",target="bad"} 0.0' in text
    assert "blizzard_errors_total{" not in text
