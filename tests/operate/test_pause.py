"""A pause that lasts: while a pipeline is paused nothing is read, and after the resume each record arrives once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.commit import CommitRequest
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import decode_ledger
from blizzard.core.plan import Limits
from blizzard.core.position import Paused
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Fenced, Refused, Temporary
from blizzard.operate.choose import apply_choice, plan_choice
from blizzard.operate.pause import reason_of
from blizzard.operate.positions import apply_edit, plan_reset, plan_skip
from blizzard.operate.transfer import export_position, import_position
from blizzard.run.after_ingest import Cleaning
from blizzard.run.assemble import Assembly
from blizzard.run.summary import Summary
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listed import ListedSource
from tests.flows.backups import Elsewhere
from tests.flows.in_process import NOW_MS, Flow, clean_up_log, newest, nothing, write_foreign
from tests.flows.pausing import pause, paused_in, pausing, resume
from tests.flows.replaying import in_quarantine, quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import commit_actions, ids, write, write_ids

DAY_MS = 86_400_000
SINCE = Paused(at_ms=NOW_MS, reason="the schema is being changed")


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Ids 0 to 2 are rows, 3 to 5 wait."""
    made = Flow(tmp_path).first_run()
    write_ids(made.src / "b.ndjson", 3, 6)
    return made


def assembly_of(flow: Flow, **config: Any) -> Assembly:
    given = {"source.path": str(flow.src), "table.path": str(flow.table)}
    return Assembly(request=make_request(make_config(given | config), pipeline=flow.pipeline), clock=flow.clock)


def arrives(flow: Flow, records: int = 6) -> None:
    flow.run()
    assert ids(flow.table) == list(range(records))


# -- a run that finds a pause -----------------------------------------------------------------------------------------


def test_a_paused_pipeline_reads_nothing_until_it_is_resumed(flow: Flow) -> None:
    done = pause(flow, SINCE.reason)
    assert (done.paused, done.changed, done.sequence, done.delta_version) == (SINCE, True, 2, 2)
    for _ in range(2):
        summary = flow.run()
        assert (summary.paused, summary.commits, summary.records) == (SINCE, 0, 0)
    assert (ids(flow.table), newest(flow.table)) == ([0, 1, 2], 2)
    assert "pipeline p is paused since 2096-10-02T07:06:40Z (the schema is being changed): nothing is read" in str(
        flow.told.notes
    )
    done = resume(flow)
    assert (done.paused, done.changed, done.sequence) == (None, True, 3)
    summary = flow.run()
    assert (summary.paused, summary.records, summary.sequence) == (None, 3, 4)
    arrives(flow)


def test_the_commit_of_a_pause_has_no_data_and_says_what_it_is(flow: Flow) -> None:
    pause(flow)
    resume(flow)
    for version, kind in (2, CommitKind.PAUSE), (3, CommitKind.RESUME):
        assert {name for action in commit_actions(flow.table, version) for name in action} == {"commitInfo", "txn"}
        (commit,) = [c for c in flow.open().commits_after(1) if c.version == version]
        ledger = decode_ledger(commit.user_metadata)
        assert ledger is not None
        assert (ledger.kind, ledger.records, ledger.entries) == (kind, 0, ())


def test_pausing_twice_changes_only_the_reason_and_resuming_twice_nothing(flow: Flow) -> None:
    assert resume(flow).changed is False
    assert newest(flow.table) == 1
    pause(flow, "first")
    flow.clock.ms += DAY_MS
    for reason in (None, "first"):
        assert pause(flow, reason).changed is False
    assert newest(flow.table) == 2
    done = pause(flow, "second")
    assert (done.changed, done.paused) == (True, Paused(at_ms=NOW_MS, reason="second"))
    assert resume(flow).changed is True
    assert resume(flow).changed is False
    assert newest(flow.table) == 4
    arrives(flow)


