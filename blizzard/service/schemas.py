"""JSON Schemas of what the API answers, by name. A test holds every real answer against them."""

from __future__ import annotations

from typing import Any

from blizzard.service.metrics import STATES

ACTIVITIES = ("waiting", "working", "queued", "reading")

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_SECONDS: dict[str, Any] = {"type": "number", "minimum": 0}


def _or_null(schema: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    told = {} if text is None else {"description": text}
    return {**schema, "type": [schema["type"], "null"], **told}


def _told(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = (), text: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return made if text is None else {**made, "description": text}


def _by_target(schema: dict[str, Any]) -> dict[str, Any]:
    text = "Only with several targets: by the name of the target."
    return {"type": "object", "description": text, "additionalProperties": schema}


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


_STATE = {
    "type": "string",
    "enum": list(STATES),
    "description": "retrying: a failure that may pass is waited out. failed: it needs a person, and is tried again"
    " slowly. stopped: somebody has stopped it; a resume starts it again. One run knows running, pausing,"
    " paused, resuming and stopping.",
}
_SUMMARY: dict[str, Any] = {
    "type": "object",
    "description": "What was done since the start, as the last line of `blizzard run` says it.",
    "properties": {
        "status": _TEXT,
        "records": _COUNT,
        "bad_records": _COUNT,
        "quarantined": _COUNT,
        "files": _COUNT,
        "commits": _COUNT,
        "bytes_read": _COUNT,
    },
    "required": ["status", "records", "bad_records", "quarantined", "files", "commits", "bytes_read"],
}
_PIPELINE = {
    "pipeline": _TEXT,
    "source": _TEXT,
    "table": _TEXT,
    "state": _STATE,
    "paused": _or_null({"type": "object"}, "since when, and why"),
    "run_id": _TEXT,
    "uptime_seconds": _SECONDS,
    "cycles": _COUNT,
    "failures": _told(_COUNT, "failed cycles in a row"),
    "last_error": _or_null(_TEXT),
    "sequence": _or_null(_COUNT, "the newest committed one; null before it is known"),
    "checkpoint_lag_seconds": _or_null(_SECONDS, "since the newest commit"),
    "held_files": _or_null(_COUNT, "files held back now: young, unreadable, or changed while they were read"),
}
_TARGET = {
    "table": _TEXT,
    "required": {"type": "boolean"},
    "is_up": {"type": ["boolean", "null"], "description": "false: it failed when it was last tried"},
    "sequence": _or_null(_COUNT, "the newest committed one; null before it is known"),
    "checkpoint_lag_seconds": _or_null(_SECONDS, "since its newest commit"),
    "backlog_files": _or_null(_COUNT),
    "backlog_bytes": _or_null(_COUNT),
    "last_error": _or_null(_TEXT, "why it failed, if it did when it was last tried"),
}
# Only with several targets: each has its own sequence.
_PIPELINE |= {"commit_policy": _TEXT, "targets": _by_target(_object(_TARGET))}
_SEVERAL = ("commit_policy", "targets")
_ROW = {
    "activity": {
        "type": "string",
        "enum": list(ACTIVITIES),
        "description": "working: it recovers, lists or commits. queued: it waits for its turn to read.",
    },
    "waits_for": _or_null(_TEXT),
    "error_kind": _or_null(_TEXT),
    "needs_person": {"type": "boolean"},
    "next_try_at_ms": _or_null(_COUNT, "milliseconds since 1970"),
    "lag_seconds": _or_null(_SECONDS, "since the newest commit while there is a backlog; else 0"),
    "backlog_files": _or_null(_COUNT),
    "backlog_bytes": _or_null(_COUNT),
    "throughput_bytes_per_second": _or_null(_SECONDS, "of the newest batch"),
    "quarantined_records": _or_null(_COUNT, "of this pipeline and table, now in quarantine"),
}
_CHECKPOINT = {
    "pipeline": _TEXT,
    "sequence": _COUNT,
    "delta_version": _COUNT,
    "committed_at_ms": _COUNT,
    "files": _or_null(_COUNT),
    "records": _or_null(_COUNT),
    "bytes": _or_null(_COUNT),
    "run_id": _TEXT,
    "payload_bytes": _COUNT,
    "in_progress": _COUNT,
    "kind": _or_null(_TEXT),
    "superseded": {"type": "boolean"},
    "in_log": {"type": "boolean"},
}
_NEWEST_OF_TABLE = {
    "table": _TEXT,
    "sequence": _or_null(_COUNT, "null: not known yet, or nothing is committed"),
    "delta_version": _or_null(_COUNT),
    "committed_at_ms": _or_null(_COUNT),
    "mark": _or_null(_TEXT, "the file name up to which the source is read"),
    "in_progress": _COUNT,
    "held": _COUNT,
}
_NEWEST = {
    "pipeline": _TEXT,
    **_NEWEST_OF_TABLE,
    "targets": _by_target(_object(_NEWEST_OF_TABLE)),
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Error": _object(
        {"error": _TEXT, "kind": _TEXT, "paths": {"type": "array", "items": _TEXT}}, optional=("kind", "paths")
    ),
    "Asked": _object(
        {"state": _STATE, "sequence": _COUNT, "sequences": _by_target(_COUNT), "error": _TEXT},
        optional=("sequence", "sequences", "error"),
    ),
    "Health": _object({"healthy": {"type": "boolean"}, "state": _STATE, "error": _or_null(_TEXT)}),
    "Ready": _object({"ready": {"type": "boolean"}}),
    "Status": _object({**_PIPELINE, "total": _SUMMARY}, optional=_SEVERAL),
    "Checkpoint": _object(_CHECKPOINT),
    "Checkpoints": _object(
        {
            "checkpoints": _list("Checkpoint"),
            "targets": _by_target(_object({"checkpoints": _list("Checkpoint")})),
        },
        optional=("checkpoints", "targets"),
    ),
    "Pipeline": _object({**_PIPELINE, **_ROW, "total": _SUMMARY}, optional=_SEVERAL),
    "PipelineRow": _object({**_PIPELINE, **_ROW}, optional=_SEVERAL),
    "Pipelines": _object(
        {
            "state": {"type": "string", "enum": ["running", "stopping"]},
            "uptime_seconds": _SECONDS,
            "max_active": _told(_COUNT, "how many pipelines read at once"),
            "queued": _told(_COUNT, "pipelines that wait for their turn to read"),
            "config_changed": {
                "type": "boolean",
                "description": "The configuration file has changed since the start: a restart takes it.",
            },
            "pipelines": _list("PipelineRow"),
        }
    ),
    "NewestCheckpoint": _object(_NEWEST, optional=("targets",)),
    "NewestCheckpoints": _object({"checkpoints": _list("NewestCheckpoint")}),
    "FleetHealth": _object(
        {
            "healthy": {"type": "boolean"},
            "pipelines": {
                "type": "object",
                "description": "how many are in each state",
                "properties": dict.fromkeys(STATES, _COUNT),
                "required": list(STATES),
                "additionalProperties": False,
            },
            "failing": {"type": "array", "items": _TEXT, "description": "pipelines that fail now"},
        }
    ),
    "Description": {
        "type": "object",
        "properties": {"openapi": {"const": "3.1.0"}, "info": {"type": "object"}, "paths": {"type": "object"}},
        "required": ["openapi", "info", "paths"],
    },
}
