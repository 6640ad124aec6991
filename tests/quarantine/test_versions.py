"""The quarantine table between versions: of its own log while a purge is at work, and of blizzard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from blizzard.cli.main import main
from blizzard.errors import OutOfStep
from blizzard.quarantine import contents
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.tasks.quarantine import ARROW_SCHEMA, LATER_COLUMNS, QUARANTINE_SCHEMA, Selection
from tests.core.test_codec import example
from tests.flows.backups import lines, live, orphans, put_back, realigned, three_batches
from tests.quarantine.test_contents import add, bad, lines_of, quarantine

EVERYTHING = Selection()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "table_quarantine")


@pytest.fixture
def older(root: str) -> str:
    """As an older version made it: without the later columns, one record of sequence 3, no head."""
    fields = [field for field in QUARANTINE_SCHEMA["fields"] if field["name"] not in LATER_COLUMNS]
    schema = deltalake.Schema.from_json(orjson.dumps(QUARANTINE_SCHEMA | {"fields": fields}).decode())
    DeltaTable.create(root, schema=schema)
    row = {"pipeline": "p", "table_id": "t", "sequence": 3, "run_id": "r", "source_file": "a", "line": 1}
    row |= {"raw": b"old", "complete": True, "error_kind": "not_json"}
    arrow = pa.schema([field for field in ARROW_SCHEMA if field.name not in LATER_COLUMNS])
    stamp = CommitProperties(app_transactions=[Transaction("blizzard-dlq:p:t", 3)])
    deltalake.write_deltalake(root, pa.Table.from_pylist([row], arrow), mode="append", commit_properties=stamp)
    return root


def test_an_older_table_is_read_as_it_is(older: str) -> None:
    (record,) = contents.records(quarantine(older), EVERYTHING)
    assert (record["raw"], record["batch_id"], record["orphaned"]) == (b"old", None, None)
    assert quarantine(older).count("p", "t") == 1
    assert DeltaTable(older).version() == 1


def test_an_older_table_is_given_its_columns_before_it_is_written(older: str) -> None:
    add(older, 4, [bad(line=2)])
    assert {field.name for field in DeltaTable(older).schema().fields} == set(ARROW_SCHEMA.names)
    assert (lines_of(older), quarantine(older).count()) == ([1, 2], 2)


def test_an_older_table_is_purged_like_any_other(older: str) -> None:
    assert contents.purge(quarantine(older), Selection(pipeline="p")) == 1
    assert lines_of(older) == []


@pytest.mark.parametrize(("sequence", "added"), [(3, False), (4, True)])
def test_an_older_position_settles_by_its_number_and_then_has_a_head(older: str, sequence: int, added: bool) -> None:
    add(older, sequence, [bad(line=2)])
    assert lines_of(older) == ([1, 2] if added else [1])


def test_an_older_position_behind_an_older_quarantine_is_refused(older: str) -> None:
    for position in (example(sequence=2), example(sequence=2, pending=("x.parquet",))):
        with pytest.raises(OutOfStep) as error:
            quarantine(older).settle(position)
        assert error.value.kind == "quarantine_ahead"


def test_records_of_an_older_version_are_told_apart_by_their_run(tmp_path: Path) -> None:
    flow = three_batches(tmp_path)
    table = flow.quarantine.open()
    assert table is not None
    table.update(updates={"batch_id": "NULL"})
    put_back(flow, "table-1")
    assert realigned(flow).orphaned == 2
    assert (live(flow), orphans(flow)) == (lines(1), lines(2, 3))


def test_a_record_that_comes_after_the_count_is_deleted_only_if_it_was_counted(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(root, 1, [bad(line=1)])
    counted: list[int] = []
    read, delete_from = DeltaRsQuarantine.read, DeltaRsQuarantine._delete_from

    def counting(self: DeltaRsQuarantine, *arguments: Any, **more: Any) -> Any:
        found = list(read(self, *arguments, **more))
        counted.append(sum(rows.num_rows for rows in found))
        return iter(found)

    def late(self: DeltaRsQuarantine, *arguments: Any) -> int:
        if len(counted) == 1:
            add(root, 2, [bad(line=2)])
        return delete_from(self, *arguments)

    monkeypatch.setattr(DeltaRsQuarantine, "read", counting)
    monkeypatch.setattr(DeltaRsQuarantine, "_delete_from", late)
    assert contents.purge(quarantine(root), Selection(pipeline="p")) == 2
    assert (counted, lines_of(root)) == ([1, 2], [])


def test_the_commands_show_realign_and_purge_orphans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = three_batches(tmp_path)
    put_back(flow, "table-1")
    place = ["--table", str(flow.table)]
    assert main(["dlq", "realign", *place]) == 0
    assert "2 records marked as orphans" in capsys.readouterr().out
    assert main(["dlq", "realign", *place, "--pipeline", "p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["was_in_step"] is True
    for flags, count in ((["--json"], 1), (["--json", "--orphans"], 2)):
        assert main(["dlq", "list", *place, *flags]) == 0
        assert json.loads(capsys.readouterr().out)["records"] == count
    assert main(["dlq", "purge", *place, "--all", "--orphans", "--yes"]) == 0
    assert (live(flow), orphans(flow)) == (lines(1), [])


def test_a_purge_by_age_keeps_to_the_table_that_is_named(tmp_path: Path) -> None:
    flow = three_batches(tmp_path)
    add(flow.quarantine.root, 1, [bad(line=9, raw=b"another")], pipeline="p", table_id="another")
    assert main(["dlq", "purge", "--table", str(flow.table), "--older-than", "0d", "--yes"]) == 0
    assert live(flow) == [b"another"]
