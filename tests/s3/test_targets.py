"""Two targets in a real S3 server, over a network that cuts connections in the middle of commits: each record once in
each table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import yaml
from deltalake import DeltaTable

from blizzard.store import open_store
from tests.flows.shell import Said, Shell
from tests.flows.targets import bad
from tests.ingesting import DDL, line
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import Action, CutAnswer, Hold, Reset, Status
from tests.s3.flows import access_to
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3

COMMITS = r"/(one|two)(_quarantine)?/_delta_log/\d+\.json"


@dataclass
class InBucket:
    """Pipeline `p` from `src/` to `one/` and `two/`, all through the proxy."""

    shell: Shell
    bucket: Bucket
    server: S3Server
    proxy: FaultProxy

    def put(self, name: str, ids: Iterable[int], bad_ids: Iterable[int] = ()) -> None:
        content = b"".join(bad(i) if i in bad_ids else line(i) for i in ids)
        open_store(self.bucket.uri("src"), access_to(self.server)).put(name, content)

    def run(self) -> Said:
        config = self.shell.folder / "targets.yaml"
        tree = {
            "source": {"path": self.bucket.uri("src")},
            "storage_options": dict(self.proxy.storage_options),
            "bad_records": {"first_batch_max_ratio": 1.0},
            "limits": {"max_files": 2},
            "targets": {
                "one": {"table": {"path": self.bucket.uri("one")}, "schema": {"ddl": DDL}},
                "two": {"table": {"path": self.bucket.uri("two")}, "schema": {"ddl": "id BIGINT"}},
            },
        }
        config.write_text(yaml.safe_dump(tree))
        return self.shell("run", "--config", str(config), "--pipeline", "p")

    def column(self, table: str, name: str) -> list[object]:
        """Every value, read past the proxy."""
        found = DeltaTable(self.bucket.uri(table), storage_options=self.server.storage_options)
        values: list[object] = found.to_pyarrow_table(columns=[name])[name].to_pylist()
        return values

    def check_each_once(self, ids: set[int], bad_ids: set[int]) -> None:
        for name in ("one", "two"):
            assert Counter(self.column(name, "id")) == Counter(ids - bad_ids), name
            raws = Counter(self.column(f"{name}_quarantine", "raw"))
            assert raws == Counter(bad(i).strip() for i in bad_ids), name


@pytest.fixture
def flow(shell: Shell, bucket: Bucket, s3_server: S3Server, fault_proxy: FaultProxy) -> InBucket:
    made = InBucket(shell, bucket, s3_server, fault_proxy)
    made.put("a.ndjson", range(5), bad_ids=[3])
    assert made.run().code == 0
    return made


@pytest.mark.parametrize(
    "fault",
    [CutAnswer(), Status(500, "InternalError", performed=True), Status(503, "SlowDown"), Reset(), Hold(0.05)],
    ids=str,
)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_connection_cut_in_the_commit_of_one_target(flow: InBucket, fault: Action, nth: int) -> None:
    """`nth` 2: of the other one."""
    flow.put("b.ndjson", range(5, 10), bad_ids=[6])
    rule = flow.proxy.add(fault, method="PUT", path=r"/(one|two)/_delta_log/\d+\.json", nth=nth)
    said = flow.run()
    assert (said.code, rule.acted) == (0, 1), said.text
    flow.check_each_once(set(range(10)), {3, 6})


def test_a_network_that_cuts_connections_at_random_loses_and_doubles_nothing(flow: InBucket) -> None:
    rng, ids, bad_ids = random.Random(11), set(range(5)), {3}
    faults: list[Action] = [CutAnswer(), Reset(), Status(500, "InternalError", performed=True)]
    rules = [
        flow.proxy.add(fault, method="PUT", path=COMMITS, probability=0.2, seed=seed)
        for seed, fault in enumerate(faults, 1)
    ]
    for number in range(8):
        for part in "xy":
            new = range(len(ids), len(ids) + 5)
            flow.put(f"b{number}{part}.ndjson", new, bad_ids=[new[2]])
            ids, bad_ids = ids | set(new), bad_ids | {new[2]}
        if rng.random() < 0.5:  # one of the two places does not answer for a while, in the middle of what is done there
            first = rng.randint(1, 20)
            flow.proxy.add(Reset(), path=rng.choice(["/one", "/two"]), nth=range(first, first + rng.randint(3, 12)))
        said = flow.run()
        assert said.code in (0, 75), said.text
    assert sum(rule.acted for rule in rules) >= 5
    flow.proxy.remove_rules()
    assert flow.run().code == 0
    flow.check_each_once(ids, bad_ids)
