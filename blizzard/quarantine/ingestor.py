"""Takes the place of the Spark job in a replay: parses the lines of the chosen records in this process."""

from __future__ import annotations

from dataclasses import replace

from blizzard.core.types import BatchPlan, BatchResult, BatchTicket
from blizzard.quarantine.reparse import Reparsing
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.tasks.quarantine import Selection
from blizzard.tasks.spec import TaskSpec


class QuarantineIngestor:
    def __init__(self, spec: TaskSpec, quarantine: DeltaRsQuarantine) -> None:
        self.spec, self._quarantine = spec, quarantine
        self.chosen = Selection()

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.spec.layout.schema)

    def prepare(self) -> None:
        return None

    def start(self) -> int:
        return 1

    def adopt(self, schema: DeltaSchema) -> None:
        self.spec = self.spec.with_schema(schema)

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: object) -> BatchResult:
        del plan, stop  # killing a replay does no harm
        selection = replace(self.chosen, pipeline=self.spec.pipeline, table_id=ticket.table_id, complete=True)
        parsing = Reparsing(self.spec, ticket)
        for rows in self._quarantine.read(selection):
            parsing.add(rows.to_pylist())
        return BatchResult(reports=(parsing.finish(),))
