"""After records had to leave a full quarantine: rollback, realign, replay, audit and the report know it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.balance import Balance
from blizzard.errors import OutOfStep
from blizzard.operate.realign import Realigned
from blizzard.operate.rollback import prepare_rollback
from blizzard.operate.transfer import export_position, import_position
from blizzard.quarantine import contents
from blizzard.report.rows import gather
from blizzard.tasks.quarantine import Selection
from tests.delta.test_hostile_log import change_payload
from tests.failing import ends_with
from tests.flows.backups import Elsewhere, add_file, keep, lines, live, orphans, put_back, put_back_log, realigned
from tests.flows.replaying import HOPELESS, STRICT, mendable, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write
from tests.quarantine.test_drop_oldest import dropping, run_batches
from tests.quarantine.test_drop_oldest_interrupted import run_and_die
from tests.run.test_broken_files import truncated


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    """Sequences 1 to 4, each with a good and a bad record; 3 dropped what 1 had, 4 what 2 had. Copies after each."""
    flow = Elsewhere(tmp_path)
    for number in range(1, 5):
        run_batches(flow, number)
        keep(flow, number)
    assert live(flow) == lines(3, 4)
    return flow


def audit(flow: Elsewhere, capsys: pytest.CaptureFixture[str], *, ok: bool = True) -> dict[str, Any]:
    capsys.readouterr()
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    how = ["--set", "quarantine.overflow=drop_oldest", "--json", "--check"]
    assert main(["audit", *where, *how]) == (0 if ok else 5)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def balance(records: int, rows: int, quarantined: int, dropped: int, unaccounted: int = 0) -> dict[str, int]:
    return asdict(
        Balance(records=records, rows=rows, quarantined=quarantined, dropped=dropped, unaccounted=unaccounted)
    )


def told_by_rollback(flow: Elsewhere, to: int) -> str:
    given: dict[str, Any] = {"pipeline": "p", "source": flow.source.identity, "listing": flow.source.list()}
    return " ".join(prepare_rollback(flow.open(), to=to, with_schema=False, **given).sentences)


# The books.


def test_audit_balances(flow: Elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(flow, capsys)
    assert (found["problems"], found["quarantined"], found["bad_records"]) == ([], 2, 4)
    assert found["balance"] == balance(8, 4, 2, 2)
    assert main(["audit", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]) == 0
    assert "8 records taken = 4 rows + 2 in quarantine + 2 dropped\n" in capsys.readouterr().out


def test_audit_balances_before_the_newest_commit_is_settled(
    flow: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    add_file(flow, 5)
    run_and_die(flow, "commit.after")
    assert audit(flow, capsys)["balance"] == balance(10, 5, 3, 2)
    flow.run(**dropping(2))
    assert audit(flow, capsys)["balance"] == balance(10, 5, 2, 3)


def test_audit_balances_with_what_never_got_in_and_with_files_that_broke(
    flow: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    write(flow.src / "5.ndjson", b'{"id":5}\nbad\nbad\nbad\n')
    assert flow.run(**dropping(2)).rejected == 3
    truncated(flow, "6.ndjson.gz")
    assert flow.run(**dropping(2)).dropped_records == 1
    found = audit(flow, capsys, ok=False)
    assert found["problems"] == ["broken"]
    rows = len(ids(flow.table))
    assert found["balance"] == balance(8 + 4 + rows - 5 + 1, rows, 2, 3 + 3)


def test_audit_balances_after_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Elsewhere(tmp_path)
    for number in (1, 2, 3):
        write(flow.src / f"{number}.ndjson", line(number) + mendable(10 + number) + b"\n" + HOPELESS + b"\n")
        flow.run(spec=STRICT, **dropping(4))
    assert len(live(flow)) == 4  # what sequence 1 had is gone
    assert replay_in(flow).replayed == 2
    assert audit(flow, capsys)["balance"] == balance(9, 5, 2, 2)
    for number in (4, 5):  # what failed again leaves with the batch of the replay
        write(flow.src / f"{number}.ndjson", line(number) + b"bad\nbad\nbad\n")
        flow.run(spec=STRICT, **dropping(4))
    assert live(flow) == [b"bad"] * 3
    assert audit(flow, capsys)["balance"] == balance(17, 7, 3, 7)


def test_audit_says_how_many_were_purged(flow: Elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    contents.purge(flow.quarantine, Selection(source_file="3.ndjson"))
    assert audit(flow, capsys)["balance"] == balance(8, 4, 1, 2, unaccounted=1)
    assert main(["audit", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]) == 0
    assert "+ 2 dropped + 1 in no ledger\n" in capsys.readouterr().out


def test_audit_notices_what_should_have_left(flow: Elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    table = flow.quarantine.open()
    assert table is not None
    table.update({"sequence": "1"}, predicate="sequence = 3")  # somebody has put it back by hand
    found = audit(flow, capsys, ok=False)
    assert (found["quarantine_missing"], found["quarantine_unknown"]) == ([3], [1])


def test_the_report_counts_what_left(flow: Elsewhere) -> None:
    rows = gather(flow.open().scan_back()).pipelines["p"].rows
    assert [row.dropped for row in rows] == [1, 1, 0, 0]


@pytest.mark.usefixtures("in_process")
def test_the_command_tells_what_it_drops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--pipeline", "p"]
    how = ["--schema", "id BIGINT", "--set", "quarantine.max_records=1", "--set", "quarantine.overflow=drop_oldest"]
    for number in (1, 2):
        write(tmp_path / f"src/{number}.ndjson", b'{"id":%d}\n' % number * 3 + b"bad\n")
        assert main(["run", *where, *how]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["dropped_records"] == 1
    assert "warning: the quarantine table is full. Dropped to make room: 1 bad record of sequence 1" in said.err
    assert "; 1 old bad record dropped from quarantine; " in said.err
    assert main(["checkpoint", "rollback", "--to", "1", "--dry-run", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["dropped_records"] == 1
    assert main(["dlq", "list", "--table", str(tmp_path / "t"), "--json"]) == 0
    assert [group["source_file"] for group in json.loads(capsys.readouterr().out)["groups"]] == ["2.ndjson"]


# Going back.


def test_a_rollback_says_what_does_not_come_back(flow: Elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 older bad record that these commits dropped" in told_by_rollback(flow, 3)
    assert "2 older bad record" in told_by_rollback(flow, 2)
    roll_back(flow, 2)
    assert (ids(flow.table), live(flow)) == ([1, 2], [])
    assert audit(flow, capsys)["balance"] == balance(4, 2, 0, 2)
    flow.run(**dropping(2))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(3, 4))
    assert audit(flow, capsys)["balance"] == balance(8, 4, 2, 2)


def test_records_of_commits_that_are_taken_back_too_come_back(
    flow: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "1 older bad record that these commits dropped" in told_by_rollback(flow, 1)
    assert "dropped" not in told_by_rollback(flow, 0)
    roll_back(flow, 0)
    flow.run(**dropping(9))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(1, 2, 3, 4))
    assert audit(flow, capsys)["balance"] == balance(8, 4, 4, 0)


def test_a_commit_that_was_taken_back_before_it_was_settled_dropped_nothing(
    flow: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its payload is damaged, and a person goes on from the position before it."""
    kept = export_position(flow.open(), "p")
    add_file(flow, 5)
    run_and_die(flow, "commit.after")
    change_payload(flow.table, lambda fields: {k: v for k, v in fields.items() if k != "sequence"})
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True, is_trusted=True)
    assert live(flow) == lines(3, 4)
    assert audit(flow, capsys)["balance"] == balance(8, 4, 2, 2)


