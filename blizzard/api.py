"""The Python API: the same run as on the command line, with typed exceptions instead of exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blizzard.config.load import make_config
from blizzard.config.request import Request, make_request
from blizzard.core.events import Emit, unheard
from blizzard.operate.status import TableStatus, table_status
from blizzard.run.assemble import Assembly, resolve_table
from blizzard.run.carry_out import SchemaMissing, carry_out
from blizzard.run.commit import new_run_id
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.spark.gone import reported_if_gone
from blizzard.spark.session import GivenSession, LazySession, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SchemaMissing", "ingest", "status"]


def ingest(
    spark: SparkSession,
    *,
    source: str,
    table: str,
    schema: Any = None,
    infer: bool = False,
    pipeline: str | None = None,
    start_from: str | None = None,
    adopt: bool = False,
    reads_again: bool = False,
    max_batches: int | None = None,
    options: Mapping[str, Any] | None = None,
    on_event: Emit = unheard,
) -> Summary:
    """Append every new record of `source` to `table`, exactly once, and say what was done.

    `schema` is that of a new table: DDL or Spark's JSON as text or in a file, a dict in Delta's form, a pyspark
    StructType, or a pyarrow Schema. With `infer` a new table gets the schema that a sample of the records suggests.
    Without `pipeline` the run goes on with the pipeline of the table that reads this source. A second pipeline over the
    same files is refused, unless `reads_again`.
    `options` takes the same keys as the configuration file, flat: {"limits.max_files": 100}. `on_event` is called with
    every event of the run (see blizzard.core.events). Raises a BlizzardError: ConfigError, Refused, Fenced, BadData or
    Temporary, each with a stable `kind`. What was committed before the error stays committed.
    """
    given = dict(options or {}) | {"source.path": source, "table.path": table}
    if isinstance(schema, str):
        given["schema.ddl"], schema = schema, None
    if infer:
        given["schema.infer"] = True
    session = GivenSession(spark)
    request = make_request(
        resolve_table(make_config(given), session),
        pipeline=pipeline,
        start_from=start_from,
        adopts=adopt,
        reads_again=reads_again,
        max_batches=max_batches,
        schema=schema,
        spark_settings=settings_of(spark),
    )
    summary = Summary()
    assembly = Assembly(request=request, session=session, emit=Stream(summary.see, on_event))
    with reported_if_gone():
        carry_out(assembly, assembly.open(), run_id=new_run_id())
    return summary


def status(
    table: str,
    *,
    source: str | None = None,
    pattern: str | None = None,
    explain: bool = False,
    options: Mapping[str, Any] | None = None,
) -> TableStatus:
    """Which pipelines write to a table, where each stands, and how the next start would recover. Changes nothing.

    `options` takes the keys of the configuration file, such as `storage_options.AWS_REGION`.
    """
    given = {"source.path": source, "source.pattern": pattern, "table.path": table}
    config = make_config(dict(options or {}) | {key: value for key, value in given.items() if value is not None})
    with LazySession(config.spark_conf, with_delta=config.table.committer == "delta-spark") as session:
        request = Request(config=resolve_table(config, session))
        return table_status(Assembly(request=request, session=session), explain=explain)