def test_a_source_that_cannot_be_listed_does_not_hinder_a_paused_run(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(flow)

    def cannot_be_listed(*_: object) -> None:
        raise AssertionError("the source was looked at")

    for name in ("list", "look", "now_ms"):
        monkeypatch.setattr(ListedSource, name, cannot_be_listed)
    assert flow.run().paused is not None


def test_a_paused_run_settles_what_the_last_run_left_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":0}\nbad\n')
    with monkeypatch.context() as patch:
        patch.setattr("blizzard.run.commit.settle", lambda *_, **__: None)  # as if it had died there
        flow.run()
    assert flow.quarantined() == []
    pause(flow)
    assert [row["raw"] for row in flow.quarantined()] == [b"bad"]
    flow.run()
    resume(flow)
    flow.run()
    assert [row["raw"] for row in flow.quarantined()] == [b"bad"]


def test_a_long_pause_does_not_expire(flow: Flow) -> None:
    pause(flow, "a long one")
    retention_ms = flow.open().txn_retention_ms
    assert retention_ms is not None
    for _ in range(9):
        flow.clock.ms += retention_ms // 4 + 1
        summary = flow.run()
        assert (summary.commits, summary.paused) == (0, Paused(at_ms=NOW_MS, reason="a long one"))
        clean_up_log(flow.table)
    assert flow.open().fence("p") == 2 + 9
    resume(flow)
    arrives(flow)


def test_a_pause_that_only_a_delta_checkpoint_holds_is_found_and_put_into_the_log_again(flow: Flow) -> None:
    pause(flow, "checkpoint")
    for number in range(3):
        write_foreign(flow.table, 1000 + number)
    clean_up_log(flow.table)
    summary = flow.run()
    assert (summary.recovery, summary.paused) == ("delta_checkpoint", Paused(at_ms=NOW_MS, reason="checkpoint"))
    assert paused_in(flow) == summary.paused


def test_a_paused_run_neither_deletes_source_files_nor_purges(flow: Flow) -> None:
    keep = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=0)
    pause(flow)
    flow.clock.ms += DAY_MS
    flow.run(cleaning=keep)
    assert (flow.src / "a.ndjson").exists()
    resume(flow)
    flow.run(cleaning=keep)
    flow.run(cleaning=keep)
    assert not (flow.src / "a.ndjson").exists()
    assert ids(flow.table) == list(range(6))


# -- a run that is overtaken ------------------------------------------------------------------------------------------


def test_a_run_that_is_overtaken_by_a_pause_ends_as_paused_and_nothing_of_its_batch_is_committed(flow: Flow) -> None:
    summary = flow.run(while_reading=lambda: void(pause(flow, SINCE.reason)))
    assert (summary.paused, summary.commits, summary.sequence) == (SINCE, 0, 2)
    assert ids(flow.table) == [0, 1, 2]
    assert flow.run().paused == SINCE
    resume(flow)
    arrives(flow)


def void(_: object) -> None:
    return None


def test_what_was_committed_before_the_pause_stays(flow: Flow) -> None:
    """The second of three batches is overtaken."""
    write_ids(flow.src / "c.ndjson", 6, 9)
    write_ids(flow.src / "d.ndjson", 9, 12)
    turns = iter([nothing, lambda: void(pause(flow)), nothing])

    def meanwhile() -> None:
        next(turns)()

    summary = flow.run(limits=Limits(max_files=1), while_reading=meanwhile)
    assert (summary.commits, summary.records, summary.paused is not None) == (1, 3, True)
    assert ids(flow.table) == list(range(6))
    resume(flow)
    arrives(flow, 12)


def test_a_run_that_is_paused_and_resumed_before_it_looked_goes_on_by_itself(flow: Flow) -> None:
    def hesitate() -> None:
        if newest(flow.table) < 3:
            pause(flow)
            resume(flow)

    summary = flow.run(while_reading=hesitate)
    assert (summary.paused, summary.commits, summary.records) == (None, 1, 3)
    assert ids(flow.table) == list(range(6))
    arrives(flow)


def test_a_run_is_fenced_if_another_one_has_read_since_the_resume(flow: Flow) -> None:
    def overtake() -> None:
        pause(flow)
        resume(flow)
        Flow(flow.folder, runs=100).run()

    with pytest.raises(Fenced, match="committed sequence 4"):
        flow.run(while_reading=overtake)
    arrives(flow)


