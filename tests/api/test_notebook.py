"""docs/notebook.ipynb runs from its first cell to its last, in a kernel and with a Spark session of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DOCUMENT = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def read() -> Any:
    return nbformat.reads(DOCUMENT.read_text(), as_version=4)  # type: ignore[no-untyped-call]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(notebook: Any, begins: str, kind: str) -> list[str]:
    """What the cell that begins with this shows in one form, such as text/html."""
    (cell,) = [cell for cell in code_cells(notebook) if cell.source.startswith(begins)]
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]


def test_it_holds_no_output_and_no_place_of_a_machine() -> None:
    notebook = read()
    nbformat.validate(notebook)
    assert len(code_cells(notebook)) > 10
    assert {(len(cell.outputs), cell.execution_count) for cell in code_cells(notebook)} == {(0, None)}
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", DOCUMENT.read_text())


@pytest.mark.spark
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # it computes next to nothing
    notebook = read()
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    errors = [output for cell in code_cells(notebook) for output in cell.outputs if output.output_type == "error"]
    assert errors == []
    for begins in ("blizzard.plan", "summary =", "blizzard.status", "bad =", "audit =", "again =", "blizzard.files"):
        (html,) = outputs_of(notebook, begins, "text/html")
        assert html.startswith("<table>"), begins
    assert (
        "done: 3 records, 2 files finished, 1 commit; 1 bad record" in outputs_of(notebook, "summary", "text/html")[0]
    )
    assert outputs_of(notebook, "blizzard.ingest(spark", "text/plain") == ["'idle'"]
    assert "four" in outputs_of(notebook, "[(record", "text/plain")[0]
    assert outputs_of(notebook, "from deltalake", "text/plain") == ["[1, 2, 3]"]
    logged = "".join(output.get("text", "") for output in notebook.cells[8].outputs)
    assert "INFO batch 1: committed version 1, sequence 1: 3 records in" in logged
