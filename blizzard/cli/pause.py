"""`blizzard pause` and `blizzard resume`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

from blizzard.cli.context import looking
from blizzard.cli.output import output_of
from blizzard.cli.several import Part, error_part, show_parts
from blizzard.core.pause import describe_pause
from blizzard.errors import BlizzardError
from blizzard.operate.pause import PauseDone, Pausing, nothing_to_pause, pause_each, pipeline_to_pause, reason_of
from blizzard.run.assemble import Assembly
from blizzard.service.progress import TerminalProgress


def dispatch(options: argparse.Namespace) -> int:
    pauses = options.command == "pause"
    reason = reason_of(options.reason) if pauses else None
    with looking(options, TerminalProgress().see, takes_all=True) as assembly:
        if assembly.config.targets:
            return _of_all(options, assembly, reason)
        table = assembly.open_for_commit()
        pausing = Pausing.through(assembly, table, pipeline_to_pause(assembly, table, options.pipeline))
        done = pausing.pause(reason) if pauses else pausing.resume()
    output_of(options).result(asdict(done), _lines(done))
    return 0


def _of_all(options: argparse.Namespace, assembly: Assembly, reason: str | None) -> int:
    """The pipeline with all its targets. One log that says so is enough for a pause, and a resume needs all."""
    pauses = options.command == "pause"
    pipeline = options.pipeline or assembly.pipeline_of_targets()
    done = pause_each(assembly, pipeline, lambda one: one.pause(reason) if pauses else one.resume())
    if not done:
        raise nothing_to_pause(pipeline)
    parts = {name: error_part(one) if isinstance(one, BlizzardError) else _part(one) for name, one in done.items()}
    return show_parts(options, parts)


def _part(done: PauseDone) -> Part:
    return Part(value=asdict(done), lines=list(_lines(done)))


def _lines(done: PauseDone) -> Iterator[str]:
    where = f"sequence {done.sequence}, version {done.delta_version}"
    if done.paused is not None:
        stands = f"pipeline {done.pipeline} is {describe_pause(done.paused)}"
        yield f"{stands}: {where}" if done.changed else f"{stands} already; nothing was changed"
        yield "runs read nothing until blizzard resume"
    elif done.changed:
        yield f"pipeline {done.pipeline} goes on with its next run: {where}"
    else:
        yield f"pipeline {done.pipeline} is not paused; nothing was changed"
