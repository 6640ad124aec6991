"""Every operator of the example DAGs in its real class, with only the call to the service replaced.

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

from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator, EmrServerlessStartJobOperator
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator, DatabricksSubmitRunOperator

from blizzard.airflow.requirements import AirflowException, AirflowFailException, AirflowSkipException

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

_FIELDS = (
    *("job_flow_id", "steps", "application_id", "execution_role_arn", "job_driver"),
    *("tasks", "job_id", "job_parameters"),
)


def main(dags: str, summaries: str) -> None:
    told = {}
    for file in ("airflow_emr.py", "airflow_databricks.py"):
        for dag in runpy.run_path(os.path.join(dags, file)).values():
            if hasattr(dag, "dag_id"):
                told[dag.dag_id] = tell(dag, Path(summaries))
    json.dump(told, sys.stdout)


def tell(dag: Any, summaries: Path) -> dict[str, Any]:
    (operator,) = dag.tasks
    shown = {"max_active_runs": dag.max_active_runs, "catchup": dag.catchup, "retries": operator.retries, "ends": {}}
    shown["waits"] = bool(getattr(operator, "wait_for_completion", getattr(operator, "wait_for_termination", None)))
    shown["summary_dir"] = operator.summary_dir
    for name, end in ENDS.items():
        shown["ends"][name] = run(copy.deepcopy(operator), name, end, summaries)
    return shown


def run(operator: Any, name: str, end: tuple[dict[str, Any] | None, str, bool], summaries: Path) -> dict[str, Any]:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id=operator.dag_id,
        run_id="manual__2024-01-01T00:00:00+00:00",
        task_id=operator.task_id,
        try_number=2 if name == "idle again" else 1,
        map_index=-1,
        xcom_push=lambda key, value: pushed.update({key: value}),
    )
    context = {"ti": ti, "var": {"value": {"emr_cluster_id": "j-RENDERED", "blizzard_job_id": "42"}}}
    operator.render_template_fields(context)
    operator.summary_dir = str(summaries / name)
    before, asked = payload_of(operator), {}

    def service(self: Any, context: Any, event: Any = None) -> str:
        asked.update(copy.deepcopy(payload_of(self)))
        attempt, path = attempt_of(asked)
        summary, whose, is_ok = end
        if summary is not None:
            Path(path).write_text(json.dumps({**summary, "attempt": attempt if whose == "mine" else whose}))
        if not is_ok:
            raise AirflowException("the service says that it failed")
        return "job-1"

    for base in (
        EmrAddStepsOperator,
        EmrServerlessStartJobOperator,
        DatabricksSubmitRunOperator,
        DatabricksRunNowOperator,
    ):
        base.execute = service
    return {
        "asked": asked,
        "xcom": pushed,
        "end": execute(operator, context),
        "unchanged": payload_of(operator) == before,
    }


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


def payload_of(operator: Any) -> dict[str, Any]:
    """What goes to the service."""
    payload = {name: getattr(operator, name) for name in _FIELDS if getattr(operator, name, None) is not None}
    tokens = ("client_request_token", "idempotency_token")
    token = next((getattr(operator, name) for name in tokens if hasattr(operator, name)), None)
    return copy.deepcopy(payload) | ({"token": token} if "attempt" in json.dumps(payload) else {})


def attempt_of(asked: dict[str, Any]) -> tuple[str, str]:
    if "job_parameters" in asked:
        return asked["job_parameters"]["attempt"], asked["job_parameters"]["summary"]
    if "steps" in asked:
        words = asked["steps"][-1]["HadoopJarStep"]["Args"]
    elif "job_driver" in asked:
        words = asked["job_driver"]["sparkSubmit"]["entryPointArguments"]
    else:
        words = asked["tasks"][-1]["python_wheel_task"]["parameters"]
    assert words[-4::2] == ["--attempt", "--summary"], words
    return words[-3], words[-1]


if __name__ == "__main__":
    main(*sys.argv[1:])
