"""What a run gets besides its ports: names, limits and policies."""

from __future__ import annotations

from dataclasses import dataclass, field

from blizzard.core.bad import BadPolicy
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.recover import StartFrom
from blizzard.run.after_ingest import Cleaning
from blizzard.run.reasons import Advisor
from blizzard.schema.names import Rename

COMMIT_ATTEMPTS = 8
# When the quarantine is full: the run stops, or the oldest records leave it. Otherwise new bad records are dropped.
BLOCK, DROP_OLDEST = "block", "drop_oldest"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    pipeline: str
    run_id: str
    limits: Limits
    bad: BadPolicy = field(default_factory=BadPolicy)
    rename: Rename = None  # new names for new columns
    spark_adds_columns: bool = False  # and Spark takes fewer names
    exact_timestamps: bool = False  # a TIMESTAMP takes no digit beyond a microsecond
    ignores_undeclared: bool = False  # fields without a column are dropped
    settings_fingerprint: str | None = None  # of what decides what a line becomes; None: the defaults
    transform: str | None = None  # the fingerprint of what becomes of the records; None: nothing
    framing: str | None = None  # how records lie in files that are not begun; None: as the position says
    max_quarantined: int | None = None
    overflow: str = BLOCK  # what happens to bad records beyond max_quarantined
    scan_commits: int = 100
    start_from: StartFrom | None = None
    since_ms: int | None = None  # the source is listed without files that were changed before
    reads_again: bool = False  # may read what another pipeline of the table has read
    max_batches: int | None = None
    max_inflight: int = 2
    max_held_files: int = 1_000
    late: LatePolicy = field(default_factory=LatePolicy)
    cleaning: Cleaning | None = None
    commit_attempts: int = COMMIT_ATTEMPTS
    parser: str = "auto"
    native_here: bool = False  # whether the driver has the native parser
    gives_schema: bool = False  # the user wrote the schema of a new table
    has_table: bool = False  # there was one before the run

    @property
    def advisor(self) -> Advisor:
        return Advisor(rescues=self.bad.records == "rescue", gives_schema=self.gives_schema, has_table=self.has_table)
