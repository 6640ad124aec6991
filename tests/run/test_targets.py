"""One source into several tables: each target has its own position, and stands or falls by itself."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from blizzard.core.late import Scope
from blizzard.core.look import Listed
from blizzard.source.listed import ListedSource
from tests.flows.in_process import InProcessReader
from tests.flows.shell import Said, Shell
from tests.ingesting import DDL, write_ids


def configure(shell: Shell, targets: dict[str, dict[str, Any]], **keys: Any) -> list[str]:
    """The words of a command with these targets, each at the folder of its name."""
    tree = {"source": {"path": str(shell.folder / "src")}, "schema": {"ddl": DDL}, **keys}
    tree["targets"] = {
        name: {**own, "table": {"path": str(shell.folder / name), **own.get("table", {})}}
        for name, own in targets.items()
    }
    path = shell.folder / "targets.yaml"
    path.write_text(yaml.safe_dump(tree))
    return ["--config", str(path), "--pipeline", "p"]


def run(shell: Shell, targets: dict[str, dict[str, Any]], *words: str, **keys: Any) -> Said:
    return shell("run", *configure(shell, targets, **keys), *words)


def rows(shell: Shell, name: str) -> list[int]:
    table = DeltaTable(str(shell.folder / name))
    return sorted(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())


def test_each_target_gets_every_record_once(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    said = run(shell, {"one": {}, "two": {}, "three": {}})
    assert (said.code, said.last["status"], said.last["files"]) == (0, "done", 1)
    assert {name: t["records"] for name, t in said.last["targets"].items()} == {"one": 10, "two": 10, "three": 10}
    write_ids(shell.folder / "src" / "b.ndjson", 10, 15)
    assert run(shell, {"one": {}, "two": {}, "three": {}}).code == 0
    for name in ("one", "two", "three"):
        assert rows(shell, name) == list(range(15))
    assert run(shell, {"one": {}, "two": {}, "three": {}}).last["status"] == "idle"


def test_a_new_target_begins_at_the_earliest_file_alone(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"one": {}})
    before = DeltaTable(str(shell.folder / "one")).version()
    said = run(shell, {"one": {}, "new": {}})
    assert said.code == 0
    assert rows(shell, "new") == list(range(10))
    assert DeltaTable(str(shell.folder / "one")).version() == before


def test_a_new_target_begins_where_it_is_told_to_and_only_then(shell: Shell) -> None:
    for i, name in enumerate("abc"):
        write_ids(shell.folder / "src" / f"{name}.ndjson", 10 * i, 10 * i + 10)
    targets = {"one": {}, "new": {"start_from": "after:a.ndjson"}}
    assert run(shell, targets).code == 0
    assert rows(shell, "new") == list(range(10, 30))
    write_ids(shell.folder / "src" / "d.ndjson", 30, 40)
    assert run(shell, targets).code == 0
    assert rows(shell, "new") == list(range(10, 40))


@pytest.mark.parametrize(
    ("start", "text"),
    [
        ("after:b.ndjson", "start_from after:b.ndjson: there is no such file in the source"),
        ("nowhere", "start_from takes 'beginning', 'after:NAME' or a date"),
    ],
)
def test_a_start_that_cannot_be_is_refused_by_the_name_of_its_key(shell: Shell, start: str, text: str) -> None:
    """It was called --start-from, which no run with targets takes."""
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    said = run(shell, {"one": {"start_from": start}})
    assert (said.code, said.kind) == (2, "usage")
    assert text in said.text
    assert "--start-from" not in said.text


def break_table(shell: Shell, name: str) -> Path:
    """Its newest commit can no longer be read."""
    log = max((shell.folder / name / "_delta_log").glob("*.json"))
    log.rename(log.with_suffix(".away"))
    log.write_text("{broken")
    return log


def mend_table(log: Path) -> None:
    log.with_suffix(".away").rename(log)


@pytest.mark.parametrize(
    ("policy", "optional", "goes_on"),
    [("required", True, True), ("required", False, False), ("all", None, False), ("quorum:1", None, True)],
)
def test_a_target_that_fails_stays_where_it_is_and_catches_up_later(
    shell: Shell, policy: str, optional: bool | None, goes_on: bool
) -> None:
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {}}
    if optional:
        targets["bad"]["required"] = False
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    assert run(shell, targets, commit_policy=policy).code == 0
    log = break_table(shell, "bad")
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    said = run(shell, targets, commit_policy=policy)
    assert said.last["targets"]["bad"]["status"] == "failed"
    assert said.last["targets"]["bad"]["error"]
    if goes_on:
        assert (said.code, rows(shell, "good")) == (0, list(range(20)))
    else:
        assert (said.code, said.last["status"], rows(shell, "good")) == (3, "failed", list(range(10)))
    mend_table(log)
    before = DeltaTable(str(shell.folder / "good")).version()
    assert run(shell, targets, commit_policy=policy).code == 0
    assert Counter(rows(shell, "bad")) == Counter(range(20))
    assert Counter(rows(shell, "good")) == Counter(range(20))
    if goes_on:
        assert DeltaTable(str(shell.folder / "good")).version() == before


def test_the_source_is_listed_once_for_all_targets(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = list[Scope](), ListedSource.look

    def counted(source: ListedSource, scope: Scope) -> Listed:
        looks.append(scope)
        return look(source, scope)

    monkeypatch.setattr(ListedSource, "look", counted)
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"one": {}, "two": {}, "three": {}})
    first = len(looks)
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    run(shell, {"one": {}, "two": {}, "three": {}})
    assert (first, len(looks)) == (1, 2)


def test_a_target_that_is_fenced_ends_the_run_before_the_others_commit(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two drivers at one batch only one passes the first table."""
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    targets: dict[str, dict[str, Any]] = {"one": {"required": False}, "two": {"required": False}}
    assert run(shell, targets).code == 0
    first, second = sorted(("one", "two"), key=lambda name: str(DeltaTable(str(shell.folder / name)).metadata().id))
    before = DeltaTable(str(shell.folder / second)).version()
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    words = ["checkpoint", "reset", "--file", "a.ndjson", "--from-record", "10", "--yes", "--pipeline", "p"]
    words += ["--source", str(shell.folder / "src"), "--table", str(shell.folder / first)]
    read, meanwhile = InProcessReader.run, iter([words])  # it takes the sequence of the batch that is being read

    def overtaken(reader: InProcessReader, *given: Any, **named: Any) -> Any:
        for command in meanwhile:
            shell(*command)
        return read(reader, *given, **named)

    monkeypatch.setattr(InProcessReader, "run", overtaken)
    said = run(shell, targets)
    assert (said.code, said.last["error_kind"]) == (4, "fenced")
    assert DeltaTable(str(shell.folder / second)).version() == before
    assert run(shell, targets).code == 0
    assert [rows(shell, name) for name in (first, second)] == [list(range(20))] * 2


