"""What the end of an attempt means: every exit code, every summary, and what is left where there is neither."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from blizzard import errors
from blizzard.airflow.decide import Ended, Fail, Retry, Skip, Success, decide, failed_targets, summary_of
from blizzard.core.kinds import Kind
from blizzard.run.summary import Summary


def failed(error: errors.BlizzardError) -> dict[str, Any]:
    """The summary as blizzard itself writes it."""
    summary = Summary(status="failed", exit_code=error.exit_code, error_kind=error.kind, error=str(error))
    return dict(json.loads(summary.to_json()))


ENDS_BY_CODE = {
    **dict.fromkeys(range(-64, 256), Retry),  # killed, or never came to life
    0: Success,
    2: Fail,
    3: Fail,
    4: Fail,
    5: Fail,
    75: Retry,
    99: Skip,
}


@pytest.mark.parametrize("code", sorted(ENDS_BY_CODE))
def test_every_exit_code_has_its_end(code: int) -> None:
    assert type(decide(Ended(exit_code=code))) is ENDS_BY_CODE[code]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-9, "killed"), (137, "killed"), (143, "killed"), (75, "temporary"), (1, "not_started"), (127, "not_started")],
)
def test_a_retry_says_what_it_is_for(code: int, kind: str) -> None:
    decision = decide(Ended(exit_code=code))
    assert isinstance(decision, Retry)
    assert decision.kind == kind


@pytest.mark.parametrize("code", [-9, 137])
def test_a_signal_is_named_whoever_saw_it(code: int) -> None:
    assert "signal 9" in decide(Ended(exit_code=code)).reason


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (errors.Temporary("x"), Retry),
        (errors.Temporary("x", kind=Kind.STORE_UNAVAILABLE), Retry),
        (errors.ConfigError("x"), Fail),
        (errors.SchemaError("x"), Fail),
        (errors.Refused("x"), Fail),
        (errors.Fenced("x"), Fail),
        (errors.BadData("x"), Fail),
        (errors.BadRecord("x"), Fail),
        (errors.BadFile("x"), Fail),
        (errors.BlizzardError("x", kind=Kind.INTERNAL), Fail),
    ],
)
@pytest.mark.parametrize("service_ok", [True, False, None])
@pytest.mark.parametrize("exit_code", [None, 0, 1, 137])
def test_a_failure_in_the_summary_decides_whatever_else_is_said(
    error: errors.BlizzardError, end: type, service_ok: bool | None, exit_code: int | None
) -> None:
    decision = decide(Ended(summary=failed(error), service_ok=service_ok, exit_code=exit_code))
    assert type(decision) is end
    assert isinstance(decision, (Retry, Fail))
    assert decision.kind == error.kind
    assert error.kind in decision.reason


@pytest.mark.parametrize("status", ["done", "stopped"])
@pytest.mark.parametrize("exit_code", [None, 0, -9, 137, 1])
def test_a_driver_killed_after_its_summary_has_succeeded(status: str, exit_code: int | None) -> None:
    summary = Summary(status=status, records=7, commits=1).to_dict()
    assert type(decide(Ended(summary=summary, exit_code=exit_code, service_ok=False))) is Success


@pytest.mark.parametrize("ended", [Ended(exit_code=99), Ended(summary=Summary(status="idle").to_dict())])
def test_nothing_new_is_skipped_unless_asked_otherwise(ended: Ended) -> None:
    assert type(decide(ended)) is Skip
    assert type(decide(ended, skips_when_idle=False)) is Success


@pytest.mark.parametrize("exit_code", [99, None])
def test_a_retry_that_finds_nothing_new_is_a_success(exit_code: int | None) -> None:
    """The try before it may have committed everything and been killed before it could say so."""
    summary = None if exit_code else Summary(status="idle").to_dict()
    assert type(decide(Ended(exit_code=exit_code, summary=summary, tried_before=True))) is Success


@pytest.mark.parametrize("service_ok", [False, None])
def test_a_driver_that_left_no_trace_is_tried_again(service_ok: bool | None) -> None:
    decision = decide(Ended(service_ok=service_ok, service_said="container lost"))
    assert isinstance(decision, Retry)
    assert decision.kind == "driver_lost"
    assert "container lost" in decision.reason


def test_a_success_that_nobody_can_show_is_not_believed() -> None:
    decision = decide(Ended(service_ok=True, no_summary="there is no summary at s3://x"))
    assert isinstance(decision, Fail)
    assert "s3://x" in decision.reason


def test_a_status_of_a_later_version_is_not_guessed_at() -> None:
    assert type(decide(Ended(summary={"status": "dreaming"}, exit_code=0))) is Fail


PAUSED = {"status": "paused", "exit_code": 0, "commits": 0, "paused": {"at_ms": 1, "reason": "moving house"}}


def test_a_paused_pipeline_is_shown_as_skipped_with_its_reason() -> None:
    assert decide(Ended(summary=PAUSED, exit_code=0)) == Skip("the pipeline is paused: moving house")
    assert decide(Ended(summary=PAUSED | {"paused": None}, exit_code=99)) == Skip("the pipeline is paused")


@pytest.mark.parametrize(
    "ended",
    [
        Ended(summary=PAUSED | {"commits": 1, "records": 3}),  # the pause came after its first batch
        Ended(summary=PAUSED, tried_before=True),  # the try before may have committed
    ],
)
def test_tasks_that_wait_for_records_are_not_skipped_because_of_a_pause(ended: Ended) -> None:
    assert type(decide(ended)) is Success


def test_a_task_that_is_never_skipped_is_not_skipped_because_of_a_pause() -> None:
    assert type(decide(Ended(summary=PAUSED), skips_when_idle=False)) is Success


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no summary"),
        (b"", "not JSON"),
        (b'{"status": "do', "not JSON"),
        (b"[1]", "not a summary"),
        (b"{}", "not a summary"),
        (b'{"status": "done", "attempt": "older"}', "of another attempt"),
        (b'{"status": "done", "attempt": null}', "of another attempt"),
        (b'{"status": "done"}', "of another attempt"),
    ],
)
def test_a_summary_that_is_not_this_attempts_is_not_believed(content: bytes | None, why: str) -> None:
    summary, reason = summary_of(content, "mine", "/summary.json")
    assert summary is None
    assert why in reason
    assert "/summary.json" in reason


def test_the_summary_of_this_attempt_is_believed() -> None:
    content = Summary(status="done", attempt="mine", records=3).to_json().encode()
    summary, _ = summary_of(content, "mine", "/summary.json")
    assert summary is not None
    assert summary["records"] == 3


def test_neither_blizzard_nor_the_decision_needs_airflow_or_any_package() -> None:
    """A worker has blizzard without its dependencies: -S leaves site-packages out."""
    code = (
        f"import sys; sys.path.insert(0, {str(errors.__file__).rsplit('/', 2)[0]!r});"
        "import blizzard.airflow, blizzard.airflow.decide; assert 'airflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_a_target_that_failed_is_a_warning_and_no_failure() -> None:
    failed_one = Summary(status="failed", error_kind="log_damaged", error="version 3 cannot be read")
    summary = Summary(status="done", records=3, commits=1, targets={"good": Summary(status="done"), "bad": failed_one})
    told = dict(json.loads(summary.to_json()))
    assert decide(Ended(summary=told)) == Success("done: 3 records in 1 commits")
    assert failed_targets(told) == ["target bad failed, and the others went on: version 3 cannot be read [log_damaged]"]


@pytest.mark.parametrize("summary", [None, {}, {"targets": None}, {"targets": {"a": None}}, {"targets": {"a": {}}}])
def test_a_summary_without_targets_has_none_that_failed(summary: dict[str, Any] | None) -> None:
    assert failed_targets(summary) == []
