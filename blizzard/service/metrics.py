"""Every metric, with its meaning, counted from the events of a run. The API serves them while a run lasts; a textfile
keeps them when it ends. A fleet serves those of all its pipelines together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from blizzard.core.events import (
    CommitFailed,
    Committed,
    Discovered,
    Event,
    Failed,
    Ingested,
    Mirrored,
    MirrorFailed,
    Planned,
    Recovered,
    StandsAt,
)
from blizzard.core.kinds import STANDING
from blizzard.core.paths import Path, metric_of
from blizzard.core.position import Paused, Position
from blizzard.schema import show_path
from blizzard.store.outputs import open_output

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
RECOVERY_PATHS = tuple(map(metric_of, Path))
STAGES = ("recover", "list", "ingest", "commit")


class Metrics:
    """The metrics of one pipeline, in a registry of their own."""

    def __init__(self, pipeline: str, *, now_s: Callable[[], float] = time.time) -> None:
        self._registry = CollectorRegistry()
        self._now_s = now_s
        self._pipeline = pipeline
        self._backlog = (0, 0)
        self._rate_bytes_s: float | None = None
        self._held_files: int | None = None
        self._has_looked = False
        self._committed_at_s: float | None = None
        self._newest: int | None = None
        self._planned = 0  # the sequence of the batch that was planned last, since the log was read
        self.paused: Paused | None = None  # as the newest position says that this run knows of
        self._mirrored_sequence = 0

        # Counters exist from the start, at zero: Prometheus sees no increase in one that begins with its first event.
        # Gauges exist once their value is known.
        self._commits = self._counter("batch_commit", "Batches committed to the table.")
        self._failed = self._counter("batch_commit_failed", "Batches that could not be committed.")
        self._records = self._counter("records_ingested", "Records appended to the table.")
        self._bytes = self._counter("bytes_read", "Bytes of JSON read, decompressed.")
        self._files = self._counter("files_finished", "Source files of which the last line is committed.")
        self._bad = self._counter("bad_records", "Records that are not valid: quarantined, dropped or rejected.")
        self._dropped = self._counter(
            "quarantine_dropped_records", "Records that left the full quarantine to make room (drop_oldest)."
        )
        self._filtered = self._counter("filtered_records", "Records that are not for this table: where.")
        self._unrouted = self._counter("unrouted_records", "Filtered records that are for no target of the pipeline.")
        self._bad_files = self._counter("bad_files", "Source files that could not be read to their end, or not at all.")
        self._ignored = self._counter("ignored_values", "Values of good records dropped because they have no column.")
        self._siblings = self._counter("sibling_values", "Values beside arrays of records (array:KEY), not read.")
        self._doubtful = self._counter("doubtful_lines", "Lines that the fast parser left to the reference.")
        self._mirror_failed = self._counter("mirror_failures", "Positions that could not be copied to the mirror.")
        self._cut = Counter(
            "blizzard_cut_timestamps",
            "Times with digits beyond a microsecond, which were cut.",
            ("pipeline", "column"),
            registry=self.registry,
        )
        self._parser = Gauge(
            "blizzard_parser_info",
            "Which parsers have read the lines of this run; the value is always 1.",
            ("pipeline", "parser"),
            registry=self.registry,
        )
        self._errors = Counter(
            "blizzard_errors",
            "Runs, or cycles of a run that follows, that ended in an error.",
            ("pipeline", "kind"),
            registry=self.registry,
        )
        recoveries = Counter(
            "blizzard_recovery_path",
            "Recoveries by the way the position was found: at each start, and at each cycle of a run that follows.",
            ("pipeline", "path"),
            registry=self.registry,
        )
        self._recoveries = {path: recoveries.labels(pipeline, path) for path in RECOVERY_PATHS}
        self._state_files = self._gauge("source_state_files", "Files named in the position: in progress or held back.")
        self._held = self._gauge("held_files", "Files held back because they cannot be read now.")
        self._payload = self._gauge("checkpoint_bytes", "Size of the newest position in the log.")
        self._sequence = self._gauge("sequence", "The pipeline's newest committed sequence.")
        self._mirrored = self._gauge("mirror_sequence", "The newest sequence that the mirror is known to hold.")
        self._version = self._gauge("delta_version", "The table's version after the newest commit.")
        self._backlog_files = self._gauge("backlog_files", "Source files still to be read.")
        self._backlog_bytes = self._gauge("backlog_bytes", "Their size as stored.")
        self._is_paused = self._gauge("paused", "1 if the pipeline is paused: runs read nothing. 0 if it is not.")
        # No counter: where they are left alone, every look finds the same ones.
        self._late = self._gauge("late_files", "Files at or before the mark, found by the newest look, never ingested.")
        self._rate = self._gauge("throughput_bytes_per_second", "JSON read per second by the newest batch.")
        self._gauge("checkpoint_lag_seconds", "Time since the newest commit of this pipeline.").labels(
            pipeline
        ).set_function(self._lag_s)
        self._commit_s = Histogram(
            "blizzard_checkpoint_duration_seconds",
            "How long a commit took, with all its attempts.",
            ("pipeline",),
            registry=self.registry,
            buckets=_SECONDS,
        ).labels(pipeline)
        stages = Histogram(
            "blizzard_stage_seconds",
            "Time by stage of a batch.",
            ("pipeline", "stage"),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._stages = {stage: stages.labels(pipeline, stage) for stage in STAGES}

    @property
    def registry(self) -> CollectorRegistry:
        return self._registry

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"blizzard_{name}", text, ("pipeline",), registry=self.registry).labels(self._pipeline)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"blizzard_{name}", text, ("pipeline",), registry=self.registry)

    def _set(self, gauge: Gauge, value: float) -> None:
        gauge.labels(self._pipeline).set(value)

    @property
    def newest_sequence(self) -> int | None:
        """The newest committed sequence that this run knows of; None before it has looked."""
        return self._newest

    @property
    def next_sequence(self) -> int:
        """The one that what is being read now gets. The batch before it may still be on its way into the log."""
        return max((self._newest or 0) + 1, self._planned)

    @property
    def lag_s(self) -> float | None:
        return None if self._committed_at_s is None else round(self._lag_s(), 1)

    @property
    def backlog(self) -> tuple[int, int] | None:
        """Files still to be read, and their size as stored; None before the first look."""
        files, stored_bytes = self._backlog
        return (max(0, files), max(0, stored_bytes)) if self._has_looked else None

    @property
    def behind_s(self) -> float | None:
        """The time since the newest commit while there is something to read; else 0. None: not known yet."""
        backlog = self.backlog
        return None if backlog is None else 0.0 if not backlog[0] else self.lag_s

    @property
    def held_files(self) -> int | None:
        return self._held_files

    @property
    def throughput_bytes_s(self) -> float | None:
        """Of the newest batch."""
        return self._rate_bytes_s

    def _lag_s(self) -> float:
        return float("nan") if self._committed_at_s is None else max(0.0, self._now_s() - self._committed_at_s)

    def see(self, event: Event) -> None:
        match event:
            case Recovered(has_table=True):
                self._recoveries[metric_of(event.path)].inc()
                self._stages["recover"].observe(event.seconds)
            case StandsAt():
                self._newest, self._planned = event.newest.sequence, 0
                if event.newest.sequence:
                    self._committed_at_s = event.newest.taken_at_ms / 1000
                    self._set(self._sequence, event.newest.sequence)
                self._set_position(event.newest)
            case Discovered(has_table=False):
                self._backlog, self._has_looked = (event.backlog_files, event.backlog_bytes), True
            case Discovered(has_table=True):
                self._set_backlog(event.backlog_files, event.backlog_bytes)
                self._set(self._late, event.late)
                self._stages["list"].observe(event.seconds)
            case Planned():
                self._planned = event.sequence
            case Ingested():
                self._stages["ingest"].observe(event.seconds)
                self._rate_bytes_s = event.result.bytes_read / max(event.seconds, 1e-3)
                self._set(self._rate, self._rate_bytes_s)
            case Committed():
                self._count(event)
            case CommitFailed():
                self._failed.inc()
            case Mirrored():
                self._mirrored_sequence = event.sequence
                self._set(self._mirrored, event.sequence)
            case MirrorFailed():
                self._mirror_failed.inc()
                self._set(self._mirrored, self._mirrored_sequence)
            case Failed():
                self._errors.labels(self._pipeline, event.kind).inc()
            case _:
                pass

    def _set_position(self, position: Position) -> None:
        self._set(self._state_files, len(position.marks.files))
        self._held_files = len(position.seen.held_back)
        self._set(self._held, self._held_files)
        self.paused = position.paused
        self._set(self._is_paused, position.paused is not None)

    def _set_backlog(self, files: int, stored_bytes: int) -> None:
        self._backlog, self._has_looked = (files, stored_bytes), True
        self._set(self._backlog_files, max(0, files))
        self._set(self._backlog_bytes, max(0, stored_bytes))

    def _count(self, committed: Committed) -> None:
        position, result = committed.position, committed.result
        self._committed_at_s, self._newest = self._now_s(), position.sequence
        finished = [s for s in result.slices if s.finished]
        self._commits.inc(committed.kind not in STANDING)
        self._records.inc(result.rows)
        self._bytes.inc(result.bytes_read)
        self._files.inc(len(finished))
        self._bad.inc(result.bad)
        self._dropped.inc(sum(batch.rows for batch in result.dropped))
        self._filtered.inc(result.filtered)
        self._unrouted.inc(result.unrouted)
        self._ignored.inc(result.ignored.total)
        self._siblings.inc(result.siblings.total)
        self._doubtful.inc(result.doubtful)
        for path, cut in result.cut_times.counts.items():
            self._cut.labels(self._pipeline, show_path(path) if path else "others").inc(cut)
        for parser in result.parsers:
            self._parser.labels(self._pipeline, parser).set(1)
        self._bad_files.inc(sum(s.broken is not None for s in finished))
        self._set_position(position)
        self._set(self._payload, committed.payload_bytes)
        self._set(self._sequence, position.sequence)
        self._set(self._version, committed.version)
        files, stored_bytes = self._backlog
        self._set_backlog(files - len(finished), stored_bytes - sum(s.size_bytes for s in finished))
        self._commit_s.observe(committed.seconds)
        self._stages["commit"].observe(committed.seconds)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)

    def write_textfile(self, path: str) -> None:
        write_textfile(path, self.text())


def write_textfile(path: str, text: bytes) -> None:
    """For the textfile collector of a node exporter. Never leaves half a file. The exporter runs as another user, and
    ignores names that do not end in .prom."""
    # Not prometheus_client's write_to_textfile: under a narrow umask nobody else could read what it writes, it does not
    # sync, and it puts a file in the place of a link or a pipe.
    with open_output(path, mode=0o644) as file:
        file.write(text)


STATES = ("running", "retrying", "failed", "pausing", "paused", "resuming", "stopping", "stopped")


class HasRegistry(Protocol):
    @property
    def registry(self) -> CollectorRegistry: ...


class FleetMetrics:
    """The metrics of many pipelines as one text: each name once, with the samples of all. `states` says the state of
    each pipeline, and how many failures in a row it has."""

    def __init__(self, pipelines: Iterable[HasRegistry], states: Callable[[], dict[str, tuple[str, int]]]) -> None:
        self._pipelines, self._states = tuple(pipelines), states
        self._own = CollectorRegistry()
        self._state = Gauge(
            "blizzard_pipeline_state",
            "In a fleet: 1 for the state that the pipeline is in, 0 for the others.",
            ("pipeline", "state"),
            registry=self._own,
        )
        self._failures = Gauge(
            "blizzard_pipeline_failures",
            "In a fleet: failed cycles of the pipeline in a row; 0 after one that went well.",
            ("pipeline",),
            registry=self._own,
        )

    def collect(self) -> Iterator[Any]:
        for name, (state, failures) in self._states().items():
            for each in STATES:
                self._state.labels(name, each).set(each == state)
            self._failures.labels(name).set(failures)
        merged: dict[str, Any] = {}
        for registry in (*(metrics.registry for metrics in self._pipelines), self._own):
            for metric in registry.collect():
                if metric.name in merged:
                    merged[metric.name].samples.extend(metric.samples)
                else:
                    merged[metric.name] = metric
        yield from merged.values()

    def text(self) -> bytes:
        return generate_latest(cast(CollectorRegistry, self))
