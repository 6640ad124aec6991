"""Reading a file again that somebody has left out: what of it is in the table is not read twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.core.plan import Limits
from blizzard.errors import ConfigError
from tests.flows.in_process import Flow, clean_up_log
from tests.ingesting import ids, write_ids
from tests.operate.test_one_version import cli


def test_a_file_that_was_ingested_and_then_left_out_is_not_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = Flow(tmp_path).first_run()
    assert cli(flow, "skip", "--file", "a.ndjson", "--yes") == 0
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == ConfigError.exit_code
    assert "was ingested whole, 3 lines" in capsys.readouterr().err
    flow.run()
    assert ids(flow.table) == [0, 1, 2]


def test_of_a_file_that_was_read_in_part_the_rest_is_read(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 5)
    flow.run(limits=Limits(max_records=2), max_batches=1)
    for _ in range(2):
        assert cli(flow, "skip", "--file", "a.ndjson", "--yes") == 0
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == 0
    flow.run()
    assert ids(flow.table) == list(range(5))


def test_a_file_of_which_nothing_was_read_is_read_whole(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 5)
    assert cli(flow, "skip", "--file", "b.ndjson", "--yes") == 0
    flow.run()
    assert cli(flow, "reset", "--file", "b.ndjson", "--yes") == 0
    flow.run()
    assert ids(flow.table) == list(range(5))


def test_where_ledgers_are_gone_a_person_has_to_say_from_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = Flow(tmp_path).first_run()
    clean_up_log(flow.table)
    assert cli(flow, "skip", "--file", "a.ndjson", "--yes") == 0
    assert cli(flow, "reset", "--file", "a.ndjson", "--yes") == ConfigError.exit_code
    assert "--from-record 0" in capsys.readouterr().err
    flow.run()
    assert ids(flow.table) == [0, 1, 2]
