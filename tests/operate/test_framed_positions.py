"""Commands on positions of framed files: whatever moves a position, records are counted as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blizzard.core.plan import Limits
from blizzard.operate.transfer import export_position, import_position
from tests.flows.in_process import Flow, clean_up_log, touch_again
from tests.flows.replaying import STRICT, replay_in
from tests.flows.rollbacks import roll_back
from tests.flows.shell import Shell
from tests.ingesting import ids, write
from tests.operate.test_one_version import cli
from tests.run.test_framings import payload, position, records
from tests.source.framed import framed

THREE = Limits(max_records=3)


def begun(folder: Path, shape: str = "pretty array", last: int = 8) -> Flow:
    """Three records of an array are committed."""
    flow = Flow(folder)
    write(flow.src / "a.ndjson", framed(shape, records(0, last)))
    flow.run(limits=THREE, max_batches=1, slots=1)
    return flow


def forgotten(folder: Path) -> Flow:
    """All records of an array are committed, and no ledger that is left names it."""
    flow = begun(folder)
    flow.run()
    write(flow.src / "b.ndjson", framed("lines", records(8, 9)))
    flow.run()
    clean_up_log(flow.table)
    return flow


def test_a_reset_goes_on_after_the_records_that_are_committed(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 0
    assert position(flow).marks.in_progress["a.ndjson"].framing == "array"
    flow.run()
    assert ids(flow.table) == list(range(8))


def test_a_reset_to_a_record_counts_as_the_ledger_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = begun(tmp_path)
    flow.run()
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "6", "--yes") == 0
    assert "from record 6 on, counted as array" in capsys.readouterr().out
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7]


def test_a_reset_after_a_setting_was_changed_counts_as_before(tmp_path: Path) -> None:
    flow = begun(tmp_path, "array in lines")
    flow.run(framing="lines")
    write(flow.src / "b.ndjson", framed("lines", records(8, 9)))
    flow.run(framing="lines")
    assert payload(flow)["schema_version"] == 2
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "6", "--yes") == 0
    assert payload(flow)["schema_version"] == 3
    flow.run(framing="lines")
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8]


def test_where_ledgers_are_gone_a_reset_looks_at_the_file(tmp_path: Path) -> None:
    flow = forgotten(tmp_path)
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "6", "--yes") == 0
    assert position(flow).marks.in_progress["a.ndjson"].framing == "array"
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8]


def test_where_nothing_says_how_to_count_an_unreadable_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = forgotten(tmp_path)
    touch_again(flow.src / "a.ndjson", b"\x1f\x8b\x08")  # gzip, though its name does not say so
    assert cli(flow, "reset", "--file", "a.ndjson", "--from-record", "6", "--yes") == 5
    assert "nobody can say which of its records is meant" in capsys.readouterr().err
    assert "a.ndjson" not in position(flow).marks.in_progress


def test_a_file_that_was_left_out_is_read_on_where_it_stood(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    assert cli(flow, "skip", "--file", "a.ndjson", "--yes") == 0
    assert "a.ndjson" not in position(flow).marks.in_progress
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 0
    flow.run()
    assert ids(flow.table) == list(range(8))


def test_lines_that_were_added_to_a_file_in_progress_are_read_after_a_reset(tmp_path: Path) -> None:
    flow = begun(tmp_path, "firehose")
    touch_again(flow.src / "a.ndjson", framed("firehose", records(0, 12)))
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 0
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_a_rollback_goes_back_to_the_framing_too(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    flow.run()
    assert ids(flow.table) == list(range(8))
    roll_back(flow, 1)
    said = position(flow)
    assert (said.marks.in_progress["a.ndjson"].records, said.marks.in_progress["a.ndjson"].framing) == (3, "array")
    assert said.framing == "auto"
    flow.run(framing="lines")
    assert ids(flow.table) == list(range(8))


def test_an_exported_position_has_the_framing(tmp_path: Path) -> None:
    flow = begun(tmp_path)
    exported = export_position(flow.open(), "p")
    import_position(flow.open(), exported, quarantine=flow.quarantine, replaces=True)
    assert position(flow).marks.in_progress["a.ndjson"].framing == "array"
    flow.run()
    assert ids(flow.table) == list(range(8))


def test_commands_show_the_framing(tmp_path: Path, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    flow = begun(tmp_path)
    shown = shell("checkpoint", "show", "--table", str(flow.table), "--pipeline", "p")
    assert '"framing": "array"' in shown.text
    files = shell("files", "--table", str(flow.table), "--json")
    assert json.loads(files.text.splitlines()[0])["framing"] == "array"
    assert "FRAMING" in shell("files", "--table", str(flow.table)).text
    assert "array" in shell("plan", *shell.where("--pipeline", "p", "--json")).text


def test_a_replay_reads_a_record_of_several_lines(tmp_path: Path) -> None:
    """One can be mended; one has a newline in a string, and stays what it is."""
    flow = Flow(tmp_path)
    mendable = json.dumps({"id": 2, "name": {"n": 2}}, indent=1).encode()
    hopeless = b'{"id": 3,\n"name": "a\nb"}'
    write(flow.src / "a.ndjson", framed("pretty", records(0, 2)) + mendable + hopeless)
    flow.run(spec=STRICT)
    assert [row["raw"] for row in flow.quarantined()] == [mendable, hopeless]
    replayed = replay_in(flow)
    assert (replayed.replayed, replayed.still_bad) == (1, 1)
    assert ids(flow.table) == [0, 1, 2]
    (row,) = flow.quarantined()
    assert (row["raw"], row["error_kind"], row["line"]) == (hopeless, "not_json", 4)
    assert position(flow).framing == "auto"


@pytest.mark.parametrize("shape", ["firehose", "array"])
def test_a_record_that_was_too_long_is_kept_alone_and_replayed_with_a_higher_limit(tmp_path: Path, shape: str) -> None:
    """What stands behind it in the file belongs to other records."""
    flow = Flow(tmp_path)
    long = {"id": 1, "name": "n" * 500}
    write(flow.src / "a.ndjson", framed(shape, [*records(0, 1), long, *records(2, 9)]))
    flow.run(spec={"max_record_bytes": 200})
    (kept,) = flow.quarantined()
    assert json.loads(kept["raw"]) == long
    assert kept["raw_bytes"] == len(kept["raw"])
    assert replay_in(flow).replayed == 1
    assert ids(flow.table) == list(range(9))
