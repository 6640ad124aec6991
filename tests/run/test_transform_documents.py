"""The examples of docs/transforms.md do what they say."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.shell import Shell
from tests.ingesting import rows, write

TEXT = (Path(__file__).parents[2] / "docs/transforms.md").read_text()


def indented_after(line: str) -> str:
    """The indented block that begins with this line."""
    start = TEXT.index(f"    {line}")
    block = re.match(r"(?:    .*\n|\n(?=    ))+", TEXT[start:])
    assert block is not None
    return re.sub(r"^    ", "", block[0], flags=re.MULTILINE)


def test_the_configuration_with_sql(tmp_path: Path, shell: Shell) -> None:
    tree: dict[str, Any] = yaml.safe_load(indented_after("source:"))
    tree["source"]["path"], tree["table"]["path"] = str(tmp_path / "src"), str(shell.table)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(tree))
    write(
        tmp_path / "src/a.ndjson",
        b'{"id":1,"name":"a","amount":"1.50","ts":"2026-01-31 08:00:00+01"}\n{"name":"b"}\n'
        b'{"id":2,"name":"c","amount":"much","ts":"2026-01-31T08:00:00Z"}\n{"id":3,"ts":"never"}\n',
    )
    said = shell("run", "--config", str(tmp_path / "config.yaml"))
    assert (said.code, said.last["records"], said.last["filtered_records"], said.last["bad_records"]) == (0, 2, 1, 1)
    first, second = rows(shell.table)
    assert (first["name"], first["amount"], first["ts"].isoformat()) == (
        "A",
        Decimal("1.50"),
        "2026-01-31T07:00:00+00:00",
    )
    assert (second["name"], second["amount"]) == ("C", None)


def test_the_function(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cleaning.py").write_text(indented_after("# cleaning.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cleaning", raising=False)
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"a"}\n{"name":"b"}\n')
    (words,) = re.findall(r"blizzard run … (--schema .+)", TEXT)
    found = re.fullmatch(r"--schema '([^']+)' --set (\S+)", words)
    assert found is not None
    where = ["--source", str(tmp_path / "src"), "--table", str(shell.table)]
    said = shell("run", *where, "--schema", found[1], "--set", found[2])
    assert said.code == 0, said.text
    assert rows(shell.table) == [{"id": 1, "name": "A"}]
