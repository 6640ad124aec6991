"""Positions that were imported, edited or adopted, while sources and logs did not stand still."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.recover import StartFrom
from blizzard.errors import BlizzardError, Refused
from blizzard.operate.transfer import export_position, import_position
from blizzard.run.after_ingest import Cleaning
from blizzard.source.cleaning import SourceCleaner
from tests.failing import ends_with
from tests.flows.backups import Elsewhere
from tests.flows.in_process import (
    Flow,
    LaterSource,
    clean_up_log,
    info,
    log_file,
    newest,
    touch_again,
    write_foreign,
    write_raw,
)
from tests.flows.replaying import quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write, write_ids
from tests.run.test_adopt import ADOPT, rust_commit

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def four(folder: Path) -> Flow:
    made = Flow(folder)
    for number in range(4):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        made.run()
    return made


def cli(flow: Flow, *words: str) -> int:
    return main(
        ["checkpoint", words[0], "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p", *words[1:]]
    )


def test_an_older_position_is_refused_while_the_table_holds_what_came_after_it(tmp_path: Path) -> None:
    flow = four(tmp_path)
    kept = export_position(flow.open(), "p", sequence=2)
    with pytest.raises(Refused, match=r"blizzard-run3-.*which a later sequence added, is part of it"):
        import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_an_older_position_is_refused_where_the_table_was_restored_to_a_later_one(tmp_path: Path) -> None:
    flow = four(tmp_path)
    DeltaTable(str(flow.table)).restore(3)  # sequence 3
    kept = export_position(flow.open(), "p", sequence=2)
    with pytest.raises(Refused, match=r"blizzard-run3-.*which a later sequence added, is part of it"):
        import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)


def test_an_older_position_is_refused_where_a_replay_came_after_it(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)  # sequence 1: ids 0 1 2, 3 and 4 in quarantine and a hopeless one
    replay_in(flow)  # sequence 2: 3 and 4 are rows; the hopeless one is in quarantine under sequence 2
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2, 3, 4], 1)
    DeltaTable(str(flow.table)).restore(1)
    kept = export_position(flow.open(), "p", sequence=1)
    with pytest.raises(Refused, match="a replay of records from quarantine"):
        import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)


def test_what_was_pending_is_settled_before_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) + b"not json\n")
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run()
    monkeypatch.delenv("BLIZZARD_FAULT")
    import_position(flow.open(), export_position(flow.open(), "p"), quarantine=flow.quarantine, replaces=True)
    flow.run()
    assert len(flow.quarantined()) == 1


def test_a_pending_replay_is_settled_before_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = quarantined_flow(tmp_path)

    def dies(*a: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr("blizzard.quarantine.table.DeltaRsQuarantine._replace", dies)
        with pytest.raises(KeyboardInterrupt):
            replay_in(flow)
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    import_position(flow.open(), export_position(flow.open(), "p"), quarantine=flow.quarantine, replaces=True)
    replay_in(flow)
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def damaged(flow: Flow) -> bytes:
    """The newest position, kept in a file; its payload in the log cannot be read any more."""
    kept = export_position(flow.open(), "p")
    path = log_file(flow.table, newest(flow.table))
    path.write_text(re.sub(r'"blizzard:.{20}', lambda found: found[0][:-4] + "AAAA", path.read_text()))
    return kept


def test_bad_records_of_a_position_whose_payload_is_damaged_come_to_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died before they were settled. The import alone knows of them, and the source file may be deleted next."""
    flow = four(tmp_path)
    write(flow.src / "9.ndjson", line(90) + b"not json\n")
    monkeypatch.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run()
    monkeypatch.delenv("BLIZZARD_FAULT")
    kept = damaged(flow)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location), keep_ms=0)
    for _ in range(3):
        flow.run(cleaning=cleaning)
    assert [row["raw"] for row in flow.quarantined()] == [b"not json"]


def test_what_a_replay_took_leaves_the_quarantine_though_its_payload_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = quarantined_flow(tmp_path)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr("blizzard.quarantine.table.DeltaRsQuarantine._replace", dies)
        with pytest.raises(KeyboardInterrupt):
            replay_in(flow)
    kept = damaged(flow)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)
    replay_in(flow, run_id="again")
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    assert len(flow.quarantined()) == 1


def test_an_import_makes_no_second_reader(tmp_path: Path) -> None:
    """Its records would come into the table twice from then on."""
    flow = four(tmp_path)
    kept = export_position(flow.open(), "p")
    other = replace(Elsewhere(tmp_path, pipeline="q"), table_at=tmp_path / "other")
    other.run()
    with pytest.raises(Refused) as refused:
        import_position(other.open(), kept, quarantine=other.quarantine, replaces=False, is_trusted=True)
    assert refused.value.kind == "source_read_by_other"
    import_position(other.open(), kept, quarantine=other.quarantine, replaces=False, is_trusted=True, reads_again=True)


