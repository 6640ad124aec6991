"""The metrics of a run with several targets: those of one table for each, with the label `target`, and a few more.

The series of a run with one table stay as they are: they have no such label.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from blizzard.config.load import Config
from blizzard.core.events import Committed, Event, Failed, Held, OfTarget, StandsAt, TargetFailed
from blizzard.core.pause import find_pause
from blizzard.core.position import Paused
from blizzard.service.metrics import Metrics, write_textfile

# Counted for the whole run.
_OF_THE_RUN = "blizzard_errors"


def metrics_of(config: Config, pipeline: str) -> Metrics | TargetMetrics:
    if not config.targets:
        return Metrics(pipeline)
    policy = config.policy_of_targets
    ends_all = policy.kind == "all" or (policy.kind == "quorum" and policy.quorum == len(config.targets))
    return TargetMetrics(
        pipeline,
        {name: ends_all or (policy.kind == "required" and one.required) for name, one in config.targets.items()},
    )


class TargetMetrics:
    """`required` says of each target whether its failure alone ends the run."""

    def __init__(self, pipeline: str, required: Mapping[str, bool], *, now_s: Callable[[], float] = time.time) -> None:
        self._pipeline = pipeline
        self._run = Metrics(pipeline, now_s=now_s)
        self.of = {name: Metrics(pipeline, now_s=now_s) for name in required}
        self._own = CollectorRegistry()
        labels = ("pipeline", "target")
        self._failed = Counter(
            "blizzard_target_failed",
            "Runs, or cycles of a run that follows, in which one of several targets failed.",
            (*labels, "kind"),
            registry=self._own,
        )
        self._up = Gauge(
            "blizzard_target_up",
            "1 if the target went well when it was last tried; 0 if it failed, and stays where it is.",
            labels,
            registry=self._own,
        )
        is_required = Gauge(
            "blizzard_target_required",
            "1 if the failure of this target alone ends the run, 0 if the others go on.",
            labels,
            registry=self._own,
        )
        for name, value in required.items():
            is_required.labels(pipeline, name).set(value)
        self._is_up: dict[str, bool] = {}
        self.errors: dict[str, str] = {}  # why targets have failed last; one that went well since is not here

    def see(self, event: Event) -> None:
        match event:
            case OfTarget():
                self.of[event.target].see(event.event)
                self._see_target(event.target, event.event)
            case Failed():
                self._run.see(event)
            case _:
                pass

    def _see_target(self, target: str, event: Event) -> None:
        match event:
            case TargetFailed():
                self._failed.labels(self._pipeline, target, event.kind).inc()
                self._set_up(target, False)
                self.errors[target] = f"{event.message} [{event.kind}]"
            case Committed() | Held():  # it has done something, or is through
                self._set_up(target, True)
                self.errors.pop(target, None)
            case StandsAt() if target not in self._is_up:
                self._set_up(target, True)
            case _:
                pass

    def _set_up(self, target: str, is_up: bool) -> None:
        self._is_up[target] = is_up
        self._up.labels(self._pipeline, target).set(is_up)

    # Of all targets together.

    @property
    def newest_sequence(self) -> int | None:
        """The highest of all targets; None before one of them is known."""
        known = (metrics.newest_sequence for metrics in self.of.values())
        return max((newest for newest in known if newest is not None), default=None)

    @property
    def lag_s(self) -> float | None:
        """Of the target that has waited longest for a commit."""
        return max((metrics.lag_s for metrics in self.of.values() if metrics.lag_s is not None), default=None)

    @property
    def backlog(self) -> tuple[int, int] | None:
        """Files of the source still to be read by any target, and their size as stored: those of the one that has most
        to read. None before the first look."""
        return max((metrics.backlog for metrics in self.of.values() if metrics.backlog is not None), default=None)

    @property
    def behind_s(self) -> float | None:
        """The longest time since a commit of a target that has something to read; 0 if none has. None: not known yet,
        or those that have something to read have never committed."""
        looked = [(metrics.backlog[0], metrics.lag_s) for metrics in self.of.values() if metrics.backlog is not None]
        behind = [lag_s for files, lag_s in looked if files]
        if looked and not behind:
            return 0.0
        return max((lag_s for lag_s in behind if lag_s is not None), default=None)

    @property
    def held_files(self) -> int | None:
        return max((metrics.held_files for metrics in self.of.values() if metrics.held_files is not None), default=None)

    @property
    def throughput_bytes_s(self) -> float | None:
        """Of the newest batch of the fastest target: what two of them read at once counts once."""
        known = (metrics.throughput_bytes_s for metrics in self.of.values())
        return max((rate for rate in known if rate is not None), default=None)

    @property
    def paused(self) -> Paused | None:
        """One log that says so is enough."""
        return find_pause(metrics.paused for metrics in self.of.values())

    def is_up(self, target: str) -> bool | None:
        """None: not known yet."""
        return self._is_up.get(target)

    @property
    def registry(self) -> CollectorRegistry:
        return cast(CollectorRegistry, self)  # only its `collect` is asked for

    def collect(self) -> Iterator[Any]:
        merged: dict[str, Any] = {}
        for target, metrics in self.of.items():
            for family in metrics.registry.collect():  # made anew at each call
                samples = [sample._replace(labels={**sample.labels, "target": target}) for sample in family.samples]
                merged.setdefault(family.name, family)
                family.samples = []
                merged[family.name].samples += samples
        for family in self._run.registry.collect():
            if family.name == _OF_THE_RUN:
                merged[family.name] = family
        yield from merged.values()
        yield from self._own.collect()

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)

    def write_textfile(self, path: str) -> None:
        write_textfile(path, self.text())