# A quarantine that was put back.


def test_realign_leaves_away_what_had_to_leave(flow: Elsewhere, capsys: pytest.CaptureFixture[str]) -> None:
    put_back(flow, "quarantine-2")
    for number in (3, 4):
        copy = next((flow.folder / "quarantine-4").glob(f"*-{number:08d}-*"))
        (flow.folder / "table_quarantine" / copy.name).write_bytes(copy.read_bytes())
    with pytest.raises(OutOfStep):
        flow.run(**dropping(2))
    assert realigned(flow) == Realigned(orphaned=2, added=2)
    assert (live(flow), orphans(flow)) == (lines(3, 4), lines(1, 2))
    assert audit(flow, capsys)["balance"] == balance(8, 4, 2, 2)
    run_batches(flow, 5)
    assert (live(flow), orphans(flow)) == (lines(4, 5), lines(1, 2))


def test_realign_misses_nothing_that_had_to_leave_after_a_rollback(flow: Elsewhere) -> None:
    roll_back(flow, 2)
    put_back_log(flow, 1)
    with pytest.raises(OutOfStep):
        flow.run(**dropping(2))
    realigned(flow)
    # The rollback took back who dropped it, so nothing says that what is there had left; and nothing is missed.
    assert live(flow) == lines(1)
    flow.run(**dropping(2))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(3, 4))


def test_what_a_lost_history_dropped_comes_back(flow: Elsewhere) -> None:
    put_back(flow, "table-2")
    with ends_with("quarantine_ahead"):
        flow.run(**dropping(2))
    assert realigned(flow) == Realigned(orphaned=2, added=2)
    assert (live(flow), orphans(flow)) == (lines(1, 2), lines(3, 4))
    flow.run(**dropping(2))
    assert (ids(flow.table), live(flow), orphans(flow)) == ([1, 2, 3, 4], lines(3, 4), lines(3, 4))


def test_a_new_quarantine_has_only_what_had_not_left(flow: Elsewhere) -> None:
    flow.quarantine_at = flow.folder / "elsewhere"
    flow.quarantine_at.mkdir()
    for path in (flow.folder / "table_quarantine").glob("*.parquet"):
        (flow.quarantine_at / path.name).write_bytes(path.read_bytes())
    with ends_with("quarantine_moved"):
        flow.run(**dropping(2))
    assert realigned(flow) == Realigned(added=2)
    assert live(flow) == lines(3, 4)
