"""What every command says of a table, a log or a quarantine that is damaged: one line, a stable kind, no traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from blizzard import faults
from blizzard.cli.main import main
from blizzard.errors import Refused
from tests.flows.in_process import Flow, log_file, newest
from tests.ingesting import ids, write, write_ids

LOOKS = [
    *("status", "files", "doctor", "report --json", "checkpoint list", "checkpoint show", "vacuum-orphans"),
    *("plan --source {src} --pipeline p", "audit --source {src} --pipeline p", "run --source {src} --pipeline p"),
    *("checkpoint export --pipeline p --out -", "schema diff --schema id\u00a0INT"),
]


def call(capsys: pytest.CaptureFixture[str], command: str, folder: Path) -> tuple[int, str, str]:
    words = [w.replace("\u00a0", " ").format(src=folder / "src") for w in command.split(" ")]
    code = main([*words, "--table", str(folder / "table")])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


@pytest.mark.parametrize("command", LOOKS)
def test_a_log_that_links_to_itself(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 1)
    (tmp_path / "table").mkdir()
    (tmp_path / "table/_delta_log").symlink_to("_delta_log")
    code, out, err = call(capsys, command, tmp_path)
    if command == "doctor":
        assert code == 3
        assert "[unusable_path]" in out
    else:
        assert code == 2
        assert err.splitlines()[-1].endswith("[unusable_path]")


@pytest.mark.parametrize(
    "info", ['"text"', "[]", "7", "null", "{}", '{"userMetadata": {"a": 1}, "engineInfo": ["x"]}', '{"engineInfo": 7}']
)
def test_doctor_takes_any_commit_info(tmp_path: Path, info: str, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path).first_run()
    write(log_file(flow.table, newest(flow.table) + 1), f'{{"commitInfo":{info}}}\n'.encode())
    code, _, err = call(capsys, "doctor", tmp_path)
    assert code in (0, 3)  # 3: delta-rs, or our own reader, does not take such a log
    assert err == ""


@pytest.fixture
def quarantined(tmp_path: Path) -> Path:
    """The one data file of a quarantine table."""
    flow = Flow(tmp_path)
    write(tmp_path / "src/a.ndjson", b"bad\n" * 2000)
    flow.run()
    (path,) = (tmp_path / "table_quarantine").glob("*.parquet")
    return path


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "middle", "other columns"])
@pytest.mark.parametrize("action", ["list", "show --limit 5000", "export --out -", "purge --all --yes"])
def test_dlq_over_a_damaged_file_names_it(
    tmp_path: Path, quarantined: Path, damage: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(quarantined.read_bytes())
    if damage == "other columns":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"pipeline": [1.5], "sequence": ["x"]}), quarantined)
    else:
        content[8 : len(content) // 2] = bytes(len(content) // 2 - 8)
        damaged = {"garbage": b"garbage", "truncated": bytes(content[:-100]), "empty": b"", "middle": bytes(content)}
        quarantined.write_bytes(damaged[damage])
    code, _, err = call(capsys, f"dlq {action}", tmp_path)
    assert code == 3
    (line,) = err.splitlines()
    assert line.endswith("[quarantine_damaged]")
    assert quarantined.name in line


def test_a_pending_file_that_is_damaged_is_refused_and_goes_on_once_it_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path)
    write(tmp_path / "src/a.ndjson", b'{"id":1}\nbad\n')

    class Died(BaseException):
        pass

    def die(*_: str) -> None:
        raise Died

    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", "commit.after=kill")
    monkeypatch.setattr(faults, "_act", die)
    with pytest.raises(Died):
        flow.run()
    monkeypatch.undo()
    (pending,) = (tmp_path / "table_quarantine").glob("*.parquet")
    content = pending.read_bytes()
    pending.write_bytes(content[: len(content) // 2])
    with pytest.raises(Refused) as refused:
        flow.run()
    assert refused.value.kind == "quarantine_lost"
    assert pending.name in str(refused.value)
    pending.write_bytes(content)
    flow.run()
    assert (ids(flow.table), len(flow.quarantined())) == ([1], 1)


def test_the_damage_is_said_in_json_as_well(
    tmp_path: Path, quarantined: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del quarantined
    os.rename(tmp_path / "table/_delta_log", tmp_path / "elsewhere")
    (tmp_path / "table/_delta_log").symlink_to("_delta_log")
    code, out, _ = call(capsys, "doctor --json", tmp_path)
    assert code == 3
    assert any("[unusable_path]" in finding["text"] for finding in json.loads(out))
