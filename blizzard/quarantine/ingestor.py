"""Takes the place of the Spark job in a replay: parses the lines of the chosen records in this process."""

from __future__ import annotations

from dataclasses import replace

from blizzard.core.kinds import LineKind
from blizzard.core.types import ONE_CORE, BatchPlan, BatchResult, BatchTicket, TaskReport
from blizzard.quarantine.reparse import Reparsing
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.tasks.parse import ParserDisagrees, ParserMissing
from blizzard.tasks.quarantine import Selection
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import without_parser
from blizzard.tasks.transform_step import TransformStopped


class QuarantineIngestor:
    cores = ONE_CORE

    def __init__(self, spec: TaskSpec, quarantine: DeltaRsQuarantine) -> None:
        self.spec, self._quarantine = spec, quarantine
        self.chosen = Selection()
        self.not_selected = 0  # records that `where` or the transform leaves out now; they stay in quarantine

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.spec.layout.schema)

    def prepare(self) -> None:
        return None

    def start(self, stop: object) -> int:
        del stop
        return 1

    def adopt(self, schema: DeltaSchema) -> None:
        self.spec = self.spec.with_schema(schema)

    def count_unrouted(self, chosen: Selection, table_id: str) -> int:
        """How many of the chosen records are for no target."""
        own = replace(chosen, pipeline=self.spec.pipeline, table_id=table_id, error_kind=LineKind.UNROUTED)
        return sum(batch.num_rows for batch in self._quarantine.read(own, ["sequence"]))

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: object) -> BatchResult:
        del plan, stop  # killing a replay does no harm
        selection = replace(self.chosen, pipeline=self.spec.pipeline, table_id=ticket.table_id, complete=True)
        try:
            report = self._parse(self.spec, selection, ticket)
        except ParserDisagrees as e:
            # As in a task: none of its rows can be trusted, so all are parsed again without it.
            report = replace(self._parse(replace(self.spec, parser="pyarrow"), selection, ticket), parser_defect=str(e))
        except ParserMissing as e:
            report = TaskReport(slot=0, failure=without_parser(e))
        except TransformStopped as e:
            report = TaskReport(slot=0, failure=e.failure)
        return BatchResult(reports=(report,))

    def _parse(self, spec: TaskSpec, selection: Selection, ticket: BatchTicket) -> TaskReport:
        parsing = Reparsing(spec, ticket)
        try:
            for rows in self._quarantine.read(selection):
                parsing.add(rows.to_pylist())
            self.not_selected = parsing.not_selected
        except (ParserDisagrees, TransformStopped):
            parsing.abandon()
            raise
        return parsing.finish()
