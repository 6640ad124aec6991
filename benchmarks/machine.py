"""What the numbers were taken on: processor, memory, system, versions. No names, no paths."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata

import psutil

_PACKAGES = ("blizzard-delta", "pyspark", "delta-spark", "deltalake", "pyarrow", "isal", "polars", "duckdb")


def cores() -> int:
    """Those this process may use: fewer than the machine has, in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, str]:
    facts = {
        "processor": f"{_processor()}, {cores()} cores",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
    }
    return facts | {name: _version(name) for name in _PACKAGES}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java:
        return "none"
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    found = re.search(r'version "([^"]+)"', answer)
    return found[1] if found else "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
