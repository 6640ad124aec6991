"""A real fleet: a real process with a real Spark session, stopped, killed and without its JVM. Each record of each
pipeline is in its table once after any of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.drivers import Driver, Finished, ids
from tests.flows.fleets import FleetFolder
from tests.flows.in_process import Flow, write_foreign
from tests.flows.operating import silent_server
from tests.ingesting import write, write_ids
from tests.spark.test_spark_gone import kill_jvm

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.usefixtures("fast_drivers")]

NAMES = ("orders", "users", "clicks")
SMALL_BATCHES = {"limits": {"max_records": 1000}, "spark": {"conf": {"spark.master": "local[2]"}}}


@pytest.fixture
def folder(tmp_path: Path) -> FleetFolder:
    made = FleetFolder(tmp_path, top=dict(SMALL_BATCHES)).add(*NAMES, schema={"ddl": EVENT_DDL})
    for name in NAMES:
        write_events(str(made.src(name)), files=4, records=500)
    return made


TOTAL = list(range(2000))


def start(folder: FleetFolder, *more: str, fault: str | None = None, env: dict[str, str] | None = None) -> Driver:
    return Driver(folder.folder, "--config", str(folder.file), *more, fault=fault, env=env, command="serve")


def drain(folder: FleetFolder) -> Finished:
    done = start(folder, "--once").wait()
    assert done.code == 0, done.stderr
    return done


def check_all(folder: FleetFolder) -> None:
    for name in NAMES:
        assert ids(folder.table(name)) == TOTAL, name


def test_all_are_drained_once_and_then_there_is_nothing_new(folder: FleetFolder) -> None:
    done = drain(folder)
    assert done.summary["status"] == "done"
    assert {name: s["records"] for name, s in done.summary["pipelines"].items()} == dict.fromkeys(NAMES, 2000)
    assert all(s["commits"] == 2 for s in done.summary["pipelines"].values())
    check_all(folder)
    again = drain(folder)
    assert again.summary["status"] == "idle"
    assert "log level" not in again.stderr  # no JVM was started


def test_killed_in_the_middle_of_the_batches_of_several(folder: FleetFolder) -> None:
    """Twice, each when a commit or two more are there, or all of them; then it is left to finish."""
    chance = random.Random(0)

    def committed() -> int:
        return sum(len(ids(folder.table(name))) for name in NAMES)

    for _ in range(2):
        enough = min(committed() + chance.choice((1000, 2000)), len(NAMES) * len(TOTAL))
        driver = start(folder)
        driver.wait_until(lambda enough=enough: committed() >= enough, "some batches were committed")
        time.sleep(chance.random() * 0.2)
        driver.kill()
    drain(folder)
    check_all(folder)


@pytest.mark.parametrize("point", ["task.before_parquet_close", "commit.answer"])
def test_killed_at_a_named_point_of_some_pipeline(folder: FleetFolder, point: str) -> None:
    driver = start(folder, "--once", fault=f"{point}=kill@3")
    if point.startswith("task"):  # there a worker dies, and the batch fails
        assert driver.wait().code == 75
    else:
        assert driver.wait().code == -9
    drain(folder)
    check_all(folder)


def test_a_first_sigterm_commits_what_every_pipeline_has_read(folder: FleetFolder) -> None:
    held = folder.folder / "held"
    held.mkdir()
    driver = start(folder, fault=f"task.before_parquet_close=hold:{held}")
    driver.wait_until(lambda: any(held.iterdir()), "a task was under way")
    driver.terminate()
    driver.wait_for("stopping: ")
    (held / "go").touch()
    done = driver.wait()
    assert done.code == 0, done.stderr
    assert done.summary["status"] == "stopped"
    assert "stopping: finishing the record, then committing; send it again to discard" in done.stderr
    committed = {name: s["records"] for name, s in done.summary["pipelines"].items()}
    assert sum(committed.values()) >= 1000
    assert {name: len(ids(folder.table(name))) for name in NAMES} == committed
    assert not list(folder.folder.glob("*/table/_blizzard-end-*"))
    drain(folder)
    check_all(folder)


@pytest.mark.parametrize("how", ["second signal", "grace over"])
def test_a_second_signal_or_the_end_of_the_grace_discards_the_batches(folder: FleetFolder, how: str) -> None:
    marker = folder.folder / "reached"
    folder.top["stop_grace_s"] = 1 if how == "grace over" else 60
    driver = start(folder, fault=f"task.before_parquet_close=hang:{marker}")
    driver.wait_until(marker.exists, "a task was under way")
    driver.terminate()
    if how == "second signal":
        driver.wait_for("stopping: ")  # two signals at once would be one
        driver.terminate()
    done = driver.wait()
    assert (done.code, done.summary["error_kind"]) == (75, "interrupted"), done.stderr
    assert all(ids(folder.table(name)) == [] for name in NAMES)
    drain(folder)
    check_all(folder)


def test_without_its_jvm_the_process_ends_with_75(folder: FleetFolder) -> None:
    """At once, and not when the next batch fails: nothing is read at that moment."""
    driver = start(folder)
    driver.wait_until(lambda: all(ids(folder.table(name)) == TOTAL for name in NAMES), "all was committed")
    kill_jvm(driver)
    done = driver.wait()
    assert (done.code, done.summary["error_kind"]) == (75, "spark_gone"), done.stderr
    assert "Traceback" not in done.stderr
    check_all(folder)


def test_what_fails_beside_a_pipeline_does_not_touch_it(folder: FleetFolder) -> None:
    """One that refuses, one with bad data, one without a source, one whose store never answers; all at once."""
    folder.add("refuses", "bad", "lost", "hangs")
    other = Flow(folder.folder / "refuses", pipeline="other")
    other.place.create("other")
    write_foreign(other.table, 1)
    write_ids(folder.src("refuses") / "a.ndjson", 0, 3)
    write(folder.src("bad") / "a.ndjson", b"nonsense\n" * 50)
    folder.src("lost").rmdir()
    folder.top |= {"stop_grace_s": 3, "api": {"address": "127.0.0.1:0"}}
    with silent_server() as address:
        options = {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "bcdefgh",
        }
        folder.add("hangs", source={"path": "s3://bucket/x", "storage_options": options})
        driver = start(folder)
        driver.wait_until(lambda: all(ids(folder.table(name)) == TOTAL for name in NAMES), "all was committed")
        driver.wait_until(lambda: driver.stderr.count("; looking again in 60 s") == 3, "the others have failed")
        driver.terminate()
        done = driver.wait()
    kinds = {name: summary["error_kind"] for name, summary in done.summary["pipelines"].items()}
    assert kinds.pop("hangs") in ("interrupted", "store_unavailable")  # while it waited, or after its timeout
    assert kinds == {
        **dict.fromkeys(NAMES),
        "refuses": "table_has_data",
        "bad": "mostly_bad",
        "lost": "source_not_found",
    }
    assert done.code == 3, done.stderr  # of the first in the file that needs a person
    assert "Traceback" not in done.stderr


_POOLS = """
import sys
from blizzard.config.fleet import load_fleet
from blizzard.service.fleet import Fleet
from blizzard.service.fleet_control import FleetControl
from blizzard.service.fleet_summary import FleetSummary
from blizzard.service.progress import progress_of_pipeline
from blizzard.spark.session import LazySession, fair_settings
import json

config, summary = load_fleet(sys.argv[1]), FleetSummary()
with LazySession(fair_settings(config.process.spark_conf)) as session:
    progress = lambda name: progress_of_pipeline("text", name)
    Fleet(config, session, FleetControl(), summary, progress_of=progress).run(follows=False)
    context = session.get()._jsc.sc()
    pools = context.getAllPools()
    names = [pools.apply(i).name() for i in range(pools.size())]
    print(json.dumps({"mode": context.getSchedulingMode().toString(), "pools": sorted(names)}))
"""


def test_every_pipeline_has_a_pool_of_sparks_fair_scheduler(folder: FleetFolder) -> None:
    environment = os.environ | {"JDK_JAVA_OPTIONS": Driver.java_options}
    done = subprocess.run(
        [sys.executable, "-c", _POOLS, str(folder.file)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"mode": "FAIR", "pools": sorted(["default", *NAMES])}
    check_all(folder)
