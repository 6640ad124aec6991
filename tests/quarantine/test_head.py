"""Table and quarantine are one thing: a copy of one put back without the other is noticed before a record is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard import faults
from blizzard.core.codec import head_app_id, head_number, quarantine_app_id
from blizzard.core.plan import Limits
from blizzard.core.position import Position
from blizzard.errors import Refused, Temporary
from blizzard.operate.transfer import export_position, import_position
from blizzard.quarantine.contents import purge_older
from blizzard.quarantine.table import DeltaRsQuarantine
from tests.flows.backups import Elsewhere, add_file, lines, live, put_back, put_back_log, three_batches
from tests.flows.in_process import BEGINNING, Flow, log_file, newest, write_raw
from tests.flows.replaying import newest_position, quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    return three_batches(tmp_path)


def refuses(flow: Flow, kind: str) -> str:
    before = newest(flow.table), ids(flow.table), sorted(Path(flow.quarantine.root).rglob("*"))
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == kind
    assert "blizzard dlq realign --pipeline p" in str(error.value)
    assert (newest(flow.table), ids(flow.table), sorted(Path(flow.quarantine.root).rglob("*"))) == before
    return str(error.value)


def head(flow: Flow) -> tuple[int | None, int | None]:
    """The quarantine's head and the sequence beside it."""
    table, main = flow.quarantine.open(), flow.open()
    assert table is not None
    app_ids = head_app_id("p", main.table_id), quarantine_app_id("p", main.table_id)
    return table.transaction_version(app_ids[0]), table.transaction_version(app_ids[1])


def test_the_position_and_the_quarantine_name_the_same_batch_and_rows_carry_it(flow: Flow) -> None:
    position = newest_position(flow)
    assert position.quarantine.head is not None
    assert (position.quarantine.head.batch_id, position.quarantine.head.sequence) == (position.batch_id, 3)
    table = flow.quarantine.open()
    assert table is not None
    assert position.quarantine.head.table_id == str(table.metadata().id)
    assert head(flow) == (head_number(position.batch_id), 3)
    assert [row["batch_id"] for row in flow.quarantined()][-1] == position.batch_id
    assert len({row["batch_id"] for row in flow.quarantined()}) == 3


def test_a_clean_batch_carries_the_head_on(flow: Flow) -> None:
    before = newest_position(flow).quarantine.head
    write_ids(flow.src / "4.ndjson", 4, 6)
    flow.run()
    assert newest_position(flow).quarantine.head == before
    add_file(flow, 5)
    flow.run()
    after = newest_position(flow).quarantine.head
    assert before is not None
    assert after is not None
    assert (after.previous, after.sequence, after.table_id) == (before.batch_id, 5, before.table_id)


def test_batches_of_one_run_follow_each_other(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for number in range(1, 6):
        add_file(flow, number)
    flow.run(limits=Limits(max_files=1))
    position = newest_position(flow)
    assert (position.sequence, head(flow)) == (5, (head_number(position.batch_id), 5))
    assert position.quarantine.head is not None
    assert position.quarantine.head.table_id is not None
    assert live(flow) == lines(1, 2, 3, 4, 5)


def test_an_older_table_beside_a_newer_quarantine_is_refused(flow: Flow) -> None:
    put_back(flow, "table-1")
    assert "settled sequence 3" in refuses(flow, "quarantine_ahead")


def test_clean_data_does_not_hide_it(flow: Flow) -> None:
    """The next bad record would be the one that vanishes."""
    put_back(flow, "table-2")
    for number in (2, 3):
        (flow.src / f"{number}.ndjson").write_bytes(b'{"id":%d}\n' % number)
    refuses(flow, "quarantine_ahead")


def test_a_table_from_before_the_first_batch_is_refused(flow: Flow) -> None:
    for version in range(1, newest(flow.table) + 1):
        log_file(flow.table, version).unlink()
    refuses(flow, "quarantine_ahead")


def test_an_older_quarantine_beside_a_newer_table_is_refused(flow: Flow) -> None:
    put_back(flow, "quarantine-1")
    refuses(flow, "quarantine_behind")


def test_a_quarantine_that_lacks_only_the_newest_batch_follows_by_itself(flow: Flow) -> None:
    put_back_log(flow, 2)
    flow.run()
    assert live(flow) == lines(1, 2, 3)


def test_an_older_quarantine_is_noticed_after_clean_batches_too(flow: Flow) -> None:
    write_ids(flow.src / "4.ndjson", 4, 6)
    flow.run()
    put_back_log(flow, 2)
    refuses(flow, "quarantine_behind")


def test_a_quarantine_that_was_dropped_or_put_elsewhere_is_told_as_that(flow: Elsewhere) -> None:
    kept = newest_position(flow).quarantine.head
    assert kept is not None
    flow.quarantine_at = flow.folder / "another"
    message = refuses(flow, "quarantine_moved")
    assert f"quarantine table {kept.table_id}" in message
    assert "Set quarantine.path back" in message
    add_file(flow, 4)
    flow.quarantine_at = None  # the way out that it names
    flow.run()
    assert live(flow) == lines(1, 2, 3, 4)
    shutil.rmtree(flow.quarantine.root)
    refuses(flow, "quarantine_moved")


def test_a_path_changed_while_the_first_bad_records_are_pending_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Elsewhere(tmp_path)
    add_file(flow, 1)
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with pytest.raises(Temporary):
        flow.run()
    monkeypatch.delenv("BLIZZARD_FAULT")
    flow.quarantine_at = flow.folder / "another"
    refuses(flow, "quarantine_moved")
    flow.quarantine_at = None
    flow.run()
    assert live(flow) == lines(1)


def test_both_put_back_together_go_on(flow: Flow) -> None:
    put_back(flow, "table-2")
    put_back(flow, "quarantine-2")
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3], lines(1, 2, 3))


