"""EMR: a step on a cluster, or a job run of EMR Serverless. Neither says how the driver ended; its summary does.

One task adds the step and waits for it. A separate sensor would be retried alone, and wait for the same dead step.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from blizzard.airflow import attempts
from blizzard.airflow.requirements import AirflowException, installed_by

with installed_by("apache-airflow-providers-amazon"):
    from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator, EmrServerlessStartJobOperator

# 24 hours; limit it with execution_timeout. The providers give up after 25 or 30 minutes, and leave the step running.
_WAITING = {"waiter_delay": 30, "waiter_max_attempts": 2880}


class BlizzardEmrStepOperator(EmrAddStepsOperator):  # type: ignore[misc]
    steps: list[dict[str, Any]]
    template_fields: Sequence[str] = (*EmrAddStepsOperator.template_fields, "summary_dir")
    template_ext: Sequence[str] = ()  # an argument that ends in .json is an argument, not a template to load

    def __init__(self, *, summary_dir: str, skips_when_idle: bool = True, **kwargs: Any) -> None:
        super().__init__(**{**_WAITING, **kwargs, "wait_for_completion": True, "deferrable": False})
        self.summary_dir, self.skips_when_idle = summary_dir, skips_when_idle

    def execute(self, context: Mapping[str, Any]) -> list[str] | None:
        ids: list[str] | None = None
        error: BaseException | None = None
        attempt, steps = attempts.begin(context, self.summary_dir), self.steps
        self.steps = copy.deepcopy(steps)
        self.steps[-1]["HadoopJarStep"]["Args"] += attempt.arguments
        try:
            ids = super().execute(context)
        except AirflowException as e:
            error = e
        finally:
            self.steps = steps
        attempts.settle(
            context,
            attempt,
            service_error=error,
            skips_when_idle=self.skips_when_idle,
            aws_conn_id=self.aws_conn_id,
        )
        return ids


class BlizzardEmrServerlessOperator(EmrServerlessStartJobOperator):  # type: ignore[misc]
    job_driver: dict[str, Any]
    template_fields: Sequence[str] = (*EmrServerlessStartJobOperator.template_fields, "summary_dir")

    def __init__(self, *, summary_dir: str, skips_when_idle: bool = True, **kwargs: Any) -> None:
        super().__init__(**{**_WAITING, **kwargs, "wait_for_completion": True, "deferrable": False})
        self.summary_dir, self.skips_when_idle = summary_dir, skips_when_idle

    def execute(self, context: Mapping[str, Any], event: dict[str, Any] | None = None) -> str | None:
        job_id: str | None = None
        error: BaseException | None = None
        attempt, driver = attempts.begin(context, self.summary_dir), self.job_driver
        self.job_driver = copy.deepcopy(driver)
        self.job_driver["sparkSubmit"]["entryPointArguments"] += attempt.arguments
        # With the token of an earlier attempt the service would return that attempt's run.
        self.client_request_token = attempt.id
        try:
            job_id = super().execute(context, event)
        except AirflowException as e:
            error = e
        finally:
            self.job_driver = driver
        attempts.settle(
            context,
            attempt,
            service_error=error,
            skips_when_idle=self.skips_when_idle,
            aws_conn_id=self.aws_conn_id,
        )
        return job_id
