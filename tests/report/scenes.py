"""Pages that a person may meet: one commit, three, hundreds with all kinds of trouble, several targets, a fleet."""

from __future__ import annotations

import random
from typing import Any

from blizzard.report.facts import CommitRow, FleetFacts, HeldByRun, HeldFile, Live, ReportFacts
from blizzard.report.fleet import render_fleet
from blizzard.report.page import render_page
from tests.report.test_page import NOW_MS, STATUS, facts, pipeline, position, row
from tests.report.test_targets_page import BROKEN, several, target

LONG_NAME = "2026-11-17/a/folder/with/a/name/that/goes/on/and/on/orders-9001.ndjson.gz"
HELD = (
    HeldFile(path=LONG_NAME, why="younger than source.min_age_s (30 s)"),
    HeldFile(path="b.ndjson.gz", why="other_kind: Parquet, not JSON"),
)


def commits(
    many: int, *, minutes: float = 1, changes: dict[int, dict[str, Any]] | None = None
) -> tuple[CommitRow, ...]:
    """Newest first, the newest two minutes ago."""
    chance, at_ms, made = random.Random(3), NOW_MS - 120_000, []
    for number in range(many, 0, -1):
        worked_ms = int(minutes * 60_000 * chance.uniform(0.1, 0.6))
        usual = {"records": chance.randint(20_000, 90_000), "bytes": chance.randint(10**6, 9 * 10**6)}
        usual |= {"at_ms": at_ms, "began_ms": at_ms - worked_ms, "finished_files": 8, "files": 9}
        made.append(row(number, **usual | (changes or {}).get(number, {})))
        at_ms -= int(minutes * 60_000 * chance.uniform(0.7, 1.6))
    return tuple(made)


def few(many: int) -> ReportFacts:
    calm = position(held=(), held_count=0, in_progress=(), in_progress_count=0)
    return facts(pipelines=(pipeline(commits=commits(many), quarantine=(), position=calm),))


def eventful(many: int) -> ReportFacts:
    """Commits with bad records, broken, skipped, late and held files, a rollback and a damaged commit."""
    nothing: dict[str, Any] = {"records": 0, "bytes": 0, "files": 0, "finished_files": 0, "began_ms": None}
    back = many * 4 // 5  # the rollback
    changes: dict[int, dict[str, Any]] = {number: {"is_superseded": True} for number in range(back - 4, back)}
    changes |= {
        many // 3: {"broken_files": 1, "bad": 9_000},
        many // 2: {"kind": "edit", "skipped_files": 3, **nothing},
        back: {"kind": "rollback", "rolled_back_to": back - 5, "superseded": tuple(range(back - 4, back)), **nothing},
        back + 1: {"late_files": 2, "bad": 500},
        many - 2: {"problem": "the payload is damaged (bad_payload): nonsense", "records": 0},
    }
    held = position(held=HELD, held_count=2, pending_quarantine=1)
    return facts(pipelines=(pipeline(commits=commits(many, minutes=30, changes=changes), position=held),))


def live(*, needs_token: bool = True) -> Live:
    held = (HeldByRun(target=None, files=4, first=HELD),)
    return Live(status=STATUS | {"held_files": 4}, needs_token=needs_token, held=held, fleet="/")


def fleet() -> FleetFacts:
    usual: dict[str, Any] = {"table": "s3://lake/sales/with/a/long/name", "activity": "waiting", "lag_seconds": 0.0}
    usual |= {
        "waits_for": "new files",
        "throughput_bytes_per_second": 1.2e7,
        "backlog_files": 3,
        "backlog_bytes": 12_345,
    }
    usual |= {"held_files": 2, "quarantined_records": 5, "last_error": None, "next_try_at_ms": None}
    failed = {"last_error": "the source file:///a/b does not exist [source_not_found]", "next_try_at_ms": NOW_MS}
    return FleetFacts(
        rows=(
            usual | {"pipeline": "orders", "state": "running"},
            usual | {"pipeline": "lost", "state": "failed"} | failed,
            usual | {"pipeline": "users", "state": "paused", "throughput_bytes_per_second": None},
        ),
        state="running",
        uptime_s=3_700,
        max_active=2,
        queued=1,
        config="fleet.yaml",
        config_changed=True,
        needs_token=True,
        made_at_ms=NOW_MS,
    )


def pages() -> dict[str, str]:
    """HTML by name."""
    return {
        "one": render_page(few(1)),
        "three": render_page(few(3)),
        "eventful": render_page(eventful(20), live()),
        "many": render_page(eventful(300), live()),
        "targets": render_page(several(orders=target(facts=few(3)), raw=target(state="behind"), broken=BROKEN)),
        "nothing": render_page(facts(version=None, size=None, pipelines=(), quarantine=None), live(needs_token=False)),
        "fleet": render_fleet(fleet()),
    }
