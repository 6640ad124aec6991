"""The daemon that forks the Python workers of a local session. What every task needs is imported here, once.

Without it each worker imports it again, and the first batch waits for that: a third of a second on every core.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import PathFinder


def without_copies(paths: list[str]) -> list[str]:
    """The search path without zips that hold what is installed here too. Spark puts pyspark.zip first. Importing from
    it compiles every module anew, and every task reads its directory again (50 ms)."""
    others = [path for path in paths if not path.endswith(".zip")]
    pyspark, py4j = (PathFinder.find_spec(name, others) for name in ("pyspark", "py4j"))
    if pyspark is None or pyspark.origin is None or py4j is None:
        return paths
    home = os.path.dirname(pyspark.origin) + os.sep
    return [path for path in paths if not (path.endswith(".zip") and path.startswith(home))]


if __name__ == "__main__":
    sys.path[:] = without_copies(sys.path)

    from pyspark.daemon import manager

    import blizzard.tasks.task  # noqa: F401

    gc.freeze()  # what is imported stays: a worker's collector need not look at it, nor copy its pages
    manager()
