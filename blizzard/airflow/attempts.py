"""One attempt of a task: its id, where its summary goes, and how the Airflow task ends."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blizzard.airflow.decide import Ended, Fail, Retry, Skip, Success, decide, failed_targets, summary_of
from blizzard.airflow.requirements import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    installed_by,
)
from blizzard.text.shown import shown

_LOG = logging.getLogger("airflow.task")  # the log of the task


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`id` is random, so no older summary can be taken for the one of this attempt."""

    id: str
    summary: str

    @property
    def arguments(self) -> list[str]:
        return ["--attempt", self.id, "--summary", self.summary]


def begin(context: Mapping[str, Any], summary_dir: str) -> Attempt:
    ti = context["ti"]
    attempt = uuid.uuid4().hex
    mapped = f".{ti.map_index}" if getattr(ti, "map_index", -1) >= 0 else ""
    names = (ti.dag_id, ti.run_id, f"{ti.task_id}{mapped}-{ti.try_number}-{attempt[:8]}.json")
    path = "/".join(re.sub(r"[^\w.=-]", "_", name) for name in names)  # a run_id has colons and a plus
    summary = f"{summary_dir.rstrip('/')}/{path}"
    if _local_path(summary) is not None:
        os.makedirs(os.path.dirname(_local_path(summary) or ""), exist_ok=True)
    return Attempt(id=attempt, summary=summary)


@contextmanager
def folder_for(summary_dir: str | None) -> Iterator[str]:
    """The given folder, or a temporary one on this machine."""
    if summary_dir is not None:
        yield summary_dir
        return
    with tempfile.TemporaryDirectory(prefix="blizzard-") as folder:
        yield folder


def settle(
    context: Mapping[str, Any],
    attempt: Attempt,
    *,
    exit_code: int | None = None,
    service_error: BaseException | None = None,
    skips_when_idle: bool,
    aws_conn_id: str | None,
) -> None:
    """Put the summary into XCom, whatever it says, and end the task as `decide` says."""
    try:
        content = read(attempt.summary, aws_conn_id)
        summary, no_summary = summary_of(content, attempt.id, attempt.summary)
    except Exception as e:
        # Raised here, it would hide how the run itself ended.
        summary, no_summary = None, f"the summary at {attempt.summary} cannot be read: {e!r}"
    if summary is not None:
        context["ti"].xcom_push(key="summary", value=summary)
    ended = Ended(
        exit_code=exit_code,
        service_ok=service_error is None,
        summary=summary,
        no_summary=no_summary,
        service_said="" if service_error is None else str(service_error),
        tried_before=context["ti"].try_number > 1,
    )
    decided = decide(ended, skips_when_idle=skips_when_idle)
    # A service repeats the command that it was given, and file names may hold anything.
    reason = f"blizzard: {shown(decided.reason)}"
    match decided:
        case Success():
            for text in failed_targets(summary):
                _LOG.warning("blizzard: %s", shown(text))
            _LOG.info("%s", reason)
        case Skip():
            raise AirflowSkipException(reason)
        case Retry():
            raise AirflowException(f"{reason} ({decided.kind}; worth a retry)")
        case Fail():
            raise AirflowFailException(f"{reason} ({decided.kind}; a retry would not help)")


def is_about_the_task(error: BaseException) -> bool:
    """Whether Airflow itself wants the task to be skipped or failed. Then it says nothing about the run."""
    return isinstance(error, (AirflowSkipException, AirflowFailException))


def read(uri: str, aws_conn_id: str | None) -> bytes | None:
    """None: there is no such file. The worker reads with Airflow's connections, not with blizzard's stores."""
    path = _local_path(uri)
    if path is not None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    if re.match(r"s3[an]?://", uri):
        return _read_s3(uri, aws_conn_id)
    storage = _object_storage_path()(uri)
    return bytes(storage.read_bytes()) if storage.exists() else None


def _read_s3(uri: str, aws_conn_id: str | None) -> bytes | None:
    with installed_by("apache-airflow-providers-amazon"):
        from airflow.providers.amazon.aws.hooks.s3 import S3Hook
    bucket, key = uri.split("://", 1)[1].split("/", 1)
    hook = S3Hook(aws_conn_id=aws_conn_id)
    if not hook.check_for_key(key, bucket):
        return None
    return bytes(hook.get_key(key, bucket).get()["Body"].read())


def _object_storage_path() -> Any:
    try:
        from airflow.sdk import ObjectStoragePath
    except ImportError:
        from airflow.io.path import ObjectStoragePath
    return ObjectStoragePath


def _local_path(uri: str) -> str | None:
    if uri.startswith("file://"):
        return uri.removeprefix("file://")
    return None if "://" in uri else os.path.abspath(uri)
