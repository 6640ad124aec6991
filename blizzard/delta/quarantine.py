"""The quarantine table: bad records, each once, in step with the main table.

A commit of the main table names the files of its bad records as pending. `settle` adds them here afterwards, with a
Txn of its own (`blizzard-dlq:…`) at that commit's sequence: however often it is called for a commit, and whoever calls
it, they are added once. It runs before the next commit of the main table, and first thing after a restart.

A replay's commit also says which records it took: `settle` first deletes those, then adds what it could not mend. A
rollback's says which batches it took back: `settle` deletes their bad records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from blizzard.core.codec import quarantine_app_id
from blizzard.core.state import CheckpointState
from blizzard.delta import log
from blizzard.delta.errors import cannot_open
from blizzard.errors import BlizzardError, ConfigError, Refused, Temporary
from blizzard.ports import Clock, Progress
from blizzard.schema.fit import schema_differences
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import delta_uri, is_local
from blizzard.tasks.quarantine import ARROW_SCHEMA, QUARANTINE_SCHEMA, Selection, read_footer
from blizzard.testing.faults import reach

_ATTEMPTS = 5
_READ_BYTES = 8 * 1024 * 1024
_READ_ROWS = 10_000
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRsQuarantine:
    root: str
    clock: Clock
    progress: Progress
    accepts_loss: bool = False  # the user's word that pending files which are gone may be given up
    access: Access = NO_ACCESS

    @property
    def store(self) -> Store:
        return open_store(self.root, self.access)

    def settle(self, state: CheckpointState) -> None:
        """Make the table hold what this committed state named."""
        if not state.pending_quarantine and not state.replayed and state.rolled_back is None:
            return
        if state.rolled_back is not None and self.open() is None:
            return  # there never was anything bad
        cause: Exception | None = None
        for attempt in range(_ATTEMPTS):
            self._wait_before(attempt)
            try:
                table = self.open() or self._create()
                leaving = _leaving_rows(state)
                if leaving is not None and not self._is_settled(table, state):
                    stamp = self._stamp(f"blizzard-replay:{state.pipeline}", state.sequence)
                    self._delete_from(table, leaving, stamp)
                    reach("quarantine.replayed")
                    table.update_incremental()
                # Asked after the deletion: a Txn that is already loaded is no conflict to an append.
                if self._is_settled(table, state):
                    log.sync_commit(self.store, int(table.version()))
                else:
                    self._append(table, state)
                return
            except BlizzardError:
                raise
            except Exception as e:  # whatever it was: the table's own Txn says whether it landed
                cause = e
        raise Temporary(
            f"the bad records of sequence {state.sequence} could not be added to the quarantine table at {self.root}"
            f" ({cause}). They are on disk and named in the table's log: the next run adds them.",
            kind="quarantine_failed",
        ) from cause

    def is_settled(self, state: CheckpointState) -> bool:
        """Whether the table holds what this committed state named."""
        if not state.pending_quarantine:
            return True
        table = self.open()
        return table is not None and self._is_settled(table, state)

    def open(self) -> DeltaTable | None:
        if next(self.store.walk(log.LOG_FOLDER), None) is None:
            return None
        try:
            table = DeltaTable(delta_uri(self.root), storage_options=self.access.for_delta_rs(self.root))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as e:
            raise cannot_open(f"the quarantine table at {self.root}", self.root, e) from e
        differences = schema_differences(QUARANTINE_SCHEMA, orjson.loads(table.schema().to_json()))
        if differences:
            raise ConfigError(
                f"{self.root} is a Delta table, but not a quarantine table of blizzard ({differences[0]}). Choose"
                f" another quarantine.path.",
                kind="not_a_quarantine_table",
            )
        return table

    def count(self) -> int:
        """How many records are in quarantine, from the log alone."""
        table = self.open()
        if table is None:
            return 0
        return int(sum(n or 0 for n in table.get_add_actions(flatten=True).column("num_records").to_pylist()))

    def read(self, selection: Selection, columns: Sequence[str] = ARROW_SCHEMA.names) -> Iterator[pa.Table]:
        """The selected records, a few at a time: never more in memory than a few MB, or one record."""
        table = self.open()
        if table is None:
            return
        if table.protocol().min_reader_version > 1:
            raise Refused(
                f"the quarantine table at {self.root} has been given a reader feature (deletion vectors, column"
                f" mapping) that blizzard does not read. Rewrite it without, or choose another quarantine.path.",
                kind="unsupported_table",
            )
        needed = [name for name in ARROW_SCHEMA.names if name in {*columns, *selection.columns}]
        schema = pa.schema([ARROW_SCHEMA.field(name) for name in needed])
        try:
            for name in table.get_add_actions(flatten=True).column("path").to_pylist():
                with self.store.open_seekable(name) as content, pq.ParquetFile(content) as file:
                    for batch in file.iter_batches(batch_size=_rows_at_once(file.metadata), columns=needed):
                        rows = pa.Table.from_batches([batch]).select(needed).cast(schema)
                        rows = rows.filter(selection.mask(rows))
                        if rows.num_rows:
                            yield rows.select(list(columns))
        except FileNotFoundError as e:
            raise Temporary(
                f"{e.filename or e}: a file of the quarantine table is gone: compacted and vacuumed meanwhile? Run"
                f" again.",
                kind="quarantine_changed",
            ) from e

    def delete(self, selection: Selection, *, app_id: str) -> int:
        """Delete the selected records for ever, and say how many they were. Asking again after a doubt does no harm."""
        cause: Exception | None = None
        for attempt in range(_ATTEMPTS):
            self._wait_before(attempt)
            table = self.open()
            if table is None:
                return 0
            try:
                return self._delete_from(table, selection, self._stamp(app_id, self.clock.now_ms()))
            except Exception as e:  # a settle or another deletion was faster, or the answer was lost
                cause = e
        raise Temporary(
            f"the records could not be deleted from the quarantine table at {self.root} ({cause}). Run again.",
            kind="quarantine_failed",
        ) from cause

    def _delete_from(self, table: DeltaTable, selection: Selection, stamp: CommitProperties) -> int:
        metrics = table.delete(selection.predicate, commit_properties=stamp, post_commithook_properties=_HOOKS)
        # The records that stay were copied to new files, which delta-rs leaves to the operating system as it does
        # the commit that names them.
        self.store.sync(*_added_by(self.store, int(table.version())), "")
        log.sync_commit(self.store, int(table.version()))
        return int(metrics["num_deleted_rows"])

    def _wait_before(self, attempt: int) -> None:
        if attempt:
            self.clock.sleep(0.1 * 2**attempt * random.uniform(0.8, 1.2))

    def _create(self) -> DeltaTable:
        try:
            self.store.make_root()
            table = DeltaTable.create(
                delta_uri(self.root),
                schema=deltalake.Schema.from_json(orjson.dumps(QUARANTINE_SCHEMA).decode()),
                storage_options=self.access.for_delta_rs(self.root),
            )
        except OSError as e:
            if not is_local(self.root):
                raise  # the network's word on it says nothing: it is looked for, and tried again
            raise ConfigError(f"the quarantine table at {self.root} cannot be created: {e}", kind="table_create") from e
        log.sync_commit(self.store, 0)
        return table

    def _is_settled(self, table: DeltaTable, state: CheckpointState) -> bool:
        settled = table.transaction_version(quarantine_app_id(state.pipeline, state.table_id))
        return int(settled or 0) >= state.sequence

    def _append(self, table: DeltaTable, state: CheckpointState) -> None:
        adds = []
        for name in state.pending_quarantine:
            try:
                file = read_footer(self.store, name)
            except FileNotFoundError:
                self._tell_lost(name, state)
                continue
            adds.append(AddAction(file.path, file.size_bytes, {}, file.modified_ms, True, file.stats))
        reach("quarantine.before")
        table.create_write_transaction(
            adds,
            mode="append",
            schema=table.schema(),
            partition_by=[],
            commit_properties=self._stamp(quarantine_app_id(state.pipeline, state.table_id), state.sequence),
            post_commithook_properties=_HOOKS,
        )
        reach("quarantine.after")
        log.sync_commit(self.store, log.newest_commit(self.store, int(table.version())))

    def _tell_lost(self, name: str, state: CheckpointState) -> None:
        message = (
            f"{name}, which holds bad records of sequence {state.sequence}, is no longer in the quarantine table's"
            f" folder {self.root}: was it moved, or vacuumed before it was added?"
        )
        if not self.accepts_loss:
            raise Refused(
                f"{message} Put it back and run again, or give these records up with --accept-quarantine-loss.",
                kind="quarantine_lost",
            )
        self.progress.warn(f"{message} Given up, as told.")

    def _stamp(self, app_id: str, version: int) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(app_id, version, self.clock.now_ms())])


def _leaving_rows(state: CheckpointState) -> Selection | None:
    """The records that the commit of this state takes out of quarantine: replayed, or of batches taken back."""
    if state.rolled_back is not None:
        first, last = state.rolled_back
        return Selection(pipeline=state.pipeline, table_id=state.table_id, from_sequence=first, through_sequence=last)
    return replayed_rows(state) if state.replayed else None


def replay_marks(selection: Selection) -> dict[str, str]:
    """What a replay's state says of the records it took."""
    marks = {
        "from": selection.from_sequence,
        "through": selection.through_sequence,
        "source_file": selection.source_file,
        "error_kind": selection.error_kind,
    }
    return {name: str(value) for name, value in marks.items() if value is not None}


