"""A table whose files lie where the source is looked for: a pipeline never reads what it has written itself."""

from __future__ import annotations

import pytest

from tests.flows.shell import Shell
from tests.ingesting import DDL, ids, write_ids


@pytest.mark.parametrize("pattern", [None, "**/*.json", "**"])
def test_a_table_inside_the_source_is_not_read_as_a_source(shell: Shell, pattern: str | None) -> None:
    """Names that begin with _ are no source files, and so its log is none. Its Parquet files are held, not used up."""
    src = shell.folder / "src"
    chosen = [] if pattern is None else ["--set", f"source.pattern={pattern}"]
    for run in range(3):
        write_ids(src / f"{run}.json", run * 10, run * 10 + 3)
        said = shell("run", "--source", str(src), "--table", str(src / "table"), "--schema", DDL, *chosen)
        assert (said.code, said.last["records"], said.last["bad_records"]) == (0, 3, 0)
    assert ids(src / "table") == [0, 1, 2, 10, 11, 12, 20, 21, 22]


@pytest.mark.parametrize("of", ["table", "table_quarantine"])
def test_the_log_of_its_own_table_is_no_source(shell: Shell, of: str) -> None:
    """Each commit would be a new file to read: every run would find one, and one that follows never rests."""
    write_ids(shell.folder / "src" / "a.json", 0, 3)
    assert shell.run().code == 0
    log = shell.folder / of / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for source in (str(log), f"{log}/*.json"):
        said = shell.run("--source", source, "--pipeline", "q", "--start-from", "beginning")
        assert (said.code, said.kind) == (2, "usage")
        assert "each commit of a run would be a new file" in said.last["error"]
    assert ids(shell.table) == [0, 1, 2]
