"""The kinds of errors: stable words for scripts and people, each explained in docs/operate.md.

Only ever add to this list. Removing a kind, or changing its meaning, breaks scripts and alerts that use it.
"""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """An enum that is written, compared, hashed and stored as its text."""

    __hash__ = str.__hash__  # that of Enum is by the name, and written in Python: ten times slower

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class CommitKind(Word):
    """What a commit of a position is for."""

    BATCH = "batch"
    RENEWAL = "renewal"
    REPLAY = "replay"
    EDIT = "edit"
    ROLLBACK = "rollback"
    PAUSE = "pause"
    RESUME = "resume"


# The same place of the source once more: nothing was read, and no file is judged in another way.
STANDING = (CommitKind.RENEWAL, CommitKind.PAUSE, CommitKind.RESUME)


class Kind(Word):
    """Why a command failed, or why a file cannot be read."""

    # Exit 1.
    ERROR = "error"
    INTERNAL = "internal"

    # Exit 2; a summary that cannot be written after the work: exit 1.
    OUTPUT = "output"
    SUMMARY = "summary"

    # Exit 2: usage and configuration.
    CONFIG = "config"
    USAGE = "usage"
    UNKNOWN_KEY = "unknown_key"
    NOT_BUILT = "not_built"
    NOT_CONFIRMED = "not_confirmed"
    FILE_EXISTS = "file_exists"
    API_TOKEN = "api_token"
    PORT_IN_USE = "port_in_use"
    FLEET = "fleet"
    SCHEMA = "schema"
    SCHEMA_MISSING = "schema_missing"
    SCHEMA_MISMATCH = "schema_mismatch"
    LAYOUT_MISMATCH = "layout_mismatch"
    LAYOUT_UNKNOWN = "layout_unknown"
    TRANSFORM = "transform"
    TRANSFORM_DIFFERS = "transform_differs"
    WHERE = "where"
    NO_RECORDS = "no_records"
    NO_FILE_MATCHES = "no_file_matches"
    NOTHING_TO_INFER_FROM = "nothing_to_infer_from"
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    SOURCE_NOT_FOUND = "source_not_found"
    SOURCE_NOT_READABLE = "source_not_readable"
    SOURCE_IS_DIRECTORY = "source_is_directory"
    SOURCE_LINKED_FOLDER = "source_linked_folder"
    SOURCE_NAME = "source_name"
    UNUSABLE_PATH = "unusable_path"
    NOT_WRITABLE = "not_writable"
    TABLE_CREATE = "table_create"
    TABLE_NOT_FOUND = "table_not_found"
    NOT_A_DELTA_TABLE = "not_a_delta_table"
    NOT_A_QUARANTINE_TABLE = "not_a_quarantine_table"
    CHECKPOINT_NOT_FOUND = "checkpoint_not_found"
    NO_JAVA = "no_java"
    WRONG_JAVA = "wrong_java"
    NO_USER_NAME = "no_user_name"
    SPARK_VERSION = "spark_version"
    DELTA_VERSION = "delta_version"
    NO_CONNECT = "no_connect"
    NO_JVM = "no_jvm"
    NO_DELTA_JARS = "no_delta_jars"
    NO_ARCHIVE = "no_archive"
    PYTHON_MISMATCH = "python_mismatch"
    WORKER_ENVIRONMENT = "worker_environment"
    STORE = "store"
    NO_BUCKET = "no_bucket"
    NO_CREDENTIALS = "no_credentials"
    BAD_CREDENTIALS = "bad_credentials"
    ACCESS_DENIED = "access_denied"
    WRONG_REGION = "wrong_region"
    CLOCK_SKEW = "clock_skew"

    # Exit 3: refused, because going on could lose or double records.
    REFUSED = "refused"
    TABLE_HAS_DATA = "table_has_data"
    TABLE_REPLACED = "table_replaced"
    TABLE_REWRITTEN = "table_rewritten"
    TABLE_UNREADABLE = "table_unreadable"
    TABLE_FEATURE = "table_feature"
    UNSUPPORTED_TABLE = "unsupported_table"
    CATALOG_MANAGED = "catalog_managed"
    APPEND_ONLY = "append_only"
    NOT_ARBITRATED = "not_arbitrated"
    LOG_DAMAGED = "log_damaged"
    LOG_GAP = "log_gap"
    LOG_REWRITTEN = "log_rewritten"
    DAMAGED_CHECKPOINT = "damaged_checkpoint"
    NEWER_CHECKPOINT = "newer_checkpoint"
    STALE_CHECKPOINT = "stale_checkpoint"
    POSITION_NOT_FOUND = "position_not_found"
    POSITION_CHANGED = "position_changed"
    PAUSED = "paused"
    OTHER_SOURCE = "other_source"
    SOURCE_READ_BY_OTHER = "source_read_by_other"
    SEVERAL_PIPELINES = "several_pipelines"
    START_FROM_REJECTED = "start_from_rejected"
    ADOPT_REJECTED = "adopt_rejected"
    IMPORT_MISMATCH = "import_mismatch"
    LATE_UNCLEAR = "late_unclear"
    SOURCE_CHANGED = "source_changed"
    BEYOND_END = "beyond_end"
    TOO_MANY_PREFIXES = "too_many_prefixes"
    FILES_BELOW_MARK = "files_below_mark"
    FILES_IN_PROGRESS = "files_in_progress"
    ROLLBACK_TARGET = "rollback_target"
    ROLLBACK_FILES = "rollback_files"
    ROLLBACK_LEDGER = "rollback_ledger"
    ROLLBACK_REPLAY = "rollback_replay"
    ROLLBACK_SCHEMA = "rollback_schema"
    ROLLBACK_SOURCE = "rollback_source"
    ROLLBACK_CHANGED = "rollback_changed"
    QUARANTINE_AHEAD = "quarantine_ahead"
    QUARANTINE_BEHIND = "quarantine_behind"
    QUARANTINE_MOVED = "quarantine_moved"
    QUARANTINE_LOST = "quarantine_lost"
    QUARANTINE_DAMAGED = "quarantine_damaged"

    # Exit 4.
    FENCED = "fenced"

    # Exit 5: bad data.
    BAD_DATA = "bad_data"
    BAD_RECORD = "bad_record"
    BAD_FILE = "bad_file"
    TOO_MANY_BAD_RECORDS = "too_many_bad_records"
    MOSTLY_BAD = "mostly_bad"
    TRANSFORM_FAILED = "transform_failed"
    TOO_MANY_COLUMNS = "too_many_columns"
    TOO_MANY_HELD_FILES = "too_many_held_files"
    UNREADABLE_FILES = "unreadable_files"
    SCHEMA_UNSTABLE = "schema_unstable"
    QUARANTINE_FULL = "quarantine_full"
    LATE_FILES = "late_files"
    REWRITTEN_FILES = "rewritten_files"

    # Why one file cannot be read.
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    WRONG_COMPRESSION = "wrong_compression"
    WRONG_ENCODING = "wrong_encoding"
    OTHER_KIND = "other_kind"
    UNREADABLE = "unreadable"
    UNAVAILABLE = "unavailable"
    ARCHIVED = "archived"
    BAD_PATH = "bad_path"

    # Exit 75: worth a retry.
    TEMPORARY = "temporary"
    INTERRUPTED = "interrupted"
    BATCH_TOO_OLD = "batch_too_old"
    COMMIT_FAILED = "commit_failed"
    FILES_GONE = "files_gone"
    SCHEMA_CHANGED = "schema_changed"
    TABLE_BUSY = "table_busy"
    STORE_UNAVAILABLE = "store_unavailable"
    MIRROR_UNAVAILABLE = "mirror_unavailable"
    DISK_FULL = "disk_full"
    SPARK_SESSION = "spark_session"
    SPARK_JOB = "spark_job"
    SPARK_GONE = "spark_gone"
    QUARANTINE_FAILED = "quarantine_failed"
    QUARANTINE_CHANGED = "quarantine_changed"
    QUARANTINE_VANISHED = "quarantine_vanished"


class LineKind(Word):
    """Why a line is not a record: `error_kind` in the quarantine table."""

    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NOT_OBJECT = "not_object"
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    DUPLICATE_KEY = "duplicate_key"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_VALUE = "missing_value"
    BAD_VALUE = "bad_value"
    TRANSFORM = "transform"
    UNROUTED = "unrouted"  # a record, but no target takes it