def write_kinds(shell: Shell, name: str, *kinds: str | None) -> None:
    """Records with ids from 0 on; names that are no texts make a record bad for the schema."""
    path = shell.folder / "src" / name
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"id": i, "name": kind}) for i, kind in enumerate(kinds)]
    path.write_text("\n".join([*lines, "oops", '{"id":"x","name":"b"}']) + "\n")


ROUTED: dict[str, dict[str, Any]] = {"first": {"where": "name = 'a'"}, "second": {"where": "name IN ('b', 'c')"}}


def test_each_record_goes_to_the_targets_that_want_it(shell: Shell) -> None:
    write_kinds(shell, "a.ndjson", "a", "b", "c", "d", None, "a")
    said = run(shell, ROUTED)
    assert said.code == 0, said.text
    assert (rows(shell, "first"), rows(shell, "second")) == ([0, 5], [1, 2])
    first, second = (said.last["targets"][name] for name in ("first", "second"))
    # What is no object is bad for both; what the schema refuses is bad where it was wanted.
    assert (first["bad_records"], second["bad_records"]) == (1, 2)
    assert (first["filtered_records"], first["unrouted_records"]) == (5, 2)
    assert (second["filtered_records"], second["unrouted_records"]) == (4, 0)
    kept = DeltaTable(str(shell.folder / "first_quarantine")).to_pyarrow_table().to_pylist()
    assert sorted(row["error_kind"] for row in kept) == ["not_json", "unrouted", "unrouted"]
    assert sorted(row["line"] for row in kept if row["error_kind"] == "unrouted") == [4, 5]
    listed = shell("dlq", "list", "--target", "first", *configure(shell, ROUTED)).text
    assert "2 of them are for no target: they are never replayed" in listed


