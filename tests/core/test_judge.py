"""What a table holds, followed version by version: against a model that knows, whatever is done in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example as hypothesis_example
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.batch import seal
from blizzard.core.codec import fence_app_id
from blizzard.core.judge import ActiveFiles, Held, Judged, Unclear, judge_history, judge_position
from blizzard.core.log import CommitFacts, FileActions, History, Txn
from blizzard.core.types import BatchResult
from blizzard.testing.positions import changed
from tests.core.test_codec import example


def add(path: str, vector: str | None = None) -> dict[str, Any]:
    return {"path": path} | ({"deletionVector": {"storageType": "u", "pathOrInlineDv": vector}} if vector else {})


@dataclass
class Model:
    """A Delta log, and what every version truly holds of the pipeline."""

    commits: list[tuple[CommitFacts, FileActions]] = field(default_factory=list)
    files: list[dict[str, dict[str, Any]]] = field(default_factory=list)  # active after each version
    rows: list[frozenset[int]] = field(default_factory=list)  # sequences whose rows belong there, after each version
    expected: dict[int, frozenset[int]] = field(default_factory=lambda: {0: frozenset()})
    superseded: set[int] = field(default_factory=set)
    sequence: int = 0
    names: int = 0

    def commit(
        self, operation: str, adds: dict[str, Any], removes: dict[str, Any], rows: frozenset[int], **facts: Any
    ) -> None:
        version = len(self.commits)
        files = {p: a for p, a in (self.files[-1] if self.files else {}).items() if p not in removes} | adds
        found = CommitFacts(version=version, timestamp_ms=version, operation=operation, **facts)
        self.commits.append((found, FileActions(version=version, adds=adds, removes=removes)))
        self.files.append(files)
        self.rows.append(rows)

    def new(self, vector: str | None = None) -> dict[str, dict[str, Any]]:
        self.names += 1
        return {f"f{self.names}": add(f"f{self.names}", vector)}

    @property
    def now(self) -> frozenset[int]:
        return self.rows[-1] if self.rows else frozenset()

    @property
    def active(self) -> dict[str, dict[str, Any]]:
        return self.files[-1] if self.files else {}

    def fits(self) -> bool:
        return self.now == self.expected[self.sequence]

    def own(self, adds: dict[str, Any], removes: dict[str, Any], rows: frozenset[int], **ledger: Any) -> None:
        self.sequence += 1
        position = example(sequence=self.sequence, delta_version=max(0, len(self.commits) - 1))
        sealed = seal(changed(position, rolled_back=None), BatchResult(), **ledger)
        txns = (Txn(app_id=sealed.app_id, version=self.sequence), Txn(app_id=fence_app_id("p"), version=self.sequence))
        operation = "DELETE" if removes else "WRITE"
        self.commit(operation, adds, removes, rows, txns=txns, user_metadata=sealed.ledger, removes_rows=bool(removes))
        self.expected[self.sequence] = rows

    def history(self, oldest: int = 0) -> History:
        kept = tuple(reversed(self.commits[oldest:]))
        return History(commits=kept, base=frozenset(self.files[oldest]))


def step(model: Model, what: str, chance: int) -> None:
    active = sorted(model.active)
    match what:
        case "batch" if model.fits():
            rows = model.now | {model.sequence + 1}
            model.own(model.new(), {}, rows)
        case "batch without rows" if model.fits():
            model.own({}, {}, model.now)
        case "append":
            model.commit("WRITE", model.new(), {}, model.now, mode="Append")
        case "compact" if active:
            model.commit("OPTIMIZE", model.new(), {p: model.active[p] for p in active}, model.now)
        case "change" if active:
            path = active[chance % len(active)]
            model.commit("UPDATE", model.new(), {path: model.active[path]}, model.now, removes_rows=True)
        case "delete a whole file" if active:
            path = active[chance % len(active)]
            model.commit("DELETE", {}, {path: model.active[path]}, model.now, removes_rows=True)
        case "delete by vector" if active:
            path = active[chance % len(active)]
            removed = {path: model.active[path]}
            model.commit("DELETE", {path: add(path, f"v{len(model.commits)}")}, removed, model.now, removes_rows=True)
        case "statistics anew" if active:
            path = active[chance % len(active)]
            model.commit("COMPUTE STATISTICS", {path: model.active[path]}, {}, model.now)
        case "restore" if model.commits:
            target = chance % len(model.commits)
            wanted = model.files[target]
            removes = {p: a for p, a in model.active.items() if wanted.get(p) != a}
            adds = {p: a for p, a in wanted.items() if model.active.get(p) != a}
            rows = model.rows[target]
            model.commit("RESTORE", adds, removes, rows, restored_to=target, removes_rows=bool(removes))
        case "roll back" if model.fits() and model.sequence > 1:
            go_back(model, chance % model.sequence)


def go_back(model: Model, to: int) -> None:
    taken = set(range(to + 1, model.sequence + 1))
    by_sequence = {
        int(f.txns[1].version): a for f, a in model.commits if f.txns and f.txns[1].version not in model.superseded
    }
    removes = {p: a for s in taken - model.superseded for p, a in by_sequence[s].adds.items()}
    if to in model.superseded or any(model.active.get(p) != a for p, a in removes.items()):
        return
    model.superseded |= taken
    rows = model.expected[to]
    model.own({}, removes, rows, kind="rollback", rolled_back_to=to, superseded=tuple(sorted(taken)))


STEPS = [
    *("batch", "batch", "batch", "batch without rows", "append", "compact", "change", "delete a whole file"),
    *("delete by vector", "statistics anew", "restore", "restore", "roll back"),
]
Steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 50)), min_size=3, max_size=25)


def held_rows(judged: Judged, version: int) -> frozenset[int] | None:
    held = judged.held[version]
    return judged.rows_after(held.sequence) if isinstance(held, Held) else None


@settings(max_examples=400, deadline=None)
@given(Steps)
def test_what_a_whole_log_tells_is_what_the_table_holds(steps: list[tuple[str, int]]) -> None:
    model = Model()
    for what, chance in [("append", 0), *steps]:
        step(model, what, chance)
    judged = judge_history(model.history(), "p")
    for version, rows in enumerate(model.rows):
        assert held_rows(judged, version) == rows, f"version {version}"
    refused = judge_position(judged, model.sequence) if model.sequence else None
    assert (refused is None) is model.fits()
    assert all(judged.files.holds(a) for a in model.active.values())


# A RESTORE to a version that is gone from the log, which looks like one that somebody made by a DELETE.
BY_CHANCE = ("batch", "batch", "batch", "compact", "delete a whole file", "batch", "delete a whole file")


@settings(max_examples=400, deadline=None)
@given(Steps, st.integers(0, 20))
@hypothesis_example([*((what, 0) for what in BY_CHANCE), ("restore", 5)], 6)
def test_what_is_left_of_a_log_never_tells_what_is_not_so(steps: list[tuple[str, int]], cut: int) -> None:
    model = Model()
    for what, chance in [("append", 0), *steps]:
        step(model, what, chance)
    oldest = min(cut, len(model.commits) - 1)
    judged = judge_history(model.history(oldest), "p")
    if not judged.own:
        return
    newest = max(judged.own)
    for sequence in range(judged.first - 1, newest + 1):
        wanted = model.expected[sequence]
        if judged.fits(sequence, judged.now) and sequence not in model.superseded:
            assert model.now == wanted, f"sequence {sequence}"


def test_a_base_that_nobody_knows_makes_a_restore_unclear() -> None:
    model = Model()
    for what in ("append", "batch", "batch"):
        step(model, what, 0)
    step(model, "restore", 1)
    history = replace(model.history(), base=None)
    assert judge_history(history, "p").now == Unclear(version=3, operation="RESTORE")


@pytest.mark.parametrize("operation", ["FSCK", "TRUNCATE", "CREATE OR REPLACE TABLE AS SELECT", "", "SOMETHING NEW"])
def test_rows_that_are_gone_for_no_known_reason_are_refused(operation: str) -> None:
    model = Model()
    for what in ("append", "batch", "batch"):
        step(model, what, 0)
    path = sorted(model.active)[1]
    model.commit(operation, {}, {path: model.active[path]}, model.now, removes_rows=True)
    judged = judge_history(model.history(), "p")
    assert judged.now == Unclear(version=3, operation=operation)
    refused = judge_position(judged, 2)
    assert refused is not None
    assert refused.kind == "table_rewritten"
    assert "RESTORE the table to version 2" in refused.message


def test_an_own_commit_without_ledger_and_payload_says_nothing() -> None:
    model = Model()
    for what in ("append", "batch", "batch"):
        step(model, what, 0)
    damaged = Txn(app_id="blizzard:damaged", version=2)
    commit, actions = model.commits[2]
    model.commits[2] = (replace(commit, user_metadata=None, txns=(damaged, commit.txns[1])), actions)
    judged = judge_history(model.history(), "p")
    assert judged.rows_after(1) == frozenset({1})
    assert judged.rows_after(2) is None


def test_files_are_told_apart_by_their_deletion_vectors() -> None:
    files = ActiveFiles(frozenset({"a"}))
    before = files.digest
    change = FileActions(version=1, adds={"a": add("a", "v1")}, removes={"a": add("a")})
    files.apply(change)
    assert files.digest != before
    assert not files.holds(add("a"))
    assert files.holds(add("a", "v1"))
    files.apply(FileActions(version=2, adds={"a": add("a")}, removes={"a": add("a", "v1")}))
    assert files.digest == before


def test_a_rollback_to_before_the_log_is_not_forgotten() -> None:
    """What is left begins after sequence 2, which a rollback took back; a RESTORE brings its rows in again."""
    model = Model()
    for what in ("append", "batch", "batch", "append", "batch"):
        step(model, what, 0)
    go_back(model, 1)  # version 5, sequence 4
    step(model, "restore", 3)  # as after sequence 2
    judged = judge_history(model.history(3), "p")
    assert judged.first == 3
    assert judged.rows_after(2) == frozenset()
    assert not judged.fits(4, judged.now)


def test_before_the_oldest_commit_of_the_pipeline_nothing_is_guessed_across_a_restore() -> None:
    model = Model()
    for what in ("append", "batch", "batch", "append"):
        step(model, what, 0)
    step(model, "restore", 1)  # version 4: as after sequence 1
    step(model, "append", 0)  # version 5, the oldest that will be left
    step(model, "restore", 3)  # version 6: as after sequence 2
    step(model, "batch", 0)  # version 7
    step(model, "restore", 5)
    judged = judge_history(model.history(5), "p")
    assert isinstance(judged.now, Unclear)
    assert not judged.fits(2, judged.now)
