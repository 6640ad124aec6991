"""What a person sees and commands about several targets: every command that looks shows each, every other one wants a
name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.run.clock import SystemClock
from tests.cli.every_command import COMMANDS, arguments
from tests.flows.shell import Shell
from tests.ingesting import write, write_ids
from tests.run.test_targets import break_table, configure, mend_table, rows, run

# Those that show every target where none is named.
LOOKS = ("plan", "plan --validate", "status", "report", "files", "audit")
# Those that act on the whole pipeline where none is named.
FOR_ALL = ("pause", "resume")
# Those that need no table, and take what is for all targets.
OF_SOURCE = ("schema infer",)
ONE = [name for name in COMMANDS if name not in (*LOOKS, *FOR_ALL, *OF_SOURCE, "run")]


def json_of(shell: Shell, *words: str) -> Any:
    said = shell(*words, "--json")
    return json.loads(said.text[: said.text.rindex("}") + 1])


def words_of(command: str) -> list[str]:
    return [word for word in arguments(command) if word not in ("--pipeline", "p", "--json")]


def two(shell: Shell, **keys: Any) -> list[str]:
    """Two targets with the records of two files; what names them."""
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    write(shell.folder / "src" / "b.ndjson", b'{"id": 10}\nnonsense\n')
    assert run(shell, {"one": {}, "two": {}}, **keys).code == 0
    return ["--config", str(shell.folder / "targets.yaml")]


@pytest.mark.parametrize("command", ONE)
def test_a_command_for_one_table_wants_a_name_and_says_which_there_are(shell: Shell, command: str) -> None:
    config = two(shell)
    needs = ["--pipeline", "p"] if command == "checkpoint export" else []
    said = shell(*words_of(command), *needs, *config)
    assert (said.code, said.kind) == (2, "usage")
    assert "--target NAME" in said.text
    assert "one, two" in said.text


@pytest.mark.parametrize("command", [*ONE, *LOOKS, *FOR_ALL])
def test_every_command_takes_a_target(shell: Shell, command: str) -> None:
    config = two(shell)
    needs = ["--pipeline", "p"] if command == "checkpoint export" else []
    said = shell(*words_of(command), *needs, *config, "--target", "two")
    assert said.code == COMMANDS[command][1], said.text


@pytest.mark.parametrize("command", [*ONE, *LOOKS, *FOR_ALL])
def test_a_table_or_a_name_that_is_not_there_is_refused(shell: Shell, command: str) -> None:
    config = two(shell)
    needs = ["--pipeline", "p"] if command == "checkpoint export" else []
    said = shell(*words_of(command), *needs, *config, "--target", "three")
    assert (said.code, said.kind) == (2, "usage")
    assert "no target 'three'; its targets: one, two" in said.text
    if command == "try":
        return
    for target in ([], ["--target", "one"]):
        said = shell(*words_of(command), *needs, *config, *target, "--table", str(shell.folder / "one"))
        assert (said.code, said.kind) == (2, "usage")
        assert "leave --table out" in said.text


def test_a_target_where_there_are_none_is_refused(shell: Shell) -> None:
    said = shell("status", "--table", str(shell.folder / "t"), "--target", "one")
    assert (said.code, said.kind) == (2, "usage")
    assert "it has none" in said.text


@pytest.mark.parametrize("command", LOOKS)
def test_a_look_shows_every_target(shell: Shell, command: str) -> None:
    config = two(shell)
    shown = json_of(shell, *words_of(command), *config)
    assert list(shown["targets"]) == ["one", "two"]
    if command == "report":
        return
    text = shell(*words_of(command), *config).text
    assert text.index("target one") < text.index("target two")


@pytest.mark.parametrize("command", LOOKS)
def test_a_target_that_cannot_be_looked_at_does_not_hide_the_others(shell: Shell, command: str) -> None:
    config = two(shell)
    log = break_table(shell, "one")
    said = shell(*words_of(command), *config, "--json")
    shown = json.loads(said.text[: said.text.rindex("}") + 1])
    alone = shell(*words_of(command), *config, "--target", "one")
    assert shown["targets"]["one"]["error_kind"] == alone.kind or command == "report"
    assert said.code == alone.code == 3
    assert shown["targets"]["two"].get("error") is None if isinstance(shown["targets"]["two"], dict) else True
    if command != "report":
        text = shell(*words_of(command), *config).text
        assert f"[{alone.kind}]" in text
        assert "target two" in text
    mend_table(log)


def test_a_flag_is_about_the_target_that_is_named(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    configure(shell, {"one": {"table": {"committer": "delta-rs"}}, "two": {}})
    config = ["--config", str(shell.folder / "targets.yaml")]
    said = shell("plan", *config, "--committer", "delta-spark")
    assert (said.code, said.kind) == (2, "usage")
    assert "target one has its own" in said.text
    shown = json_of(shell, "plan", *config, "--target", "two", "--schema", "id DATE", "--validate")
    assert (shown["validation"]["rows"], shown["validation"]["bad"]) == (0, 10)


def status_of(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = json_of(shell, "status", "--config", str(shell.folder / "targets.yaml"))["targets"]
    return found


def test_the_status_says_who_is_behind_and_what_would_be_missed(shell: Shell) -> None:
    optional: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False}}
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, optional)
    log = break_table(shell, "bad")
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    after = {"after_ingest": {"action": "archive", "archive_path": str(shell.folder / "done")}}
    run(shell, {"good": {}, "bad": {"required": False}}, **after)
    mend_table(log)
    write_ids(shell.folder / "src" / "c.ndjson", 20, 30)
    found = status_of(shell)
    size = (shell.folder / "src" / "b.ndjson").stat().st_size
    assert (found["good"]["state"], found["good"]["required"], found["good"]["backlog_files"]) == ("front", True, 1)
    assert (found["bad"]["state"], found["bad"]["required"], found["bad"]["backlog_files"]) == ("behind", False, 2)
    assert (found["bad"]["behind_files"], found["bad"]["behind_bytes"]) == (1, size)
    assert (found["good"]["waiting_files"], found["bad"]["waiting_files"]) == (0, 1)
    text = shell("status", "--config", str(shell.folder / "targets.yaml")).text
    assert "target good (required): as far as any other target\n" in text
    assert f"target bad (not required): behind the others by 1 file, {size} bytes\n" in text
    assert "if removed  it misses its backlog: 2 files" in text
    assert "after_ingest waits for it with 1 file" in text
    assert "commit_policy required\n" in text


def test_the_status_knows_a_new_target_and_one_that_would_be_refused(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"one": {}})
    shell("run", "--source", str(shell.folder / "src"), "--table", str(shell.folder / "other"), "--schema", "id BIGINT")
    targets: dict[str, dict[str, Any]] = {"one": {}, "new": {}, "later": {"start_from": "after:a.ndjson"}}
    configure(shell, targets)
    found = status_of(shell)
    assert [found[name]["state"] for name in targets] == ["front", "new", "new"]
    assert [found[name]["backlog_files"] for name in targets] == [0, 1, 0]
    text = shell("status", "--config", str(shell.folder / "targets.yaml")).text
    assert "target new (required): new: nothing is committed to it" in text
    assert "next start  makes the table, and begins at the earliest file" in text
    assert "next start  makes the table, and begins after:a.ndjson" in text
    configure(shell, {"one": {}, "other": {}})
    said = shell("status", "--config", str(shell.folder / "targets.yaml"))
    assert said.code == 3
    assert "target other (required): the next start refuses" in said.text


def plan_of(shell: Shell, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json_of(shell, "plan", "--config", str(shell.folder / "targets.yaml"), *words)
    return found


def test_the_plan_says_who_shares_the_next_read_and_who_lags(shell: Shell) -> None:
    for i, name in enumerate("abcd"):
        write_ids(shell.folder / "src" / f"{name}.ndjson", 10 * i, 10 * i + 10)
    run(shell, {"one": {}, "two": {}}, "--max-batches", "2", limits={"max_files": 1})
    configure(shell, {"one": {}, "two": {}, "young": {}}, limits={"max_files": 1})
    found = plan_of(shell)
    assert (found["ends_run"], found["commit_policy"]) == (None, "required")
    read = found["next_read"]
    assert (read["targets"], read["in_turn"]) == (["one", "two"], ["young"])
    assert [(s["path"], s["from_record"]) for s in read["slices"]] == [("c.ndjson", {"one": 0, "two": 0})]
    first = {name: [s["path"] for s in target["first_batch"]] for name, target in found["targets"].items()}
    assert first == {"one": ["c.ndjson"], "two": ["c.ndjson"], "young": ["a.ndjson"]}
    assert found["targets"]["young"]["creates_table"]
    text = shell("plan", "--config", str(shell.folder / "targets.yaml")).text
    assert "for one, two at once" in text
    assert "in turn     young, with batches" in text
    # And so it is done.
    said = shell("run", "--config", str(shell.folder / "targets.yaml"), "--pipeline", "p", "--max-batches", "1")
    assert said.code == 0
    assert (rows(shell, "one"), rows(shell, "young")) == (list(range(30)), list(range(10)))


def test_the_plan_says_whose_error_ends_the_run(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"good": {}, "bad": {"required": False}})
    break_table(shell, "bad")
    write_ids(shell.folder / "src" / "b.ndjson", 10, 20)
    for policy, ends in (("required", None), ("all", "bad"), ("quorum:1", None), ("quorum:2", "bad")):
        own: dict[str, Any] = {"required": False} if policy == "required" else {}
        configure(shell, {"good": {}, "bad": own}, commit_policy=policy)
        found = plan_of(shell)
        assert (found["ends_run"], found["next_read"] is None) == (ends, ends is not None)
        assert found["targets"]["bad"]["exit_code"] == 3


def test_the_plan_validates_for_each_target(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {"schema": {"ddl": "id DATE"}, "required": False}}
    configure(shell, targets)
    said = shell("plan", "--config", str(shell.folder / "targets.yaml"), "--validate")
    assert said.code == 5
    assert "a run would stop" in said.text
    found = plan_of(shell, "--validate")
    assert found["targets"]["good"]["validation"]["stops"] is None
    assert found["targets"]["bad"]["validation"]["stops"] is not None
    assert found["next_read"]["targets"] == ["good"]


def test_the_plan_cleans_nothing_that_another_target_needs(shell: Shell) -> None:
    after = {"after_ingest": {"action": "delete", "keep_s": 0}}
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"one": {}})
    configure(shell, {"one": {}, "new": {}}, **after)
    assert plan_of(shell)["targets"]["one"]["cleans_through"] is None
    assert run(shell, {"one": {}, "new": {}}, **after).code == 0


def test_each_target_is_rolled_back_for_itself(shell: Shell) -> None:
    config = two(shell)
    write_ids(shell.folder / "src" / "c.ndjson", 20, 30)
    assert run(shell, {"one": {}, "two": {}}).code == 0
    said = shell("checkpoint", "rollback", "--to", "1", "--target", "two", "--yes", *config)
    assert said.code == 0, said.text
    assert (len(rows(shell, "one")), len(rows(shell, "two"))) == (21, 11)
    assert run(shell, {"one": {}, "two": {}}).code == 0
    assert rows(shell, "one") == rows(shell, "two")


def test_bad_records_of_targets_that_share_a_quarantine_are_kept_apart(shell: Shell) -> None:
    config = two(shell, quarantine={})
    shared = {"path": str(shell.folder / "bad")}
    configure(shell, {"x": {"quarantine": dict(shared)}, "y": {"quarantine": dict(shared)}})
    assert shell("run", *config, "--pipeline", "p").code == 0
    for target in ("x", "y"):
        found = json_of(shell, "dlq", "list", *config, "--target", target)
        assert (found["records"], found["of_other_tables"]) == (1, 1)
        assert (
            "1 more of the same quarantine belong to other tables"
            in shell("dlq", "list", *config, "--target", target).text
        )
        said = shell("dlq", "export", *config, "--target", target, "--out", str(shell.folder / f"{target}.txt"))
        assert said.code == 0
        assert (shell.folder / f"{target}.txt").read_bytes() == b"nonsense\n"


def test_the_doctor_looks_at_the_machine_once_and_at_every_table(shell: Shell) -> None:
    config = two(shell)
    found = json_of(shell, "doctor", *config)
    assert list(found) == ["machine", "targets"]
    assert {finding["about"] for finding in found["targets"]["two"]} >= {"table", "committer", "pipelines"}
    assert "java" in {finding["about"] for finding in found["machine"]}
    text = shell("doctor", *config).text
    assert text.count("pyspark ") == 1
    assert "target two" in text


def test_a_trial_and_its_next_command_are_for_one_target(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    configure(shell, {"one": {"schema": {"ddl": "id STRING"}}, "two": {}}, schema={})
    config = ["--config", str(shell.folder / "targets.yaml")]
    assert json_of(shell, "try", *config, "--target", "one")["ddl"] == "id STRING"
    shown = json_of(shell, "try", *config, "--target", "two", "--hints", "id INT")
    assert shown["ddl"].startswith("id INT")
    assert "--set targets.two.schema.infer=true" in shown["next"]
    assert "--set 'targets.two.schema.hints=id INT'" in shown["next"]


def test_the_end_of_a_run_has_a_line_for_each_target(shell: Shell) -> None:
    targets: dict[str, dict[str, Any]] = {"bad": {"required": False}, "good": {}}
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    said = run(shell, targets)
    ended = said.text.splitlines()[-3:]
    assert [line.split(":")[0] for line in ended] == ["target bad", "target good", "done"]
    assert "target good: done: 10 records, 1 file finished, 1 commit" in ended[1]
    assert "table version 1" in ended[1]
    assert "table version" not in ended[2]
    break_table(shell, "bad")
    said = run(shell, targets)
    (warning,) = [line for line in said.text.splitlines() if line.startswith("warning: target bad failed: ")]
    assert warning.endswith("[log_damaged]")
    assert "target good: nothing new; table version 1" in said.text
    targets["bad"] = {}
    said = run(shell, targets)
    assert (said.code, said.last["error_kind"]) == (3, "log_damaged")
    assert "warning: target bad failed, and ended the run" in said.text


def test_a_run_in_which_a_target_failed_is_not_idle(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    targets: dict[str, dict[str, Any]] = {"bad": {"required": False}, "good": {}}
    run(shell, targets)
    said = run(shell, targets, "--exit-99-when-idle")
    assert (said.code, said.last["status"]) == (99, "idle")
    break_table(shell, "bad")
    said = run(shell, targets, "--exit-99-when-idle")
    assert (said.code, said.last["status"], said.last["targets"]["good"]["status"]) == (0, "done", "idle")


def test_lines_in_json_name_the_target(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    said = run(shell, {"one": {}, "two": {}}, "--log-json")
    lines = [json.loads(line) for line in said.text.splitlines()]
    committed = [line["target"] for line in lines if line["message"] == "committed"]
    assert sorted(committed) == ["one", "two"]
    assert [line.get("target") for line in lines[-3:]] == ["one", "two", None]


def test_all_targets_have_the_name_that_one_of_them_knows(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    run(shell, {"old": {}})
    configure(shell, {"new": {}, "old": {}})
    config = ["--config", str(shell.folder / "targets.yaml")]
    assert json_of(shell, "plan", *config)["pipeline"] == "p"
    assert json_of(shell, "plan", *config, "--target", "new")["pipeline"] == "p"
    assert shell("run", *config).last["pipeline"] == "p"
    assert rows(shell, "new") == list(range(10))


def test_an_optional_target_that_is_broken_does_not_hide_the_name_of_the_pipeline(shell: Shell) -> None:
    write_ids(shell.folder / "src" / "a.ndjson", 0, 10)
    targets: dict[str, dict[str, Any]] = {"bad": {"required": False}, "good": {}}
    run(shell, targets)
    break_table(shell, "bad")
    configure(shell, targets)
    said = shell("run", "--config", str(shell.folder / "targets.yaml"))
    assert (said.code, said.last["pipeline"], said.last["targets"]["bad"]["status"]) == (0, "p", "failed")


def test_a_pause_is_in_every_log_and_so_is_a_resume(shell: Shell) -> None:
    config = two(shell)
    write_ids(shell.folder / "src" / "c.ndjson", 20, 30)
    shown = json_of(shell, "pause", *config, "--reason", "moving")
    assert {name: one["paused"]["reason"] for name, one in shown["targets"].items()} == {
        "one": "moving",
        "two": "moving",
    }
    said = run(shell, {"one": {}, "two": {}})
    assert (said.code, said.last["status"], said.last["records"]) == (0, "paused", 0)
    said = shell("resume", *config)
    assert (said.code, said.text.count("goes on with its next run")) == (0, 2)
    assert run(shell, {"one": {}, "two": {}}).last["records"] == 20


def test_a_pause_in_one_log_pauses_all(shell: Shell) -> None:
    config = two(shell)
    write_ids(shell.folder / "src" / "c.ndjson", 20, 30)
    assert json_of(shell, "status", *config)["paused"] is json_of(shell, "plan", *config)["paused"] is None
    assert shell("pause", *config, "--target", "two").code == 0
    for command in ("status", "plan"):  # what they say of `one` is what its own log says
        assert "runs read nothing, for no target, until blizzard resume" in shell(command, *config).text
        assert set(json_of(shell, command, *config)["paused"]) == {"at_ms", "reason"}
    assert run(shell, {"one": {}, "two": {}}).last["status"] == "paused"
    log = break_table(shell, "one")
    said = shell("resume", *config)
    assert said.code == 3
    assert "goes on with its next run" in said.text
    mend_table(log)
    assert run(shell, {"one": {}, "two": {}}).last["records"] == 20


def test_a_target_that_has_committed_nothing_is_no_trouble_for_a_pause(shell: Shell) -> None:
    config = two(shell)
    configure(shell, {"one": {}, "two": {}, "new": {}})
    DeltaTable.create(str(shell.folder / "new"), DeltaTable(str(shell.folder / "one")).schema())
    for command in ("pause", "resume"):
        assert set(json_of(shell, command, *config)["targets"]) == {"one", "two"}
        assert shell(command, *config).code == 0


def test_while_one_log_says_paused_no_table_is_made_and_nothing_is_purged(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = two(shell)
    purging = {"quarantine": {"keep_days": 1}}
    assert shell("pause", *config, "--target", "two").code == 0
    now_ms = SystemClock().now_ms()
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now_ms + 3 * 86_400_000)
    assert run(shell, {"new": {}, "one": purging, "two": purging}).last["status"] == "paused"
    assert not (shell.folder / "new").exists()
    left = DeltaTable(str(shell.folder / "one_quarantine")).to_pyarrow_table(columns=["raw"])
    assert left["raw"].to_pylist() == [b"nonsense"]
    assert shell("resume", *config).code == 0
    assert run(shell, {"new": {}, "one": {}, "two": {}}).last["targets"]["new"]["records"] == 11