def replayed_rows(state: CheckpointState) -> Selection:
    """The records a replay took. Those it could not mend come back with the replay's own, higher sequence."""
    marks: Mapping[str, str] = state.replayed
    unknown = marks.keys() - {"from", "through", "source_file", "error_kind"}
    if unknown or "through" not in marks:
        raise Refused(
            f"the checkpoint of sequence {state.sequence} took records from quarantine in a way this version of"
            f" blizzard does not know ({', '.join(sorted(unknown)) or 'no through'}). Run the version that wrote it.",
            kind="newer_checkpoint",
        )
    return Selection(
        pipeline=state.pipeline,
        table_id=state.table_id,
        complete=True,
        from_sequence=int(marks["from"]) if "from" in marks else None,
        through_sequence=int(marks["through"]),
        source_file=marks.get("source_file"),
        error_kind=marks.get("error_kind"),
    )


def _rows_at_once(footer: pq.FileMetaData) -> int:
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    row_bytes = max((g.total_byte_size / max(1, g.num_rows) for g in groups), default=1.0)
    return int(min(_READ_ROWS, max(1, _READ_BYTES / max(1.0, row_bytes))))


def _added_by(store: Store, version: int) -> list[str]:
    lines = (store.read(log.commit_name(version)) or b"").splitlines()
    return [orjson.loads(line)["add"]["path"] for line in lines if line.startswith(b'{"add"')]