def test_unrouted_records_can_be_dropped_and_are_counted(shell: Shell) -> None:
    write_kinds(shell, "a.ndjson", "a", "b", "d")
    said = run(shell, ROUTED, unrouted="drop")
    assert (said.code, said.last["targets"]["first"]["unrouted_records"]) == (0, 1)
    kept = DeltaTable(str(shell.folder / "first_quarantine")).to_pyarrow_table().to_pylist()
    assert [row["error_kind"] for row in kept] == ["not_json"]


def test_a_condition_that_cannot_be_judged_is_refused_by_name(shell: Shell) -> None:
    write_kinds(shell, "a.ndjson", "a")
    said = run(shell, {"one": {"where": "name = (SELECT 1)"}})
    assert (said.code, said.last["error_kind"]) == (2, "where")


def test_a_mistake_in_the_condition_of_another_target_is_said_of_that_one(shell: Shell) -> None:
    """The first target asks all conditions, for records that are for no target."""
    write_kinds(shell, "a.ndjson", "a")
    said = run(shell, {"one": {"where": "name = 'a'"}, "two": {"where": "name > 3", "required": False}})
    assert (said.code, said.last["error_kind"]) == (2, "where")
    assert "one: this target stays where it is" in said.text
    assert "the condition of target two is needed to know which records are for no target: where: name" in said.text


@pytest.mark.parametrize("is_given", [True, False])
def test_where_a_table_cannot_be_opened_no_guess_decides_what_is_unrouted(shell: Shell, is_given: bool) -> None:
    """The first target asks all conditions. `name` is a number in the new file alone: inferred from it, the condition
    of the second table would be judged as another one."""
    two = {"where": "name = '7'", "required": False}
    targets: dict[str, dict[str, Any]] = {"one": {"where": "id < 10"}, "two": two}
    keys: dict[str, Any] = {} if is_given else {"schema": {"infer": True}}
    first, later = (shell.folder / "src" / name for name in ("a.ndjson", "b.ndjson"))
    first.parent.mkdir()
    first.write_text('{"id":1,"name":"7"}\n')
    assert run(shell, targets, **keys).code == 0
    log = break_table(shell, "two")
    first.unlink()
    later.write_text('{"id":11,"name":7}\n')
    said = run(shell, targets, **keys)
    if is_given:
        assert (said.code, said.last["targets"]["two"]["status"]) == (0, "failed")
    else:
        assert (said.code, said.last["targets"]["one"]["status"]) == (3, "failed")
        assert "the condition of target two is needed to know which records are for no target" in said.text
    mend_table(log)
    assert run(shell, targets, **keys).code == 0


def test_a_target_begins_after_no_name_where_each_folder_has_its_own_mark(shell: Shell) -> None:
    """The one name would leave nothing out: a table that holds the files up to it would get them twice."""
    write_ids(shell.folder / "src" / "region=eu" / "a.ndjson", 0, 5)
    source = {"path": str(shell.folder / "src"), "marks_per": "region"}
    said = run(shell, {"one": {"start_from": "after:region=eu/a.ndjson"}}, source=source)
    assert (said.code, said.last["error_kind"]) == (2, "usage")
    assert "there is no one mark to begin after" in said.text


@pytest.mark.parametrize("own", [None, {}, {"table": {}}, {"table": {}, "schema": {"formats": {}}}])
def test_a_target_of_which_nothing_is_said_is_not_left_out(shell: Shell, own: dict[str, Any] | None) -> None:
    """The others would not wait for it, and source files that it must still read would be deleted."""
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    (words, path) = (configure(shell, {"one": {}}), shell.folder / "targets.yaml")
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(tree | {"targets": tree["targets"] | {"two": own}}))
    said = shell("run", *words)
    assert (said.code, said.kind) == (2, "usage")
    assert "targets.two.table.path is missing" in said.text
    assert not (shell.folder / "one").exists()


def test_one_table_takes_where_too(shell: Shell) -> None:
    write_kinds(shell, "a.ndjson", "a", "b")
    said = shell.run("--set", "where=name = 'a'", "--pipeline", "p")
    assert (said.code, said.last["filtered_records"], rows(shell, "table")) == (0, 2, [0])
