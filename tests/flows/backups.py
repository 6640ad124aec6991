"""A pipeline with bad records whose table and quarantine can be put back from copies, each alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from blizzard.operate.realign import Realigned, realign
from blizzard.quarantine.table import DeltaRsQuarantine
from tests.flows.in_process import Flow
from tests.ingesting import write


@dataclass
class Elsewhere(Flow):
    """What it reads and writes is not where it would be: a second pipeline, a copy, a changed quarantine.path."""

    src_at: Path | None = None
    table_at: Path | None = None
    quarantine_at: Path | None = None

    @property
    def src(self) -> Path:
        return self.src_at or self.folder / "src"

    @property
    def table(self) -> Path:
        return self.table_at or self.folder / "table"

    @property
    def quarantine(self) -> DeltaRsQuarantine:
        root = str(self.quarantine_at or self.folder / "table_quarantine")
        return DeltaRsQuarantine(root=root, clock=self.clock, emit=self.told.see)


def add_file(flow: Flow, number: int) -> None:
    """One good record and one bad one."""
    write(flow.src / f"{number}.ndjson", b'{"id":%d}\nbad %d\n' % (number, number))


def three_batches(folder: Path) -> Elsewhere:
    """Sequences 1 to 3, each with one good and one bad record; copies of both tables after each."""
    flow = Elsewhere(folder)
    for number in range(1, 4):
        add_file(flow, number)
        flow.run()
        keep(flow, number)
    return flow


def keep(flow: Flow, number: int) -> None:
    shutil.copytree(flow.table, flow.folder / f"table-{number}")
    shutil.copytree(flow.quarantine.root, flow.folder / f"quarantine-{number}")


def put_back(flow: Flow, what: str) -> None:
    """`table-1`, `quarantine-2`: the copy that was kept then."""
    target = flow.table if what.startswith("table") else Path(flow.quarantine.root)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(flow.folder / what, target)


def put_back_log(flow: Flow, number: int) -> None:
    """An older log of the quarantine table; the Parquet files since are still there."""
    log = Path(flow.quarantine.root) / "_delta_log"
    shutil.rmtree(log)
    shutil.copytree(flow.folder / f"quarantine-{number}" / "_delta_log", log)


def live(flow: Flow) -> list[bytes]:
    return sorted(row["raw"] for row in flow.quarantined() if not row.get("orphaned"))


def orphans(flow: Flow) -> list[bytes]:
    return sorted(row["raw"] for row in flow.quarantined() if row.get("orphaned"))


def lines(*numbers: int) -> list[bytes]:
    return [b"bad %d" % number for number in numbers]


def realigned(flow: Flow, *, accepts_loss: bool = False) -> Realigned:
    return realign(flow.open(), replace(flow.quarantine, accepts_loss=accepts_loss), pipeline=flow.pipeline)
