"""The Java that Spark would use. Asking Java for its version is slow: do it only when something is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError


def find_java() -> str | None:
    """As Spark's own scripts look for it."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return java if java and os.access(java, os.X_OK) else None


def java_version(java: str) -> int | None:
    """17 for 17.0.2, and 8 for 1.8.0_392. None: unknown."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def fits(version: int, spark_version: str) -> bool:
    first, *_, last = _javas(spark_version)
    return first <= version <= last


def is_too_old(version: int, spark_version: str) -> bool:
    return version < _javas(spark_version)[0]


def describe_fit(spark_version: str) -> str:
    *others, last = map(str, _javas(spark_version))
    return f"Spark {spark_version} runs on Java {', '.join(others)} or {last}"


def _javas(spark_version: str) -> tuple[int, ...]:
    return (8, 11, 17) if spark_version.startswith("3.") else (17, 21)


def require_java(spark_version: str) -> None:
    if find_java() is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        raise ConfigError(
            f"{where}, and {describe_fit(spark_version)}. Install one of them, or set JAVA_HOME.", kind=Kind.NO_JAVA
        )


def check_java_after_failure(spark_version: str) -> None:
    """After a JVM did not start: raises if Spark does not support its version."""
    java = find_java()
    version = java_version(java) if java else None
    if version is not None and not fits(version, spark_version):
        raise ConfigError(
            f"the JVM did not start: {java} is Java {version}, and {describe_fit(spark_version)}. Install one of them"
            f" and set JAVA_HOME.",
            kind=Kind.WRONG_JAVA,
        )
