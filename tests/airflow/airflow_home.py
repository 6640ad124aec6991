"""A real Airflow in a folder of its own: SQLite for its metadata, no server, no network, and one DAG file at a time."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.testing.samples import EVENT_DDL
from tests.drivers import Driver

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600  # Airflow and Spark start several times, on a busy machine


@dataclass
class TaskRun:
    state: str
    tries: int
    summary: dict[str, Any] | None  # from XCom
    log: str


def environment(home: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYSPARK", "SPARK", "AWS"))}
    return clean | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_PROXY": "*",
    }


def migrate(airflow_bin: Path, home: Path) -> Path:
    call([str(airflow_bin / "airflow"), "db", "migrate"], environment(home))
    return home / "airflow.db"


def call(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class AirflowHome:
    def __init__(self, airflow_bin: Path, migrated: Path, folder: Path) -> None:
        self._airflow, self._folder, self._home = airflow_bin / "airflow", folder, folder / "airflow"
        (self._home / "dags").mkdir(parents=True)
        shutil.copy(migrated, self._home / "airflow.db")

    def start(self, dag_file: Path, dag_id: str, **env: str) -> subprocess.Popen[str]:
        """`airflow dags test`, which goes through retries as the scheduler does, but in its own process."""
        shutil.copy(dag_file, self._home / "dags")
        mine = Path(sys.executable).parent
        given = environment(self._home) | {
            "PATH": f"{mine}{os.pathsep}{os.environ['PATH']}",  # where spark-submit is
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": Driver.java_options,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "BLIZZARD_APPLICATION": str(ROOT / "jobs/ingest.py"),
            "EVENTS_SOURCE": str(self._folder / "src"),
            "EVENTS_TABLE": str(self._folder / "table"),
            "EVENTS_SCHEMA": EVENT_DDL,
        }
        return subprocess.Popen(
            [str(self._airflow), "dags", "test", dag_id],
            env=given | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait(self, process: subprocess.Popen[str]) -> TaskRun:
        try:
            log, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            log, _ = process.communicate()
            raise AssertionError(f"airflow dags test did not end:\n{log}") from None
        return self._newest(log)

    def run(self, dag_file: Path, dag_id: str, **env: str) -> TaskRun:
        return self.wait(self.start(dag_file, dag_id, **env))

    def _newest(self, log: str) -> TaskRun:
        with sqlite3.connect(self._home / "airflow.db") as database:
            row = database.execute(
                "SELECT run_id, state, try_number FROM task_instance ORDER BY start_date DESC LIMIT 1"
            ).fetchone()
            assert row is not None, log
            run_id, state, tries = row
            pushed = database.execute(
                "SELECT value FROM xcom WHERE key = 'summary' AND run_id = ?", (run_id,)
            ).fetchone()
        return TaskRun(state=state, tries=tries, summary=json.loads(pushed[0]) if pushed else None, log=log)
