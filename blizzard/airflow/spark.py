"""spark-submit from a worker. In client mode the driver's exit code is known; in cluster mode only its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blizzard.airflow import attempts
from blizzard.airflow.ingest import Ingest
from blizzard.airflow.requirements import AirflowException, AirflowFailException, installed_by

with installed_by("apache-airflow-providers-apache-spark"):
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator


class BlizzardSparkSubmitOperator(SparkSubmitOperator):  # type: ignore[misc]
    application_args: list[str]
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "summary_dir")

    def __init__(
        self,
        *,
        ingest: Ingest,
        application: str,
        summary_dir: str | None = None,
        skips_when_idle: bool = True,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"blizzard {ingest.pipeline}")
        super().__init__(application=application, application_args=ingest.arguments(), **kwargs)
        self.summary_dir, self.skips_when_idle, self.aws_conn_id = summary_dir, skips_when_idle, aws_conn_id
        # A durable operator's retry would go on with the last attempt's job, and wait for another attempt's summary.
        self.durable = False

    def execute(self, context: Mapping[str, Any]) -> None:
        self._hook = None  # a hook holds the arguments of its attempt, so each attempt makes a new one
        is_cluster = self._get_hook()._connection.get("deploy_mode") == "cluster"
        if is_cluster and self.summary_dir is None:
            raise AirflowFailException(
                "blizzard: cluster mode needs summary_dir, in a store that worker and driver can reach"
            )
        arguments = self.application_args
        with attempts.folder_for(self.summary_dir) as folder:
            attempt = attempts.begin(context, folder)
            try:
                # Only in client mode: a cluster would take 99 for a failure, and retry.
                idle = [] if is_cluster else ["--exit-99-when-idle"]
                self.application_args = [*arguments, *idle, *attempt.arguments]
                error = self._submit(context)
            finally:
                self.application_args = arguments
            attempts.settle(
                context,
                attempt,
                exit_code=None if is_cluster else self._exit_code(),
                service_error=error,
                skips_when_idle=self.skips_when_idle,
                aws_conn_id=self.aws_conn_id,
            )

    def _submit(self, context: Mapping[str, Any]) -> BaseException | None:
        try:
            super().execute(context)
        except FileNotFoundError as e:
            raise AirflowFailException(
                f"blizzard: {e.filename} is not on this worker's PATH: pip install pyspark, or install Spark"
            ) from e
        except (AirflowException, RuntimeError) as e:
            if attempts.is_about_the_task(e):
                raise
            return e
        return None

    def _exit_code(self) -> int | None:
        """The exit code of spark-submit, which is that of its driver. Not parsed from the text of an exception."""
        process = getattr(self._hook, "_submit_sp", None)
        return None if process is None else int(process.returncode)
