"""Secrets planted in every place that takes one, looked for in everything that leaves: whatever went wrong."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest

from blizzard import api
from blizzard.cli.main import main
from blizzard.config.keys import KEYS
from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.events import Noted, Warned
from blizzard.core.retry import RetryPolicy
from blizzard.errors import BlizzardError, ConfigError
from blizzard.report.facts import Live, ReportFacts
from blizzard.report.page import render_page
from blizzard.run.summary import Summary
from blizzard.service.progress import JsonProgress, TerminalProgress
from blizzard.service.router import Answer
from blizzard.store import open_store
from blizzard.store.access import KNOWN_OPTIONS, Access
from blizzard.store.retry import retried
from blizzard.text.json import json_text
from blizzard.text.redaction import is_secret, learn, of_one_command, redact
from tests.cli.every_command import COMMANDS, arguments, call, make_flow, places, tree, write_config
from tests.report.test_page import STATUS

PLANTED = "Zq7-planted/it's+S3cret=="
NUMBER = 8_123_456_789
_QUOTED = "Zq7-planted%2Fit%27s%2BS3cret%3D%3D"
_PARTS = ("Zq7-planted", "S3cret", str(NUMBER))


def assert_kept(*texts: str) -> None:
    for text in texts:
        assert not any(part in text for part in _PARTS), text


def options_with_secrets() -> Iterator[tuple[str, str]]:
    yield "api.token", PLANTED
    for option in sorted(KNOWN_OPTIONS):
        if is_secret(option):
            yield f"storage_options.{option}", PLANTED
    yield "source.storage_options.aws_secret_access_key", PLANTED
    yield "table.storage_options.AZURE_STORAGE_SAS_TOKEN", f"sv=1&sig={_QUOTED}"
    yield "spark.conf.spark.hadoop.fs.s3a.secret.key", PLANTED
    yield "spark.conf.spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", PLANTED
    yield "spark.remote", f"sc://127.0.0.1:1/;token={_QUOTED}"
    yield "storage_options.AWS_ENDPOINT_URL", f"http://user:{_QUOTED}@127.0.0.1:9"
    yield "checkpoint.mirror", f"postgresql+psycopg://fleet:{_QUOTED}@127.0.0.1:1/d?sslpassword={_QUOTED}"


GIVEN = list(options_with_secrets())
SET = [word for key, value in GIVEN for word in ("--set", f"{key}={value}")]

# What goes wrong, at each stage: words that cannot be parsed, keys, types, places, stores, schemas.
WRONG: dict[str, list[str]] = {
    "nothing": [],
    "unknown flag": ["--no-such-flag"],
    "guessed flag": ["--api-token", PLANTED],
    "guessed flag with a value": [f"--password={PLANTED}"],
    "no equals sign": ["--set", f"api.token:{PLANTED}"],
    "unknown key": ["--set", f"api.tokn={PLANTED}"],
    "unknown option": ["--set", f"storage_options.AWS_SECRET_ACESS_KEY={PLANTED}"],
    "wrong type": ["--set", "limits.max_files=many"],
    "no such variable": ["--set", "api.address=${NO_SUCH_VARIABLE}"],
    "no such file": ["--config", "/no/such/file.yaml"],
    "signed source": ["--source", f"abfss://c@a.dfs.core.windows.net/x?sv=1&sig={_QUOTED}"],
    "password in a source": ["--source", f"https://user:{_QUOTED}@host/x"],
    "password with an at and a slash": ["--source", "https://user:Zq7-planted/a@S3cret@host/x"],
    "token before a bucket": ["--source", f"s3://{_QUOTED}@bucket/x"],
    "keys before a bucket": ["--source", f"s3://AKIA:{_QUOTED}@bucket/x"],
    "one slash": ["--source", f"s3:/AKIA:{_QUOTED}@bucket/x"],
    "no scheme": ["--source", f"AKIA:{_QUOTED}@bucket/x"],
    "password in a container": ["--source", f"abfss://c:{_QUOTED}@a.dfs.core.windows.net/x"],
    "signed table": ["--table", f"s3://bucket/x?X-Amz-Signature={_QUOTED}&X-Amz-Date=1"],
    "signed table on disk": ["--table", f"nowhere/x?sig={_QUOTED}"],
    "no such store": ["--table", "s3://bucket/x"],
    "another database": ["--set", f"checkpoint.mirror=mysql://fleet:{_QUOTED}@host/d"],
    "no slashes": ["--set", f"checkpoint.mirror=postgresql:fleet:{_QUOTED}@host/d"],
    "password in a bucket's mirror": ["--set", f"checkpoint.mirror=s3://AKIA:{_QUOTED}@bucket/x"],
}


def fast() -> list[str]:
    """A store that is not there is told at once."""
    return ["--set", "retry.attempts=1", "--set", "storage_options.AWS_REGION=us-east-1"]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("command", ["run", "plan", "status", "dlq list", "checkpoint rollback", "schema diff"])
def test_no_command_repeats_a_secret_whatever_is_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, wrong: str
) -> None:
    flow = make_flow(tmp_path)
    words = [*arguments(command), *fast(), *SET, "--set", "quarantine.path=" + flow.quarantine.root]
    words += ["--table", str(flow.table)] if "table" not in wrong and wrong != "no such store" else []
    words += ["--source", str(flow.src)] if "--source" not in WRONG[wrong] and command != "dlq list" else []
    summary = tmp_path / "summary.json"
    words += ["--summary", str(summary)] if command == "run" else []
    code, out, err = call(capfd, *words, *WRONG[wrong])
    assert_kept(out, err, summary.read_text() if summary.exists() else "")
    assert "Traceback" not in err
    # Some commands need no mirror, and dlq list only the quarantine.
    if wrong != "nothing" and "mirror=" not in WRONG[wrong][-1] and (command, wrong) != ("dlq list", "no such store"):
        assert code != 0
    if command == "run":
        assert summary.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_repeats_a_secret_of_its_file_or_environment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", PLANTED)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED)
    flow = make_flow(tmp_path, name=f"{PLANTED.replace('/', '-')}.ndjson")  # so that each of them has it at hand
    given = places(flow) | {"api.token": "${MY_TOKEN}", "storage_options.AWS_SECRET_ACCESS_KEY": "${MY_TOKEN}"}
    monkeypatch.setenv("AWS_SESSION_TOKEN", "Zq7-planted")
    file = write_config(tmp_path / "c.yaml", **tree(given))
    code, out, err = call(capfd, *arguments(command, "none.ndjson"), *file)
    assert code in (0, 2)
    if command not in ("checkpoint export", "dlq export"):  # they give data away, as it is
        assert "Zq7-planted" not in out + err


def missing_schema(folder: Path, *words: str) -> list[str]:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "a.ndjson").write_text('{"id": 1}\n')
    return ["run", "--source", str(folder / "src"), "--table", str(folder / "t"), *words]


def test_the_suggested_command_is_whole_but_for_the_secrets(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    summary = tmp_path / "s.json"
    words = missing_schema(tmp_path, f"--set=api.token={PLANTED}", *SET, "--summary", str(summary))
    code, out, err = call(capfd, *words)
    assert (code, json.loads(out)["error_kind"]) == (2, "schema_missing")
    assert_kept(out, err, summary.read_text())
    suggested = next(line for line in err.splitlines() if line.startswith("  blizzard run"))
    assert "'--set=api.token=***'" in suggested
    assert "--set 'storage_options.AWS_SECRET_ACCESS_KEY=***'" in suggested
    assert "--schema 'id BIGINT'" in suggested
    assert "*** stands for a secret" in err
    code, _, err = call(capfd, *missing_schema(tmp_path))
    assert "***" not in err


@pytest.mark.parametrize("value", [NUMBER, 12, True, ["a"], PLANTED.encode()])
def test_a_token_of_another_type_is_not_repeated(value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        make_config({"api.token": value})
    assert_kept(str(refused.value))
    assert str(value) not in str(refused.value)


@pytest.mark.parametrize(
    "line", ['token: "S3cret', "token: *S3cret", "token: !S3cret x", "token: @S3cret", "token: {S3cret"]
)
def test_a_file_that_is_not_yaml_is_not_quoted(tmp_path: Path, capfd: pytest.CaptureFixture[str], line: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"api:\n  {line}\n")
    code, _, err = call(capfd, "status", "--table", "t", "--config", str(file))
    assert code == 2
    assert "line " in err
    assert_kept(err)


def test_log_lines_are_without_secrets(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for json_lines in ([], ["--log-json"]):
        words = missing_schema(tmp_path, "--set", f"api.token={PLANTED}", *json_lines)
        _, out, err = call(capfd, *words)
        assert_kept(out, err)
        if json_lines:
            assert all(json.loads(line)["level"] for line in err.splitlines())


@pytest.mark.parametrize(
    "uri",
    [
        "s3://user:planted'secret here@bucket/x",
        "s3://user:planted@se/cret=x y@bucket/x",
        'https://host/x?token=planted"secret',
        "s3://bucket/x?sig=planted secret",
        "postgresql://user:planted's secret@host/db?sslmode=disable",
    ],
)
def test_a_secret_in_a_uri_is_hidden_whatever_characters_it_has(uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["status", "--table", uri], ["status", "--set", f"table.path={uri}"], ["status", uri]):
        _, out, err = call(capfd, *words)
        assert "planted" not in out + err
        assert "secret" not in out + err


@pytest.mark.parametrize("text", [PLANTED, f"u?sig={_QUOTED}", f"http://u:{_QUOTED}@h/x", f"AccountKey={_QUOTED};x"])
def test_every_way_out_hides_what_was_learned(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with of_one_command():
        learn(PLANTED)
        for progress in (TerminalProgress(out), JsonProgress("p", out=out)):
            progress.see(Noted(message=text))
            progress.see(Warned(message=text))
        said = [json_text({text: [text, {"a": text}]}), str(BlizzardError(text, further=[text]))]
        said.append(Summary(error=text, table=text, unknown_fields=[text]).to_json())
        said.append(Answer.json({"error": text}).body.decode())
        facts = ReportFacts(table=text, made_at_ms=0, problems=(text,))
        said.append(
            render_page(
                facts, Live(status=STATUS | {"table": text, "source": text, "last_error": text}, needs_token=True)
            )
        )
        with redirect_stderr(err):
            logging.getLogger("blizzard").warning(redact(text))
    assert_kept(out.getvalue(), err.getvalue(), *said)


def test_the_python_api_does_not_repeat_a_secret(tmp_path: Path) -> None:
    for options in ({"api.token": NUMBER}, {"storage_options.AWS_SECRET": PLANTED}, {"api.tokn": PLANTED}):
        with pytest.raises(ConfigError) as refused:
            api.status(str(tmp_path), options=options)
        assert_kept(str(refused.value))
    with pytest.raises(ConfigError) as refused:
        make_request(make_config({"source.path": f"https://u:{_QUOTED}@h/x", "table.path": "t"}))
    assert_kept(str(refused.value))


def test_an_internal_error_is_told_without_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{PLANTED} {_QUOTED}") from ValueError(f"https://u:{_QUOTED}@h")

    monkeypatch.setattr("blizzard.cli.context.make_request", fails)
    summary = tmp_path / "s.json"
    words = missing_schema(tmp_path, "--set", f"api.token={PLANTED}", "--summary", str(summary))
    for more in ([], ["--log-json"]):
        code, out, err = call(capfd, *words, *more)
        assert (code, json.loads(out)["error_kind"]) == (1, "internal")
        assert_kept(out, err, summary.read_text())


def test_every_key_that_holds_a_secret_is_known_as_one() -> None:
    assert [key for key in KEYS if is_secret(key)] == ["api.token"]
    assert {option for option in KNOWN_OPTIONS if is_secret(option)} == {
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET"),
    }


_LEFT_ALONE = [
    "abfss://container@account.dfs.core.windows.net/a",
    "http://127.0.0.1:9000/bucket/a@b.ndjson",
    "key=5/part-1.ndjson",
    "token=eu/part-1.ndjson",
    "storage_options.AWS_REGION=eu-west-1",
    "a?b.ndjson",
    "at 12:00, see a@b",
]


@pytest.mark.parametrize("text", _LEFT_ALONE)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert redact(text) == text


def test_a_short_secret_hides_no_part_of_a_name() -> None:
    with of_one_command():
        learn("part")
        assert redact("x/part-0001.ndjson and part") == "x/part-0001.ndjson and ***"


def test_what_a_command_has_learned_is_forgotten_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    main(["status", "--table", "t", "--set", "api.token=only-of-this-test"])
    capfd.readouterr()
    assert redact("only-of-this-test") == "only-of-this-test"


def test_words_that_others_decide_by_are_no_secrets(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    words: Sequence[str] = [
        "run",
        "--source",
        str(tmp_path / "src"),
        "--table",
        str(tmp_path / "t"),
        "--schema",
        "a INT",
    ]
    for token in ("idle", "running", "fresh", "attempt-12345"):
        _, out, _ = call(capfd, *words, "--attempt", "attempt-12345", "--set", f"api.token={token}")
        told = json.loads(out)
        assert (told["status"], told["recovery"], told["attempt"]) == ("idle", "fresh", "attempt-12345")


def test_what_other_packages_log_is_without_secrets_and_on_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def logs(*_: Any, **__: Any) -> None:
        logging.getLogger("azure.identity").warning("refused:\n%s \x1b[2J", PLANTED)
        raise ConfigError("no")

    monkeypatch.setattr("blizzard.cli.context.load_config", logs)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process of its own
    code, _, err = call(capfd, "status", "--table", "t", "--set", f"api.token={PLANTED}")
    assert (code, err.splitlines()[0]) == (2, "refused:\\n*** \\x1b[2J")


def test_a_task_hides_what_its_job_was_given(caplog: pytest.LogCaptureFixture) -> None:
    """Its process has read no configuration."""
    with of_one_command():
        access = Access(options=(("AWS_SECRET_ACCESS_KEY", "only-of-that-task"),))
        _ = open_store("s3://a-bucket-of-this-test", access)
        policy = RetryPolicy(attempts=2, base_ms=0)
        with pytest.raises(OSError, match="only-of-that-task"):
            retried(lambda: fail("only-of-that-task\n"), policy, what="reading", is_passing=lambda _: True)
    assert "***\\n" in caplog.text
    assert "only-of" not in caplog.text


def fail(text: str) -> None:
    raise OSError(text)
