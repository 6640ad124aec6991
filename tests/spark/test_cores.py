"""How many threads each task of a batch gets: from the settings of any session, and in a real local one."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blizzard.core.events import Event, Planned
from blizzard.core.types import Cores
from blizzard.spark.cores import cores_of
from blizzard.spark.ingestor import core_settings, default_slots
from tests.ingesting import ids, ingest, write_ids


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({}, Cores(per_executor=1)),
        ({"spark.master": "local"}, Cores(per_executor=1, on_driver=True)),
        ({"spark.master": "local[4]"}, Cores(per_executor=4, on_driver=True)),
        ({"spark.master": "local[3,2]"}, Cores(per_executor=3, on_driver=True)),
        ({"spark.master": "local[*]"}, Cores(per_executor=os.cpu_count() or 1, on_driver=True)),
        ({"spark.master": "local[4]", "spark.executor.cores": "9"}, Cores(per_executor=4, on_driver=True)),
        ({"spark.master": "local-cluster[2,3,1024]"}, Cores(per_executor=3)),
        ({"spark.master": "yarn", "spark.executor.cores": "5"}, Cores(per_executor=5)),
        ({"spark.master": "spark://host:7077"}, Cores(per_executor=1)),
        ({"spark.executor.cores": "8", "spark.task.cpus": "4"}, Cores(per_executor=8, per_task=4)),
        ({"spark.task.cpus": "4"}, Cores(per_executor=4, per_task=4)),
        ({"spark.executor.cores": "many"}, Cores(per_executor=1)),
    ],
)
def test_the_settings_tell_the_cores_of_an_executor(settings: dict[str, str], cores: Cores) -> None:
    assert cores_of(settings) == cores


class RemoteSession:
    """A Spark Connect session: no context to ask, only settings."""

    def __init__(self, settings: dict[str, str] | None) -> None:
        self._settings = settings

    @property
    def conf(self) -> RemoteSession:
        return self

    def get(self, name: str, default: str | None) -> str | None:
        if self._settings is None:
            raise RuntimeError("CONFIG_NOT_AVAILABLE")
        return self._settings.get(name, default)


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "yarn", "spark.executor.cores": "4"}, Cores(per_executor=4)),
        ({}, Cores(per_executor=1)),
        (None, Cores(per_executor=1)),
    ],
)
def test_a_connect_server_tells_what_it_tells(settings: dict[str, str] | None, cores: Cores) -> None:
    session: Any = RemoteSession(settings)
    assert cores_of(core_settings(session)) == cores


def classic_session(parallelism: int, settings: dict[str, str]) -> Any:
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    return SimpleNamespace(_sc=SimpleNamespace(defaultParallelism=parallelism, getConf=lambda: conf))


def test_a_task_that_has_several_cores_takes_several_of_the_cores_that_spark_counts() -> None:
    assert default_slots(classic_session(8, {"spark.task.cpus": "4"})) == 2


@pytest.mark.spark
def test_one_file_gets_both_cores_of_a_local_session_and_two_files_get_one_each(spark: Any, tmp_path: Path) -> None:
    threads = []

    def listen(event: Event) -> None:
        if isinstance(event, Planned):
            threads.append([task.threads for task in event.plan.tasks])

    write_ids(tmp_path / "src/a.ndjson.gz", 0, 100)
    ingest(spark, tmp_path, on_event=listen)
    write_ids(tmp_path / "src/b.ndjson.gz", 100, 200)
    write_ids(tmp_path / "src/c.ndjson.gz", 200, 300)
    ingest(spark, tmp_path, on_event=listen)
    assert threads == [[2], [1, 1]]
    assert ids(tmp_path / "table") == list(range(300))
