"""A file's name may clear a screen, turn text around or look like another line of a log. None of it is obeyed."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest

from blizzard.cli.failures import trace_lines
from blizzard.cli.main import main
from blizzard.cli.output import print_line, table_lines
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.errors import BlizzardError, ConfigError
from blizzard.service.progress import JsonProgress, TerminalProgress
from blizzard.text.json import json_text
from blizzard.text.shell import shell_words
from blizzard.text.shown import printable
from tests.cli.every_command import COMMANDS, HAS_JSON, arguments, call, make_flow, places, tree, write_config
from tests.flows.in_process import Flow
from tests.ingesting import write_ids

STEERING = "\x1b[2J\x07\r\x9b31m\x7f\u202e\u2028\u200b"
HOSTILE = f"a{STEERING}\nFORGED blizzard: all is well.ndjson"
_RAW = "\x00\x07\x08\x0b\x0c\r\x1b\x7f\x85\x9b\u200b\u2028\u2029\u202a\u202e\u2066\ufeff"


def assert_tame(*texts: str) -> None:
    for text in texts:
        assert not set(_RAW) & set(text), ascii(text)
        assert not any(line.lstrip().startswith("FORGED") for line in text.splitlines()), ascii(text)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_obeys_a_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, as_json: bool
) -> None:
    flow = make_flow(tmp_path, HOSTILE)
    write_ids(flow.src / f"b{HOSTILE}", 3, 9)
    flow.run(limits=Limits(max_records=2), max_batches=1)  # one is in progress
    write_ids(flow.src / f"A{HOSTILE}", 9, 12)  # one is late
    file = write_config(tmp_path / "c.yaml", **tree(places(flow)))
    if as_json and command not in HAS_JSON:
        return
    json_flag = ["--json"] if as_json and command != "report" else []
    if command == "run":
        file += ["--set", "late_files.policy=fail"]  # or it would need Spark
    code, out, err = call(capfd, *arguments(command, HOSTILE), *file, *json_flag)
    assert code == (5 if command == "run" else COMMANDS[command][1]), err
    assert_tame(err)
    if command != "dlq export":  # bytes as they were
        assert_tame(out)
    assert "FORGED" in out + err or command in (
        *("report", "checkpoint list", "checkpoint export", "vacuum-orphans"),
        *("dlq export", "dlq replay", "dlq purge", "schema infer", "schema diff", "resume"),
    )


def test_json_still_says_the_name_as_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = make_flow(tmp_path, HOSTILE)
    _, out, _ = call(capfd, "files", "--json", "--table", str(flow.table))
    assert json.loads(out)["path"] == HOSTILE
    _, out, _ = call(capfd, "dlq", "show", "--json", "--quarantine", flow.quarantine.root)
    assert json.loads(out)["source_file"] == HOSTILE
    _, out, _ = call(capfd, "dlq", "list", "--table", str(flow.table), "--quarantine", flow.quarantine.root)
    assert len(out.splitlines()) == 4


def change(flow: Flow, name: str) -> None:
    write_ids(flow.src / name, 0, 30)


@pytest.mark.parametrize("policy", ["ingest", "fail"])
def test_warnings_and_errors_of_a_run_do_not_obey_names(tmp_path: Path, policy: str) -> None:
    """Late, rewritten, gone, held back, broken and changed files, each of such a name."""
    said, as_json = io.StringIO(), io.StringIO()
    for progress in (TerminalProgress(said), JsonProgress("p", out=as_json)):
        flow = Flow(tmp_path / type(progress).__name__, told=progress)  # type: ignore[arg-type]
        write_ids(flow.src / HOSTILE, 0, 3)
        write_ids(flow.src / f"m{HOSTILE}", 3, 20)
        flow.run(limits=Limits(max_records=10))
        write_ids(flow.src / f"A{HOSTILE}", 9, 12)
        (flow.src / f"z{HOSTILE}.gz").write_bytes(gzip.compress(b'{"id": 1}\n' * 999)[:40])
        os.utime(flow.src / HOSTILE, (2_000_000_000, 2_000_000_000))
        errors = []
        for _ in range(2):
            try:
                flow.run(late=LatePolicy(late=policy, rewritten="ingest"))
            except BlizzardError as e:
                errors.append(str(e))
            change(flow, f"m{HOSTILE}")
        assert_tame(*errors)
        assert policy != "fail" or any("FORGED" in error for error in errors)
    assert_tame(said.getvalue(), as_json.getvalue())
    assert policy == "fail" or "FORGED" in said.getvalue()


def test_a_file_in_progress_that_has_changed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / HOSTILE, 0, 9)
    flow.run(limits=Limits(max_records=3), max_batches=1)
    change(flow, HOSTILE)
    for command in (["plan"], ["run", "--schema", flow.ddl]):
        where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
        code, out, err = call(capfd, *command, *where)
        assert code == 3
        assert "FORGED" in err
        assert_tame(out, err)


@pytest.mark.parametrize(
    "words",
    [
        [HOSTILE],
        ["run", HOSTILE],
        ["run", "--source", HOSTILE.replace("[", ""), "--table", "t", "--schema", "id INT"],
        ["plan", "--source", ".", "--table", HOSTILE, "--schema", "id INT", "--pipeline", HOSTILE],
        ["status", "--table", HOSTILE],
        ["status", "--table", "t", "--config", HOSTILE],
        ["status", "--table", "t", "--set", f"{HOSTILE}=1"],
        ["status", "--table", "t", "--set", f"limits.max_files={HOSTILE}"],
        ["schema", "infer", "--source", f"x{HOSTILE}"],
        ["schema", "diff", "--table", "t", "--schema", HOSTILE],
        ["dlq", "list", "--quarantine", f"xx:{HOSTILE}"],
        ["dlq", "export", "--table", "t", "--out", f"/{HOSTILE}/x"],
        ["run", "--source", ".", "--table", "t", "--schema", "id INT", "--summary", f"/{HOSTILE}/x"],
        ["checkpoint", "import", "--table", "t", "--in", HOSTILE],
    ],
)
def test_what_is_typed_is_not_obeyed_either(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capfd, *words)
    assert code != 0
    assert_tame(out, err)
    assert all(line.startswith(("blizzard: ", "pipeline ", "warning: ")) for line in err.splitlines())


def test_fields_of_hostile_names_in_a_suggested_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.ndjson").write_text(json.dumps({"a\x9b31m\u202e\u2028": 1, "it's": 2}) + "\n")
    code, out, err = call(capfd, "run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"))
    assert (code, json.loads(out)["error_kind"]) == (2, "schema_missing")
    assert_tame(out, err)
    assert [line[:15] for line in err.splitlines()[-2:]] == ["To use it, add ", "  blizzard run "]


@pytest.mark.parametrize("word", [HOSTILE, "it's \\n", "plain", "", "two words", "\udcff", "a'\n'b", "$HOME\n`x`"])
def test_a_suggested_word_comes_back_from_a_shell_as_it_was(word: str) -> None:
    import subprocess

    assert shell_words([word]).isprintable()
    shell = subprocess.run(["bash", "-c", f"printf %s {shell_words([word])}"], capture_output=True, check=True)
    assert shell.stdout == word.encode("utf-8", "surrogateescape")


def test_an_internal_error_has_no_forged_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(HOSTILE) from OSError(HOSTILE)

    monkeypatch.setattr("blizzard.cli.context.load_config", fails)
    assert main(["status", "--table", "t"]) == 1
    (told,) = capfd.readouterr().err.splitlines()
    assert_tame(told)
    monkeypatch.setenv("BLIZZARD_TRACEBACK", "1")
    assert main(["status", "--table", "t"]) == 1
    err = capfd.readouterr().err
    assert "which led to:" in err
    assert "Traceback (most recent call last):" in err
    assert_tame(err)


def test_problems_of_a_schema_are_lines_of_their_own() -> None:
    error = ConfigError(HOSTILE, further=[f"  {HOSTILE}", "  b"])
    assert len(str(error).split("\n")) == 3
    assert_tame(str(error))


def test_lines_of_a_trace_are_those_of_the_code() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as e:
        assert_tame("\n".join(trace_lines(e)))


def test_a_table_keeps_its_columns(capfd: pytest.CaptureFixture[str]) -> None:
    print_line(*table_lines(["FILE", "N"], [[HOSTILE, 1], ["b", 2]]))
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 3
    assert {len(line) for line in lines} == {len(printable(HOSTILE)) + 3}


def test_json_escapes_what_json_would_not() -> None:
    text = json_text({HOSTILE: [HOSTILE, "\U000e0001", "é"]}, indented=True)
    assert_tame(text)
    assert "é" in text
    assert json.loads(text) == {HOSTILE: [HOSTILE, "\U000e0001", "é"]}
