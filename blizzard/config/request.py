"""What a command is about: the table, its quarantine, the source, and how to get to each.

Every command and the Python API ask here, so that the same configuration means the same places to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from blizzard.config.load import Config
from blizzard.core.kinds import Kind
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.clock import SystemClock
from blizzard.run.ports import Progress
from blizzard.schema.layout import TableLayout
from blizzard.source.uri import SourceLocation, locate_source
from blizzard.store.access import Access
from blizzard.store.uri import lies_in, locate


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`spark_settings` are those of a session that runs already; they may say how to get to S3."""

    config: Config
    session: Callable[[], Any] | None = field(default=None, repr=False)  # for a committer that needs one
    spark_settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def access(self, place: str, root: str) -> Access:
        """How to get to a root, as a `source` or as a `table`."""
        return self.config.access(place, root, self.spark_settings)

    @property
    def table_root(self) -> str:
        path = locate(self.config.table_path, what="table")
        if re.search(r"%[0-9A-Fa-f]{2}", path):
            raise ConfigError(
                f"the table path {path} holds a percent escape, which delta-rs cannot open", kind=Kind.USAGE
            )
        return path

    @property
    def table_access(self) -> Access:
        return self.access("table", self.table_root)

    @property
    def quarantine_root(self) -> str:
        """Beside the table, unless it was put elsewhere."""
        given, has_table = self.config.quarantine.path, self.config.table.path is not None
        if given is None and not has_table:
            raise ConfigError(
                "--table or --quarantine is missing (key table.path or quarantine.path)",
                kind=Kind.USAGE,
            )
        if given is None:
            return self.table_root + "_quarantine"
        root = locate(given, what="quarantine table")
        if has_table:
            _check_apart(root, self.table_root)
        return root

    @property
    def quarantine_access(self) -> Access:
        return self.access("table", self.quarantine_root)

    def quarantine(self, progress: Progress, *, accepts_loss: bool = False) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(
            root=self.quarantine_root,
            clock=SystemClock(),
            progress=progress,
            accepts_loss=accepts_loss,
            access=self.quarantine_access,
        )

    def source_location(self) -> SourceLocation:
        source = self.config.source_path
        access = self.access("source", locate(source, what="source"))
        pattern, marks_per = self.config.source.pattern, self.config.source.marks_per
        return locate_source(source, pattern, access, marks_per=marks_per)

    def place(self, layout: TableLayout | None = None) -> DeltaRsPlace:
        """Where the table is, for the committer that the configuration names. `layout` is for making it."""
        made: dict[str, Any] = {
            "root": self.table_root,
            "clock": SystemClock(),
            "access": self.table_access,
            "schema": layout.schema if layout else None,
            "partition_by": layout.partition_by if layout else (),
        }
        if self.config.table.committer == "delta-rs":
            return DeltaRsPlace(**made)
        from blizzard.delta.spark_place import DeltaSparkPlace

        if self.session is None:
            raise ConfigError("the delta-spark committer needs a Spark session", kind=Kind.USAGE)
        return DeltaSparkPlace(session=self.session, is_sole_writer=self.config.table.sole_writer, **made)

    def open_for_commit(self) -> DeltaRsTable:
        """The table as the committer opens it; raises where there is none."""
        return _require(self.place())

    def open_table(self) -> DeltaRsTable:
        """For looking at it: whoever commits to it, its log is read the same way."""
        place = DeltaRsPlace(root=self.table_root, schema=None, clock=SystemClock(), access=self.table_access)
        return _require(place)


def make_request(config: Config, session: Callable[[], Any], spark_settings: Mapping[str, str]) -> Request:
    """With the path of a table that was given by its name in the session's catalog."""
    return Request(config=_with_table_path(config, session), session=session, spark_settings=spark_settings)


def _with_table_path(config: Config, session: Callable[[], Any]) -> Config:
    name = config.table.path
    if name is None:
        return config
    if config.table.committer != "delta-spark":
        if name.startswith("catalog:"):
            raise ConfigError("a table by its catalog name needs the committer delta-spark", kind=Kind.USAGE)
        return config
    from blizzard.delta.spark_place import is_catalog_name, resolve_name

    if not is_catalog_name(name):
        return config
    return replace(config, table=replace(config.table, path=resolve_name(session(), name)))


def _check_apart(quarantine: str, table: str) -> None:
    if lies_in(quarantine, table) or lies_in(table, quarantine):
        raise ConfigError(
            f"quarantine.path {quarantine} and the table {table}: neither may be in the other, since a VACUUM of the"
            f" outer one deletes the files of the inner. Choose another quarantine.path.",
            kind=Kind.USAGE,
        )


def _require(place: DeltaRsPlace) -> DeltaRsTable:
    table = place.open()
    if table is None:
        raise ConfigError(f"there is no Delta table at {place.root}", kind=Kind.TABLE_NOT_FOUND)
    return table
