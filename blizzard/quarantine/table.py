"""The quarantine table: bad records, each once, in step with the main table.

A commit of the main table names the files of its bad records as pending. `settle` adds them here afterwards, with two
Txns: `blizzard-dlq:…` has that commit's sequence, `blizzard-dlq-head:…` stands for its batch_id. They are added once,
however often and by whomever `settle` is called. It also deletes the records that a replay took, those of batches that
a rollback took back, or the oldest if there is no room, in the same commit. A quarantine whose head does not fit the
position is refused.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

import deltalake
import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from blizzard.core.clock import Clock
from blizzard.core.codec import head_app_id, head_number, quarantine_app_id
from blizzard.core.events import Emit, Noted, Warned, unheard
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.core.position import Position
from blizzard.core.quarantine import (
    Misaligned,
    Settled,
    Unsettled,
    changes_quarantine,
    judge_quarantine,
    lead_quarantine,
    name_quarantine,
)
from blizzard.core.retry import RetryPolicy
from blizzard.core.types import DataFile, QuarantinedBatch
from blizzard.delta import log
from blizzard.delta.errors import cannot_open, txn_version
from blizzard.delta.unused import remove_files_of
from blizzard.errors import BlizzardError, ConfigError, Refused, Temporary, failure_to_write
from blizzard.faults import reach
from blizzard.quarantine.features import require_readable, require_writable
from blizzard.quarantine.files import (
    added_by,
    batches_of,
    count_by_stats,
    damaged,
    is_of_table,
    merge_batches,
    rows_of,
)
from blizzard.quarantine.head import facts_of, lost_app_id, out_of_step
from blizzard.quarantine.kept import KeptHandle
from blizzard.quarantine.replacing_commit import copy_others, find_touched, replacing_commit
from blizzard.quarantine.selected import leaving_rows
from blizzard.schema.fit import schema_differences
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import delta_uri, is_local
from blizzard.tasks.quarantine import ARROW_SCHEMA, LATER_COLUMNS, QUARANTINE_SCHEMA, Selection, read_footer
from blizzard.text.plain import plain

_RETRY = RetryPolicy(attempts=5, base_ms=100, max_ms=2_000)
_NONE: Mapping[int, int] = MappingProxyType({})
_CHECKPOINT_EVERY = 100  # commits, as delta-rs does where the table does not say
HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRsQuarantine:
    root: str
    clock: Clock
    emit: Emit = unheard
    accepts_loss: bool = False  # the user allows to give up pending files that are gone
    access: Access = NO_ACCESS
    _kept: KeptHandle = field(default_factory=KeptHandle, init=False, repr=False, compare=False)

    @property
    def store(self) -> Store:
        return open_store(self.root, self.access)

    def announce(self, position: Position, files: Sequence[DataFile] = ()) -> Position:
        """The position as it must be committed. The quarantine table is created before the first commit that needs it,
        so that the commit can name it: a changed quarantine.path is noticed then."""
        if not changes_quarantine(position):
            return position
        for file in files:
            self._require_written(file)
        table, leaving = self._newest(), leaving_rows(position)
        facts = facts_of(table, position.pipeline, position.on.table_id, self._kept)
        position = lead_quarantine(position, exists=facts.sequence is not None)
        if position.quarantine.head is None:
            return position  # a rollback of a pipeline that never had a bad record
        if table is not None:  # what would stop `settle` must stop the commit that needs it
            require_writable(table, self.root, leaves=leaving is not None)
            if leaving is not None:
                find_touched(table, leaving, self._rows_of)
        table_id = facts.table_id or str(self.open_or_create().metadata().id)
        return name_quarantine(position, table_id)

    def _require_written(self, file: DataFile) -> None:
        info = self.store.stat(file.path)
        if info is None or info.size_bytes != file.size_bytes:
            what = "is gone" if info is None else f"is {info.size_bytes:,} bytes instead of {file.size_bytes:,}"
            raise Temporary(
                f"{file.path}, which holds bad records of this batch, {what} in {self.root}: was the quarantine table"
                f" vacuumed while the run was at work? Nothing of the batch was committed. Run again.",
                kind=Kind.QUARANTINE_VANISHED,
            )

    def settle(self, position: Position) -> None:
        """Make the table hold what this committed position says. Runs before the next commit of the main table, and
        first thing after a restart."""
        cause: Exception | None = None
        for attempt in range(_RETRY.attempts):
            self._wait_before(attempt)
            try:
                return self._settle(position)
            except BlizzardError:
                raise
            except Exception as e:  # any exception: the table's own Txn says whether it landed
                cause = e
        then = f"The bad records of sequence {position.sequence} are on disk and named in the table's log."
        raise _cannot_write(cause, self.root, then) or Temporary(
            f"the bad records of sequence {position.sequence} could not be added to the quarantine table at {self.root}"
            f" ({cause}). They are on disk and named in the table's log: the next run adds them.",
            kind=Kind.QUARANTINE_FAILED,
        ) from cause

    def _settle(self, position: Position) -> None:
        table = self._newest()
        if self._is_settled(table, position, self._kept):
            if table is not None and changes_quarantine(position):
                log.sync_commit(self.store, int(table.version()))
            return
        leaving = leaving_rows(position)
        if table is not None:
            require_writable(table, self.root, leaves=leaving is not None)
        before = None if table is None else int(table.version())
        table = self.open_or_create() if table is None else self.with_columns(table)
        # Checked on the version that the commit is based on.
        if before != int(table.version()) and self._is_settled(table, position):
            return
        files, lost = self._pending_files(position)
        reach("quarantine.before", self.root)
        txns = self._head_txns(position, {position.sequence: lost} if lost else _NONE)
        if leaving is None:
            self.append(table, files, self._stamp(*txns))
        else:
            self._replace(table, leaving, files, [*txns, (f"blizzard-replay:{position.pipeline}", position.sequence)])
        reach("quarantine.after", self.root)

    def _replace(
        self, table: DeltaTable, leaving: Selection, files: Sequence[DataFile], txns: Sequence[tuple[str, int]]
    ) -> None:
        touched = find_touched(table, leaving, self._rows_of)
        named = leaving.batches or ()
        there = {found.name for add in touched if named for found in batches_of(add, leaving, self._rows_of)}
        kept = copy_others(self.store, touched, leaving, self._rows_of)
        content = replacing_commit(table, touched, [*kept, *files], txns, now_ms=self.clock.now_ms())
        version = int(table.version()) + 1
        reach("quarantine.copied", self.root)
        if not self.store.put_if_absent(log.commit_name(version), content):
            raise FileExistsError(f"version {version} is taken")
        log.sync_commit(self.store, version)
        gone = [name for name in named if name not in there]
        if gone:  # no error: they have left already
            what = f"{count(len(gone), 'batch')} in quarantine ({some(gone)})"
            self.emit(Noted(message=f"no record was left to drop of {what}: somebody purged or replayed them"))
        self._write_checkpoint(table, version)

    def _write_checkpoint(self, table: DeltaTable, version: int) -> None:
        """As delta-rs does after its own commits. Without it every start would read all commits written by hand."""
        with suppress(DeltaError, OSError, ValueError, ZeroDivisionError, BlizzardError):  # the commit has landed
            interval = int(table.metadata().configuration.get("delta.checkpointInterval") or _CHECKPOINT_EVERY)
            newest = self.open() if version % interval == 0 else None
            if newest is not None:
                newest.create_checkpoint()

    def is_settled(self, position: Position) -> bool:
        """Whether the table holds what this committed position says. Raises OutOfStep as `settle` does."""
        return self._is_settled(self.open(), position)

    def _is_settled(self, table: DeltaTable | None, position: Position, kept: KeptHandle | None = None) -> bool:
        judgement = judge_quarantine(position, facts_of(table, position.pipeline, position.on.table_id, kept))
        match judgement:
            case Settled():
                return True
            case Unsettled():
                return False
            case Misaligned(kind=kind, message=message):
                raise out_of_step(kind, message, self.root, position)

    def take_back(self, run_id: str, table_id: str) -> None:
        if is_local(self.root):
            remove_files_of(self.root, run_id, lambda path: is_of_table(path, table_id))

    def took_in(self, position: Position, sequences: Collection[int]) -> Collection[int]:
        """Those of these sequences whose bad records were all added to the table: none was given up as lost."""
        table = self.open()
        if table is None:
            return ()
        through = txn_version(table, quarantine_app_id(position.pipeline, position.on.table_id)) or 0
        return {
            n
            for n in sequences
            if n <= through and txn_version(table, lost_app_id(position.pipeline, position.on.table_id, n)) is None
        }

    def open(self) -> DeltaTable | None:
        if next(self.store.walk(log.LOG_FOLDER), None) is None:
            return None
        try:
            table = DeltaTable(delta_uri(self.root), storage_options=self.access.for_delta_rs(self.root))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as e:
            raise cannot_open(f"the quarantine table at {self.root}", self.store, e) from e
        return self._checked(table)

    def _newest(self) -> DeltaTable | None:
        """The table as it is now, by the handle that is kept for the commits of a run."""
        table = self._kept.newest(self.store, self.open)
        return None if table is None else self._checked(table)

    def _checked(self, table: DeltaTable) -> DeltaTable:
        found = orjson.loads(table.schema().to_json())
        names = {field["name"] for field in found["fields"]}
        expected = [f for f in QUARANTINE_SCHEMA["fields"] if f["name"] in names or f["name"] not in LATER_COLUMNS]
        differences = schema_differences(QUARANTINE_SCHEMA | {"fields": expected}, found)
        if differences:
            raise ConfigError(
                f"{self.root} is a Delta table, but not a quarantine table of blizzard ({differences[0]}). Choose"
                f" another quarantine.path.",
                kind=Kind.NOT_A_QUARANTINE_TABLE,
            )
        return table

    def with_columns(self, table: DeltaTable) -> DeltaTable:
        """The table with every column. Adds those that an older version did not know."""
        names = {field.name for field in table.schema().fields}
        lacking = [field for field in QUARANTINE_SCHEMA["fields"] if field["name"] not in names]
        if lacking:
            table.alter.add_columns(
                [deltalake.Field.from_json(orjson.dumps(field).decode()) for field in lacking],
                commit_properties=self._stamp(("blizzard-schema:quarantine", int(table.version()) + 1)),
                post_commithook_properties=HOOKS,
            )
            table.update_incremental()
            log.sync_commit(self.store, int(table.version()))
        return table

    def count(self, pipeline: str | None = None, table_id: str | None = None) -> int:
        """How many records are in quarantine, without orphans. Files of one pipeline and table are counted by the log
        alone; other files (rewritten, or of an older version) are opened."""
        table = self.open()
        if table is None:
            return 0
        chosen = Selection(pipeline=pipeline, table_id=table_id)
        adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        known = {add["path"]: count_by_stats(add, chosen) for add in adds}
        to_open = [path for path, rows in known.items() if rows is None]
        opened = sum(int(rows.num_rows) for rows in self._read_files(to_open, chosen, ["sequence"]))
        return opened + sum(rows for rows in known.values() if rows is not None)

    def batches(self, pipeline: str, table_id: str) -> tuple[QuarantinedBatch, ...]:
        """What it holds of this pipeline and table, oldest batch first, without orphans. By the log if possible."""
        table = self.open()
        if table is None:
            return ()
        require_readable(table, self.root)
        chosen = Selection(pipeline=pipeline, table_id=table_id)
        adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return merge_batches(batch for add in adds for batch in batches_of(add, chosen, self._rows_of))

    def read(
        self, selection: Selection, columns: Sequence[str] = ARROW_SCHEMA.names, *, table: DeltaTable | None = None
    ) -> Iterator[pa.Table]:
        """The selected records, a few at a time: never more in memory than a few MB, or one record. From this handle's
        version of the table, or else from the newest."""
        table = table or self.open()
        if table is None:
            return
        require_readable(table, self.root)
        names = table.get_add_actions(flatten=True).column("path").to_pylist()
        yield from self._read_files(names, selection, columns)

    def _read_files(self, names: Sequence[str], selection: Selection, columns: Sequence[str]) -> Iterator[pa.Table]:
        needed = [name for name in ARROW_SCHEMA.names if name in {*columns, *selection.columns}]
        for name in names:
            for rows in self._rows_of(name, needed):
                chosen = rows.filter(selection.mask(rows))
                if chosen.num_rows:
                    yield chosen.select(list(columns))

    def _rows_of(self, path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        return rows_of(self.store, path, columns, is_named=self._names)

    def _names(self, path: str) -> bool:
        table = self.open()
        return table is not None and path in table.get_add_actions(flatten=True).column("path").to_pylist()

    def delete(self, selection: Selection, *, app_id: str) -> int:
        """Delete the selected records for ever and return how many they were. It starts over if somebody else commits
        meanwhile, so no record is deleted that was not counted."""
        cause: Exception | None = None
        for attempt in range(_RETRY.attempts):
            self._wait_before(attempt)
            table = self.open()
            if table is None:
                return 0
            stamp = self._stamp((app_id, self.clock.now_ms()), max_commit_retries=0)
            try:
                table = self.with_columns(table)
                if not any(True for _ in self.read(selection, ["sequence"], table=table)):
                    return 0
                return self._delete_from(table, selection, stamp)
            except BlizzardError:
                raise
            except Exception as e:  # a settle or another deletion was faster, or the answer was lost
                cause = e
        raise _cannot_write(cause, self.root, "") or Temporary(
            f"the records could not be deleted from the quarantine table at {self.root} ({cause}). Run again.",
            kind=Kind.QUARANTINE_FAILED,
        ) from cause

    def _delete_from(self, table: DeltaTable, selection: Selection, stamp: CommitProperties) -> int:
        metrics = table.delete(selection.predicate, commit_properties=stamp, post_commithook_properties=HOOKS)
        self.make_durable(table)
        return int(metrics["num_deleted_rows"])

    def make_durable(self, table: DeltaTable) -> None:
        """Sync the newest commit and the files it added: delta-rs leaves both to the operating system."""
        self.store.sync(*added_by(self.store, int(table.version())), "")
        log.sync_commit(self.store, int(table.version()))

    def _wait_before(self, attempt: int) -> None:
        if attempt:
            self.clock.sleep(_RETRY.delay_s(attempt, random.random()))

    def open_or_create(self) -> DeltaTable:
        """The table, with every column."""
        cause: Exception | None = None
        for attempt in range(_RETRY.attempts):
            self._wait_before(attempt)
            table = self.open()
            if table is not None:
                return self.with_columns(table)
            try:
                return self._create()
            except (DeltaError, OSError) as e:  # another driver was faster, or the answer was lost: look again
                cause = e
        raise Temporary(
            f"the quarantine table at {self.root} could not be made ({cause}). Run again.", kind=Kind.QUARANTINE_FAILED
        ) from cause

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
                raise  # an error of the network says nothing: the caller looks again
            raise ConfigError(
                f"the quarantine table at {self.root} cannot be created: {e}", kind=Kind.TABLE_CREATE
            ) from e
        log.sync_commit(self.store, 0)
        return table

    def check_pending(self, position: Position) -> None:
        """Raises as `settle` would if files of bad records are gone. Adds nothing."""
        if not self.accepts_loss and not self.is_settled(position):
            self._pending_files(position)

    def _pending_files(self, position: Position) -> tuple[list[DataFile], int]:
        """The pending files that are there, and how many are lost. Refused unless the user allows loss."""
        files, lost = [], 0
        for name in position.quarantine.pending:
            try:
                files.append(read_footer(self.store, name))
            except FileNotFoundError:
                self._tell_lost(name, "is no longer in", position)
                lost += 1
            except pa.ArrowInvalid:
                self._tell_lost(name, "is not whole in", position)
                lost += 1
            except pa.ArrowException as e:
                raise damaged(self.store, name, plain(e)) from e
        return files, lost

    def append(self, table: DeltaTable, files: Sequence[DataFile], stamp: CommitProperties) -> None:
        """One commit that adds these files. There may be none."""
        table.create_write_transaction(
            [AddAction(file.path, file.size_bytes, {}, file.modified_ms, True, file.stats) for file in files],
            mode="append",
            schema=table.schema(),
            partition_by=[],
            commit_properties=stamp,
            post_commithook_properties=HOOKS,
        )
        log.sync_commit(self.store, log.newest_commit(self.store, int(table.version())))

    def _tell_lost(self, name: str, how: str, position: Position) -> None:
        message = (
            f"{name}, which holds bad records of sequence {position.sequence}, {how} the quarantine table's folder"
            f" {self.root}: was it moved, or vacuumed before it was added?"
        )
        if not self.accepts_loss:
            raise Refused(
                f"{message} Put it back and run again. Or, if their source files are still there, have them read again,"
                f" each once: blizzard checkpoint rollback --to {position.sequence - 1} --accept-quarantine-loss --yes."
                f" Where that cannot be, it says so. Or give these records up: --accept-quarantine-loss, once.",
                kind=Kind.QUARANTINE_LOST,
            )
        self.emit(Warned(message=f"{message} Given up, as asked."))

    def head_stamp(self, position: Position, lost: Mapping[int, int] = _NONE) -> CommitProperties:
        return self._stamp(*self._head_txns(position, lost))

    def _head_txns(self, position: Position, lost: Mapping[int, int]) -> list[tuple[str, int]]:
        """The Txns that say that the table holds everything up to this position. `lost` counts the files given up, by
        sequence. It must be in the same commit: source files of lost records must not be deleted later."""
        head, pipeline, table_id = position.quarantine.head, position.pipeline, position.on.table_id
        sequence, batch_id = (position.sequence, None) if head is None else (head.sequence, head.batch_id)
        given_up = [(lost_app_id(pipeline, table_id, n), files) for n, files in lost.items()]
        return [*_settled_txns(pipeline, table_id, sequence, head_number(batch_id)), *given_up]

    def stamp_of(self, pipeline: str, table_id: str, sequence: int, head: int) -> CommitProperties:
        return self._stamp(*_settled_txns(pipeline, table_id, sequence, head))

    def _stamp(self, *txns: tuple[str, int], max_commit_retries: int | None = None) -> CommitProperties:
        now_ms = self.clock.now_ms()
        return CommitProperties(
            app_transactions=[Transaction(app_id, version, now_ms) for app_id, version in txns],
            max_commit_retries=max_commit_retries,
        )


def _settled_txns(pipeline: str, table_id: str, sequence: int, head: int) -> tuple[tuple[str, int], ...]:
    return (quarantine_app_id(pipeline, table_id), sequence), (head_app_id(pipeline, table_id), head)


def _cannot_write(cause: Exception | None, root: str, then: str) -> BlizzardError | None:
    return None if cause is None else failure_to_write(cause, f"the quarantine table at {root}", then=then)
