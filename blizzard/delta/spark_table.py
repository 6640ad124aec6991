"""A Delta table through the session's own Delta JARs: its LogStore arbitrates, its table features are kept.

Facts are read from the log files as with delta-rs, which costs no Spark job. Only commits go through the JVM. One call
is one attempt at the version after the snapshot that `refresh` took. An exception never says whether it landed: hooks
run after the commit, in the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deltalake import DeltaTable

from blizzard.core.commit import CommitRequest
from blizzard.core.kinds import Kind
from blizzard.core.types import DataFile
from blizzard.delta import log
from blizzard.delta.arbitration import check_arbitration
from blizzard.delta.features import check_features
from blizzard.delta.handles import partition_values
from blizzard.delta.jvm import DeltaJvm
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Refused, Temporary
from blizzard.faults import reach
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Characters that delta-rs does not encode in a path. With an unencoded path a commit lands, but the table cannot be
# read any more (measured).
_PATH_SAFE = "/=:@!$&'()*+,;-._~"
_CHECKPOINT_EVERY = 100


class DeltaSparkTable(DeltaRsTable):
    """`session` gives the running Spark session. It is called when the table is opened."""

    def __init__(
        self,
        root: str,
        handle: DeltaTable,
        session: Callable[[], SparkSession],
        access: Access = NO_ACCESS,
        *,
        is_sole_writer: bool = False,
    ) -> None:
        super().__init__(root, handle, access)
        self._jvm = DeltaJvm(session())
        self._log = open_log(self._jvm, session(), root)
        check_arbitration(log_store_of(self._jvm, self._log), root, is_sole_writer=is_sole_writer)
        self._snapshot: Any = None
        self.refresh()

    def check_writable(self) -> None:
        self._check_folder()
        check_features(self.schema, self._handle.protocol(), self._handle.metadata(), committer="delta-spark")

    def refresh(self) -> None:
        """Updates the session first: some log stores make the newest commit visible as a file only then."""
        with self._jvm.active():
            self._snapshot = self._log.update(False, self._jvm.none, self._jvm.none)
            seen = int(self._snapshot.version())
        super().refresh()
        if seen != self.version:
            # Somebody committed between the two looks. Both must see the same version.
            with self._jvm.active():
                self._snapshot = self._log.update(False, self._jvm.none, self._jvm.none)
                seen = int(self._snapshot.version())
            super().refresh()
        if seen != self.version:
            raise Temporary(
                f"the session sees version {seen} of the table at {self.root}, its log files show version"
                f" {self.version}. Is somebody committing without pause? Run again.",
                kind=Kind.TABLE_BUSY,
            )

    def append(self, request: CommitRequest) -> None:
        if request.is_rollback:
            self._remove(request)
            return
        actions = [{"add": _add(file, self.partition_columns)} for file in request.files]
        reach("commit.during", self.root)
        self._commit([*map(self._jvm.action, actions), *self._txns(request)], request)
        reach("commit.answer", self.root)
        self._checkpoint_now_and_then()

    def _remove(self, request: CommitRequest) -> None:
        """The Removes are made from the snapshot's own files, with deletion vectors, row ids and statistics."""
        paths = [str(add["path"]) for add in request.removes]
        with self._jvm.active():
            column = self._jvm.jvm.org.apache.spark.sql.functions.col("path")
            is_named = column.isInCollection(self._jvm.java_list(paths))
            active = list(self._snapshot.allFiles().filter(is_named).collectAsList())
            missing = set(paths) - {file.path() for file in active}
            if missing:
                raise Refused(f"{min(missing)} is no longer part of the table", kind=Kind.ROLLBACK_FILES)
            removes = [file.removeWithTimestamp(request.last_updated_ms, True) for file in active]
        metadata = [] if request.metadata is None else [self._jvm.action({"metaData": dict(request.metadata)})]
        reach("commit.during", self.root)
        self._commit([*metadata, *removes, *self._txns(request)], request)
        reach("commit.answer", self.root)

    def _commit(self, actions: list[Any], request: CommitRequest) -> None:
        with self._jvm.active(user_metadata=request.ledger if request.is_rollback else None):
            transaction = self._start(request.app_id, request.fence_app_id)
            operation = (
                self._jvm.delete_operation()
                if request.is_rollback
                else self._jvm.write_operation(self.partition_columns, request.ledger)
            )
            transaction.commit(self._jvm.seq(actions), operation)

    def _start(self, *app_ids: str) -> Any:
        return start_transaction(self._jvm, self._log, self._snapshot, *app_ids)

    def _txns(self, request: CommitRequest) -> Iterator[Any]:
        for app_id in (request.app_id, request.fence_app_id):
            txn = {"appId": app_id, "version": request.sequence, "lastUpdated": request.last_updated_ms}
            yield self._jvm.action({"txn": txn})

    def _checkpoint_now_and_then(self) -> None:
        """Needed because `start_transaction` removes Delta's own hook. If this fails, the commit still counts."""
        if (self.version + 1) % _CHECKPOINT_EVERY:
            return
        with self._jvm.active():
            snapshot = self._log.update(False, self._jvm.none, self._jvm.none)
            made = self._log.writeCheckpointFiles(snapshot, self._jvm.none)
            self._log.writeLastCheckpointFile(self._log, made, True)

    def add_columns(self, schema: DeltaSchema, *, pipeline: str) -> None:
        before = self.schema_fingerprint
        self.refresh()
        # The whole schema is written. A column that somebody else added since would be lost.
        if self.schema_fingerprint == before != fingerprint(schema):
            stamp = f"blizzard-schema:{pipeline}"
            with self._jvm.active():
                transaction = self._start(stamp)
                actions = [
                    self._jvm.action({"metaData": self.metadata_action(schema)}),
                    self._jvm.action({"txn": {"appId": stamp, "version": self.version + 1}}),
                ]
                operation = self._jvm.write_operation(self.partition_columns, "blizzard: columns added")
                transaction.commit(self._jvm.seq(actions), operation)
            self.refresh()
        if self.schema_fingerprint != fingerprint(schema):
            raise Temporary("another writer changed the table's schema at the same time", kind=Kind.SCHEMA_CHANGED)
        self.make_durable(self.version)

    def make_durable(self, version: int) -> None:
        if is_local(self.root):
            log.sync_commit(self._store, version)


