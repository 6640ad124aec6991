"""Tables with features: what an append would break is refused by name, what it honours is committed by delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest
from deltalake.exceptions import CommitFailedError

from blizzard.core.commit import CommitRequest
from blizzard.delta.features import check_features
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Refused
from blizzard.schema.ddl import parse_ddl
from tests.failing import ends_with
from tests.flows.in_process import NOW_MS, SetClock, actions_of

READER_FEATURES = frozenset(
    ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"]
)


def table_with(
    root: Path,
    *,
    features: tuple[str, ...] = (),
    configuration: dict[str, str] | None = None,
    schema: dict[str, Any] | None = None,
    partition_by: tuple[str, ...] = (),
) -> DeltaRsTable:
    """A table whose first commit says this of it, as another writer may have made it."""
    reader = [f for f in features if f in READER_FEATURES]
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": features}
    metadata = {
        "id": "0b7a1c1e-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema or parse_ddl("id BIGINT, name STRING")),
        "partitionColumns": list(partition_by),
        "configuration": configuration or {},
        "createdTime": 1,
    }
    (root / "_delta_log").mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (root / "_delta_log" / f"{0:020d}.json").write_text(text)
    table = DeltaRsPlace(root=str(root), schema=None, clock=SetClock(NOW_MS)).open()
    assert table is not None
    return table


def column_with(**metadata: Any) -> dict[str, Any]:
    schema = parse_ddl("id BIGINT, name STRING")
    schema["fields"][1]["metadata"] = metadata
    return schema


def nested_with(metadata: dict[str, Any]) -> dict[str, Any]:
    schema = parse_ddl("id BIGINT, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<y: INT>>")
    schema["fields"][2]["type"]["valueType"]["fields"][0]["metadata"] = metadata
    return schema


def mapped() -> dict[str, Any]:
    schema = parse_ddl("id BIGINT, name STRING")
    for i, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": i, "delta.columnMapping.physicalName": f"col-{i}"}
    return schema


INVARIANT = {"delta.invariants": '{"expression":{"expression":"y > 3"}}'}


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (
            {"configuration": {"delta.constraints.positive": "id > 0"}},
            "the constraint positive, which would go unchecked",
        ),
        (
            {"features": ("checkConstraints",), "configuration": {"delta.constraints.c": "id > 0"}},
            "the constraint c, which would go unchecked",
        ),
        ({"schema": column_with(**{"delta.generationExpression": "id * 2"})}, "column name is generated"),
        (
            {"features": ("generatedColumns",), "schema": column_with(**{"delta.generationExpression": "id * 2"})},
            "column name is generated",
        ),
        (
            {
                "schema": column_with(**{"delta.generationExpression": "CAST(id AS STRING)"}),
                "partition_by": ("name",),
            },
            "column name is generated",
        ),
        (
            {"features": ("identityColumns",), "schema": column_with(**{"delta.identity.start": 1})},
            "column name is an identity column",
        ),
        ({"schema": column_with(**INVARIANT)}, "column name has an invariant, which would go unchecked"),
        ({"schema": nested_with(INVARIANT)}, "column m.value.y has an invariant, which would go unchecked"),
        (
            {
                "features": ("columnMapping",),
                "configuration": {"delta.columnMapping.mode": "name"},
                "schema": mapped(),
            },
            "it uses column mapping",
        ),
        (
            {"features": ("allowColumnDefaults",), "schema": column_with(CURRENT_DEFAULT="'x'")},
            "column name has a default",
        ),
        (
            {"schema": column_with(__CHAR_VARCHAR_TYPE_STRING="varchar(3)")},
            "column name is CHAR or VARCHAR, and its length would go unchecked",
        ),
        (
            {"schema": column_with(__CHAR_VARCHAR_TYPE_STRING="char(3)"), "partition_by": ("name",)},
            "is CHAR or VARCHAR",
        ),
        ({"configuration": {"delta.enableIcebergCompatV2": "true"}}, "icebergCompatV2"),
        ({"features": ("icebergCompatV1",)}, "the writer feature icebergCompatV1"),
        ({"features": ("icebergCompatV2",)}, "the writer feature icebergCompatV2"),
        ({"features": ("materializePartitionColumns",)}, "the writer feature materializePartitionColumns"),
        ({"features": ("someDay", "rowTracking")}, "the writer feature someDay"),
    ],
)
def test_what_no_committer_can_keep_is_refused_by_name(tmp_path: Path, described: dict[str, Any], reason: str) -> None:
    table = table_with(tmp_path / "t", **described)
    with pytest.raises(Refused) as refused:
        table.check_writable()
    assert str(refused.value).startswith("blizzard cannot write this table: ")
    assert reason in str(refused.value)
    assert refused.value.kind == "table_feature"


@pytest.mark.parametrize(
    "feature",
    [
        *("rowTracking", "inCommitTimestamp", "domainMetadata", "clustering", "vacuumProtocolCheck"),
        *("allowColumnDefaults", "identityColumns", "typeWidening"),
    ],
)
def test_what_only_spark_commits_to_is_said_so(tmp_path: Path, feature: str) -> None:
    table = table_with(tmp_path / "t", features=("appendOnly", feature))
    with ends_with("table_feature") as refused:
        table.check_writable()
    assert str(refused.value) == (
        f"the delta-rs committer cannot write this table: it uses the writer feature {feature}. The delta-spark"
        f" committer can."
    )
    handle = deltalake.DeltaTable(str(tmp_path / "t"))
    check_features(table.schema, handle.protocol(), handle.metadata(), committer="delta-spark")
    with pytest.raises(CommitFailedError, match="Unsupported table features"):  # else it need not be refused
        table.append(EMPTY)


EMPTY = CommitRequest(
    app_id="blizzard:x", fence_app_id="blizzard-fence:p", sequence=1, last_updated_ms=1, ledger="{}", files=()
)


@pytest.mark.parametrize(
    "features",
    [
        (),
        *[(f,) for f in ("appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz")],
        *[(f,) for f in ("v2Checkpoint", "checkConstraints", "columnMapping", "generatedColumns")],
        ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"),
    ],
)
@pytest.mark.parametrize("partition_by", [(), ("name",)])
def test_what_an_append_honours_is_committed(
    tmp_path: Path, features: tuple[str, ...], partition_by: tuple[str, ...]
) -> None:
    """Some features are listed without being used by any column: those cost nothing."""
    table = table_with(tmp_path / "t", features=features, partition_by=partition_by)
    table.check_writable()
    assert table.partition_columns == partition_by
    table.append(EMPTY)
    assert len(list(actions_of(tmp_path / "t", "txn"))) == 2
