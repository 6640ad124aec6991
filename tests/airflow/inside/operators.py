"""Every operator of the example DAGs, with its real provider, against services that are played by this process.

Takes the folder of the DAGs and one for summaries; prints, for each operator and each way a run may end, what the
service was asked for and how the task ended.
"""

from __future__ import annotations

import copy
import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from blizzard.airflow.requirements import AirflowException, AirflowFailException, AirflowSkipException
from tests.airflow.inside.services import Services

# name: what the summary says, whose it is, what the service says
ENDS: dict[str, tuple[dict[str, Any] | None, str, bool]] = {
    "done": ({"status": "done", "exit_code": 0, "records": 5}, "mine", True),
    "idle": ({"status": "idle", "exit_code": 0}, "mine", True),
    "idle again": ({"status": "idle", "exit_code": 0}, "mine", True),
    "fenced": ({"status": "failed", "exit_code": 4, "error_kind": "fenced"}, "mine", False),
    "temporary": ({"status": "failed", "exit_code": 75, "error_kind": "spark_job"}, "mine", False),
    "lost": (None, "mine", False),
    "silent": (None, "mine", True),
    "stale": ({"status": "done", "exit_code": 0}, "older", False),
}


def main(dags: str, summaries: str) -> None:
    told, services = {}, Services()
    os.environ.update(services.connections)
    for file in sorted(Path(dags).glob("airflow_*.py")):
        (dag,) = [value for value in runpy.run_path(str(file)).values() if hasattr(value, "dag_id")]  # one in each file
        if file.name != "airflow_spark_submit.py":  # its operator asks no service
            told[dag.dag_id] = tell(dag, Path(summaries), services)
    json.dump(told, sys.stdout)


def tell(dag: Any, summaries: Path, services: Services) -> dict[str, Any]:
    (operator,) = dag.tasks
    shown = {"max_active_runs": dag.max_active_runs, "catchup": dag.catchup, "retries": operator.retries, "ends": {}}
    shown["at_once"] = operator.max_active_tis_per_dag
    shown["waits"] = bool(getattr(operator, "wait_for_completion", getattr(operator, "wait_for_termination", None)))
    shown["summary_dir"] = operator.summary_dir
    callbacks = operator.on_failure_callback or []
    shown["tells"] = [call.__name__ for call in (callbacks if isinstance(callbacks, list) else [callbacks])]
    for name, end in ENDS.items():
        shown["ends"][name] = run(copy.deepcopy(operator), name, end, summaries, services)
    return shown


def run(
    operator: Any, name: str, end: tuple[dict[str, Any] | None, str, bool], summaries: Path, services: Services
) -> dict[str, Any]:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id=operator.dag_id,
        run_id="manual__2024-01-01T00:00:00+00:00",
        task_id=operator.task_id,
        try_number=2 if name == "idle again" else 1,
        map_index=-1,
        xcom_push=lambda key, value, **_: pushed.update({key: value}),
    )
    context = {"ti": ti, "task_instance": ti, "params": {}}
    context["var"] = {"value": {"emr_cluster_id": "j-RENDERED", "blizzard_job_id": "42"}}
    operator.render_template_fields(context)
    operator.summary_dir = str(summaries / name)

    def driver(asked: dict[str, Any]) -> bool:
        attempt, path = attempt_of(asked)
        summary, whose, is_ok = end
        if summary is not None:
            Path(path).write_text(json.dumps({**summary, "attempt": attempt if whose == "mine" else whose}))
        return is_ok

    services.driver, services.asked = driver, []
    ends = [execute(operator, context) for _ in range(2)]
    return {"asked": services.asked, "xcom": pushed, "ends": ends}


def execute(operator: Any, context: Any) -> str:
    try:
        operator.execute(context)
    except AirflowSkipException:
        return "skip"
    except AirflowFailException as e:
        return f"fail: {e}"
    except AirflowException as e:
        return f"retry: {e}"
    return "success"


def attempt_of(asked: dict[str, Any]) -> tuple[str, str]:
    if "job_parameters" in asked:
        return asked["job_parameters"]["attempt"], asked["job_parameters"]["summary"]
    if "Steps" in asked:
        words = asked["Steps"][-1]["HadoopJarStep"]["Args"]
    elif "jobDriver" in asked:
        words = asked["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    else:
        words = asked["tasks"][-1]["python_wheel_task"]["parameters"]
    assert words[-4::2] == ["--attempt", "--summary"], words
    assert words.count("--attempt") == 1, "the arguments of another attempt are still there"
    return words[-3], words[-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
