"""A run that does not end: when it looks again, what it waits out, what ends it, and what may be asked of it."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable

import pytest

from blizzard.core.events import Event, Warned, unheard
from blizzard.core.kinds import Kind
from blizzard.core.position import Paused
from blizzard.errors import Refused, SparkGone, Temporary
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl, Wish
from blizzard.service.follow import UNHEALTHY_AFTER, Following, follow, wait_out_all, wait_out_temporary
from blizzard.service.metrics import Metrics


class Patient(RunControl):
    """Does not wait, and says how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        assert len(self.waits) < 100


class Telling:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def see(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.message)


def follow_cycles(
    control: RunControl,
    *cycles: Callable[[Summary], None],
    poll_s: float = 10,
    jitter_s: float = 0.0,
    progress: Telling | None = None,
) -> tuple[Following, Metrics]:
    """Runs these cycles; the last one asks to stop."""
    following, left, telemetry = Following(total=Summary()), list(cycles), Metrics("p")

    def run_once(summary: Summary) -> None:
        left.pop(0)(summary)
        if not left:
            control.stop()

    follow(
        run_once,
        control,
        following,
        poll_s=poll_s,
        jitter_s=jitter_s,
        emit=Stream(telemetry.see, (progress or Telling()).see),
    )
    assert not left
    return following, telemetry


def nothing(summary: Summary) -> None:
    summary.status = "idle"


def trouble(_summary: Summary) -> None:
    raise Temporary("the network is down", kind=Kind.STORE_UNAVAILABLE)


def test_cycles_go_on_until_it_is_stopped() -> None:
    control = Patient()
    following, _ = follow_cycles(control, nothing, nothing, nothing)
    assert following.total.status == "stopped"
    assert (following.cycles, following.is_ready) == (3, True)
    assert control.waits == [10, 10]  # not after the last


def test_the_pause_varies_by_the_jitter() -> None:
    control = Patient()
    follow_cycles(control, *[nothing] * 40, jitter_s=5)
    assert all(10 <= s <= 15 for s in control.waits)
    assert len(set(control.waits)) > 30


def test_trouble_that_passes_is_waited_out_with_growing_pauses() -> None:
    control, progress = Patient(), Telling()
    following, telemetry = follow_cycles(control, trouble, trouble, nothing, progress=progress)
    assert control.waits == [20, 40]
    assert progress.warnings[0] == "the network is down [store_unavailable]; looking again in 20 s"
    assert (following.failures, following.last_error, following.is_healthy) == (0, None, True)
    assert (
        telemetry.registry.get_sample_value("blizzard_errors_total", {"pipeline": "p", "kind": "store_unavailable"})
        == 2
    )


def test_an_error_of_the_operating_system_that_may_pass_is_waited_out_too() -> None:
    def stale(_: Summary) -> None:
        raise OSError(errno.ESTALE, "Stale file handle", "/mnt/landing")

    control, progress = Patient(), Telling()
    follow_cycles(control, stale, nothing, progress=progress)
    assert progress.warnings == ["/mnt/landing: Stale file handle. Run again. [temporary]; looking again in 20 s"]


def test_in_a_fleet_what_needs_a_person_is_tried_again_more_and_more_rarely() -> None:
    refused, passing = Refused("no", kind=Kind.TABLE_REWRITTEN), Temporary("later")
    assert [wait_out_all(refused, n, 10) for n in (1, 2, 3, 9)] == [60, 120, 240, 3600]
    assert [wait_out_all(passing, n, 10) for n in (1, 2, 9)] == [20, 40, 300]
    assert wait_out_all(SparkGone("gone"), 1, 10) is None
    assert [wait_out_temporary(error, 1, 10) for error in (refused, passing)] == [None, 20]


def test_without_a_usual_pause_failures_have_one_that_grows() -> None:
    assert [wait_out_temporary(Temporary("later"), n, 0) for n in (1, 2, 9)] == [0.2, 0.4, 51.2]


def test_the_pause_begins_anew_with_another_kind_of_failure() -> None:
    following = Following(total=Summary())
    for _ in range(4):
        following.failed(Temporary("the network is down", kind=Kind.STORE_UNAVAILABLE))
    following.failed(Refused("no", kind=Kind.TABLE_REWRITTEN))
    assert (following.failures, following.repeats, following.needs_person) == (5, 1, True)
    following.went_well()
    assert (following.failures, following.repeats, following.needs_person) == (0, 0, False)


