"""Where a Delta table is or will be. Opens it, or creates it with the fence of its first pipeline."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import deltalake
import orjson
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from blizzard.core.clock import Clock
from blizzard.core.codec import fence_app_id
from blizzard.core.kinds import Kind
from blizzard.delta import log
from blizzard.delta.errors import cannot_open
from blizzard.delta.handles import open_handle
from blizzard.delta.table import OUR_FILES, RETENTION_KEY, TXN_RETENTION, DeltaRsTable
from blizzard.delta.unused import ASIDE, remove_unused_table
from blizzard.errors import ConfigError, Temporary
from blizzard.schema import DeltaSchema
from blizzard.schema.derived import WHOLE_RECORD, derived_columns, show_derivation, whole_record_column
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import delta_uri, is_local
from blizzard.text.plain import plain

# Of a folder that is no table, to say what it is.
_NAMES_LOOKED_AT = 1_000
# While a log is put aside: a run looks at it for some milliseconds.
_LOOKS_AGAIN_S = (0.02, 0.1, 0.4, 1.0)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRsPlace:
    """A folder or a bucket prefix that is or will be a Delta table."""

    root: str
    schema: DeltaSchema | None  # for creating it
    clock: Clock
    partition_by: tuple[str, ...] = ()  # for creating it too
    access: Access = NO_ACCESS

    def open(self) -> DeltaRsTable | None:
        return self._open(lambda handle: DeltaRsTable(self.root, handle, self.access))

    def _open(self, make: Callable[[DeltaTable], T]) -> T | None:
        """None: there is no table. Another run may be about to take back one that it has made: its log is put aside for
        a moment, and then put back or removed."""
        store, looks_again_s = open_store(self.root, self.access), iter(_LOOKS_AGAIN_S)
        while True:
            if _has_log(store):
                try:
                    return make(open_handle(self.root, self.access))
                except (DeltaError, OSError, ValueError) as e:
                    if _has_log(store):
                        raise cannot_open(f"the table at {self.root}", store, e) from e
            names = [file.path for file in islice(store.walk(), _NAMES_LOOKED_AT)]
            aside = next((name.split("/")[0] for name in names if name.startswith(ASIDE)), None)
            # It is back, or another run has made it.
            is_there = any(name.startswith(f"{log.LOG_FOLDER}/") for name in names)
            pause_s = next(looks_again_s, None) if aside is not None or is_there else None
            if pause_s is None:
                self._require_room(names, aside)
                return None
            self.clock.sleep(pause_s)

    def _require_room(self, names: Sequence[str], aside: str | None) -> None:
        if is_local(self.root) and os.path.exists(self.root) and not os.path.isdir(self.root):
            raise ConfigError(f"the table path {self.root} is a file, not a folder", kind=Kind.NOT_A_DELTA_TABLE)
        if aside is not None:
            raise ConfigError(
                f"{self.root} has no _delta_log: a run was killed while it looked whether the table that it had made"
                f" was in use, and the log is in {aside}. Give it its name again, _delta_log, and run again.",
                kind=Kind.NOT_A_DELTA_TABLE,
            )
        if names and all(OUR_FILES.match(name.rsplit("/", 1)[-1]) for name in names):
            raise ConfigError(
                f"{self.root} has no _delta_log, and holds only files that runs wrote: their table was taken back by"
                f" the run that had made it, or somebody has deleted its log. Do not convert it: those rows would be"
                f" ingested twice. If no table with rows was there, remove the folder and run again.",
                kind=Kind.NOT_A_DELTA_TABLE,
            )
        if names:
            raise ConfigError(
                f"{self.root} is not empty and is not a Delta table (it has no _delta_log). Choose another path,"
                f" or convert it first.",
                kind=Kind.NOT_A_DELTA_TABLE,
            )

    def create(self, pipeline: str) -> None:
        if self.schema is None:
            raise ConfigError("a new table needs a schema", kind=Kind.SCHEMA)
        fence, store = Transaction(fence_app_id(pipeline), 0, self.clock.now_ms()), open_store(self.root, self.access)
        try:
            store.make_root()
            DeltaTable.create(
                delta_uri(self.root),
                storage_options=self.access.for_delta_rs(self.root),
                schema=deltalake.Schema.from_json(orjson.dumps(self.schema).decode()),
                partition_by=list(self.partition_by),
                configuration={RETENTION_KEY: TXN_RETENTION},
                commit_properties=CommitProperties(app_transactions=[fence]),
            )
        except OSError as e:
            if e.errno == errno.ENOSPC or "No space left" in str(e):
                raise Temporary(
                    f"the table at {self.root} could not be created: no space left", kind=Kind.DISK_FULL
                ) from e
            if not is_local(self.root):
                self._require_made(e)  # an error of the network does not say whether it was made
                return
            raise ConfigError(f"the table at {self.root} could not be created: {e}", kind=Kind.TABLE_CREATE) from e
        except DeltaError as e:
            self._require_made(e)
            return
        log.sync_commit(store, 0)

    def take_back(self, pipeline: str, run_id: str) -> bool:
        return is_local(self.root) and remove_unused_table(self.root, pipeline, run_id)

    def _require_made(self, error: Exception) -> None:
        """Another driver made the table first, or we did and the answer was lost. The run compares its schema later,
        but not its partition columns and derived columns: they are compared here."""
        made = self.open()
        if made is None and isinstance(error, OSError):
            raise Temporary(
                f"the table at {self.root} could not be created: {plain(error)}. Run again.",
                kind=Kind.STORE_UNAVAILABLE,
            ) from error
        if made is None:
            raise ConfigError(
                f"the table at {self.root} could not be created: {plain(error)}", kind=Kind.TABLE_CREATE
            ) from error
        self.check_same_layout(made, error)

    def check_same_layout(self, made: DeltaRsTable, error: Exception | None) -> None:
        assert self.schema is not None
        if made.partition_columns != self.partition_by or _derived(made.schema) != _derived(self.schema):
            raise Temporary(
                f"another driver made the table at {self.root} at the same moment, with another layout. Run again.",
                kind=Kind.SCHEMA_CHANGED,
            ) from error


def _has_log(store: Store) -> bool:
    return next(store.walk(log.LOG_FOLDER), None) is not None


def _derived(schema: DeltaSchema) -> dict[str, str]:
    derived = {c.name: show_derivation(c.derivation) for c in derived_columns(schema["fields"])}
    whole = whole_record_column(schema["fields"])
    return derived if whole is None else derived | {whole: WHOLE_RECORD}
