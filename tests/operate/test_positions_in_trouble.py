"""Clocks that jump, ledgers that are gone, files that cannot be named: what a position still has to say."""

from __future__ import annotations

import gzip
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.recover import StartFrom
from blizzard.delta import log
from blizzard.errors import Refused
from blizzard.operate.orphans import find_orphans
from blizzard.operate.transfer import export_position, import_position
from blizzard.run.clock import SystemClock
from tests.delta.test_hostile_log import change_payload
from tests.failing import ends_with
from tests.flows.in_process import (
    Flow,
    LaterSource,
    age_txns,
    clean_up_log,
    info,
    newest,
    write_foreign,
    write_raw,
)
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write, write_ids
from tests.run.test_adopt import ADOPT, rust_commit

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Second(Flow):
    """The same source, another table."""

    @property
    def table(self) -> Path:
        return self.folder / "table2"


def moved(tmp_path: Path) -> Second:
    """a and b are in the old table; its rows and its position are moved to another."""
    old = Flow(tmp_path)
    old.later_ms = 0
    write_ids(old.src / "a.ndjson", 0, 3)
    write_ids(old.src / "b.ndjson", 3, 6)
    old.run()
    new = Second(tmp_path)
    new.later_ms = 0
    new.place.create("x")
    write_foreign(new.table, *range(6))
    exported = export_position(old.open(), "p")
    import_position(new.open(), exported, quarantine=new.quarantine, replaces=False, is_trusted=True)
    return new


def test_import_and_a_longer_grace(tmp_path: Path) -> None:
    new = moved(tmp_path)
    new.run(late=LatePolicy(grace_ms=2 * HOUR_MS))
    assert ids(new.table) == list(range(6))


def test_import_and_a_shorter_grace(tmp_path: Path) -> None:
    new = moved(tmp_path)
    policy = LatePolicy(grace_ms=60_000)
    time.sleep(0.01)
    write_ids(new.src / "aa.ndjson", 6, 9)  # late, after the import
    new.run(late=policy)
    new.later_ms = 3 * HOUR_MS
    write_ids(new.src / "c.ndjson", 9, 12)
    new.run(late=policy)
    new.run(late=policy)
    assert ids(new.table) == list(range(12))


def test_import_by_a_clock_that_is_behind_the_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: real(self) - 5 * 60_000)
    new = moved(tmp_path)
    new.run()
    assert ids(new.table) == list(range(6))


def test_a_longer_grace_some_minutes_after_an_adoption(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.later_ms = 0
    write_ids(flow.src / "a.ndjson", 0, 3)
    rust_commit(flow, f"file://{flow.src}/a.ndjson", {}, 0, 1, 2)
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run(start_from=ADOPT)
    assert ids(flow.table) == list(range(6))
    flow.run(late=LatePolicy(grace_ms=2 * HOUR_MS))
    assert ids(flow.table) == list(range(6))


def test_a_damaged_payload_after_a_late_file_is_rebuilt(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()  # b is late
    change_payload(flow.table, lambda fields: {**fields, "sequence": "x"})
    write_ids(flow.src / "z.ndjson", 6, 9)
    flow.run()
    assert ids(flow.table) == list(range(9))


def test_a_table_made_by_this_very_pipeline_and_written_to_by_others_is_no_riddle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.place.create("p")  # and then it was killed: its fence says 0
    write_foreign(flow.table, 9000)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 9000]


def test_rollback_over_an_import_keeps_where_the_pipeline_began(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.place.create("other")
    write_foreign(flow.table, *range(3))
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run(start_from=StartFrom(after="a.ndjson"))  # 1
    import_position(flow.open(), export_position(flow.open(), "p"), quarantine=flow.quarantine, replaces=True)  # 2
    write_ids(flow.src / "c.ndjson", 6, 9)
    flow.run()  # 3
    assert ids(flow.table) == list(range(9))
    roll_back(flow, 1)
    flow.run()
    assert ids(flow.table) == list(range(9))


def cli(flow: Flow, *words: str) -> int:
    return main(
        ["checkpoint", words[0], "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p", *words[1:]]
    )


def test_an_emptied_table_with_an_expired_position_is_not_begun_again(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    DeltaTable(str(flow.table)).delete()  # retention: all rows are old
    age_txns(flow.table)
    clean_up_log(flow.table)
    with pytest.raises(Refused) as caught:
        flow.run()
    assert caught.value.kind == "table_has_data"


def test_an_import_after_the_position_has_expired_goes_on_with_its_sequence(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for i in range(3):
        write(flow.src / f"{i}.ndjson", line(i) + b"bad\n")
        flow.run()
    kept = export_position(flow.open(), "p")
    write_foreign(flow.table, 9000)
    age_txns(flow.table)
    clean_up_log(flow.table)
    with pytest.raises(Refused, match="the log holds no commit of sequence 3"):
        import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=False)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=False, is_trusted=True)
    write(flow.src / "5.ndjson", line(5) + b"bad too\n")
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 5, 9000]
    assert len(flow.quarantined()) == 4


def test_pending_quarantine_named_only_in_a_delta_checkpoint_is_no_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) + b"bad\n")
    flow.run()
    write(flow.src / "b.ndjson", line(1) + b"bad\n")
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run(spec={"run_id": "0123456789ab"})
    monkeypatch.delenv("BLIZZARD_FAULT")
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    old = time.time() - 40 * 86_400
    for path in (flow.folder / "table_quarantine").glob("*.parquet"):
        os.utime(path, (old, old))
    monkeypatch.setattr("blizzard.store.local.seen_ms_of", lambda info: info.st_mtime_ns // 1_000_000)
    found = find_orphans(flow.open(), flow.quarantine.root, timedelta(days=7))
    assert found == []


def test_reset_of_a_file_in_progress_whose_ledger_is_gone_goes_on_where_it_stands(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=3), max_batches=1)
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 0
    flow.run()
    assert ids(flow.table) == [*range(10), 9000]


