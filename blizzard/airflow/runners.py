"""Where a run happens: one class for each kind of cluster, which makes the Airflow operator.

Operators are imported only when one is made, so a worker needs only the provider that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from blizzard.airflow.ingest import Ingest

_ENVIRONMENT_PYTHON = "./environment/bin/python"


class Runner(Protocol):
    def operator(self, ingest: Ingest, task_id: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit:
    """spark-submit on the worker. In client mode `summary_dir` may be left out: the driver runs beside the task. In
    cluster mode it must be in a store that both can reach."""

    application: str
    summary_dir: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of SparkSubmitOperator: conf, archives, env_vars, …

    def operator(self, ingest: Ingest, task_id: str) -> Any:
        from blizzard.airflow.spark import BlizzardSparkSubmitOperator

        return BlizzardSparkSubmitOperator(
            task_id=task_id,
            ingest=ingest,
            application=self.application,
            summary_dir=self.summary_dir,
            **self.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmrStep:
    """A step on a running EMR cluster. `environment` is the packed environment, `application` is jobs/ingest.py."""

    job_flow_id: str
    application: str
    environment: str
    summary_dir: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # of EmrAddStepsOperator

    def operator(self, ingest: Ingest, task_id: str) -> Any:
        from blizzard.airflow.emr import BlizzardEmrStepOperator

        return BlizzardEmrStepOperator(
            task_id=task_id,
            job_flow_id=self.job_flow_id,
            steps=[self.step(ingest)],
            summary_dir=self.summary_dir,
            **self.options,
        )

    def step(self, ingest: Ingest) -> dict[str, Any]:
        # In cluster mode the driver runs in its own container, with the environment unpacked beside it.
        conf = {
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": _ENVIRONMENT_PYTHON,
            "spark.pyspark.python": _ENVIRONMENT_PYTHON,
            # One attempt: otherwise YARN would restart the driver by itself, with the same --attempt.
            "spark.yarn.maxAppAttempts": "1",
            **self.conf,
        }
        command = ["spark-submit", "--deploy-mode", "cluster", "--archives", f"{self.environment}#environment"]
        command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        return {
            "Name": f"blizzard {ingest.pipeline}",
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {
                "Jar": "command-runner.jar",
                "Args": [*command, self.application, *ingest.arguments()],
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EmrServerless:
    application_id: str
    execution_role_arn: str
    application: str
    environment: str
    summary_dir: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)  # of EmrServerlessStartJobOperator

    def operator(self, ingest: Ingest, task_id: str) -> Any:
        from blizzard.airflow.emr import BlizzardEmrServerlessOperator

        return BlizzardEmrServerlessOperator(
            task_id=task_id,
            application_id=self.application_id,
            execution_role_arn=self.execution_role_arn,
            job_driver=self.job_driver(ingest),
            name=f"blizzard {ingest.pipeline}",
            summary_dir=self.summary_dir,
            **self.options,
        )

    def job_driver(self, ingest: Ingest) -> dict[str, Any]:
        conf = {
            "spark.archives": f"{self.environment}#environment",
            "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": _ENVIRONMENT_PYTHON,
            "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": _ENVIRONMENT_PYTHON,
            "spark.executorEnv.PYSPARK_PYTHON": _ENVIRONMENT_PYTHON,
            **self.conf,
        }
        return {
            "sparkSubmit": {
                "entryPoint": self.application,
                "entryPointArguments": ingest.arguments(),
                "sparkSubmitParameters": " ".join(f"--conf {key}={value}" for key, value in conf.items()),
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Databricks:
    """A one-time run, on a new cluster (`new_cluster`) or on an existing one (`existing_cluster_id`)."""

    wheel: str
    summary_dir: str
    compute: Mapping[str, Any]  # {"new_cluster": {…}} or {"existing_cluster_id": "…"}
    options: Mapping[str, Any] = field(default_factory=dict)  # of DatabricksSubmitRunOperator

    def operator(self, ingest: Ingest, task_id: str) -> Any:
        from blizzard.airflow.databricks import BlizzardDatabricksOperator

        return BlizzardDatabricksOperator(
            task_id=task_id,
            tasks=[self.task(ingest)],
            run_name=f"blizzard {ingest.pipeline}",
            summary_dir=self.summary_dir,
            **self.options,
        )

    def task(self, ingest: Ingest) -> dict[str, Any]:
        return {
            "task_key": "ingest",
            "python_wheel_task": {
                "package_name": "blizzard-delta",
                # Not "blizzard": a wheel task calls the function and ignores what it returns, the exit code.
                "entry_point": "blizzard-ingest",
                "parameters": ingest.arguments(),
            },
            "libraries": [{"whl": self.wheel}],
            **self.compute,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabricksJob:
    """An existing job with the job parameters of the bundle in jobs/databricks. Options and flags must be in the job
    itself: job parameters have fixed names."""

    job_id: str
    summary_dir: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of DatabricksRunNowOperator

    def operator(self, ingest: Ingest, task_id: str) -> Any:
        from blizzard.airflow.databricks import BlizzardDatabricksJobOperator

        return BlizzardDatabricksJobOperator(
            task_id=task_id,
            job_id=self.job_id,
            job_parameters=self.job_parameters(ingest),
            summary_dir=self.summary_dir,
            **self.options,
        )

    def job_parameters(self, ingest: Ingest) -> dict[str, str]:
        if ingest.options or ingest.flags:
            raise ValueError("put options and flags into the definition of the existing Databricks job")
        given = {
            "source": ingest.source,
            "table": ingest.table,
            "pipeline": ingest.pipeline,
            "schema": ingest.schema,
            "config": ingest.config,
        }
        return {name: value for name, value in given.items() if value is not None}