def test_a_run_that_is_overtaken_by_a_pause_and_an_edit_while_paused_ends_as_paused(flow: Flow) -> None:
    def meanwhile() -> None:
        pause(flow)
        assembly, table = assembly_of(flow), flow.open()
        edit = plan_skip(assembly, table, "b.ndjson")
        apply_edit(assembly, table, edit, lambda: edit)

    assert flow.run(while_reading=meanwhile).paused is not None
    resume(flow)
    arrives(flow, 3)


def test_a_pause_wins_against_a_run_that_commits_all_the_time(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run commits first, three times, between the look and the commit of the pause."""
    append, turns = DeltaRsTable.append, iter(range(3))

    def after_a_run(self: DeltaRsTable, request: CommitRequest) -> None:
        number = next(turns, None)
        if number is not None:
            with monkeypatch.context() as patch:
                patch.setattr(DeltaRsTable, "append", append)
                write_ids(flow.src / f"x{number}.ndjson", 100 + number, 101 + number)
                Flow(flow.folder, runs=100 + number).run()
        append(self, request)

    monkeypatch.setattr(DeltaRsTable, "append", after_a_run)
    assert pause(flow).sequence == 1 + 3 + 1
    assert flow.run().paused is not None
    monkeypatch.undo()
    resume(flow)
    flow.run()
    assert ids(flow.table) == [*range(6), 100, 101, 102]


def test_a_pause_that_never_comes_first_says_so(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    def fenced(*_: object) -> None:
        raise Fenced("another run was faster")

    monkeypatch.setattr("blizzard.run.commit.Committing.commit_edit", fenced)
    with pytest.raises(Temporary, match="neither paused nor resumed"):
        pause(flow)


def test_a_lost_answer_to_a_pause_is_looked_up_in_the_log(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    append = DeltaRsTable.append

    def lose_the_answer(self: DeltaRsTable, request: CommitRequest) -> None:
        append(self, request)
        raise ConnectionError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaRsTable, "append", lose_the_answer)
        assert pause(flow).changed is True
    assert newest(flow.table) == 2
    resume(flow)
    arrives(flow)


# -- what others do meanwhile -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 2, 3], ids=["before the pause", "the pause", "after the pause"])
def test_a_rollback_leaves_a_pause_as_it_is(flow: Flow, target: int) -> None:
    pause(flow, "one")
    pause(flow, "two")
    resume(flow)
    flow.run()  # sequence 5
    pause(flow, "three")
    roll_back(flow, target)
    assert paused_in(flow) == Paused(at_ms=NOW_MS, reason="three")
    assert flow.run().records == 0
    assert ids(flow.table) == [0, 1, 2]
    resume(flow)
    arrives(flow)


def test_a_rollback_to_a_paused_position_pauses_nothing(flow: Flow) -> None:
    pause(flow)
    resume(flow)
    flow.run()
    roll_back(flow, 2)
    assert paused_in(flow) is None
    arrives(flow)


def test_reset_skip_and_choose_leave_a_pause_as_it_is(flow: Flow) -> None:
    pause(flow, SINCE.reason)
    for skips in (True, False):
        assembly, table = assembly_of(flow), flow.open()
        edit = plan_skip(assembly, table, "b.ndjson") if skips else plan_reset(assembly, table, "b.ndjson", 0)
        apply_edit(assembly, table, edit, partial(replace, edit))
        assert paused_in(flow) == SINCE
    assembly, table = assembly_of(flow, **{"source.pattern": "*.ndjson"}), flow.open()
    change = plan_choice(assembly, table)
    apply_choice(assembly, table, change, None, lambda: change)
    assert paused_in(flow) == SINCE


def test_an_import_neither_brings_a_pause_nor_takes_one_away(flow: Flow) -> None:
    free = export_position(flow.open(), "p")
    pause(flow, SINCE.reason)
    import_position(flow.open(), free, quarantine=flow.quarantine, replaces=True)
    assert paused_in(flow) == SINCE
    paused = export_position(flow.open(), "p")
    resume(flow)
    import_position(flow.open(), paused, quarantine=flow.quarantine, replaces=True)
    assert paused_in(flow) is None
    arrives(flow)


def test_a_paused_position_that_is_imported_into_a_copy_goes_on_there(flow: Flow) -> None:
    pause(flow)
    content = export_position(flow.open(), "p")
    copy = Elsewhere(flow.folder, table_at=flow.folder / "copy", quarantine_at=flow.folder / "bad")
    DeltaTable.create(str(copy.table), DeltaTable(str(flow.table)).schema())
    write_foreign(copy.table, 0, 1, 2)
    import_position(copy.open(), content, quarantine=copy.quarantine, replaces=False, is_trusted=True)
    arrives(copy)
    assert paused_in(flow) is not None


def test_an_import_over_a_damaged_pause_keeps_the_pause(flow: Flow) -> None:
    kept = export_position(flow.open(), "p")
    pause(flow, SINCE.reason)
    damage_payload(flow.table, 2)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)
    assert paused_in(flow) == SINCE


def test_a_pause_whose_payload_is_damaged_is_rebuilt_from_its_ledger(flow: Flow) -> None:
    pause(flow, SINCE.reason)
    damage_payload(flow.table, 2)
    summary = flow.run()
    assert (summary.recovery, summary.paused) == ("ledgers", SINCE)
    resume(flow)
    damage_payload(flow.table, newest(flow.table))
    summary = flow.run()
    assert (summary.recovery, summary.paused, summary.records) == ("ledgers", None, 3)
    arrives(flow)


def damage_payload(table: Path, version: int) -> None:
    path = table / "_delta_log" / f"{version:020d}.json"
    text = path.read_text()
    assert '"blizzard:' in text
    path.write_text(text.replace('"blizzard:', '"blizzard:AAAA', 1))


def test_records_in_quarantine_are_not_replayed_while_the_pipeline_is_paused(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)
    pause(flow, SINCE.reason)
    before = in_quarantine(flow)
    with pytest.raises(
        Refused, match=r"is paused since .* \(the schema is being changed\).*blizzard resume"
    ) as refusal:
        replay_in(flow)
    assert (refusal.value.kind, in_quarantine(flow), newest(flow.table)) == ("paused", before, 2)
    resume(flow)
    assert replay_in(flow).replayed == 2
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def test_a_quarantine_that_is_elsewhere_is_refused_as_for_a_run(tmp_path: Path) -> None:
    """Somebody gives the table, and not the configuration of its runs: whether something is pending cannot be seen."""
    flow = Elsewhere(tmp_path, quarantine_at=tmp_path / "bad")
    write(flow.src / "a.ndjson", b'{"id":0}\nbad\n')
    flow.run()
    with pytest.raises(Refused) as refusal:
        pause(Flow(tmp_path))
    assert (refusal.value.kind, newest(flow.table)) == ("quarantine_moved", 1)
    assert pause(flow).changed is True


def test_a_table_that_was_restored_is_refused_as_for_a_run(flow: Flow) -> None:
    flow.run()
    DeltaTable(str(flow.table)).restore(1)
    with pytest.raises(Refused, match="changed the table"):
        pause(flow)
    pausing_elsewhere = replace(pausing(flow), pipeline="q")
    with pytest.raises(ConfigError, match="'q' has committed nothing"):
        pausing_elsewhere.pause()


def test_a_pipeline_that_has_committed_nothing_has_nothing_to_pause(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.place.create("p")
    with pytest.raises(ConfigError, match="has committed nothing to this table"):
        pause(flow)
    assert newest(flow.table) == 0


@pytest.mark.parametrize(("given", "kept"), [(None, None), ("  ", None), (" why \n", "why")])
def test_a_reason_is_kept_as_it_was_given(given: str | None, kept: str | None) -> None:
    assert reason_of(given) == kept


@pytest.mark.parametrize(("given", "said"), [("x" * 501, "501 characters"), ("\udcff", "not valid text")])
def test_a_reason_that_has_no_room_in_a_position_is_refused(given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        reason_of(given)


def test_the_summary_of_a_run_says_when_and_why(flow: Flow) -> None:
    pause(flow, SINCE.reason)
    summary = Summary()
    flow.run(summary=summary)
    assert summary.to_dict()["paused"] == {"at_ms": NOW_MS, "reason": SINCE.reason}