def test_a_pause_has_a_bound_however_often_it_fails() -> None:
    control = Patient()
    follow_cycles(control, *[trouble] * 40, nothing)
    assert control.waits[-1] == 300


def test_several_failures_in_a_row_are_no_good_health() -> None:
    control, seen = Patient(), []
    following = Following(total=Summary())

    def run_once(summary: Summary) -> None:
        seen.append(following.is_healthy)
        if len(seen) > UNHEALTHY_AFTER:
            control.stop()
            return
        trouble(summary)

    follow(run_once, control, following, poll_s=1, jitter_s=0, emit=unheard)
    assert seen == [True] * UNHEALTHY_AFTER + [False]
    assert following.is_healthy


def test_what_needs_a_person_ends_the_run() -> None:
    def refused(_summary: Summary) -> None:
        raise Refused("the table was rewritten", kind=Kind.TABLE_REWRITTEN)

    control = Patient()
    with pytest.raises(Refused):
        follow_cycles(control, nothing, refused, nothing)
    assert control.waits == [10]


def test_a_batch_given_up_because_of_a_stop_is_not_a_good_end() -> None:
    control = Patient()

    def stopped(summary: Summary) -> None:
        control.stop()
        trouble(summary)

    with pytest.raises(Temporary):
        follow_cycles(control, stopped)


@pytest.mark.parametrize(("poll_s", "waits"), [(10, [10, 10]), (0, [1, 0])])
def test_a_paused_pipeline_is_looked_at_once_a_second_at_most(poll_s: float, waits: list[float]) -> None:
    def paused(summary: Summary) -> None:
        summary.paused = Paused(at_ms=1)

    control = Patient()
    follow_cycles(control, paused, nothing, nothing, poll_s=poll_s)
    assert control.waits == waits


def test_commit_now_with_nothing_to_commit_does_not_cut_the_next_batch_short() -> None:
    control = Patient()
    control.commit_now()
    assert control.ends_batch()
    seen: list[bool] = []
    follow_cycles(control, nothing, lambda summary: seen.append(control.ends_batch()))
    assert seen == [False]


def test_a_wait_ends_when_something_is_asked() -> None:
    control = RunControl()
    for ask in (control.commit_now, control.pause, control.resume, control.stop):
        timer = threading.Timer(0.05, ask)
        timer.start()
        control.wait(60)  # the test would not end in time
        timer.join()


def toggled(control: RunControl) -> Wish | None:
    """What is wanted after one more SIGUSR1."""
    os.kill(os.getpid(), signal.SIGUSR1)
    return control.wish


def test_signals_pause_resume_commit_and_stop() -> None:
    control = RunControl()
    with control.installed():
        assert toggled(control) is Wish.PAUSE
        assert control.requested()
        assert not control.is_stopping
        assert toggled(control) is Wish.RESUME
        assert not control.requested()
        control.has_tried(Wish.PAUSE, is_done=True)  # too late: something else is wanted by now
        assert control.wish is Wish.RESUME
        control.has_tried(Wish.RESUME, is_done=True)
        control.is_paused = True
        assert toggled(control) is Wish.RESUME
        assert toggled(control) is Wish.PAUSE
        control.has_tried(Wish.PAUSE, is_done=True)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert control.ends_batch()
        assert not control.requested()
        control.batch_ended()
        assert not control.ends_batch()
        os.kill(os.getpid(), signal.SIGTERM)
        assert control.is_stopping
        assert not control.must_cancel()
        os.kill(os.getpid(), signal.SIGINT)
        assert control.must_cancel()


def test_a_session_that_is_gone_ends_it_since_every_cycle_would_fail() -> None:
    def lose_spark(_: Summary) -> None:
        raise SparkGone("the session died")

    control = Patient()
    with pytest.raises(SparkGone) as gone:
        follow_cycles(control, nothing, lose_spark, nothing)
    assert (gone.value.kind, gone.value.exit_code) == ("spark_gone", 75)
    assert len(control.waits) == 1
