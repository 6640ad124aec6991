"""The Python API: what the commands do, by the same code, with results as values and failures as typed exceptions.

`import blizzard` offers the functions; this package also has the types of their results. Nothing here prints, and
nothing ends the process. What a run tells on a terminal is logged under the name `blizzard`.
"""

import logging

from blizzard.api.ingesting import Schema, ingest, plan
from blizzard.api.operating import audit, files, rollback, status
from blizzard.api.quarantined import Exported, Quarantine, QuarantinedRecord, Replayed, quarantine
from blizzard.api.results import Audit, Files, IngestedFile, Plan, PlannedSlice, RolledBack, Status
from blizzard.operate.status import PipelineStatus
from blizzard.quarantine.contents import Group
from blizzard.run.carry_out import SchemaMissing
from blizzard.run.summary import Summary

# The program decides where log lines go. The command line has its own way, and does not import this.
logging.getLogger("blizzard").addHandler(logging.NullHandler())

__all__ = [
    "Audit",
    "Exported",
    "Files",
    "Group",
    "IngestedFile",
    "PipelineStatus",
    "Plan",
    "PlannedSlice",
    "Quarantine",
    "QuarantinedRecord",
    "Replayed",
    "RolledBack",
    "Schema",
    "SchemaMissing",
    "Status",
    "Summary",
    "audit",
    "files",
    "ingest",
    "plan",
    "quarantine",
    "rollback",
    "status",
]