def test_a_commit_that_another_writer_overwrote_is_noticed(flow: Flow) -> None:
    """Spark on local disk renames over the commit of another process."""
    log_file(flow.table, newest(flow.table)).unlink()
    write_raw(flow.table, {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {}}})
    refuses(flow, "quarantine_ahead")


def test_a_replay_and_a_rollback_become_the_head(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)
    replay_in(flow)
    position = newest_position(flow)
    assert (position.sequence, head(flow)) == (2, (head_number(position.batch_id), 2))
    add_file(flow, 3)
    flow.run()
    roll_back(flow, 2)
    position = newest_position(flow)
    assert (position.sequence, head(flow)) == (4, (head_number(position.batch_id), 4))
    flow.run()
    assert lines(3)[0] in live(flow)


def test_a_rollback_of_clean_batches_makes_no_quarantine(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 5)
    flow.run()
    roll_back(flow, 1)
    assert not Path(flow.quarantine.root).exists()
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def test_an_older_position_imported_goes_on_from_this_tables_head(flow: Flow) -> None:
    exported = export_position(flow.open(), "p", sequence=1)
    DeltaTable(str(flow.table)).restore(1)
    import_position(flow.open(), exported, quarantine=flow.quarantine, replaces=True)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3], lines(1, 2, 3))


def test_a_run_that_was_overtaken_does_not_take_the_quarantine_for_ahead(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run settles this one's batch and goes on, before this one comes to settling it."""
    settle = DeltaRsQuarantine.settle
    others: list[str] = []

    def late(self: DeltaRsQuarantine, position: Position) -> None:
        if position.sequence == 4 and not others:
            others.append(position.batch_id)
            add_file(flow, 5)
            flow.run()
        settle(self, position)

    monkeypatch.setattr(DeltaRsQuarantine, "settle", late)
    add_file(flow, 4)
    assert flow.run().commits == 1
    assert (len(others), ids(flow.table), live(flow)) == (1, [1, 2, 3, 4, 5], lines(1, 2, 3, 4, 5))


def test_a_file_of_bad_records_that_is_gone_before_the_commit_stops_it(flow: Flow) -> None:
    def vacuum() -> None:
        newest_file = max(Path(flow.quarantine.root).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        newest_file.unlink()

    add_file(flow, 4)
    before = newest(flow.table)
    with pytest.raises(Temporary) as error:
        flow.run(while_reading=vacuum)
    assert (error.value.kind, newest(flow.table)) == ("quarantine_vanished", before)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(1, 2, 3, 4))


def other_pipeline(flow: Flow) -> Elsewhere:
    """Into the same table and quarantine, from a source of its own."""
    other = Elsewhere(flow.folder, pipeline="q", src_at=flow.folder / "other")
    for number in (11, 12):
        add_file(other, number)
    other.run(start_from=BEGINNING)
    return other


def test_the_limit_counts_this_pipeline_and_table_only(flow: Flow) -> None:
    other_pipeline(flow)
    table_id = flow.open().table_id
    for _ in range(2):
        counts = [flow.quarantine.count(name, table_id) for name in ("p", "q", None)]
        assert (counts, flow.quarantine.count(), flow.quarantine.count("p", "another")) == ([3, 2, 5], 5, 0)
        table = flow.quarantine.open()
        assert table is not None
        table.optimize.compact()  # files of both: counted by looking into them
    add_file(flow, 4)
    flow.run(max_quarantined=4)
    assert len(live(flow)) == 6


def test_a_count_opens_no_file_of_one_pipeline(flow: Flow) -> None:
    for path in Path(flow.quarantine.root).glob("*.parquet"):
        path.write_bytes(b"")
    assert flow.quarantine.count("p", flow.open().table_id) == 3


def test_keeping_for_days_purges_only_what_this_pipeline_keeps(flow: Flow) -> None:
    other_pipeline(flow)
    assert purge_older(flow.quarantine, 0, pipeline="p", table_id="another") == 0
    assert purge_older(flow.quarantine, 0, pipeline="p", table_id=flow.open().table_id) == 3
    assert live(flow) == lines(11, 12)
