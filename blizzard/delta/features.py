"""Which tables can be appended to by writing files and Add actions alone.

A feature this committer would silently break (a constraint it does not check, a column mapping it does not
apply) is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blizzard.errors import Refused
from blizzard.schema import DeltaSchema

# What an append of plain Parquet files with complete statistics honours.
_HONOURED = frozenset(
    [
        "appendOnly",
        "changeDataFeed",
        "deletionVectors",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    ]
)


def check_features(schema: DeltaSchema, protocol: Any, metadata: Any) -> None:
    problem = _find_problem(schema, protocol, dict(metadata.configuration), list(metadata.partition_columns))
    if problem is not None:
        raise Refused(f"this table cannot be written by the delta-rs committer: {problem}", kind="table_feature")


def _find_problem(
    schema: DeltaSchema, protocol: Any, configuration: Mapping[str, str], partition_columns: list[str]
) -> str | None:
    if partition_columns:
        return f"it is partitioned by {', '.join(partition_columns)}, which this version does not write"
    constraints = sorted(k for k in configuration if k.startswith("delta.constraints."))
    if constraints:
        return f"it has the constraint {constraints[0].removeprefix('delta.constraints.')}, which would go unchecked"
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        return "it uses column mapping"
    unknown = sorted(set(protocol.writer_features or ()) - _HONOURED)
    if protocol.min_writer_version >= 7 and unknown:
        return f"it uses the writer feature {unknown[0]}"
    return next(_column_problems(schema, ""), None)


def _column_problems(struct: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for field in struct["fields"]:
        name, metadata = prefix + field["name"], field.get("metadata") or {}
        if "delta.invariants" in metadata:
            yield f"column {name} has an invariant, which would go unchecked"
        if "delta.generationExpression" in metadata:
            yield f"column {name} is generated"
        if "delta.identity.start" in metadata:
            yield f"column {name} is an identity column"
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            yield from _column_problems(field["type"], name + ".")
