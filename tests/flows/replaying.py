"""A pipeline with records in quarantine, and replays of them in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from blizzard.core.codec import decode_position
from blizzard.core.log import payloads
from blizzard.core.plan import Limits
from blizzard.core.position import Position
from blizzard.operate.replay import Replayed, replay
from blizzard.quarantine.ingestor import QuarantineIngestor
from blizzard.run.ports import NeverStop, Ports
from blizzard.run.settings import RunSettings
from blizzard.tasks.policy import ParsePolicy
from blizzard.tasks.quarantine import Selection
from tests.flows.in_process import AtOnce, Flow, newest
from tests.ingesting import ids, line, write

STRICT = {"parsing": ParsePolicy(json_in_strings=False)}
EVERYTHING = Selection()
HOPELESS = b'{"id":"seven","name":"n"}'


def mendable(record_id: int) -> bytes:
    """Bad while a STRING takes nothing but text, and good as soon as it takes any JSON."""
    return b'{"id":%d,"name":{"n":%d}}' % (record_id, record_id)


def quarantined_flow(folder: Path) -> Flow:
    """Sequence 1: ids 0, 1, 2 are rows; 3 and 4 can be mended, one line cannot."""
    flow = Flow(folder)
    write(flow.src / "a.ndjson", line(0) + mendable(3) + b"\n" + line(1) + HOPELESS + b"\n")
    write(flow.src / "b.ndjson", line(2) + mendable(4) + b"\r\n")
    flow.run(spec=STRICT)
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2], 3)
    return flow


LEFT = [("a.ndjson", 4, HOPELESS)]


def replay_in(
    flow: Flow,
    chosen: Selection = EVERYTHING,
    *,
    run_id: str = "replay",
    ingestor: type[QuarantineIngestor] = QuarantineIngestor,
    **spec: Any,
) -> Replayed:
    """A replay as a new process would make it."""
    made = ingestor(flow.spec(run_id=run_id, indexed_columns=flow.open().indexed_columns, **spec), flow.quarantine)
    ports = Ports(
        source=flow.source,
        place=flow.place,
        quarantine=flow.quarantine,
        ingestor=made,
        background=AtOnce(),
        clock=flow.clock,
        stop=NeverStop(),
        emit=flow.told.see,
    )
    settings = RunSettings(pipeline=flow.pipeline, run_id=run_id, limits=Limits())
    return replay(ports, made, settings, flow.open(), chosen)


def in_quarantine(flow: Flow) -> list[tuple[str, int, bytes]]:
    return [(r["source_file"], r["line"], r["raw"]) for r in flow.quarantined()]


def newest_position(flow: Flow) -> Position:
    (commit,) = flow.open().commits_after(newest(flow.table) - 1)
    (payload,) = payloads(commit)
    position = decode_position(payload)
    assert isinstance(position, Position)
    return position


def table_rows(flow: Flow) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(flow.table)).to_pyarrow_table().to_pylist()
    return found
