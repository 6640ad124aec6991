"""Where the quarantine table may be is settled before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import blizzard
from blizzard.errors import ConfigError
from tests.ingesting import write


def run(folder: Path, quarantine: str) -> Any:
    """Without a session: what is wrong must be said before one is asked for."""
    return blizzard.ingest(
        None,
        source=str(folder / "src"),
        table=str(folder / "table"),
        schema="id BIGINT",
        options={"quarantine.path": str(folder / quarantine), "spark.slots": 1},
    )


@pytest.mark.parametrize("quarantine", ["table", "table/bad", "."])
def test_the_quarantine_and_the_table_are_not_inside_each_other(tmp_path: Path, quarantine: str) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1}\nbad\n')
    with pytest.raises(ConfigError, match=r"quarantine\.path"):
        run(tmp_path, quarantine)
    assert not (tmp_path / "table").exists()


def test_another_table_in_the_place_of_the_quarantine_is_found_before_a_commit(tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1}\nbad\n')
    deltalake.write_deltalake(str(tmp_path / "other"), pa.table({"x": [1]}))
    with pytest.raises(ConfigError) as error:
        run(tmp_path, "other")
    assert error.value.kind == "not_a_quarantine_table"
    assert not (tmp_path / "table").exists()
