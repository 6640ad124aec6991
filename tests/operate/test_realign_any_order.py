"""Runs, replays, rollbacks, compaction, and copies put back alone, in any order: no record vanishes or is doubled."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blizzard.errors import BlizzardError, Refused
from tests.flows.backups import Elsewhere, live, put_back, realigned
from tests.flows.in_process import newest
from tests.flows.replaying import STRICT, mendable, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, write

OUT_OF_STEP = {"quarantine_ahead", "quarantine_behind", "quarantine_moved"}
KEPT = range(3)

actions = st.one_of(
    *[st.just((name, 0)) for name in ("bad", "bad", "clean", "replay", "rollback", "compact")],
    st.tuples(st.sampled_from(["keep", "table", "quarantine"]), st.sampled_from(KEPT)),
)


class Story:
    def __init__(self, folder: Path) -> None:
        self.flow = Elsewhere(folder)
        self.files = 0
        self.act("bad", 0)

    def act(self, action: str, number: int) -> None:
        flow = self.flow
        match action:
            case "bad" | "clean":
                self.files += 1
                line = mendable(100 + self.files) if action == "bad" else b""
                write(flow.src / f"{self.files:03d}.ndjson", b'{"id":%d}\n' % self.files + line + b"\n")
                self.run()
            case "replay":
                self.in_step()
                replay_in(flow)
            case "rollback":
                self.in_step()
                try:
                    roll_back(flow, max(1, (flow.open().fence("p") or 1) - 1))
                except Refused as e:
                    assert e.kind.startswith("rollback_")
            case "compact":
                DeltaTable(flow.quarantine.root).optimize.compact()
            case "keep":
                for name, root in (("table", flow.table), ("quarantine", Path(flow.quarantine.root))):
                    shutil.rmtree(flow.folder / f"{name}-{number}", ignore_errors=True)
                    shutil.copytree(root, flow.folder / f"{name}-{number}")
            case "table" if (flow.folder / f"table-{number}").exists():
                put_back(flow, f"table-{number}")
            case "quarantine" if (flow.folder / f"quarantine-{number}").exists():
                log = Path(flow.quarantine.root) / "_delta_log"  # the Parquet files since are still there
                shutil.rmtree(log)
                shutil.copytree(flow.folder / f"quarantine-{number}" / "_delta_log", log)

    def in_step(self) -> None:
        try:
            self.flow.run(spec=STRICT)
        except Refused as e:
            assert e.kind in OUT_OF_STEP, e
            before = len(self.flow.quarantined()), newest(self.flow.table)
            realigned(self.flow)
            assert len(self.flow.quarantined()) >= before[0]  # nothing is deleted
            assert newest(self.flow.table) == before[1]
            self.flow.run(spec=STRICT)

    def run(self) -> None:
        self.in_step()
        self.flow.run(spec=STRICT)
        good = [*range(1, self.files + 1)]
        bad = [100 + number for number in good if b"{" in (self.flow.src / f"{number:03d}.ndjson").read_bytes()[9:]]
        found = Counter(ids(self.flow.table)) + Counter(int(line[6:9]) for line in live(self.flow))
        assert found == Counter(good + bad)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(plan=st.lists(actions, min_size=2, max_size=10))
def test_every_record_is_a_row_or_in_quarantine_once(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, int]]
) -> None:
    story = Story(tmp_path_factory.mktemp("story"))
    try:
        for action, number in plan:
            story.act(action, number)
        story.run()
    except BlizzardError as e:
        raise AssertionError(f"{e.kind}: {e}") from e
    finally:
        shutil.rmtree(story.flow.folder)
