"""Every metric there is, with its meaning, and the telemetry that fills them in while a run goes.

On a port or through the API for runs that last, as a textfile for those that do not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from blizzard.core.state import CheckpointState
from blizzard.core.types import BatchResult

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
RECOVERY_PATHS = ("log", "delta_checkpoint", "replay", "fresh", "refused")
STAGES = ("recover", "list", "ingest", "commit")


class PrometheusTelemetry:
    """The metrics of one pipeline, in a registry of their own."""

    def __init__(self, pipeline: str, *, now_s: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._now_s = now_s
        self._labels = {"pipeline": pipeline}
        self._committed_at_s: float | None = None
        self._newest: int | None = None

        self._commits = self._counter("batch_commit", "Batches committed to the table.")
        self._failed = self._counter("batch_commit_failed", "Batches that could not be committed.")
        self._records = self._counter("records_ingested", "Records appended to the table.")
        self._bytes = self._counter("bytes_read", "Bytes of JSON read, decompressed.")
        self._files = self._counter("files_finished", "Source files of which the last line is committed.")
        self._bad = self._counter("bad_records", "Records that are not valid: quarantined, dropped or rejected.")
        self._bad_files = self._counter("bad_files", "Source files that could not be read to their end, or not at all.")
        self._late = self._counter("late_files", "Files found at or before the mark that were never ingested.")
        self._errors = self._counter("errors", "Runs, or cycles of a run that follows, that ended in an error.", "kind")
        self._recoveries = self._counter("recovery_path", "Starts by the way the position was found.", "path")
        for path in RECOVERY_PATHS:
            self._recoveries.labels(**self._labels, path=path)
        self._state_files = self._gauge("source_state_files", "Files named in the position: in progress or held back.")
        self._held = self._gauge("held_files", "Files held back because they cannot be read now.")
        self._payload = self._gauge("checkpoint_bytes", "Size of the newest position in the log.")
        self._sequence = self._gauge("sequence", "The pipeline's newest committed sequence.")
        self._version = self._gauge("delta_version", "The table's version after the newest commit.")
        self._backlog_files = self._gauge("backlog_files", "Source files still to be read.")
        self._backlog_bytes = self._gauge("backlog_bytes", "Their size as stored.")
        self._rate = self._gauge("throughput_bytes_per_second", "JSON read per second by the newest batch.")
        self._lag = self._gauge("checkpoint_lag_seconds", "Time since the newest commit of this pipeline.")
        self._lag.labels(**self._labels).set_function(self._lag_s)
        self._commit_s = self._histogram(
            "checkpoint_duration_seconds", "How long a commit took, with all its attempts."
        )
        self._stages = self._histogram("stage_seconds", "Time by stage of a batch.", "stage")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"blizzard_{name}", text, ("pipeline", *labels), registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"blizzard_{name}", text, ("pipeline",), registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"blizzard_{name}", text, ("pipeline", *labels), registry=self.registry, buckets=_SECONDS)

    @property
    def newest_sequence(self) -> int | None:
        """What is committed, as far as this run knows; None before it has looked."""
        return self._newest

    @property
    def lag_s(self) -> float | None:
        return None if self._committed_at_s is None else round(self._lag_s(), 1)

    def _lag_s(self) -> float:
        return float("nan") if self._committed_at_s is None else max(0.0, self._now_s() - self._committed_at_s)

    def recovered(self, path: str, seconds: float) -> None:
        self._recoveries.labels(**self._labels, path="replay" if path == "ledgers" else path).inc()
        self._stages.labels(**self._labels, stage="recover").observe(seconds)

    def stands_at(self, state: CheckpointState) -> None:
        """Where the pipeline stands before anything of this run is committed."""
        self._newest = state.sequence
        if state.sequence:
            self._committed_at_s = state.taken_at_ms / 1000
            self._sequence.labels(**self._labels).set(state.sequence)
        self._state_files.labels(**self._labels).set(len(state.source_state.files))

    def listed(self, *, files: int, stored_bytes: int, late: int, seconds: float) -> None:
        self._backlog_files.labels(**self._labels).set(files)
        self._backlog_bytes.labels(**self._labels).set(stored_bytes)
        self._late.labels(**self._labels).inc(late)
        self._stages.labels(**self._labels, stage="list").observe(seconds)

    def ingested(self, result: BatchResult, seconds: float) -> None:
        self._stages.labels(**self._labels, stage="ingest").observe(seconds)
        self._rate.labels(**self._labels).set(result.bytes_read / max(seconds, 1e-3))

    def committed(
        self, state: CheckpointState, result: BatchResult, *, version: int, payload_bytes: int, seconds: float
    ) -> None:
        self._committed_at_s, self._newest = self._now_s(), state.sequence
        self._commits.labels(**self._labels).inc()
        self._records.labels(**self._labels).inc(result.rows)
        self._bytes.labels(**self._labels).inc(result.bytes_read)
        finished = [s for s in result.slices if s.finished]
        self._files.labels(**self._labels).inc(len(finished))
        self._bad.labels(**self._labels).inc(result.bad)
        self._bad_files.labels(**self._labels).inc(sum(s.broken is not None for s in finished))
        self._state_files.labels(**self._labels).set(len(state.source_state.files))
        self._held.labels(**self._labels).set(len(state.held_back))
        self._payload.labels(**self._labels).set(payload_bytes)
        self._sequence.labels(**self._labels).set(state.sequence)
        self._version.labels(**self._labels).set(version)
        self._backlog_files.labels(**self._labels).dec(len(finished))
        self._backlog_bytes.labels(**self._labels).dec(sum(s.size_bytes for s in finished))
        self._commit_s.labels(**self._labels).observe(seconds)
        self._stages.labels(**self._labels, stage="commit").observe(seconds)

    def commit_failed(self) -> None:
        self._failed.labels(**self._labels).inc()

    def failed(self, kind: str) -> None:
        self._errors.labels(**self._labels, kind=kind).inc()

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)

    def write_textfile(self, path: str) -> None:
        """For the textfile collector of a node exporter: whole, or as it was."""
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(self.text())
        os.replace(temporary, path)
