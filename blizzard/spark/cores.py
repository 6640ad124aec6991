"""What the settings of a session say about slots and cores. Pure; what is not known counts as one core."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from blizzard.core.types import Cores

# What `cores_of` looks at. Under Spark Connect each is a request of its own.
CORE_SETTINGS = ("spark.master", "spark.executor.cores", "spark.task.cpus")
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,.*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,.*\]")


def cores_of(settings: Mapping[str, str]) -> Cores:
    """A standalone cluster without `spark.executor.cores` gives an executor all cores of its machine. How many those
    are is not known here, and counts as one."""
    per_task = cores_per_task(settings)
    on_driver = _LOCAL.fullmatch(settings.get("spark.master", "")) is not None
    return Cores(per_executor=max(per_task, _per_executor(settings)), per_task=per_task, on_driver=on_driver)


def _per_executor(settings: Mapping[str, str]) -> int:
    master = settings.get("spark.master", "")
    local, cluster = _LOCAL.fullmatch(master), _LOCAL_CLUSTER.fullmatch(master)
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    return int(cluster[1]) if cluster is not None else _number(settings, "spark.executor.cores")


def cores_per_task(settings: Mapping[str, str]) -> int:
    return max(1, _number(settings, "spark.task.cpus"))


def slots_to_come(settings: Mapping[str, str]) -> int:
    """The slots that the settings ask for. A context knows only the executors that have started; with dynamic
    allocation none starts before a task waits for it."""
    is_dynamic = settings.get("spark.dynamicAllocation.enabled") == "true"
    executors = settings.get("spark.dynamicAllocation.maxExecutors" if is_dynamic else "spark.executor.instances", "0")
    per_executor = _number(settings, "spark.executor.cores") // cores_per_task(settings)
    return int(executors) * per_executor if executors.isdigit() else 0  # or it is infinity


def _number(settings: Mapping[str, str], name: str) -> int:
    value = settings.get(name, "1")
    return int(value) if value.isdigit() else 1
