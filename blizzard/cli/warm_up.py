"""`blizzard warm-up`: the class-data archive of the JVM, made or removed."""

from __future__ import annotations

import argparse

from blizzard.cli.context import config_of
from blizzard.cli.output import output_of, say
from blizzard.core.lists import count
from blizzard.spark.archive import cache_folder
from blizzard.spark.warm_up import remove_archives, warm_up

_MAKING = "making one small run of Spark and keeping its classes: about half a minute"


def dispatch(options: argparse.Namespace) -> int:
    return _remove(options) if options.remove else _make(options)


def _make(options: argparse.Namespace) -> int:
    config, output = config_of(options), output_of(options)
    committer = "delta-spark" if config.commits_by_spark else "delta-rs"
    done = warm_up(config.spark_conf, committer=committer, before=lambda: say(_MAKING))
    size = f"{done.archive.size_bytes / 1_000_000:.0f} MB"
    lines = [
        f"made an archive of {size} in {done.seconds:.1f} s: local runs start faster now"
        if done.was_made
        else f"there is an archive of {size} already, and it fits",
        done.archive.path,
    ]
    if done.removed:
        lines.append(f"removed {count(done.removed, 'archive')} that no run can use any more")
    shown = {
        "status": "made" if done.was_made else "kept",
        "path": done.archive.path,
        "bytes": done.archive.size_bytes,
        "seconds": round(done.seconds, 3),
        "removed": done.removed,
    }
    output.result(shown, lines)
    return 0


def _remove(options: argparse.Namespace) -> int:
    removed = remove_archives()
    shown = {"status": "removed", "path": cache_folder(), "removed": removed}
    output_of(options).result(shown, [f"removed {count(removed, 'archive')} from {cache_folder()}"])
    return 0
