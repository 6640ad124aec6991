"""Spark Connect: the run has no JVM and no context, and the server's workers get blizzard from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.cluster.connect import ConnectServer
from tests.drivers import Driver, ids, job, run
from tests.flows.targets import Targets

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where tasks of the server wait, unless it has a file `go`."""
    return tmp_path_factory.mktemp("held")


@pytest.fixture(scope="module")
def server(environment: Path, held: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Its Python has every package but blizzard."""
    folder = tmp_path_factory.mktemp("connect")
    without = folder / "python"
    shutil.copytree(environment, without, symlinks=True, copy_function=_link, ignore=_but_blizzard)
    fault = {"BLIZZARD_FAULT": f"task.0.written=hold:{held}"}
    made = ConnectServer(folder, python=without / "bin/python", environment=fault)
    yield made
    made.stop()


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _but_blizzard(folder: str, names: list[str]) -> set[str]:
    return {"blizzard"} & set(names) if folder.endswith("site-packages") else set()


def remote(server: ConnectServer) -> tuple[str, str]:
    return "--set", f"spark.remote={server.url}"


def test_a_run_through_connect_ingests_every_record_once(server: ConnectServer, held: Path, tmp_path: Path) -> None:
    (held / "go").touch()
    total = write_events(str(tmp_path / "src"), files=6, records=200)
    # No Java on the client's side.
    nothing = {"JAVA_HOME": "/nonexistent"}
    first = run(
        tmp_path, *job(tmp_path, *remote(server), "--set", "limits.max_files=4", "--max-batches", "1"), env=nothing
    )
    assert first.code == 0, first.stderr
    assert "4 of 6 files in 3 tasks" in first.stderr  # as many as the server runs at once
    assert first.summary["records"] == 800
    finished = run(tmp_path, *job(tmp_path), env=nothing | {"SPARK_REMOTE": server.url})
    assert finished.code == 0, finished.stderr
    assert ids(tmp_path / "table") == list(range(total))


def test_a_run_through_connect_writes_to_two_targets_each_record_once(
    server: ConnectServer, held: Path, tmp_path: Path
) -> None:
    """One of them has another schema. The first driver is killed between their commits."""
    (held / "go").touch()
    total = write_events(str(tmp_path / "src"), files=4, records=200)
    narrow = {"schema": {"ddl": "id BIGINT, kind STRING", "evolution": "ignore"}}
    targets = Targets(tmp_path, {"whole": {"schema": {"ddl": EVENT_DDL}}, "narrow": narrow}, schema=None)
    nothing = {"JAVA_HOME": "/nonexistent"}
    killed = run(tmp_path, *targets.words(*remote(server)), fault="commit.before=kill@2", env=nothing)
    assert killed.code == -9, killed.stderr
    assert sorted(targets.ids(name).total() for name in targets.own) == [0, total]
    finished = run(tmp_path, *targets.words(*remote(server)), env=nothing)
    assert finished.code == 0, finished.stderr
    targets.check_each_once(range(total))


def test_a_batch_on_a_server_can_be_cancelled(server: ConnectServer, held: Path, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=2, records=50)
    (held / "go").unlink(missing_ok=True)
    driver = Driver(tmp_path, *job(tmp_path, *remote(server), "--set", "stop_grace_s=0"))
    driver.wait_until(lambda: any(held.iterdir()), "a task was under way")
    driver.terminate()
    finished = driver.wait()
    (held / "go").touch()
    assert finished.code == 75, finished.stderr
    assert finished.summary["error_kind"] == "interrupted"
    assert ids(tmp_path / "table") == []
    again = run(tmp_path, *job(tmp_path, *remote(server)))
    assert again.code == 0, again.stderr
    assert ids(tmp_path / "table") == list(range(total))


def test_the_committer_that_needs_a_jvm_is_refused_before_anything_is_asked_for(tmp_path: Path) -> None:
    write_events(str(tmp_path / "src"), files=1, records=5)
    nowhere = ("--set", "spark.remote=sc://127.0.0.1:1", "--set", "table.sole_writer=true")
    finished = run(tmp_path, *job(tmp_path, *nowhere, "--committer", "delta-spark"))
    assert finished.code == 2, finished.stderr
    assert finished.summary["error_kind"] == "no_jvm"
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    ("url", "code", "kind"),
    [("sc://127.0.0.1:1/;token=abc", 75, "spark_session"), ("127.0.0.1:1;token=abc", 2, "usage")],
)
def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path, url: str, code: int, kind: str) -> None:
    write_events(str(tmp_path / "src"), files=1, records=5)
    direct = dict.fromkeys(("grpc_proxy", "https_proxy", "http_proxy"), "")
    finished = run(tmp_path, *job(tmp_path, "--set", f"spark.remote={url}"), env=direct)
    assert (finished.code, finished.summary["error_kind"]) == (code, kind), finished.stderr
    assert "127.0.0.1:1" in finished.summary["error"]
    assert "abc" not in finished.stderr


def test_a_function_that_only_the_client_has_runs_in_the_servers_workers(
    server: ConnectServer, held: Path, tmp_path: Path
) -> None:
    (held / "go").touch()
    total = write_events(str(tmp_path / "src"), files=2, records=50)
    (tmp_path / "only_the_client_has.py").write_text(
        "import pyarrow.compute as pc\n"
        "LIMIT = 10\n"
        "def clean(batch):\n"
        "    return batch.filter(pc.greater_equal(batch['id'], LIMIT))\n"
    )
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    words = job(tmp_path, *remote(server), "--set", "transform.python=only_the_client_has:clean")
    finished = run(tmp_path, *words, env={"JAVA_HOME": "/nonexistent", "PYTHONPATH": path})
    assert finished.code == 0, finished.stderr
    assert (finished.summary["records"], finished.summary["filtered_records"]) == (total - 10, 10)
    assert ids(tmp_path / "table") == list(range(10, total))
