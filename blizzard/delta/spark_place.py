"""Where a table of the delta-spark committer is: a path, or a name in the session's catalog."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from blizzard.core.codec import fence_app_id
from blizzard.core.kinds import Kind
from blizzard.delta import log
from blizzard.delta.arbitration import check_arbitration
from blizzard.delta.features import CATALOG_MANAGED
from blizzard.delta.jvm import DeltaJvm
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.spark_table import DeltaSparkTable, log_store_of, open_log, start_transaction
from blizzard.delta.table import RETENTION_KEY, TXN_RETENTION
from blizzard.errors import ConfigError, Refused, Temporary
from blizzard.store import open_store
from blizzard.store.uri import is_local, locate
from blizzard.text.plain import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){1,2}")
_PREFIX = "catalog:"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSparkPlace(DeltaRsPlace):
    session: Callable[[], SparkSession]
    is_sole_writer: bool = False

    def open(self) -> DeltaSparkTable | None:
        return self._open(
            lambda handle: DeltaSparkTable(
                self.root, handle, self.session, self.access, is_sole_writer=self.is_sole_writer
            )
        )

    def create(self, pipeline: str) -> None:
        """Created by the session's Delta, so that its log store arbitrates the first commit too."""
        if self.schema is None:
            raise ConfigError("a new table needs a schema", kind=Kind.SCHEMA)
        spark = self.session()
        jvm = DeltaJvm(spark)
        delta_log = open_log(jvm, spark, self.root)
        check_arbitration(log_store_of(jvm, delta_log), self.root, is_sole_writer=self.is_sole_writer)
        fence = {"appId": fence_app_id(pipeline), "version": 0, "lastUpdated": self.clock.now_ms()}
        try:
            with jvm.active():
                snapshot = delta_log.update(False, jvm.none, jvm.none)
                transaction = start_transaction(jvm, delta_log, snapshot, fence_app_id(pipeline))
                transaction.updateMetadata(jvm.action({"metaData": self._metadata()}), False)
                operation = jvm.write_operation(self.partition_by, "blizzard: table made")
                transaction.commit(jvm.seq([jvm.action({"txn": fence})]), operation)
        except Exception as e:  # another driver may have been faster, or the answer was lost: look into the log
            made = self.open()
            if made is None:
                raise Temporary(
                    f"the table at {self.root} could not be created: {plain(e)[:500]}. Run again.",
                    kind=Kind.TABLE_CREATE,
                ) from e
            self.check_same_layout(made, e)
        if is_local(self.root):
            log.sync_commit(open_store(self.root, self.access), 0)

    def take_back(self, pipeline: str, run_id: str) -> bool:
        """Never: the session keeps what it knows of the log."""
        del pipeline, run_id
        return False

    def _metadata(self) -> dict[str, Any]:
        return {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": orjson.dumps(self.schema).decode(),
            "partitionColumns": list(self.partition_by),
            "createdTime": self.clock.now_ms(),
            "configuration": {RETENTION_KEY: TXN_RETENTION},
        }


def is_catalog_name(table: str) -> bool:
    """`db.events`, or anything after `catalog:`. A path that exists is never a name."""
    return table.startswith(_PREFIX) or (_NAME.fullmatch(table) is not None and not os.path.exists(table))


def resolve_name(spark: SparkSession, table: str) -> str:
    """The path of a Delta table in the session's catalog."""
    name = table.removeprefix(_PREFIX)
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {_quoted(name)}").collect()[0].asDict()
    except Exception as e:
        raise ConfigError(
            f"the catalog has no table {name} that can be described ({plain(e).splitlines()[0][:300]}). Make it first"
            f" with CREATE TABLE … USING delta, or give a path instead of a name.",
            kind=Kind.TABLE_NOT_FOUND,
        ) from e
    if detail.get("format") != "delta":
        raise ConfigError(f"{name} is a {detail.get('format')} table, not a Delta table", kind=Kind.NOT_A_DELTA_TABLE)
    features = set(detail.get("tableFeatures") or ())
    if features & CATALOG_MANAGED:
        raise Refused(
            f"{name} is managed by its catalog, which decides about commits. blizzard commits to the log itself, so one"
            f" could overwrite the other's commits. Use an external table.",
            kind=Kind.CATALOG_MANAGED,
        )
    return locate(str(detail["location"]), what="table")


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.replace("`", "").split("."))
