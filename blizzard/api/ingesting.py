"""`ingest` and `plan`: what `blizzard run` and `blizzard plan` do."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from blizzard.api.given import given, spoken
from blizzard.api.log import LoggedEvents, log
from blizzard.api.results import Plan
from blizzard.config.request import make_request
from blizzard.core.events import Emit, unheard
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.run.carry_out import SchemaMissing, carry_out, preview
from blizzard.run.commit import new_run_id
from blizzard.run.preview import error_of
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary, describe_ending
from blizzard.run.validate import Validation
from blizzard.spark.gone import reported_if_gone
from blizzard.spark.session import GivenSession, settings_of
from blizzard.text.arguments import in_python

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# DDL, or the name of a file with it; a schema of pyspark or pyarrow; a schema as Delta writes it.
Schema: TypeAlias = Union[str, "StructType", "pyarrow.Schema", Mapping[str, Any]]


@spoken
def ingest(
    spark: SparkSession,
    *,
    source: str | None = None,
    table: str | None = None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    config: str | None = None,
    schema: Schema | None = None,
    infer: bool = False,
    hints: str | None = None,
    variant: bool = False,
    pipeline: str | None = None,
    committer: Literal["delta-rs", "delta-spark"] | None = None,
    start_from: str | None = None,
    adopt: bool = False,
    reads_again: bool = False,
    accept_quarantine_loss: bool = False,
    max_batches: int | None = None,
    options: Mapping[str, Any] | None = None,
    on_event: Emit = unheard,
    transform: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch] | None = None,
) -> Summary:
    """Append every new record of `source` to `table`, exactly once, and say what was done.

    With `targets` instead of `table` the source goes into several tables: {"orders": {"table": PATH, "schema": DDL,
    "where": "kind = 'order'"}, "raw": {"table": PATH, "required": False}}. Each takes the keys of a target, as a tree
    or flat, and its schema as for `schema`. The summary has the numbers of each in `targets`; one that failed without
    ending the run has the status `failed` there.
    `schema` is that of a new table: DDL or Spark's JSON as text or in a file, a dict in Delta's form, a pyspark
    StructType, or a pyarrow Schema. With `infer` a new table gets the schema that a sample of the records suggests;
    `hints` decides the type of single columns. With `variant` it takes each record whole.
    Without `pipeline` the run goes on with the pipeline of the table that reads this source. A second pipeline over the
    same files is refused, unless `reads_again`. Of a pipeline that is paused nothing is read: its status is `paused`.
    `transform` gets the records, block by block, as a pyarrow RecordBatch, and returns the rows as one. It must keep
    the column `_blizzard_line`. `schema` then says what is read from the records (docs/transforms.md).
    `config` is a configuration file. `options` takes its keys, flat: {"limits.max_files": 100}. Arguments win over
    `options`, and these over the file. `on_event` is called with every event of the run (see blizzard.core.events).
    Raises a BlizzardError: ConfigError, Refused, Fenced, BadData or Temporary, each with a stable `kind`. What was
    committed before the error stays committed.
    """
    keys = _keys(source, table, infer, hints, variant, committer)
    gave = given(keys, config=config, options=options, targets=targets, schema=schema, pipeline=pipeline)
    session = GivenSession(spark)
    request = make_request(
        resolve_table(gave.config, session),
        pipeline=gave.pipeline,
        start_from=start_from,
        adopts=adopt,
        reads_again=reads_again,
        accepts_quarantine_loss=accept_quarantine_loss,
        max_batches=max_batches,
        schema=gave.schema,
        schemas=gave.schemas,
        transform=transform,
        spark_settings=settings_of(spark),
    )
    summary = Summary()
    assembly = Assembly(request=request, session=session, emit=Stream(summary.see, LoggedEvents().see, on_event))
    try:
        with reported_if_gone(), assembly.mirroring.finished():
            carry_out(assembly, assembly.open(), run_id=new_run_id())
    except SchemaMissing as e:
        e.further = _ways_to_give_it(e)
        raise
    for one in summary.targets.values():
        one.error = None if one.error is None else in_python(one.error)
    log(logging.INFO, describe_ending(summary))
    return summary


@spoken
def plan(
    *,
    source: str | None = None,
    table: str | None = None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    schema: Schema | None = None,
    infer: bool = False,
    hints: str | None = None,
    variant: bool = False,
    pipeline: str | None = None,
    committer: Literal["delta-rs", "delta-spark"] | None = None,
    start_from: str | None = None,
    adopt: bool = False,
    reads_again: bool = False,
    validate: bool = False,
    records: int | None = None,
    options: Mapping[str, Any] | None = None,
    transform: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch] | None = None,
) -> Plan:
    """What `ingest` with these arguments would do first, found by its own first steps. Changes nothing.

    With `targets`, `target` is the name of the one to look at. With `validate`, records of the first batch are parsed
    too, without Spark: at most `records` of them, 0 for all; `validation` then says what they would become.
    Raises what `ingest` would raise before it reads anything.
    """
    validation = Validation.asked(validate=validate, records=records)
    keys = _keys(source, table, infer, hints, variant, committer)
    gave = given(keys, config=config, options=options, targets=targets, target=target, schema=schema, pipeline=pipeline)
    wishes = {"start_from": start_from, "adopts": adopt, "reads_again": reads_again, "transform": transform}
    with gave.ingesting(**wishes) as assembly:
        slots = assembly.config.spark.slots or os.cpu_count() or 1
        try:
            shown = preview(assembly, assembly.open(), slots=slots, validation=validation).shown
        except SchemaMissing as e:
            e.further = _ways_to_give_it(e)
            raise
    error = error_of(shown)
    if error is not None:
        raise error
    return Plan.of(shown)


def _keys(
    source: str | None, table: str | None, infer: bool, hints: str | None, variant: bool, committer: str | None
) -> dict[str, Any]:
    return {
        "source.path": source,
        "table.path": table,
        "schema.infer": infer,
        "schema.hints": hints,
        "schema.variant": variant,
        "table.committer": committer,
    }


def _ways_to_give_it(missing: SchemaMissing) -> tuple[str, ...]:
    if not missing.ddl:
        return ()
    return ("To use it, give it as schema=" + ("." if missing.for_transform else ", or give infer=True."),)