def test_reset_warns_of_doubling_where_the_ledger_is_gone(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 2  # as it is where the ledger is there


def test_a_read_fails_for_a_moment_while_a_file_is_held(tmp_path: Path) -> None:
    """A held file that moves away and comes back under the same name (mv keeps mtime; ctime is new)."""
    flow = Flow(tmp_path)
    flow.later_ms = 0
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    (flow.src / "b.ndjson").write_bytes(b"")
    write_ids(flow.src / "c.ndjson", 3, 6)
    flow.run()
    os.rename(flow.src / "b.ndjson", tmp_path / "b")
    write_ids(flow.src / "d.ndjson", 6, 9)
    flow.run()
    write_ids(tmp_path / "b", 20, 23)
    os.rename(tmp_path / "b", flow.src / "b.ndjson")
    flow.run()
    assert ids(flow.table) == [*range(9), 20, 21, 22]


def test_a_clock_that_was_ahead_once_hides_no_late_file(tmp_path: Path) -> None:
    """One run looked while the machine's clock was three hours ahead (NTP came later). Ledgers are all there."""
    flow = Flow(tmp_path)
    flow.later_ms = 3 * HOUR_MS
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    flow.later_ms = 0  # set right
    write_ids(flow.src / "b.ndjson", 3, 6)  # late
    write_ids(flow.src / "z.ndjson", 6, 9)
    flow.run()
    flow.later_ms = 5 * HOUR_MS  # some hours after
    write_ids(flow.src / "zz.ndjson", 9, 12)
    flow.run()
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_several_hundred_files_that_cannot_be_read_yet(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.src.mkdir()
    whole = gzip.compress(b"".join(map(line, range(50))))
    for number in range(700):
        (flow.src / f"{'events-from-some-producer-' * 4}{number:05d}.ndjson.gz").write_bytes(whole[:-20])
    write_ids(flow.src / "zz.ndjson", 100, 103)
    flow.run()
    assert ids(flow.table) == [100, 101, 102]


def test_late_files_with_long_names(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "z.ndjson", 0, 1)
    flow.run()
    folder = (
        flow.src / ("tenant=" + "x" * 100) / ("device=" + "y" * 100) / ("session=" + "z" * 100) / ("day=" + "d" * 100)
    )
    for number in range(500):
        write_ids(folder / f"{number:05d}.ndjson", 1 + number, 2 + number)
    flow.run()
    assert ids(flow.table) == list(range(501))


def test_behind_many_commits_of_others_the_position_is_committed_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path).first_run()
    for _ in range(120):
        write_raw(flow.table, info("WRITE"))
    flow.run()
    reads: list[int] = []
    real = log.read_commit

    def read(store: Any, version: int) -> Any:
        reads.append(version)
        return real(store, version)

    monkeypatch.setattr(log, "read_commit", read)
    flow.run()
    assert len(reads) < 20


def test_that_everything_was_listed_is_remembered_by_an_idle_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    policy = LatePolicy(relist_max_names=0)  # as if there were too many names to list them all each time
    flow.run(late=policy)
    scopes: list[Any] = []
    real = LaterSource.look

    def look(self: Any, scope: Any) -> Any:
        scopes.append(scope)
        return real(self, scope)

    monkeypatch.setattr(LaterSource, "look", look)
    flow.later_ms += 25 * HOUR_MS
    for _ in range(4):
        flow.run(late=policy)
    version = newest(flow.table)
    for _ in range(4):
        flow.run(late=policy)
    assert [scope.is_full for scope in scopes] == [True, *[False] * 7]
    assert newest(flow.table) == version  # a folder is listed whole each time; that is not worth a commit
