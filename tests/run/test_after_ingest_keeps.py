"""A source file that has the only copy of a line is never archived or deleted, whatever after_ingest says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.core.bad import BadPolicy
from blizzard.core.kinds import Kind
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.errors import OutOfStep, Temporary
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.after_ingest import Cleaning
from blizzard.run.summary import Summary
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import open_store
from tests.flows.backups import realigned
from tests.flows.in_process import Flow, log_file, newest, touch_again
from tests.flows.replaying import STRICT, mendable, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import commit_actions, ids, line, write, write_ids

DAY_MS = 86_400_000
BAD = b'{"id":"seven"}\n'
SHORT_LINES = {"max_record_bytes": 1 << 16}
LONG_LINE = b'{"id":1,"name":"' + b"x" * (1 << 17) + b'"}\n'


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def deleting(flow: Flow) -> Cleaning:
    return Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS)


def archiving(flow: Flow) -> Cleaning:
    return Cleaning(
        cleaner=SourceCleaner(source=flow.source.location, archive=open_store(str(flow.folder / "kept"))),
        keep_ms=DAY_MS,
    )


def clean(flow: Flow, how: Callable[[Flow], Cleaning] = deleting, **settings: Any) -> Summary:
    """A run that says what is due, and one that finds nothing left to do."""
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=how(flow), **settings)
    return flow.run(cleaning=how(flow), **settings)


def sources(flow: Flow) -> list[str]:
    return sorted(str(path.relative_to(flow.src)) for path in flow.src.rglob("*.ndjson*"))


def told(flow: Flow, name: str) -> str:
    return next(text for text in flow.told.warnings if text.startswith(name))


@pytest.mark.parametrize("how", [deleting, archiving])
def test_a_line_too_long_for_the_quarantine_keeps_its_file(flow: Flow, how: Callable[[Flow], Cleaning]) -> None:
    write(flow.src / "a.ndjson", line(0) + LONG_LINE)
    write(flow.src / "b.ndjson", line(2) + BAD)
    write_ids(flow.src / "c.ndjson", 3, 6)
    flow.run(spec=SHORT_LINES)
    assert [row["complete"] for row in flow.quarantined()] == [False, True]
    summary = clean(flow, how, spec=SHORT_LINES)
    assert sources(flow) == ["a.ndjson"]
    assert summary.kept_files == 1
    assert "1 of its bad records" in told(flow, "a.ndjson")
    flow.told.warnings.clear()
    flow.run(cleaning=how(flow), spec=SHORT_LINES)
    assert flow.told.warnings == []  # it is not told for ever


def test_a_cut_line_in_any_slice_of_a_file_keeps_it(flow: Flow) -> None:
    """The last slice is fine, and the sequence of the first has been cleaned before."""
    write(flow.src / "a.ndjson", b"".join(map(line, range(3))))
    write(flow.src / "b.ndjson", LONG_LINE + b"".join(map(line, range(3, 9))))
    write(flow.src / "c.ndjson", b"".join(map(line, range(20, 29))))
    few: dict[str, Any] = {"limits": Limits(max_records=5), "max_batches": 1, "slots": 1, "spec": SHORT_LINES}
    flow.run(**few)
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=deleting(flow), **few)
    assert sources(flow) == ["b.ndjson", "c.ndjson"]
    flow.run(cleaning=deleting(flow), spec=SHORT_LINES)
    clean(flow, spec=SHORT_LINES)
    assert sources(flow) == ["b.ndjson"]
    assert ids(flow.table) == [*range(9), *range(20, 29)]


def test_what_a_full_quarantine_rejected_keeps_its_file(flow: Flow) -> None:
    write(flow.src / "a.ndjson", line(0) + BAD + BAD)
    write_ids(flow.src / "b.ndjson", 1, 3)
    settings: dict[str, Any] = {"max_quarantined": 1, "overflow": "reject"}
    assert flow.run(**settings).rejected == 2
    clean(flow, **settings)
    assert sources(flow) == ["a.ndjson"]


DROPPING: dict[str, Any] = {"max_quarantined": 1, "overflow": "drop_oldest"}


def three_bad_files(flow: Flow, **settings: Any) -> None:
    """Each in a batch of its own; the quarantine has room for the last one."""
    for number, name in enumerate("abc"):
        write(flow.src / f"{name}.ndjson", line(number) + BAD)
        flow.run(**DROPPING, **settings)
    assert [row["source_file"] for row in flow.quarantined()] == ["c.ndjson"]


@pytest.mark.parametrize("how", [deleting, archiving])
def test_what_had_to_leave_the_quarantine_keeps_its_file(flow: Flow, how: Callable[[Flow], Cleaning]) -> None:
    three_bad_files(flow)
    write_ids(flow.src / "d.ndjson", 3, 6)
    flow.run(**DROPPING)
    summary = clean(flow, how, **DROPPING)
    assert (sources(flow), summary.kept_files) == (["a.ndjson", "b.ndjson"], 2)
    assert "its bad records of sequence 1 had to leave the full quarantine" in told(flow, "a.ndjson was")


def test_a_file_whose_records_leave_with_the_commit_that_cleans_it_is_kept(flow: Flow) -> None:
    """The commit that says that it is due is the one that drops them."""
    write(flow.src / "a.ndjson", line(0) + BAD)
    flow.run(**DROPPING)
    flow.clock.ms += 2 * DAY_MS
    write(flow.src / "b.ndjson", line(1) + BAD)
    assert flow.run(cleaning=deleting(flow), **DROPPING).dropped_records == 1
    assert sources(flow) == ["a.ndjson", "b.ndjson"]
    clean(flow, **DROPPING)
    assert sources(flow) == ["a.ndjson"]


def test_a_file_that_was_cleaned_before_its_records_had_to_leave_is_gone(flow: Flow) -> None:
    """That is what both settings together ask for, and docs say so."""
    write(flow.src / "a.ndjson", line(0) + BAD)
    flow.run(**DROPPING)
    clean(flow, **DROPPING)
    assert sources(flow) == []
    write(flow.src / "b.ndjson", line(1) + BAD)
    assert flow.run(**DROPPING, cleaning=deleting(flow)).dropped_records == 1
    assert (ids(flow.table), [row["source_file"] for row in flow.quarantined()]) == ([0, 1], ["b.ndjson"])


def test_a_file_is_kept_if_who_dropped_its_records_was_taken_back(flow: Flow) -> None:
    three_bad_files(flow)
    roll_back(flow, 2)
    (flow.src / "c.ndjson").unlink()
    clean(flow, **DROPPING)
    assert sources(flow) == ["a.ndjson", "b.ndjson"]


def test_files_are_kept_if_what_failed_again_had_to_leave(flow: Flow) -> None:
    """A replay put it back under its own sequence, and no ledger says of which file it was."""
    write(flow.src / "a.ndjson", line(0) + mendable(1) + b"\n" + BAD)
    flow.run(spec=STRICT)
    replay_in(flow)
    assert [row["sequence"] for row in flow.quarantined()] == [2]
    write(flow.src / "b.ndjson", line(2) + BAD)
    assert flow.run(spec=STRICT, **DROPPING).dropped_records == 1
    clean(flow, spec=STRICT, **DROPPING)
    assert sources(flow) == ["a.ndjson"]


def test_what_the_policy_drops_does_not_keep_a_file(flow: Flow) -> None:
    write(flow.src / "a.ndjson", line(0) + BAD + LONG_LINE)
    drop: dict[str, Any] = {"bad": BadPolicy(records="drop"), "spec": SHORT_LINES}
    assert flow.run(**drop).bad_records == 2
    clean(flow, **drop)
    assert sources(flow) == []


def test_files_whose_bad_records_were_given_up_are_kept(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    write(flow.src / "a.ndjson", line(0) + BAD)
    write_ids(flow.src / "b.ndjson", 1, 3)
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise@1+")
    with pytest.raises(Temporary) as failed:
        flow.run()
    assert failed.value.kind == "quarantine_failed"
    monkeypatch.delenv("BLIZZARD_FAULT")
    for path in (flow.folder / "table_quarantine").glob("blizzard-*.parquet"):
        path.unlink()
    flow.clock.ms += 2 * DAY_MS
    flow.run(accepts_loss=True, cleaning=deleting(flow))
    clean(flow)
    assert sources(flow) == ["a.ndjson"]
    assert "does not have its bad records of sequence 1" in told(flow, "a.ndjson was")


def test_a_file_is_kept_where_the_quarantine_is_gone(flow: Flow) -> None:
    write(flow.src / "a.ndjson", line(0) + BAD)
    flow.run()
    write_ids(flow.src / "b.ndjson", 1, 3)
    flow.run()  # so that nothing is pending
    (flow.folder / "table_quarantine").rename(flow.folder / "elsewhere")
    with pytest.raises(OutOfStep) as refused:
        clean(flow)
    assert (refused.value.kind, sources(flow)) == ("quarantine_moved", ["a.ndjson", "b.ndjson"])
    realigned(flow, accepts_loss=True)
    clean(flow)
    assert sources(flow) == ["a.ndjson"]


def test_still_bad_after_a_replay_and_then_given_up(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay took the records out of quarantine, and what it put back got lost."""
    write(flow.src / "a.ndjson", mendable(1) + b"\n" + BAD)
    flow.run(spec=STRICT)
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise@1+")
    with pytest.raises(Temporary) as failed:
        replay_in(flow)
    assert failed.value.kind == "quarantine_failed"
    monkeypatch.delenv("BLIZZARD_FAULT")
    for path in (flow.folder / "table_quarantine").glob("blizzard-replay-*.parquet"):
        path.unlink()
    flow.clock.ms += 2 * DAY_MS
    flow.run(accepts_loss=True, cleaning=deleting(flow))
    clean(flow)
    assert flow.quarantined() == []
    assert sources(flow) == ["a.ndjson"]


