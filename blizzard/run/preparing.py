"""From the configuration to what the tasks of a run are told: layout, parsing, policies."""

from __future__ import annotations

import copy

from blizzard.config.load import Config
from blizzard.config.request import Request
from blizzard.core.kinds import Kind
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import DeltaSchema
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.schema.fit import schema_differences
from blizzard.schema.layout import TableLayout, apply_layout, layout_of
from blizzard.source.uri import SourceLocation
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.task import JobSpec

_UNKNOWN = {
    "strict": Unknown.BAD,
    "ignore": Unknown.IGNORE,
    "rescue": Unknown.RESCUE,
    "add_columns": Unknown.REPORT,
}


def parse_policy(config: Config) -> ParsePolicy:
    if config.evolution == "widen":
        raise ConfigError(
            "schema.evolution widen needs a committer that can change the type of a column, which delta-rs cannot; use"
            " add_columns, and widen the column with Spark",
            kind=Kind.NOT_BUILT,
        )
    return ParsePolicy(
        json_in_strings=config.schema.json_in_strings == "keep",
        unknown=_UNKNOWN[config.evolution],
        rescue_values=config.bad_records.policy == "rescue",
    )


def layout_of_new_table(config: Config, schema: DeltaSchema) -> TableLayout:
    layout = apply_layout(
        schema, partition_by=config.table.partition_by or (), provenance=config.table.provenance or ()
    )
    return layout.with_schema(with_rescued_column(layout.schema)) if parse_policy(config).rescues else layout


def layout_of_table(config: Config, table: DeltaRsTable) -> TableLayout:
    return layout_of(
        table.schema,
        table.partition_columns,
        partition_by=config.table.partition_by,
        provenance=config.table.provenance,
    )


def job_spec(
    request: Request,
    *,
    source: SourceLocation,
    layout: TableLayout,
    indexed_columns: int,
    pipeline: str,
    run_id: str,
) -> JobSpec:
    config = request.config
    return JobSpec(
        source_root=source.root,
        source_access=source.access,
        table_access=request.table_access,
        quarantine_access=request.quarantine_access,
        compression=config.source.compression,
        table_root=request.table_root,
        layout=layout,
        pipeline=pipeline,
        run_id=run_id,
        target_file_bytes=config.table.target_file_bytes,
        codec=config.table.compression,
        max_record_bytes=config.limits.max_record_bytes,
        indexed_columns=indexed_columns,
        quarantine_root=request.quarantine_root,
        parsing=parse_policy(config),
        bad=config.bad_policy,
    )


def with_rescued_column(schema: DeltaSchema) -> DeltaSchema:
    for field in schema["fields"]:
        if field["name"].lower() == RESCUED_COLUMN:
            if (field["name"], field["type"], field["nullable"]) != (RESCUED_COLUMN, "string", True):
                raise SchemaError(
                    f"the column {field['name']} must be a nullable STRING {RESCUED_COLUMN} to rescue into"
                )
            return schema
    column = {"name": RESCUED_COLUMN, "type": "string", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [*copy.deepcopy(schema["fields"]), column]}


def check_given_schema(given: DeltaSchema | None, layout: TableLayout, config: Config) -> None:
    """Whether the table is the one the user described. Columns it has been given since are no difference where
    columns may be added."""
    if given is None:
        return
    may_have_more = config.evolution == "add_columns"
    differences = schema_differences(given, layout.record_schema, may_have_more=may_have_more)
    if differences:
        raise SchemaError(
            "the given schema does not fit the table: "
            + "; ".join(differences)
            + ". Leave --schema out to use the table's.",
            kind=Kind.SCHEMA_MISMATCH,
        )
