"""Each function says what its command says with --json, and does what it does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any, cast

import pytest

import blizzard
from tests.flows.shell import Shell
from tests.ingesting import ids, write, write_ids

NO_SPARK = cast(Any, None)  # the tasks run in this process
DDL = "id BIGINT, name STRING"


@pytest.fixture
def where(tmp_path: Path, shell: Shell) -> dict[str, Any]:
    """A table with two sequences, a bad record, and a file that waits."""
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    write(tmp_path / "src" / "b.ndjson", b'{"id": 5}\n{"id": "<b>"}\n')
    found: dict[str, Any] = {"source": str(tmp_path / "src"), "table": str(tmp_path / "table")}
    blizzard.ingest(NO_SPARK, **found, schema=DDL, options={"limits.max_files": 1})
    write_ids(tmp_path / "src" / "c.ndjson", 6, 9)
    return found


def printed(shell: Shell, *words: str) -> Any:
    said = shell(*words, "--json")
    assert said.code == 0, said.text
    lines = said.text.splitlines()
    return [json.loads(line) for line in lines] if words[0] == "files" else json.loads(said.text)


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def flags(where: dict[str, Any]) -> Sequence[str]:
    return [word for name, value in where.items() for word in (f"--{name}", value)]


def test_plan(shell: Shell, where: dict[str, Any]) -> None:
    found = blizzard.plan(**where, validate=True)
    shown = printed(shell, "plan", *flags(where), "--validate")
    for one in (shown, ours := plain(found.to_dict())):
        for name in ("seconds", "mb_per_s", "backlog"):
            del one["validation"][name]
    ours["first_batch"] = [{k: v for k, v in one.items() if k != "given_up"} for one in ours["first_batch"]]
    assert ours == shown
    assert [(one.path, one.from_record) for one in found.first_batch] == [("c.ndjson", 0)]
    assert str(found) == f"pipeline {found.pipeline}: resumes from the log; 1 file, 63 bytes to read"


def test_plan_raises_what_ingest_would(tmp_path: Path, where: dict[str, Any]) -> None:
    write_ids(tmp_path / "other" / "a.ndjson", 0, 5)
    other = where | {"source": str(tmp_path / "other")}
    with pytest.raises(blizzard.Refused, match=r'start_from="beginning"') as planned:
        blizzard.plan(**other)
    with pytest.raises(blizzard.Refused) as ingested:
        blizzard.ingest(NO_SPARK, **other)
    assert (planned.value.kind, str(planned.value)) == (ingested.value.kind, str(ingested.value))


def test_status(shell: Shell, where: dict[str, Any]) -> None:
    found = blizzard.status(where["table"], source=where["source"], explain=True)
    shown = printed(shell, "status", *flags(where), "--explain")
    assert plain(found.to_dict()) == shown
    assert [(p.sequence, p.backlog_files) for p in found.pipelines] == [(2, 1)]
    with pytest.raises(FrozenInstanceError):
        found.version = 3  # type: ignore[misc]


def test_audit(shell: Shell, where: dict[str, Any]) -> None:
    found = blizzard.audit(**where)
    assert plain(found.to_dict()) == printed(shell, "audit", *flags(where))
    assert (found.ok, found.waiting, str(found)) == (
        True,
        ("c.ndjson",),
        "3 files listed, 2 ingested whole; nothing is wrong",
    )
    Path(where["source"], "a.ndjson").write_bytes(b'{"id": 1}\n')
    again = blizzard.audit(**where)
    assert (again.ok, list(again.problems)) == (False, ["rewritten"])


def test_files(shell: Shell, where: dict[str, Any]) -> None:
    found = blizzard.files(where["table"])
    ours = [{{"from_record": "from", "to_record": "to"}.get(k, k): v for k, v in asdict(f).items()} for f in found]
    assert ours == printed(shell, "files", "--table", where["table"])
    assert (len(found), found.files[0].path) == (2, "b.ndjson")


def test_rollback(shell: Shell, where: dict[str, Any], tmp_path: Path) -> None:
    would = blizzard.rollback(where["table"], to=1, source=where["source"], dry_run=True)
    shown = printed(shell, "checkpoint", "rollback", *flags(where), "--to", "1", "--dry-run")
    assert plain(would.to_dict()) == shown
    assert (would.done, would.sequence, ids(tmp_path / "table")) == (False, None, list(range(6)))
    done = blizzard.rollback(where["table"], to=1, source=where["source"])
    assert (done.done, done.sequence, done.records, done.source_files) == (True, 3, 1, ("b.ndjson",))
    assert ids(tmp_path / "table") == list(range(5))
    assert blizzard.ingest(NO_SPARK, **where).records == 4
    assert ids(tmp_path / "table") == list(range(9))


def test_quarantine(shell: Shell, where: dict[str, Any], tmp_path: Path) -> None:
    found = blizzard.quarantine(where["table"])
    shown = printed(shell, "dlq", "list", "--table", where["table"])
    ours = found.to_dict()
    assert {name: ours[name] for name in ours if name != "groups"} == {k: v for k, v in shown.items() if k != "groups"}
    assert [(g.source_file, g.error_kind, g.records) for g in found.groups] == [("b.ndjson", "bad_value", 1)]
    (record,) = found.show()
    assert (record.source_file, record.line, record.raw) == ("b.ndjson", 2, b'{"id": "<b>"}')
    out = str(tmp_path / "bad.ndjson")
    assert found.export(out).written == 1
    assert Path(out).read_bytes() == b'{"id": "<b>"}\n'
    with pytest.raises(blizzard.ConfigError, match=r'^out="[^"]*" is already there.* force=True\.$'):
        found.export(out)
    done = found.replay(source=where["source"])
    assert (done.replayed, done.still_bad) == (0, 1)
    assert blizzard.quarantine(where["table"], kind="not_json").records == 0


def test_a_purge_says_what_it_needs(where: dict[str, Any]) -> None:
    found = blizzard.quarantine(where["table"])
    with pytest.raises(blizzard.ConfigError, match=r"needs older_than= or a filter; all=True deletes everything"):
        found.purge()
    with pytest.raises(blizzard.ConfigError, match=r"older_than= takes an age such as 30d"):
        found.purge(older_than="soon")
    assert found.purge(older_than="1d") == 0
    assert found.purge(all=True) == 1
    assert blizzard.quarantine(where["table"]).records == 0


def test_orphans_are_not_replayed(where: dict[str, Any]) -> None:
    with pytest.raises(blizzard.ConfigError, match="orphans are not replayed"):
        blizzard.quarantine(where["table"], orphans=True).replay(source=where["source"])


def test_a_replayed_record_is_a_row(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path / "src" / "a.ndjson", b'{"id": 1, "at": "7 May"}\n{"id": 2}\n')
    where: dict[str, Any] = {"source": str(tmp_path / "src"), "table": str(tmp_path / "table")}
    blizzard.ingest(NO_SPARK, **where, schema="id BIGINT, at DATE")
    options = {"bad_records.policy": "rescue"}
    done = blizzard.quarantine(where["table"], options=options).replay(source=where["source"])
    assert (done.replayed, ids(tmp_path / "table")) == (1, [1, 2])


def test_a_configuration_file_says_the_rest(tmp_path: Path, where: dict[str, Any]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"source: {{path: {where['source']}}}\ntable: {{path: {where['table']}}}\n")
    assert blizzard.plan(config=str(file)).backlog_files == 1
    assert blizzard.status(config=str(file)).pipelines[0].backlog_files == 1
    assert blizzard.audit(config=str(file)).ok
    assert blizzard.ingest(NO_SPARK, config=str(file)).records == 3
    assert blizzard.plan(config=str(file), table=str(tmp_path / "other"), schema=DDL).backlog_files == 3


def test_one_of_several_targets(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    source = str(tmp_path / "src")
    targets = {name: {"table": str(tmp_path / name), "schema": DDL} for name in ("one", "two")}
    assert blizzard.plan(source=source, targets=targets, target="two").creates_table
    blizzard.ingest(NO_SPARK, source=source, targets=targets)
    assert blizzard.plan(source=source, targets=targets, target="two").backlog_files == 0
    assert blizzard.audit(source=source, targets=targets, target="one").ingested == 1
    assert [f.path for f in blizzard.files(targets=targets, target="two")] == ["a.ndjson"]
    assert blizzard.quarantine(targets=targets, target="two").records == 0
    assert blizzard.rollback(targets=targets, target="two", to=0, source=source, dry_run=True).records == 5
    for call in (blizzard.status, blizzard.files, blizzard.quarantine):
        with pytest.raises(blizzard.ConfigError, match=r"say target=NAME, with one of one, two"):
            call(targets=targets)
