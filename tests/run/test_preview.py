"""`blizzard plan` shows what the run after it does, and changes nothing."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.types import BatchPlan
from blizzard.errors import BlizzardError
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.after_ingest import Cleaning, Outcome
from blizzard.run.summary import Summary
from blizzard.source.cleaning import SourceCleaner
from tests.flows.in_process import Flow, clean_up_log, newest, touch_again, write_foreign
from tests.ingesting import line, write_ids

NAMES = st.sampled_from([f"{part}{name}.ndjson" for part in ("", "r=x/", "r=y/") for name in "abcdef"])
ACTIONS = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.sampled_from(["empty", "link", "rewrite", "remove"]), NAMES),
    st.tuples(st.sampled_from(["run", "run", "foreign", "cleanup"]), st.just("")),
)
POLICIES = st.builds(
    LatePolicy,
    late=st.sampled_from(["ingest", "ingest", "ingest", "quarantine", "ignore", "fail"]),
    rewritten=st.sampled_from(["report", "report", "ingest", "quarantine", "ignore", "fail"]),
    unclear=st.sampled_from(["fail", "ingest", "ignore"]),
    relist_max_names=st.sampled_from([0, 10_000]),
)
LIMITS = st.builds(
    Limits, max_files=st.sampled_from([1, 3, 100]), max_records=st.sampled_from([None, 2]), interval_s=st.none()
)


@dataclass
class History:
    """Files come, change and go, runs read some of them; ids are never used twice."""

    flow: Flow
    next_id: int = 0

    def step(self, action: str, name: str, **run: Any) -> None:
        path = self.flow.src / name
        match action:
            case "write" if not path.exists():
                write_ids(path, self.next_id, self.next_id + 5)
            case "empty" if not path.exists():
                write_ids(path, 0, 0)
            case "link" if not path.exists():
                staged = self.flow.folder / f"staged-{self.next_id}"
                write_ids(staged, self.next_id, self.next_id + 2)
                path.parent.mkdir(exist_ok=True)
                os.link(staged, path)
            case "rewrite" if path.exists():
                touch_again(path, line(self.next_id))
            case "remove" if path.exists():
                path.unlink()
            case "foreign" if self.flow.table.exists():
                write_foreign(self.flow.table, 10_000 + self.next_id)
            case "cleanup" if self.flow.table.exists():
                clean_up_log(self.flow.table)
            case "run":
                self.run(**run)
        self.next_id += 5

    def run(self, **run: Any) -> str | None:
        """The kind of error it ended with."""
        try:
            self.flow.run(**run)
        except BlizzardError as e:
            return e.kind
        return None


def planned_by(plan: BatchPlan | None) -> list[dict[str, Any]]:
    return [
        {"slot": task.slot, "path": s.path, "from_record": s.from_record, "size": s.size_bytes, "framing": s.framing}
        | ({} if s.given_up is None else {"given_up": s.given_up})
        for task in (plan.tasks if plan is not None else ())
        for s in task.slices
    ]


def version_of(flow: Flow) -> int | None:
    return newest(flow.table) if flow.table.exists() else None


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*") if p.is_file()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    actions=st.lists(ACTIONS, max_size=14),
    policy=POLICIES,
    limits=LIMITS,
    slots=st.sampled_from([1, 3]),
    marks_per=st.sampled_from([None, "r"]),
    later_ms=st.sampled_from([0, 120_000, 3 * 3_600_000]),
    jump_ms=st.sampled_from([0, 120_000, 7_200_000]),
)
def test_the_first_batch_of_a_plan_is_the_first_batch_of_the_run(
    actions: list[tuple[str, str]],
    policy: LatePolicy,
    limits: Limits,
    slots: int,
    marks_per: str | None,
    later_ms: int,
    jump_ms: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flow = Flow(Path(folder), marks_per=marks_per, later_ms=later_ms)
        flow.src.mkdir()
        history = History(flow)
        for action, name in actions:
            history.step(action, name, limits=limits, slots=slots, max_batches=2)
        flow.later_ms = later_ms + jump_ms
        before, version = everything_below(flow.folder), version_of(flow)
        flow.told.warnings.clear()
        flow.run(plans_only=True, late=policy, limits=limits, slots=slots)
        plan, told = flow.planned, list(flow.told.warnings)
        assert everything_below(flow.folder) == before

        flow.told.plans.clear()
        flow.told.warnings.clear()
        summary = Summary()
        error = history.run(late=policy, limits=limits, slots=slots, summary=summary)
        first = planned_by(flow.told.plans[0] if flow.told.plans else None)
        assert plan.get("first_batch", []) == first
        assert flow.told.warnings[: len(told)] == told
        if "error" in plan:
            assert (plan["error_kind"], first) == (error, [])
            return
        assert (len(plan["late_files"]), len(plan["rewritten_files"])) == (summary.late_files, summary.rewritten_files)
        assert plan["creates_table"] == (version is None and flow.table.exists())
        if version is not None and not first:
            assert (newest(flow.table) > version) == plan["renewal"]


def test_a_late_file_a_held_one_and_what_is_left_over_are_shown(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "m.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=4), slots=1, max_batches=1)
    write_ids(flow.src / "n.ndjson", 10, 20)
    flow.run(limits=Limits(max_records=8), slots=1, max_batches=1)
    flow.later_ms = 0
    write_ids(flow.src / "b.ndjson", 50, 53)
    (flow.src / "z.ndjson").write_bytes(b"")
    flow.run(plans_only=True)
    shown = flow.planned
    assert {s["path"]: s["from_record"] for s in shown["first_batch"]} == {"b.ndjson": 0, "n.ndjson": 2}
    assert (shown["late_files"], list(shown["held_files"])) == (["b.ndjson"], ["z.ndjson"])
    sizes = [(flow.src / name).stat().st_size for name in ("b.ndjson", "n.ndjson", "z.ndjson")]
    assert (shown["backlog_files"], shown["backlog_bytes"]) == (3, sum(sizes))


def test_what_is_settled_and_cleaned_before_the_first_batch_is_said_and_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    (flow.src).mkdir()
    (flow.src / "a.ndjson").write_bytes(line(1) + b"bad\n")
    with monkeypatch.context() as patched:
        patched.setattr(DeltaRsQuarantine, "settle", lambda _self, _state: None)  # as if it had died there
        flow.run()
    flow.run(plans_only=True)
    assert (flow.planned["settles"], flow.quarantined()) == ([{"sequence": 1, "files": 1}], [])
    flow.run()
    flow.run(plans_only=True)
    assert flow.planned["settles"] == []
    write_ids(flow.src / "b.ndjson", 10, 13)
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=0)
    # As if it had died before it cleaned anything.
    with monkeypatch.context() as patched:
        patched.setattr(Cleaning, "run", lambda *_: Outcome(is_complete=False))
        flow.run(cleaning=cleaning)
    flow.run(plans_only=True, cleaning=cleaning)
    assert (flow.planned["cleans_through"], flow.planned["renewal"]) == (1, True)
    assert (flow.src / "a.ndjson").exists()


def command(flow: Flow, *more: str) -> list[str]:
    return ["plan", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p", *more]


def test_the_command_shows_late_files_and_that_none_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "m.ndjson", 0, 3)
    assert main(command(flow, "--schema", "id BIGINT, name STRING", "--set", "source.pattern=*.csv", "--json")) == 0
    shown, err = capsys.readouterr()
    assert (json.loads(shown)["listed_files"], json.loads(shown)["first_batch"]) == (0, [])
    assert "no file of the source matches" in err
    assert main(command(flow, "--infer", "--set", "source.pattern=*.csv")) == 0
    shown, err = capsys.readouterr()
    assert "no file matches the pattern" in shown
    assert "no file of the source matches" in err
    flow.run()
    write_ids(flow.src / "b.ndjson", 50, 53)
    assert main(command(flow)) == 0
    shown = capsys.readouterr().out
    assert "late        1 file: b.ndjson" in shown
    assert shown.count("b.ndjson") == 2
    assert main(command(flow, "--json", "--set", "late_files.policy=fail")) == 5
    assert json.loads(capsys.readouterr().out)["error_kind"] == "late_files"
    assert main(command(flow, "--set", "late_files.policy=fail")) == 5


def test_status_counts_a_late_file_as_a_run_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "m.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=4), slots=1, max_batches=1)
    write_ids(flow.src / "b.ndjson", 50, 53)
    status = ["status", "--source", str(flow.src), "--table", str(flow.table), "--json"]
    assert main(status) == 0
    shown = json.loads(capsys.readouterr().out)["pipelines"][0]
    assert (shown["backlog_files"], shown["late_files"], shown["recovery"]) == (2, 1, "log")
    flow.run(plans_only=True)
    assert flow.planned["backlog_files"] == 2
    touch_again(flow.src / "m.ndjson", line(7))
    assert main(status) == 0
    shown = json.loads(capsys.readouterr().out)["pipelines"][0]
    assert shown["recovery"] == "refused"
    assert "has changed" in shown["recovery_message"]
    flow.run(plans_only=True)
    assert flow.planned["error_kind"] == "source_changed"
