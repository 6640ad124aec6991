"""Tables that the Rust program of the same name has filled: its position is taken over, or it is said why not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from blizzard.cli.main import main
from blizzard.core.recover import StartFrom
from blizzard.errors import Refused
from tests.flows.in_process import Flow, clean_up_log
from tests.ingesting import ids, write_ids

ADOPT = StartFrom(adopts=True)


def rust_commit(flow: Flow, mark: str | None, files: dict[str, Any], *rows: int) -> None:
    """Rows, and a position as the Rust program writes it: full paths, a new appId each time."""
    version = DeltaTable(str(flow.table)).version() if DeltaTable.is_deltatable(str(flow.table)) else -1
    state = {
        "schema_version": 1,
        "source_state": {"files": files, "last_committed_file": mark},
        "delta_version": version,
    }
    app_id = "blizzard:" + base64.b64encode(json.dumps(state).encode()).decode()
    deltalake.write_deltalake(
        str(flow.table),
        pa.table({"id": pa.array(rows, pa.int64()), "name": [f"n{i}" for i in rows]}),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, version + 1)]),
    )


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Files a (ids 0-2), b (3-8) and c (9-11); the Rust program has a, and the first three lines of b."""
    made = Flow(tmp_path)
    write_ids(made.src / "a.ndjson", 0, 3)
    write_ids(made.src / "b.ndjson", 3, 9)
    write_ids(made.src / "c.ndjson", 9, 12)
    rust_commit(made, None, {}, 0)
    rust_commit(made, f"file://{made.src}/a.ndjson", {f"file://{made.src}/b.ndjson": {"RecordsRead": 3}}, 1, 2, 3, 4, 5)
    return made


def refuses(flow: Flow, why: str) -> None:
    before = ids(flow.table)
    with pytest.raises(Refused, match=why) as error:
        flow.run(start_from=ADOPT)
    assert error.value.kind == "adopt_rejected"
    assert ids(flow.table) == before


def test_its_position_is_taken_over_and_what_is_known_of_it_is_told(flow: Flow) -> None:
    summary = flow.run(start_from=ADOPT)
    assert summary.records == 6
    assert ids(flow.table) == list(range(12))
    assert any("still in memory" in warning for warning in flow.told.warnings)
    again = flow.run()
    assert (again.recovery, again.commits, again.late_files) == ("log", 0, 0)


def test_without_being_told_it_is_refused_and_the_option_named(flow: Flow) -> None:
    with pytest.raises(Refused, match="--adopt") as error:
        flow.run()
    assert error.value.kind == "table_has_data"


@pytest.mark.parametrize("how", ["{}/a.ndjson", "file://{}/a.ndjson"])
def test_paths_are_understood_as_it_writes_them(tmp_path: Path, how: str) -> None:
    flow = Flow(tmp_path / "with space")
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 6)
    rust_commit(flow, how.format(flow.src), {}, 0, 1, 2)
    flow.run(start_from=ADOPT)
    assert ids(flow.table) == list(range(6))


def test_it_is_found_in_a_delta_checkpoint_too(flow: Flow) -> None:
    clean_up_log(flow.table)
    flow.run(start_from=ADOPT)
    assert ids(flow.table) == list(range(12))


def test_a_position_of_another_source_is_refused(flow: Flow) -> None:
    rust_commit(flow, "s3://elsewhere/a.ndjson", {}, 100)
    refuses(flow, "not below the source")


def test_a_position_over_staged_parquet_files_is_refused(flow: Flow) -> None:
    rust_commit(flow, "date=2024-01-01/0198.parquet", {}, 100)
    refuses(flow, "over Parquet files")


def test_an_empty_position_is_refused(flow: Flow) -> None:
    rust_commit(flow, None, {}, 100)
    refuses(flow, "is empty")


def test_a_file_in_progress_that_is_gone_is_refused(flow: Flow) -> None:
    (flow.src / "b.ndjson").unlink()
    refuses(flow, "b.ndjson is in progress")


def test_a_pipeline_with_a_position_of_its_own_keeps_it(flow: Flow) -> None:
    flow.run(start_from=ADOPT)
    refuses(flow, "a position of its own")


def test_a_table_without_any_is_refused(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    deltalake.write_deltalake(str(flow.table), pa.table({"id": [1], "name": ["x"]}))
    refuses(flow, "holds no position")


def test_plan_shows_what_would_be_taken_over(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["plan", *where, "--adopt", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["mark"], shown["backlog_files"]) == ("a.ndjson", 2)
    assert main(["plan", *where, "--adopt", "--start-from", "beginning"]) == 2
