"""A Delta table through delta-rs: observe it, append to it, add columns. `place.py` opens and creates it.

`append` is one attempt and never judges its own outcome. Commits here never clean up the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Metadata, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError
from deltalake.table import ProtocolVersions
from deltalake.transaction import AddAction

from blizzard.core.codec import fence_app_id
from blizzard.core.commit import CommitRequest
from blizzard.core.history import rolled_back_to
from blizzard.core.kinds import Kind
from blizzard.core.log import (
    CheckpointFacts,
    CommitFacts,
    FileActions,
    History,
    Standing,
    TableFacts,
    fence_version,
    names_pipeline,
    pipelines_of,
    positions_in,
    rewrites_table,
    standings_of,
)
from blizzard.core.position import Position
from blizzard.core.types import DataFile
from blizzard.delta import log
from blizzard.delta.by_hand import removing_commit
from blizzard.delta.checkpoints import checkpoint_versions, read_newest_checkpoint
from blizzard.delta.features import check_features
from blizzard.delta.handles import open_handle, partition_values
from blizzard.delta.txns import Txns
from blizzard.errors import Refused, Temporary
from blizzard.faults import reach
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import show_type
from blizzard.schema.derived import Provenance, derived_columns
from blizzard.schema.fit import fingerprint
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.local import require_writable
from blizzard.store.uri import is_local

# Every commit has its own appId. Unless they expire, every Delta checkpoint grows for ever (2,000 commits: 692 KB).
TXN_RETENTION = "interval 14 days"
RETENTION_KEY = "delta.setTransactionRetentionDuration"
_LOOKS_AT_ONCE = 8
# Names of the Parquet files that tasks write.
OUR_FILES = re.compile(r"blizzard-\w+-\d{8}-")
_INTERVAL = re.compile(r"\s*(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE)
_UNIT_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}


class DeltaRsTable:
    def __init__(self, root: str, handle: DeltaTable, access: Access = NO_ACCESS) -> None:
        self._root, self._handle, self._access = root, handle, access
        self._store = open_store(root, access)
        self._newest_seen = log.commit_identity(self._store, self.version)
        self._known_txns = Txns(self._store)

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
    def protocol(self) -> ProtocolVersions:
        return self._handle.protocol()

    @property
    def metadata(self) -> Metadata:
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
            return -1  # it may name any column, and readers rely on the named ones
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
        """The schema of this version. None: that version can no longer be opened."""
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
        self._check_folder()
        check_features(self.schema, self._handle.protocol(), self._handle.metadata())

    def _check_folder(self) -> None:
        if is_local(self._root):
            require_writable(self._root)
            require_writable(f"{self._root}/{log.LOG_FOLDER}")

    def refresh(self) -> None:
        # A handle only looks for newer versions. If the table was dropped and created again, it would find some.
        if log.commit_identity(self._store, self.version) != self._newest_seen:
            raise Refused(
                f"version {self.version} of the table at {self._root} is no longer the commit that was read: the table"
                f" was dropped, replaced or restored from a copy. Nothing was committed.",
                kind=Kind.TABLE_REPLACED,
            )
        self._handle.update_incremental()
        self._newest_seen = log.commit_identity(self._store, self.version)

    def fence(self, pipeline: str) -> int | None:
        return self._known_txns.at(self._handle, fence_app_id(pipeline))[0]

    def observe(self, pipeline: str, *, scan_commits: int) -> TableFacts:
        fence = self.fence(pipeline)
        # Without a retention the snapshot keeps every fence for ever, so None means that there never was one.
        definitive = fence is None and not self.txns_expire
        commits: list[CommitFacts] = []
        needed_down_to: int | None = None
        at_most: float = float("inf")
        for commit in self._recent(scan_commits) if definitive else self.scan_back():
            commits.append(commit)
            # A damaged payload does not end the search: an older one and the ledgers since may replace it. If a
            # rollback lies between, the older one must not be newer than the sequence that it went back to.
            sound = pipelines_of([commit]).get(pipeline)
            if sound is None and (target := rolled_back_to(commit, pipeline)) is not None:
                at_most = min(at_most, target)
            if needed_down_to is None and sound is not None and sound[1].sequence <= at_most:
                needed_down_to = min(sound[1].on.delta_version, commit.version - 1) + 1
            if needed_down_to is not None and commit.version <= needed_down_to:
                break
        may_have_forgotten = not definitive and not _is_whole(commits)
        facts = TableFacts(
            version=self.version,
            table_id=self.table_id,
            # If the beginning of the log is gone, an empty table may be one from which everything was deleted.
            has_data=bool(fence) or self._has_files() or may_have_forgotten,
            fence=fence,
            commits=tuple(commits),
            may_have_forgotten=may_have_forgotten,
        )
        newest = next((c for c in commits if names_pipeline(c, pipeline)), None)
        if newest is None:
            return self._with_the_rest(facts)
        if any(rewrites_table(c) for c in commits if c.version > newest.version):
            return replace(facts, history=self.history(pipeline, 0))
        return facts

    def newest_position(self, pipeline: str) -> Position | None:
        """The newest sound position of the pipeline. None: there is none in the log, or it never committed."""
        if self.fence(pipeline) in (None, 0) and not self.txns_expire:
            return None
        for commit in self.scan_back():
            found = pipelines_of([commit]).get(pipeline)
            if found is not None:
                return found[1]
        standing = standings_of((), self.newest_checkpoint()).get(pipeline)
        return None if standing is None else standing.position

    def history(self, pipeline: str, back_to: int) -> History | None:
        found, needs_all = [], back_to == 0
        for commit in self.scan_back():
            actions = self.file_actions(commit.version)
            if actions is None:
                break  # cleaned up meanwhile
            found.append((commit, actions))
            sequence = fence_version(commit, pipeline)
            # After a RESTORE the files of any older version may be back.
            needs_all |= sequence is None and rewrites_table(commit)
            if not needs_all and sequence is not None and sequence <= back_to:
                break
        return self._with_base(found) if found else None

    def _with_base(self, found: list[tuple[CommitFacts, FileActions]]) -> History:
        """From the oldest of these commits on, if its files can be read. Else from the first commit with a Delta
        checkpoint: without one, nobody knows which files the table had."""
        base = self._paths_at(found[-1])
        for version in sorted(checkpoint_versions(self._store)) if base is None else ():
            if found[-1][0].version < version <= found[0][0].version:
                kept = [pair for pair in found if pair[0].version >= version]
                base = self._paths_at(kept[-1]) if kept else None
                if base is not None:
                    return History(commits=tuple(kept), base=base)
        return History(commits=tuple(found), base=base)

    def _paths_at(self, oldest: tuple[CommitFacts, FileActions]) -> frozenset[str] | None:
        if oldest[0].version == 0:
            return frozenset(map(unquote, oldest[1].adds))
        try:
            handle = open_handle(self._root, self._access, version=oldest[0].version)
            return frozenset(map(unquote, handle.get_add_actions().column("path").to_pylist()))
        except (DeltaError, OSError, ValueError):
            return None

    def _with_the_rest(self, facts: TableFacts) -> TableFacts:
        """For a pipeline without a position in the commits: look at the Delta checkpoint and at the data files."""
        paths = self._handle.get_add_actions().column("path").to_pylist()
        facts = replace(facts, has_own_files=any(OUR_FILES.match(path.rsplit("/", 1)[-1]) for path in paths))
        checkpoint = None if _is_whole(facts.commits) else self.newest_checkpoint()
        if checkpoint is None:
            return facts
        witnesses = ((p.on.add_path, p.on.removed_path) for p in positions_in(checkpoint.txns))
        named = {unquote(path) for pair in witnesses for path in pair if path is not None}
        active = frozenset(path for path in map(unquote, paths) if path in named)
        return replace(facts, checkpoint=checkpoint, active_adds=active)

    def newest_checkpoint(self) -> CheckpointFacts | None:
        """What a Delta checkpoint, or a compacted log, still says about commits whose JSON is gone."""
        return read_newest_checkpoint(self._store, self.version)

    def _recent(self, scan_commits: int) -> Iterator[CommitFacts]:
        """At least this many commits, and all those that no Delta checkpoint covers."""
        covered: int | None = None
        for number, commit in enumerate(self.scan_back(), 1):
            yield commit
            if number == scan_commits:
                checkpoint = self.newest_checkpoint()
                covered = -1 if checkpoint is None else checkpoint.version
            if covered is not None and commit.version <= covered + 1:
                return

    def standings(self, *, scan_commits: int | None = None) -> dict[str, Standing]:
        """Where each pipeline stands. With `scan_commits` only the newest commits and the Delta checkpoint are read: a
        position that has expired from the checkpoint is left out."""
        commits = list(self.scan_back() if scan_commits is None else self._recent(scan_commits))
        return standings_of(commits, None if _is_whole(commits) else self.newest_checkpoint())

    def size(self) -> tuple[int, int, int | None]:
        """Number of data files, their bytes, and their rows by the statistics. None: a file has no statistics."""
        actions = self._handle.get_add_actions()
        rows = actions.column("num_records").to_pylist() if "num_records" in actions.schema.names else []
        sizes = actions.column("size_bytes").to_pylist()
        is_known = len(rows) == len(sizes) and None not in rows
        return len(sizes), sum(sizes), sum(rows) if is_known else None

    def active_files(self) -> list[str]:
        """The data files that make up the table now."""
        return [unquote(path) for path in self._handle.get_add_actions().column("path").to_pylist()]

    def find_missing(self, files: Sequence[DataFile]) -> str | None:
        with ThreadPoolExecutor(max_workers=_LOOKS_AT_ONCE) as looks:
            found = zip(files, looks.map(lambda file: self._store.stat(file.path), files), strict=True)
            return next((f.path for f, seen in found if seen is None or seen.size_bytes != f.size_bytes), None)

    @property
    def sequence_column(self) -> str | None:
        """The column that says which batch a row is from, if the table has one."""
        columns = derived_columns(self.schema["fields"])
        return next((c.name for c in columns if c.derivation == Provenance(fact="sequence")), None)

    def read_column(self, name: str) -> Iterator[pa.Array]:
        """The values of one column in every data file that has it. Deletion vectors are ignored: rows that they hide
        are read too."""
        for path in self.active_files():
            with self._store.open_seekable(path) as content, pq.ParquetFile(content) as file:
                if name in file.schema_arrow.names:  # files of other writers may lack it
                    yield from (batch.column(0) for batch in file.iter_batches(columns=[name]))

    def _has_files(self) -> bool:
        return len(self._handle.file_uris()) > 0

    def commits_after(self, version: int) -> tuple[CommitFacts, ...]:
        """All commits after `version` up to the newest in the log, which may be newer than this handle."""
        # The handle may know versions behind a gap, which counting up would not find.
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
        reach("commit.during", self._root)
        self._handle.create_write_transaction(
            adds,
            mode="append",
            schema=self._handle.schema(),
            partition_by=list(partition_by),
            commit_properties=CommitProperties(
                app_transactions=txns,
                # Without the last two, Spark believes that this append has read the table.
                custom_metadata={"userMetadata": request.ledger, "isBlindAppend": True, "readVersion": self.version},
                # The version after the one that was looked at, or none: commits in between must be looked at first.
                max_commit_retries=0,
            ),
            post_commithook_properties=_HOOKS,
        )
        reach("commit.answer", self._root)

    def _commit_by_hand(self, request: CommitRequest) -> None:
        """delta-rs has no call that removes given files, and its retries would ignore that a commit has rewritten one
        of them. So the very next version is created atomically, or not at all."""
        content = removing_commit(request, read_version=self.version)
        reach("commit.during", self._root)
        if not self._store.put_if_absent(log.commit_name(self.version + 1), content):
            raise FileExistsError(f"version {self.version + 1} is taken")
        reach("commit.answer", self._root)

    def add_columns(self, schema: DeltaSchema, *, pipeline: str) -> None:
        """A separate commit: delta-rs does not change the metadata when it appends. A crash after it leaves a column
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
            reach("columns.added", self._root)
        if self.schema_fingerprint != fingerprint(schema):
            raise Temporary("another writer changed the table's schema at the same time", kind=Kind.SCHEMA_CHANGED)
        self.make_durable(self.version)

    def make_durable(self, version: int) -> None:
        log.sync_commit(self._store, version)


# Log cleanup by a writer has corrupted tables (delta-rs#2174, #3692). Retention is up to the table's owner.
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def _is_whole(commits: Sequence[CommitFacts]) -> bool:
    """Whether these, newest first, reach back to the table's first commit."""
    return bool(commits) and commits[-1].version == 0