def test_what_was_replayed_or_purged_does_not_keep_a_file(flow: Flow) -> None:
    write(flow.src / "a.ndjson", line(0) + mendable(1) + b"\n")
    flow.run(spec=STRICT)
    replay_in(flow)
    assert (ids(flow.table), flow.quarantined()) == ([0, 1], [])
    clean(flow)
    assert sources(flow) == []


def test_a_ledger_that_does_not_say_whether_lines_were_cut_keeps_the_file(flow: Flow) -> None:
    """As older versions wrote it."""
    write(flow.src / "a.ndjson", line(0) + BAD)
    write_ids(flow.src / "b.ndjson", 1, 3)
    flow.run()
    version = newest(flow.table)
    actions = commit_actions(flow.table, version)
    for action in actions:
        if "commitInfo" in action:
            ledger = json.loads(action["commitInfo"]["userMetadata"])
            assert [file.pop("cut", None) for file in ledger["files"]] == [0, None]
            action["commitInfo"]["userMetadata"] = json.dumps(ledger)
    log_file(flow.table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))
    clean(flow)
    assert sources(flow) == ["a.ndjson"]
    assert "does not say" in told(flow, "a.ndjson was")


def test_a_file_whose_first_ledger_is_gone_is_kept(flow: Flow) -> None:
    write(flow.src / "a.ndjson", LONG_LINE + b"".join(map(line, range(9))))
    flow.run(limits=Limits(max_records=5), max_batches=1, slots=1, spec=SHORT_LINES)
    flow.run(spec=SHORT_LINES)
    DeltaTable(str(flow.table)).create_checkpoint()
    for version in range(newest(flow.table)):
        log_file(flow.table, version).unlink()
    clean(flow, spec=SHORT_LINES)
    assert sources(flow) == ["a.ndjson"]
    assert "its first 5 lines" in told(flow, "a.ndjson was")


def test_a_file_given_up_unread_is_kept(flow: Flow) -> None:
    write_ids(flow.src / "b.ndjson", 0, 3)
    write_ids(flow.src / "c.ndjson", 3, 6)
    flow.run()
    write_ids(flow.src / "a.ndjson", 6, 9)
    touch_again(flow.src / "b.ndjson", line(7))
    write_ids(flow.src / "d.ndjson", 9, 12)
    policy: dict[str, Any] = {"late": LatePolicy(late="quarantine", rewritten="quarantine")}
    flow.run(**policy)
    clean(flow, **policy)
    assert sources(flow) == ["a.ndjson", "b.ndjson"]


def test_a_quarantine_that_cannot_be_asked_keeps_only_files_with_bad_records(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(flow.src / "a.ndjson", line(0) + BAD)
    write_ids(flow.src / "b.ndjson", 1, 3)
    flow.run()

    def fails(*_: Any) -> None:
        raise Temporary("no answer", kind=Kind.STORE_UNAVAILABLE)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaRsQuarantine, "took_in", fails)
        clean(flow)
        assert sources(flow) == ["a.ndjson"]
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == []
