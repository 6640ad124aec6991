"""Files of every framing through whole runs: each record once, whatever dies, and positions that say how to count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.codec import PREFIX, decode_json, decode_position
from blizzard.core.ledger import decode_ledger
from blizzard.core.plan import Limits
from blizzard.core.position import Position
from blizzard.errors import BadFile
from tests.flows.in_process import Flow, actions_of, log_file, newest, touch_again
from tests.ingesting import commit_actions, ids, write
from tests.source.framed import FRAMED, framed

SHAPES = sorted(set(FRAMED) - {"siblings"})
THREE = Limits(max_records=3)


class Killed(Exception):
    """The driver dies here."""


def die() -> None:
    raise Killed


def records(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i}"} for i in range(first, last)]


def payload(flow: Flow) -> dict[str, Any]:
    """The newest position as it is written."""
    return decode_json(app_id(flow))


def app_id(flow: Flow) -> str:
    (found,) = [
        action["txn"]["appId"]
        for action in commit_actions(flow.table, newest(flow.table))
        if "txn" in action and action["txn"]["appId"].startswith(PREFIX)
    ]
    return str(found)


def position(flow: Flow) -> Position:
    decoded = decode_position(app_id(flow))
    assert isinstance(decoded, Position)
    return decoded


@pytest.mark.parametrize("shape", SHAPES)
def test_each_record_is_in_the_table_once_whatever_dies(tmp_path: Path, shape: str) -> None:
    flow = Flow(tmp_path)
    for n in range(3):
        suffix = ".gz" if n == 1 else ""
        write(flow.src / f"{n}.ndjson{suffix}", framed(shape, records(7 * n, 7 * n + 7)))
    for attempt in range(30):
        if attempt % 2 == 0:
            with pytest.raises(Killed):
                flow.run(limits=THREE, max_batches=1, while_reading=die)
            continue
        summary = flow.run(limits=THREE, max_batches=1, slots=1 + attempt % 3)
        found = ids(flow.table)
        assert found == sorted(set(found))
        if len(found) == 21:
            break
    assert ids(flow.table) == list(range(21))
    assert summary.bad_records == 0
    assert flow.run().records == 0


def test_a_folder_may_mix_them(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    for n, shape in enumerate(SHAPES):
        write(flow.src / f"{n}.ndjson", framed(shape, records(10 * n, 10 * n + 10)))
    summary = flow.run(limits=Limits(max_records=17))
    assert ids(flow.table) == list(range(10 * len(SHAPES)))
    assert summary.framings == {"array": 4, "array:Records": 1, "concatenated": 3}
    said = [note for note in flow.told.notes if "not one record a line" in note]
    assert sorted(note.rpartition(" ")[2] for note in said) == ["array", "array:Records", "concatenated"]


def test_a_position_says_how_the_files_in_progress_are_counted(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("pretty array", records(0, 5)))
    flow.run(limits=THREE, max_batches=1, slots=1)
    said = payload(flow)
    assert said["schema_version"] == 3
    assert said["framing"] == "auto"
    assert said["source_state"]["files"] == {"a.ndjson": {"RecordsRead": 3}}
    assert said["file_versions"]["a.ndjson"]["framing"] == "array"
    newest_info = commit_actions(flow.table, newest(flow.table))
    ledger = next(decode_ledger(a["commitInfo"]["userMetadata"]) for a in newest_info if "commitInfo" in a)
    assert ledger is not None
    assert [(entry.path, entry.framing, entry.to_record) for entry in ledger.entries] == [("a.ndjson", "array", 3)]


def test_a_pipeline_of_lines_writes_what_older_releases_read(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("lines", records(0, 5)))
    flow.run(limits=THREE, max_batches=1, slots=1, framing="lines")
    said = payload(flow)
    assert said["schema_version"] == 2
    assert "framing" not in json.dumps(said)
    for info in actions_of(flow.table, "commitInfo"):
        assert "framing" not in info.get("userMetadata", "")


def test_a_pipeline_that_was_made_without_a_framing_goes_on_with_lines(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("lines", records(0, 3)))
    flow.run(framing="lines")  # its position is that of an older release
    write(flow.src / "b.ndjson", framed("array in lines", records(3, 6)))
    summary = flow.run()
    assert (summary.records, summary.bad_records) == (1, 4)  # as ever: only the last has no comma
    assert payload(flow)["schema_version"] == 2
    # Until somebody says otherwise, which is said once and holds from then on.
    write(flow.src / "c.ndjson", framed("array in lines", records(6, 9)))
    flow.run(framing="auto")
    assert [n for n in flow.told.notes if "source.framing" in n] == [
        "files that are not begun are read with source.framing auto now, before: lines"
    ]
    write(flow.src / "d.ndjson", framed("array in lines", records(9, 12)))
    flow.run(framing="auto")
    flow.run()
    assert len([n for n in flow.told.notes if "source.framing" in n]) == 1
    assert ids(flow.table) == [0, 1, 2, *range(5, 12)]
    assert payload(flow)["framing"] == "auto"


@pytest.mark.parametrize("setting", ["lines", "concatenated", "array:x"])
def test_a_file_in_progress_keeps_its_framing_whatever_is_set(tmp_path: Path, setting: str) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("array in lines", records(0, 8)))
    flow.run(limits=THREE, max_batches=1, slots=1)
    assert position(flow).marks.in_progress["a.ndjson"].framing == "array"
    flow.run(limits=THREE, max_batches=1, slots=1, framing=setting)
    in_progress = position(flow).marks.in_progress["a.ndjson"]
    assert (in_progress.records, in_progress.framing) == (6, "array")
    assert payload(flow)["schema_version"] == 3
    flow.run(framing=setting)
    assert ids(flow.table) == list(range(8))
    assert payload(flow)["schema_version"] == (2 if setting == "lines" else 3)


def test_a_set_framing_reads_all_files_with_it(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("siblings", records(0, 8)))
    summary = flow.run(framing="array:items", limits=THREE)
    assert ids(flow.table) == list(range(8))
    assert (summary.sibling_values, summary.sibling_fields) == (2, {"meta": 1, "next": 1})
    said = [warning.rpartition(": ")[2] for warning in flow.told.warnings if "beside the array of records" in warning]
    assert said == ["next", "meta"]


def test_a_damaged_payload_is_rebuilt_from_ledgers_with_the_framing(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("pretty", records(0, 9)))
    for _ in range(2):
        flow.run(limits=THREE, max_batches=1, slots=1)
    path = log_file(flow.table, newest(flow.table))
    whole = app_id(flow)
    path.write_text(path.read_text().replace(whole, whole[:-8] + "AAAAAAA="))
    summary = flow.run(limits=THREE)
    assert summary.recovery == "ledgers"
    assert ids(flow.table) == list(range(9))


def test_a_broken_frame_takes_nothing_of_the_file(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("array", records(0, 4)))
    write(flow.src / "b.ndjson", framed("array", records(4, 8))[:-1] + b' {"id":99}]')
    summary = flow.run()
    assert ids(flow.table) == [0, 1, 2, 3]
    assert summary.bad_files == 1
    (row,) = flow.quarantined()
    assert (row["source_file"], row["error_kind"], row["line"]) == ("b.ndjson", "corrupt", 4)
    assert "after record 4, at byte" in row["message"]


def test_what_was_committed_before_a_frame_breaks_stays(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("array", records(0, 4))[:-1] + b' {"id":99}]')
    flow.run(limits=THREE, max_batches=1, slots=1, spec={"block_bytes": 16})
    assert ids(flow.table) == [0, 1, 2]
    flow.run(spec={"block_bytes": 16})
    assert ids(flow.table) == [0, 1, 2]
    (row,) = flow.quarantined()
    assert (row["error_kind"], row["line"]) == ("corrupt", 4)


def test_under_fail_the_error_names_the_record(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", framed("array", records(0, 4))[:-1] + b' {"id":99}]')
    with pytest.raises(BadFile, match="after record 4, at byte") as caught:
        flow.run(bad=BadPolicy(files="fail"))
    assert caught.value.kind == "corrupt"


def test_a_file_that_was_written_anew_is_framed_anew(tmp_path: Path) -> None:
    """Nothing of it was committed, so nothing holds."""
    flow = Flow(tmp_path)
    path = write(flow.src / "a.ndjson", framed("array", records(0, 4))[:-1])
    flow.run()
    touch_again(path, framed("lines", records(0, 4)))
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3]
