"""Decides which kinds of Databricks compute let a run write, and why. Pure.

blizzard's tasks write Parquet from Python workers, and its driver commits from Python. Both must reach the store with
their own credentials. Standard access mode and serverless compute keep user code from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Databricks does not promise this setting, but nothing else shows the access mode. If it is absent, assume nothing.
ACCESS_MODE = "spark.databricks.clusterUsageTags.dataSecurityMode"

_DEDICATED = ("SINGLE_USER", "DATA_SECURITY_MODE_DEDICATED")
_STANDARD = ("USER_ISOLATION", "DATA_SECURITY_MODE_STANDARD")
_LEGACY = ("LEGACY_TABLE_ACL", "LEGACY_PASSTHROUGH", "LEGACY_SINGLE_USER", "LEGACY_SINGLE_USER_STANDARD")
_BY_PATH = "Use external tables by path: only the catalog may commit to managed ones"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: str  # as in doctor.Finding
    text: str


def judge_databricks(environment: Mapping[str, str], settings: Mapping[str, str]) -> Judgement | None:
    """None: this is not Databricks. `settings` are those of the Spark session, if there is one."""
    runtime = environment.get("DATABRICKS_RUNTIME_VERSION")
    if runtime is None:
        return None
    if environment.get("IS_SERVERLESS", "").lower() == "true" or runtime.startswith("client."):
        return Judgement(
            "problem",
            f"serverless compute ({runtime}): user code in tasks has no way to the store and no credentials for it."
            " Use a job cluster in dedicated access mode",
        )
    mode = settings.get(ACCESS_MODE, "").upper()
    if mode in _DEDICATED:
        return Judgement(
            "ok",
            f"runtime {runtime}, dedicated access mode: Python workers use the cluster's instance profile, or"
            f" storage_options. {_BY_PATH}",
        )
    if mode in _STANDARD:
        return Judgement(
            "warning",
            f"runtime {runtime}, standard access mode: Python workers run in a sandbox without the cluster's instance"
            f" profile; only credentials in storage_options can reach the store. Dedicated access mode needs none."
            f" {_BY_PATH}",
        )
    if mode == "NONE":
        return Judgement(
            "note",
            f"runtime {runtime}, no isolation: works with the cluster's instance profile, but has no Unity Catalog, and"
            f" anybody on the cluster has the same access. Dedicated access mode is the better choice",
        )
    if mode in _LEGACY:
        return Judgement(
            "problem",
            f"runtime {runtime}, access mode {mode}: the legacy modes keep Python workers from the store. Use dedicated"
            " access mode",
        )
    return Judgement(
        "warning",
        f"runtime {runtime}, access mode unknown from here: Python workers must reach the store with credentials of"
        " their own: dedicated (single user) access mode with an instance profile, or storage_options; standard"
        f" (shared) access mode and serverless compute keep them from it. {_BY_PATH}",
    )
