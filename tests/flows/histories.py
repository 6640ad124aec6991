"""A table with a past: two pipelines over two days, bad records, a late file, a rollback, files held back."""

from __future__ import annotations

import gzip
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from tests.flows.in_process import BEGINNING, Flow, log_file, newest
from tests.flows.rollbacks import roll_back
from tests.ingesting import line, write

MINUTE_MS = 60_000


@dataclass
class Beside(Flow):
    """A pipeline with a source of its own that writes to the same table."""

    @property
    def src(self) -> Path:
        return self.folder / f"src-{self.pipeline}"


def make_history(folder: Path, *, commits: int = 60, now_ms: int) -> Path:
    """The table. Its newest commit is four minutes before `now_ms`."""
    chance = random.Random(7)
    orders, payments = Beside(folder, pipeline="orders"), Beside(folder, pipeline="payments")
    for number in range(commits * 3 // 4):
        records = int(2200 + 1500 * math.sin(number / 6) + chance.uniform(-300, 300))
        _write(orders, f"2026-11-{14 + number // 24:02d}/orders-{number:04d}.ndjson.gz", records, chance)
        if number == 17:
            _write(orders, "2026-11-14/orders-0009-late.ndjson.gz", 900, chance)
        orders.run()
        if number == commits // 2:
            roll_back(orders, (orders.open().fence("orders") or 0) - 3)
        if number % 4 == 3:
            _write(payments, f"payments-{number:04d}.ndjson", chance.randint(400, 1600), chance, bad=0)
            payments.run(start_from=BEGINNING if number == 3 else None)
    truncated = gzip.compress(b"".join(map(line, range(5000))))[:4000]
    write(orders.src / "2026-11-17/orders-9001.ndjson.gz", b"").write_bytes(truncated)
    for number in range(2):
        _write(orders, f"2026-11-17/orders-91{number:02d}.ndjson.gz", 3000, chance)
    orders.run(limits=Limits(max_records=2500), bad=BadPolicy(files="retry"), max_batches=1)
    spread_in_time(folder / "table", newest_ms=now_ms - 4 * MINUTE_MS, chance=chance)
    return folder / "table"


def _write(flow: Flow, name: str, records: int, chance: random.Random, bad: float = 0.12) -> None:
    lines = [line(i) for i in range(records)]
    if chance.random() < bad:
        wrong = [b'{"id":"x"}\n', b'{"id":1,\n', b"\xff\xfe\n", b"[1]\n"]
        lines[10:10] = [chance.choice(wrong) for _ in range(chance.randint(20, 160))]
    write(flow.src / name, b"".join(lines))


def _move_begin(info: dict[str, Any], began_ms: int) -> None:
    """A batch says in its ledger when it began."""
    ledger = json.loads(info.get("userMetadata") or "{}")
    if "began_ms" in ledger:
        info["userMetadata"] = json.dumps(ledger | {"began_ms": began_ms}, separators=(",", ":"))


def spread_in_time(table: Path, *, newest_ms: int, chance: random.Random) -> None:
    """As if the commits had been made over two days, with one outage."""
    at_ms = newest_ms
    for version in range(newest(table), -1, -1):
        path = log_file(table, version)
        actions = [json.loads(text) for text in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = at_ms
                _move_begin(action["commitInfo"], at_ms - int(chance.uniform(2, 9) * MINUTE_MS))
        path.write_text("".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions))
        at_ms -= int(chance.uniform(18, 45) * MINUTE_MS * (7 if version == 31 else 1))
