"""Databricks: a one-time run, or a run of an existing job. The service says whether it failed; the summary says why."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from blizzard.airflow import attempts
from blizzard.airflow.requirements import AirflowException, installed_by

with installed_by("apache-airflow-providers-databricks"):
    from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator, DatabricksSubmitRunOperator


class _Settling:
    """Run a Databricks operator to its end, then let the summary decide."""

    summary_dir: str
    skips_when_idle: bool
    aws_conn_id: str | None
    log: Any

    def _settle(self, context: Mapping[str, Any], attempt: attempts.Attempt, run: Any) -> None:
        error: BaseException | None = None
        try:
            run(context)
        except AirflowException as e:
            error = e
        attempts.settle(
            context,
            attempt,
            service_error=error,
            skips_when_idle=self.skips_when_idle,
            aws_conn_id=self.aws_conn_id,
        )


class BlizzardDatabricksOperator(_Settling, DatabricksSubmitRunOperator):  # type: ignore[misc]
    tasks: list[dict[str, Any]]
    template_fields: Sequence[str] = (*DatabricksSubmitRunOperator.template_fields, "summary_dir")

    def __init__(
        self,
        *,
        summary_dir: str,
        skips_when_idle: bool = True,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "wait_for_termination": True, "deferrable": False})
        self.summary_dir, self.skips_when_idle, self.aws_conn_id = summary_dir, skips_when_idle, aws_conn_id
        self.durable = False  # see BlizzardSparkSubmitOperator

    def execute(self, context: Mapping[str, Any]) -> None:
        attempt, tasks = attempts.begin(context, self.summary_dir), self.tasks
        self.tasks = copy.deepcopy(tasks)
        self.tasks[-1]["python_wheel_task"]["parameters"] += attempt.arguments
        # If a submission is repeated after a lost answer, it must not start a second run.
        self.idempotency_token = attempt.id
        try:
            self._settle(context, attempt, super().execute)
        finally:
            self.tasks = tasks


class BlizzardDatabricksJobOperator(_Settling, DatabricksRunNowOperator):  # type: ignore[misc]
    job_parameters: dict[str, str] | None
    template_fields: Sequence[str] = (*DatabricksRunNowOperator.template_fields, "summary_dir")

    def __init__(
        self,
        *,
        summary_dir: str,
        skips_when_idle: bool = True,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "wait_for_termination": True, "deferrable": False})
        self.summary_dir, self.skips_when_idle, self.aws_conn_id = summary_dir, skips_when_idle, aws_conn_id
        self.durable = False

    def execute(self, context: Mapping[str, Any]) -> None:
        attempt, given = attempts.begin(context, self.summary_dir), self.job_parameters
        self.job_parameters = {**(given or {}), "attempt": attempt.id, "summary": attempt.summary}
        self.idempotency_token = attempt.id
        try:
            self._settle(context, attempt, super().execute)
        finally:
            self.job_parameters = given