def open_log(jvm: DeltaJvm, spark: Any, root: str) -> Any:
    with jvm.active(), jvm.fitting():
        return jvm.named("DeltaLog").forTable(jvm.session, spark_root(root, spark))


def log_store_of(jvm: DeltaJvm, delta_log: Any) -> str:
    """The name of the class that decides who wins a version."""
    with jvm.active():
        store = delta_log.store()
        if store.getClass().getSimpleName() == "DelegatingLogStore":
            store = store.getDelegate(delta_log.logPath())
        if store.getClass().getSimpleName() == "LogStoreAdaptor":
            store = store.logStoreImpl()
        return str(store.getClass().getName())


def start_transaction(jvm: DeltaJvm, delta_log: Any, snapshot: Any, *app_ids: str) -> Any:
    """Starts on the snapshot that was looked at, not on a newer one."""
    transaction = delta_log.startTransaction(jvm.none, jvm.some(snapshot))
    # As txnVersion does, but without its three Spark jobs: a commit since then with one of these appIds is a conflict.
    for app_id in app_ids:
        getattr(transaction.readTxn(), "$plus$eq")(app_id)
    # Delta's checkpoint hook also cleans up the log, and that cannot be switched off.
    hooks = transaction.postCommitHooks()
    at = hooks.indexOf(jvm.named("hooks.CheckpointHook$"))
    if at >= 0:
        hooks.remove(at)
    return transaction


def spark_root(root: str, spark: Any) -> str:
    """The root as this session's Hadoop takes it: `s3://` if it has that file system (EMR), else `s3a://`."""
    if not root.startswith("s3://"):
        return root
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    return root if configuration.get("fs.s3.impl") else "s3a" + root.removeprefix("s3")


def _add(file: DataFile, partition_by: tuple[str, ...]) -> dict[str, Any]:
    return {
        "path": quote(file.path, safe=_PATH_SAFE),
        "partitionValues": partition_values(file, partition_by),
        "size": file.size_bytes,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": file.stats,
    }
