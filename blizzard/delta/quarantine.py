"""The quarantine table: bad records, each once, in step with the main table.

A commit of the main table names the files of its bad records as pending. `settle` adds them here afterwards, with a
Txn of its own (`blizzard-dlq:…`) at that commit's sequence: however often it is called for a commit, and whoever
calls it, they are added once. It runs before the next commit of the main table, and first thing after a restart.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import deltalake
import orjson
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from blizzard.core.codec import quarantine_app_id
from blizzard.core.state import CheckpointState
from blizzard.delta import log
from blizzard.errors import BlizzardError, ConfigError, Refused, Temporary
from blizzard.ports import Clock, Progress
from blizzard.schema.fit import schema_differences
from blizzard.source.uri import file_uri
from blizzard.tasks.quarantine import QUARANTINE_SCHEMA, read_footer
from blizzard.testing.faults import reach

_ATTEMPTS = 5
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRsQuarantine:
    root: str
    clock: Clock
    progress: Progress
    accepts_loss: bool = False  # the user's word that pending files which are gone may be given up

    def settle(self, state: CheckpointState) -> None:
        """Make the table hold what this committed state named."""
        if not state.pending_quarantine and not state.replayed:
            return
        cause: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.clock.sleep(0.1 * 2**attempt * random.uniform(0.8, 1.2))
            try:
                table = self.open() or self._create()
                if self._settled(table, state) >= state.sequence:
                    log.sync_commit(self.root, int(table.version()))
                    return
                if state.replayed:
                    table.delete(
                        replay_predicate(state),
                        commit_properties=self._stamp(f"blizzard-replay:{state.pipeline}", state.sequence),
                        post_commithook_properties=_HOOKS,
                    )
                    reach("quarantine.replayed")
                    table.update_incremental()
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

    def open(self) -> DeltaTable | None:
        if not os.path.isdir(os.path.join(self.root, "_delta_log")):
            return None
        try:
            table = DeltaTable(file_uri(self.root))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as e:
            raise Refused(f"the quarantine table at {self.root} cannot be opened: {e}", kind="table_unreadable") from e
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

    def _create(self) -> DeltaTable:
        try:
            os.makedirs(self.root, exist_ok=True)
            table = DeltaTable.create(
                file_uri(self.root), schema=deltalake.Schema.from_json(orjson.dumps(QUARANTINE_SCHEMA).decode())
            )
        except OSError as e:
            raise ConfigError(f"the quarantine table at {self.root} cannot be created: {e}", kind="table_create") from e
        log.sync_commit(self.root, 0)
        return table

    def _settled(self, table: DeltaTable, state: CheckpointState) -> int:
        return int(table.transaction_version(quarantine_app_id(state.pipeline, state.table_id)) or 0)

    def _append(self, table: DeltaTable, state: CheckpointState) -> None:
        adds = []
        for name in state.pending_quarantine:
            try:
                file = read_footer(self.root, name)
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
        log.sync_commit(self.root, log.newest_commit(self.root, int(table.version())))

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


def replay_predicate(state: CheckpointState) -> str:
    """The rows a replay took. Those it could not mend come back with the replay's own, higher sequence."""
    equal = {"pipeline": state.pipeline, "table_id": state.table_id} | dict(state.replayed)
    through = int(equal.pop("through"))
    parts = [f"{name} = {_quoted(value)}" for name, value in equal.items()]
    return " AND ".join(["complete", f"sequence <= {through}", *parts])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
