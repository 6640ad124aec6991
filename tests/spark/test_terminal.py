"""A run on a real terminal: what it says at once, how far it is inside of a batch, and what Ctrl-C does. No durations:
those are in benchmarks/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blizzard.testing.samples import write_events
from blizzard.testing.terminals import OnTerminal
from tests.drivers import Driver, ids, job, run

pytestmark = pytest.mark.spark

FILES, RECORDS = 4, 50
STOPPING = "stopping: finishing the record, then committing; press again to discard"
DISCARDING = "discarding the batch: nothing of it is committed, the next run reads it again"
NOISE = ("WARNING", "WARN", "log level", "log4j", "incubator", "NOTE: ")


def start_and_wait_inside_a_batch(folder: Path) -> OnTerminal:
    """One task. It has read one file and waits inside of the second one, until `folder/hangs` is gone."""
    hangs = folder / "hangs"
    env = {"BLIZZARD_FAULT": f"task.block=hang:{hangs}@2", "JDK_JAVA_OPTIONS": Driver.java_options}
    terminal = OnTerminal("run", *job(folder, "--set", "spark.slots=1"), env=env)
    terminal.wait_until(hangs.exists, "a task was in its second file")
    return terminal


def in_order(screen: str, *texts: str) -> None:
    places = [screen.find(text) for text in texts]
    assert -1 not in places, (texts[places.index(-1)], screen)
    assert places == sorted(places), (texts, screen)


def test_ctrl_c_is_answered_at_once_and_a_second_one_discards(tmp_path: Path, fast_drivers: None) -> None:
    write_events(str(tmp_path / "src"), files=FILES, records=RECORDS)
    stopped = start_and_wait_inside_a_batch(tmp_path)
    stopped.wait_for(f"{RECORDS} records")  # told by the task, while it runs
    stopped.press_ctrl_c()
    stopped.wait_for(STOPPING)
    stopped.wait_until(lambda: any((tmp_path / "table").glob("_blizzard-end-*")), "the task was asked to end")
    (tmp_path / "hangs").unlink()
    assert stopped.wait() == 0
    *_, summary = stopped.screen.splitlines()
    assert (json.loads(summary)["status"], json.loads(summary)["commits"]) == ("stopped", 1)
    in_order(
        stopped.screen,
        "starting Spark",
        "pipeline src-",
        "starting Spark…",
        "batch 1  \x1b[32m█",
        f"{RECORDS} records",
        STOPPING,
        "batch 1: committed version 1, sequence 1: 100 records in 1 Parquet file;",
        "stopped: 100 records, 2 files finished, 1 commit",
        '{"status":"stopped"',
    )
    assert not [word for word in NOISE if word in stopped.screen]
    assert len(ids(tmp_path / "table")) == 2 * RECORDS

    discarded = start_and_wait_inside_a_batch(tmp_path)
    discarded.press_ctrl_c()
    discarded.wait_for(STOPPING)
    discarded.press_ctrl_c()
    assert discarded.wait() == 75
    in_order(discarded.screen, STOPPING, DISCARDING, "the batch was cancelled", '"error_kind":"interrupted"')
    assert len(ids(tmp_path / "table")) == 2 * RECORDS

    finished = run(tmp_path, *job(tmp_path))  # no terminal
    assert finished.code == 0
    assert ids(tmp_path / "table") == list(range(FILES * RECORDS))
    assert not [character for character in finished.stderr if ord(character) < 32 and character != "\n"]
    in_order(
        finished.stderr,
        "pipeline src-",
        "batch 1: reading 2 of 2 files in ",
        "batch 1: committed version 2, sequence 2: 100 records in ",
        "done: 100 records, 2 files finished, 1 commit",
    )
    assert not [word for word in NOISE if word in finished.stderr]


def test_what_java_says_is_shown_if_it_does_not_start(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=1, records=1)
    failed = run(tmp_path, *job(tmp_path), env={"JDK_JAVA_OPTIONS": "-XX:+NoSuchOption"})
    assert (failed.code, failed.summary["error_kind"]) == (75, "spark_session")
    assert "Unrecognized VM option 'NoSuchOption'" in failed.stderr
