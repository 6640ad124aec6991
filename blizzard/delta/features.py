"""Decides which tables can be appended to by writing files and Add actions alone.

A feature that would silently be broken (a constraint nobody checks, a column mapping nobody applies) is refused before
anything is written. For some features only the committer matters: there delta-spark can write what delta-rs cannot.
If the files themselves would have to be different, neither can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from blizzard.core.kinds import Kind
from blizzard.errors import Refused
from blizzard.schema import DeltaSchema

if TYPE_CHECKING:
    from deltalake import Metadata
    from deltalake.table import ProtocolVersions

# Features that an append of plain Parquet files with complete statistics keeps. Those of the last row matter only if a
# column or a property uses them, and that is checked.
_HONOURED = frozenset(
    [
        *("appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz", "v2Checkpoint"),
        *("checkConstraints", "columnMapping", "generatedColumns", "variantType", "variantType-preview"),
    ]
)
# Features that delta-rs does not commit to and Spark's own transaction handles. The last row again only if used.
_SPARK_COMMITS = frozenset(
    [
        *("clustering", "domainMetadata", "inCommitTimestamp", "rowTracking", "vacuumProtocolCheck"),
        *("typeWidening", "checkpointProtection", "variantShredding", "allowColumnDefaults", "identityColumns"),
    ]
)
# Another process may decide who wins a version.
CATALOG_MANAGED = frozenset(["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"])

# What the metadata of a column demands from a writer.
_COLUMN_DUTIES = {
    "delta.invariants": "has an invariant, which would go unchecked",
    "delta.generationExpression": "is generated, and the records do not hold it",
    "delta.identity.start": "is an identity column, and the records do not hold it",
    "CURRENT_DEFAULT": "has a default, which records without a value would not get",
    "__CHAR_VARCHAR_TYPE_STRING": "is CHAR or VARCHAR, and its length would go unchecked",
}


def check_features(
    schema: DeltaSchema, protocol: ProtocolVersions, metadata: Metadata, *, committer: str = "delta-rs"
) -> None:
    configuration, features = dict(metadata.configuration), _writer_features(protocol)
    if features & CATALOG_MANAGED:
        raise Refused(
            "the table is managed by its catalog, which decides about commits. blizzard commits to the log itself, so"
            " one could overwrite the other's commits. Use an external table.",
            kind=Kind.CATALOG_MANAGED,
        )
    problem = _find_problem(schema, configuration) or _find_unknown(features, _HONOURED | _SPARK_COMMITS)
    if problem is not None:
        raise Refused(f"blizzard cannot write this table: {problem}", kind=Kind.TABLE_FEATURE)
    problem = _find_unknown(features, _HONOURED)
    if problem is not None and committer != "delta-spark":
        raise Refused(
            f"the {committer} committer cannot write this table: {problem}. The delta-spark committer can.",
            kind=Kind.TABLE_FEATURE,
        )


def find_obstacle(schema: DeltaSchema, protocol: ProtocolVersions, metadata: Metadata) -> str | None:
    """Why delta-rs cannot append to a table."""
    problem = _find_problem(schema, dict(metadata.configuration))
    return problem or _find_unknown(_writer_features(protocol), _HONOURED)


def _writer_features(protocol: ProtocolVersions) -> set[str]:
    return set(protocol.writer_features or ()) if protocol.min_writer_version >= 7 else set()


def _find_unknown(features: set[str], known: frozenset[str]) -> str | None:
    unknown = sorted(features - known)
    return f"it uses the writer feature {unknown[0]}" if unknown else None


def _find_problem(schema: DeltaSchema, configuration: Mapping[str, str]) -> str | None:
    constraints = sorted(k for k in configuration if k.startswith("delta.constraints."))
    if constraints:
        return f"it has the constraint {constraints[0].removeprefix('delta.constraints.')}, which would go unchecked"
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        return "it uses column mapping, and files would need its names"
    for version in ("V1", "V2", "V3"):
        if configuration.get(f"delta.enableIcebergCompat{version}", "false").lower() == "true":
            return f"it is kept readable for Iceberg (icebergCompat{version}), and files would need its field ids"
    return next(_column_problems(schema, ""), None)


def _column_problems(kind: Any, prefix: str) -> Iterator[str]:
    """Demands of all columns below a type, also inside arrays and maps."""
    if not isinstance(kind, Mapping):
        return
    for field in kind.get("fields", ()):
        name, metadata = prefix + field["name"], field.get("metadata") or {}
        yield from (f"column {name} {duty}" for key, duty in _COLUMN_DUTIES.items() if key in metadata)
        yield from _column_problems(field["type"], name + ".")
    for part in ("elementType", "keyType", "valueType"):
        yield from _column_problems(kind.get(part), prefix + part.removesuffix("Type") + ".")
