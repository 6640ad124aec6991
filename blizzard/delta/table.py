"""A Delta table through delta-rs: open, create, observe, append.

`append` is one attempt and never judges its own outcome. Commits here never clean up the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import deltalake
import orjson
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from blizzard.core.codec import fence_app_id
from blizzard.core.history import rolled_back_to
from blizzard.core.log import CheckpointFacts, CommitFacts, TableFacts, names_pipeline, pipelines_of, states_in
from blizzard.core.rollback import FileActions
from blizzard.core.types import DataFile
from blizzard.delta import log
from blizzard.delta.by_hand import removing_commit
from blizzard.delta.checkpoints import read_newest_checkpoint
from blizzard.delta.features import check_features
from blizzard.errors import Refused, Temporary
from blizzard.ports import CommitRequest
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import show_type
from blizzard.schema.fit import fingerprint
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import delta_uri
from blizzard.testing.faults import reach

# One unique appId per commit grows every Delta checkpoint for ever (2,000 commits: 692 KB) unless they expire.
TXN_RETENTION = "interval 14 days"
RETENTION_KEY = "delta.setTransactionRetentionDuration"
_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE)
_UNIT_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}


class DeltaRsTable:
    def __init__(self, root: str, handle: DeltaTable, access: Access = NO_ACCESS) -> None:
        self._root, self._handle, self._access = root, handle, access
        self._store = open_store(root, access)
        self._newest_seen = log.commit_identity(self._store, self.version)

    @property
    def root(self) -> str:
        return self._root

    @property
    def version(self) -> int:
        return int(self._handle.version())

    @property
    def table_id(self) -> str:
        return str(self._handle.metadata().id)

    @property
    def schema(self) -> DeltaSchema:
        schema: DeltaSchema = orjson.loads(self._handle.schema().to_json())
        return schema

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.schema)

    @property
    def protocol(self) -> Any:
        return self._handle.protocol()

    @property
    def metadata(self) -> Any:
        return self._handle.metadata()

    @property
    def configuration(self) -> dict[str, str]:
        return dict(self._handle.metadata().configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self._handle.metadata().partition_columns)

    @property
    def indexed_columns(self) -> int:
        if "delta.dataSkippingStatsColumns" in self.configuration:
            return -1  # it may name any column, and readers count on the named ones
        if "clustering" in (self._handle.protocol().writer_features or ()):
            return -1  # it may be clustered by any column, and those must have statistics
        value = self.configuration.get("delta.dataSkippingNumIndexedCols", "32")
        return int(value) if re.fullmatch(r"-?\d+", value) else 32

    @property
    def txns_expire(self) -> bool:
        return RETENTION_KEY in self.configuration

    @property
    def is_append_only(self) -> bool:
        return self.configuration.get("delta.appendOnly", "false").lower() == "true"

    def schema_at(self, version: int) -> DeltaSchema | None:
        try:
            schema = open_handle(self._root, self._access, version=version).schema()
        except (DeltaError, OSError, ValueError):
            return None
        found: DeltaSchema = orjson.loads(schema.to_json())
        return found

    def ddl_at(self, version: int) -> str | None:
        """The schema as it was in this version; None where that version can no longer be opened."""
        schema = self.schema_at(version)
        return None if schema is None else show_type(schema)

    def metadata_action(self, schema: DeltaSchema) -> dict[str, Any]:
        metadata = self._handle.metadata()
        return {
            "id": metadata.id,
            **({"name": metadata.name} if metadata.name is not None else {}),
            **({"description": metadata.description} if metadata.description is not None else {}),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": orjson.dumps(schema).decode(),
            "partitionColumns": list(metadata.partition_columns),
            "createdTime": metadata.created_time,
            "configuration": dict(metadata.configuration),
        }

    def file_actions(self, version: int) -> FileActions | None:
        return log.read_file_actions(self._store, version)

    @property
    def txn_retention_ms(self) -> int | None:
        match = _INTERVAL.fullmatch(self.configuration.get(RETENTION_KEY, ""))
        return None if match is None else int(match[1]) * _UNIT_MS[match[2].lower()]

    def check_writable(self) -> None:
        check_features(self.schema, self._handle.protocol(), self._handle.metadata())

    def refresh(self) -> None:
        # A handle only looks for newer versions. In a table that was dropped and made anew it would find some.
        if log.commit_identity(self._store, self.version) != self._newest_seen:
            raise Refused(
                f"version {self.version} of the table at {self._root} is no longer the commit that was read: the table"
                f" was dropped, replaced or restored from a copy. Nothing was committed.",
                kind="table_replaced",
            )
        self._handle.update_incremental()
        self._newest_seen = log.commit_identity(self._store, self.version)

    def fence(self, pipeline: str) -> int | None:
        version = self._handle.transaction_version(fence_app_id(pipeline))
        return None if version is None else int(version)

    def observe(self, pipeline: str, *, scan_commits: int) -> TableFacts:
        fence = self.fence(pipeline)
        # Without a retention the snapshot remembers every fence there ever was, and None means none.
        definitive = fence is None and not self.txns_expire
        commits: list[CommitFacts] = []
        needed_down_to: int | None = None
        at_most: float = float("inf")
        for commit in log.scan_back(self._store, self.version):
            commits.append(commit)
            # A damaged payload does not end the search: one before it and the ledgers since may replace it, and if one
            # of them is a rollback, it has to be one from before the sequence that was gone back to.
            sound = pipelines_of([commit]).get(pipeline)
            if sound is None and (target := rolled_back_to(commit, pipeline)) is not None:
                at_most = min(at_most, target)
            if needed_down_to is None and sound is not None and sound[1].sequence <= at_most:
                needed_down_to = min(sound[1].delta_version, commit.version - 1) + 1
            if needed_down_to is not None and commit.version <= needed_down_to:
                break
            if needed_down_to is None and definitive and len(commits) >= scan_commits:
                break
        facts = TableFacts(
            version=self.version,
            table_id=self.table_id,
            # With the beginning of the log gone, an empty table may be one that everything was deleted from.
            has_data=bool(fence) or self._has_files() or (not definitive and not _is_whole(commits)),
            fence=fence,
            commits=tuple(commits),
        )
        is_known = any(names_pipeline(commit, pipeline) for commit in commits)
        return facts if is_known or not facts.has_data else self._with_checkpoint(facts)

    def _with_checkpoint(self, facts: TableFacts) -> TableFacts:
        checkpoint = self.newest_checkpoint()
        if checkpoint is None:
            return facts
        named = {state.add_path for state in states_in(checkpoint.txns)}
        active = {path for path in self._handle.get_add_actions().column("path").to_pylist() if path in named}
        return replace(facts, checkpoint=checkpoint, active_adds=frozenset(active))

    def newest_checkpoint(self) -> CheckpointFacts | None:
        """What a Delta checkpoint, or a compacted log, still says about commits whose JSON is gone."""
        return read_newest_checkpoint(self._store, self.version)

    def size(self) -> tuple[int, int, int | None]:
        """Data files, their bytes, and their rows as the statistics have it: None where a file has none."""
        actions = self._handle.get_add_actions()
        rows = actions.column("num_records").to_pylist() if "num_records" in actions.schema.names else []
        sizes = actions.column("size_bytes").to_pylist()
        is_known = len(rows) == len(sizes) and None not in rows
        return len(sizes), sum(sizes), sum(rows) if is_known else None

    def active_files(self) -> list[str]:
        """The data files that make up the table now."""
        return [unquote(path) for path in self._handle.get_add_actions().column("path").to_pylist()]

    def holds(self, path: str | None) -> bool:
        """Whether this data file is part of the table now; True where there is none to ask for."""
        return path is None or path in self._handle.get_add_actions().column("path").to_pylist()

    def _has_files(self) -> bool:
        return len(self._handle.file_uris()) > 0

    def commits_after(self, version: int) -> tuple[CommitFacts, ...]:
        """All commits after `version` up to the newest in the log, which may be newer than this handle."""
        # The handle may know of versions behind a gap, which a probe forward would not find.
        newest = max(self.version, log.newest_commit(self._store, max(version, 0)))
        return log.commits_between(self._store, version, newest)

    def scan_back(self) -> Iterator[CommitFacts]:
        return log.scan_back(self._store, self.version)

    def append(self, request: CommitRequest) -> None:
        if request.is_rollback:
            self._commit_by_hand(request)
            return
        partition_by = self.partition_columns
        adds = [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=partition_values(file, partition_by),
                modification_time=file.modified_ms,
                data_change=True,
                stats=file.stats,
            )
            for file in request.files
        ]
        txns = [
            Transaction(app_id, request.sequence, request.last_updated_ms)
            for app_id in (request.app_id, request.fence_app_id)
        ]
        reach("commit.during")
        self._handle.create_write_transaction(
            adds,
            mode="append",
            schema=self._handle.schema(),
            partition_by=list(partition_by),
            commit_properties=CommitProperties(
                app_transactions=txns,
                # Without the last two, Spark takes an append for a commit that has read the table.
                custom_metadata={"userMetadata": request.ledger, "isBlindAppend": True, "readVersion": self.version},
                # The version after the one that was looked at, or none: what landed in between has to be looked at.
                max_commit_retries=0,
            ),
            post_commithook_properties=_HOOKS,
        )
        reach("commit.answer")

    def _commit_by_hand(self, request: CommitRequest) -> None:
        """delta-rs has no call that removes given files, and its retries would go past a commit that rewrote one of
        them. An atomic create of the very next version does neither."""
        content = removing_commit(request, read_version=self.version)
        reach("commit.during")
        if not self._store.put_if_absent(log.commit_name(self.version + 1), content):
            raise FileExistsError(f"version {self.version + 1} is taken")
        reach("commit.answer")

    def add_columns(self, schema: DeltaSchema, *, pipeline: str) -> None:
        """A commit of its own: delta-rs leaves the metadata as it is when it appends. A crash after it leaves a column
        that is null everywhere."""
        self.refresh()
        now = {field["name"]: field for field in self.schema["fields"]}
        new = [field for field in schema["fields"] if now.get(field["name"]) != field]
        if new:
            stamp = Transaction(f"blizzard-schema:{pipeline}", self.version + 1)
            self._handle.alter.add_columns(
                [deltalake.Field.from_json(orjson.dumps(field).decode()) for field in new],
                commit_properties=CommitProperties(app_transactions=[stamp]),
                post_commithook_properties=_HOOKS,
            )
            self._handle.update_incremental()
            self._newest_seen = log.commit_identity(self._store, self.version)
        if self.schema_fingerprint != fingerprint(schema):
            raise Temporary("another writer changed the table's schema at the same time", kind="schema_changed")
        self.make_durable(self.version)

    def make_durable(self, version: int) -> None:
        log.sync_commit(self._store, version)


# Log cleanup by a writer has corrupted tables (delta-rs#2174, #3692); retention is the table owner's business.
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def open_handle(root: str, access: Access, *, version: int | None = None) -> DeltaTable:
    return DeltaTable(delta_uri(root), version=version, storage_options=access.for_delta_rs(root))


def partition_values(file: DataFile, partition_by: tuple[str, ...]) -> dict[str, str | None]:
    # delta-rs commits a file that lacks a value, and reads null for it.
    if tuple(name for name, _ in file.partition_values) != partition_by:
        now = ", ".join(partition_by) or "nothing"
        raise Refused(f"{file.path} was written before the table was partitioned by {now}", kind="table_replaced")
    return dict(file.partition_values)


def _is_whole(commits: Sequence[CommitFacts]) -> bool:
    """Whether these, newest first, reach back to the table's first commit."""
    return bool(commits) and commits[-1].version == 0