def test_what_after_skipped_stays_skipped_after_an_import(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.place.create("other")
    write_foreign(flow.table, *range(6))  # somebody else ingested a and b
    write_ids(flow.src / "c.ndjson", 6, 9)
    flow.run(start_from=StartFrom(after="b.ndjson"))
    version = newest(flow.table)
    write_ids(flow.src / "d.ndjson", 9, 12)
    flow.run()
    assert ids(flow.table) == list(range(12))
    DeltaTable(str(flow.table)).restore(version)
    import_position(
        flow.open(), export_position(flow.open(), "p", sequence=1), quarantine=flow.quarantine, replaces=True
    )
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_a_skipped_file_is_not_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    assert cli(flow, "skip", "--file", "b.ndjson", "--yes") == 0
    write_ids(flow.src / "c.ndjson", 6, 9)
    flow.run()
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 6, 7, 8]


def test_a_file_that_was_reset_is_not_deleted_before_it_is_read_again(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    DeltaTable(str(flow.table)).delete(
        "id < 3"
    )  # its rows were wrong, or deleted by mistake; now it shall be read again
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "0", "--yes") == 0
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS))
    flow.run(cleaning=Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS))
    assert ids(flow.table) == [0, 1, 2]


def test_a_run_that_a_rollback_has_overtaken_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = four(tmp_path)
    flow.clock.ms += 2 * DAY_MS
    once: list[int] = []
    real = LaterSource.look

    def look(self: Any, scope: Any) -> Any:
        found = real(self, scope)
        if not once:  # while the run lists the source, the operator's rollback lands
            once.append(1)
            roll_back(flow, 2)
        return found

    monkeypatch.setattr(LaterSource, "look", look)
    try:
        flow.run(cleaning=Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS))
    except BlizzardError:
        pass
    flow.run()
    assert ids(flow.table) == list(range(12))


@pytest.mark.parametrize("kind", ["late", "rewritten"])
def test_files_meant_for_quarantine_go_there_after_an_interruption_too(tmp_path: Path, kind: str) -> None:
    flow = Flow(tmp_path)
    names = [f"a{i}.ndjson" for i in range(4)]
    if kind == "rewritten":
        for i, name in enumerate(names):
            write_ids(flow.src / name, 10 * i, 10 * i + 1)
    write_ids(flow.src / "m.ndjson", 100, 101)
    flow.run()
    before = ids(flow.table)
    for i, name in enumerate(names):
        content = line(10 * i) + line(10 * i + 1)
        touch_again(flow.src / name, content) if kind == "rewritten" else write(flow.src / name, content)
    policy = LatePolicy(late="quarantine", rewritten="quarantine")
    flow.run(late=policy, limits=Limits(max_files=1), max_batches=1)
    flow.run(late=policy)
    assert ids(flow.table) == before


def test_the_answer_to_unclear_files_is_remembered(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.later_ms = 0
    write_ids(flow.src / "m.ndjson", 0, 3)
    flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    os.chmod(flow.src / "m.ndjson", 0o600)  # ctime: a chmod, a chown, a backup with hard links
    write_ids(flow.src / "c.ndjson", 60, 63)
    with ends_with("late_unclear"):
        flow.run()
    flow.run(late=LatePolicy(unclear="ignore"))
    flow.run()


def test_a_file_with_a_time_in_the_future_is_a_file_like_any_other(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    ahead = time.time_ns() + 3 * 365 * 86_400 * 10**9
    write_ids(flow.src / "a.ndjson", 0, 3)
    os.utime(flow.src / "a.ndjson", ns=(ahead, ahead))
    flow.run()
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 9000]


def test_adoption_and_a_file_with_a_time_in_the_future(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    ahead = time.time_ns() + 3600 * 24 * 10**9
    os.utime(flow.src / "a.ndjson", ns=(ahead, ahead))
    write_ids(flow.src / "b.ndjson", 3, 6)
    rust_commit(flow, f"file://{flow.src}/a.ndjson", {}, 0, 1, 2)
    flow.run(start_from=ADOPT)
    assert ids(flow.table) == list(range(6))


def test_adoption_finds_the_newest_position_however_far_back(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for i, name in enumerate("abc"):
        write_ids(flow.src / f"{name}.ndjson", 3 * i, 3 * i + 3)
    rust_commit(flow, f"file://{flow.src}/a.ndjson", {}, 0, 1, 2)
    DeltaTable(str(flow.table)).create_checkpoint()
    rust_commit(flow, f"file://{flow.src}/b.ndjson", {}, 3, 4, 5)
    for _ in range(12):
        write_raw(flow.table, info("WRITE"))
    flow.run(start_from=ADOPT, scan_commits=10)
    assert ids(flow.table) == list(range(9))


def test_a_position_from_before_a_restore_is_not_adopted(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for i, name in enumerate("abc"):
        write_ids(flow.src / f"{name}.ndjson", 3 * i, 3 * i + 3)
    rust_commit(flow, f"file://{flow.src}/a.ndjson", {}, 0, 1, 2)
    rust_commit(flow, f"file://{flow.src}/b.ndjson", {}, 3, 4, 5)
    DeltaTable(str(flow.table)).restore(0)
    assert ids(flow.table) == [0, 1, 2]
    with pytest.raises(Refused, match="RESTORE"):
        flow.run(start_from=ADOPT)


def test_a_file_in_progress_that_is_gone_can_be_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=3), max_batches=1)
    (flow.src / "a.ndjson").unlink()
    write_ids(flow.src / "b.ndjson", 10, 13)
    with ends_with("source_changed"):
        flow.run()
    assert cli(flow, "skip", "--file", "a.ndjson", "--yes") == 0, capsys.readouterr().err
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 10, 11, 12]
