"""What Spark's own commands do to a table while a batch is read, and between runs: each record once, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import BlizzardError, Refused
from tests.flows.in_process import Flow, newest
from tests.flows.rollbacks import roll_back
from tests.ingesting import write_ids
from tests.spark.test_committer_contract import commit_by

pytestmark = pytest.mark.spark

By = Callable[[str], None]
Ids = Callable[[], list[int]]


@pytest.fixture(params=["delta-rs", "delta-spark"])
def flow(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Flow:
    """Sequences 1 to 3, one file of three records each."""
    if request.param == "delta-spark":
        commit_by(spark, monkeypatch)
    made = Flow(tmp_path)
    for number in range(3):
        write_ids(made.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        made.run()
    return made


@pytest.fixture
def ids(spark: Any, flow: Flow) -> Callable[[], list[int]]:
    """As Spark reads them: delta-rs does not read deletion vectors."""
    return lambda: sorted(row.id for row in spark.read.format("delta").load(str(flow.table)).select("id").collect())


@pytest.fixture
def by_spark(spark: Any, flow: Flow) -> By:
    name = f"delta.`{flow.table}`"
    return lambda statement: spark.sql(statement.replace("TABLE_NAME", name)).collect()


def set_property(name: str, value: str) -> str:
    return f"ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('{name}' = '{value}')"


DELETION_VECTORS = set_property("delta.enableDeletionVectors", "true")
HARMLESS = {
    "zorder": ("OPTIMIZE TABLE_NAME ZORDER BY (id)",),
    "vacuum": ("VACUUM TABLE_NAME",),
    "deletion vector": (DELETION_VECTORS, "DELETE FROM TABLE_NAME WHERE id = 4"),
    "purged vector": (DELETION_VECTORS, "DELETE FROM TABLE_NAME WHERE id = 4", "REORG TABLE TABLE_NAME APPLY (PURGE)"),
    "update": ("UPDATE TABLE_NAME SET name = 'other' WHERE id = 4",),
    "append only": (set_property("delta.appendOnly", "true"),),
}
# A table that asks something of its writers which nobody here can give.
REFUSED = {
    "constraint": ("ALTER TABLE TABLE_NAME ADD CONSTRAINT few CHECK (id < 1000)", "table_feature"),
    "column mapping": (set_property("delta.columnMapping.mode", "name"), "table_feature"),
    "restore": ("RESTORE TABLE TABLE_NAME TO VERSION AS OF 2", "table_rewritten"),
    "overwrite": ("INSERT OVERWRITE TABLE_NAME SELECT * FROM TABLE_NAME WHERE id < 3", "table_rewritten"),
}


def expected(what: str) -> list[int]:
    return [i for i in range(12) if not (what.endswith("vector") and i == 4)]


@pytest.mark.parametrize("what", HARMLESS)
def test_what_takes_no_row_away_stops_nobody(flow: Flow, by_spark: By, what: str, ids: Ids) -> None:
    def act() -> None:
        for statement in HARMLESS[what]:
            by_spark(statement)

    write_ids(flow.src / "3.ndjson", 9, 12)
    flow.run(while_reading=act)
    flow.run()
    assert ids() == expected(what)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_written_any_more_is_refused_before_anything_lands(flow: Flow, by_spark: By, what: str) -> None:
    statement, kind = REFUSED[what]
    write_ids(flow.src / "3.ndjson", 9, 12)
    seen: list[int] = []

    def act() -> None:
        by_spark(statement)
        seen.append(newest(flow.table))

    for how in ({"while_reading": act}, {}):
        with pytest.raises(Refused) as error:
            flow.run(**how)  # type: ignore[arg-type]
        assert error.value.kind == kind
    assert newest(flow.table) == seen[0]


def test_restored_by_spark_after_its_own_deletion_vectors(flow: Flow, by_spark: By, ids: Ids) -> None:
    """Path and deletion vector together say which version is back."""
    by_spark(DELETION_VECTORS)  # 4
    by_spark("DELETE FROM TABLE_NAME WHERE id = 4")  # 5
    by_spark("DELETE FROM TABLE_NAME WHERE id = 5")  # 6
    by_spark("RESTORE TABLE TABLE_NAME TO VERSION AS OF 5")
    flow.run()  # as after sequence 3
    by_spark("RESTORE TABLE TABLE_NAME TO VERSION AS OF 2")
    with pytest.raises(Refused, match="checkpoint rollback --to 2"):
        flow.run()
    roll_back(flow, 2)
    flow.run()
    assert ids() == list(range(9))


def test_compacted_and_restored_by_spark_in_turn(flow: Flow, by_spark: By, ids: Ids) -> None:
    by_spark("OPTIMIZE TABLE_NAME ZORDER BY (id)")  # 4
    by_spark("RESTORE TABLE TABLE_NAME TO VERSION AS OF 1")  # 5
    by_spark("OPTIMIZE TABLE_NAME ZORDER BY (id)")
    by_spark("RESTORE TABLE TABLE_NAME TO VERSION AS OF 4")
    flow.run()
    by_spark("RESTORE TABLE TABLE_NAME TO VERSION AS OF 5")
    roll_back(flow, 1)
    flow.run()
    assert ids() == list(range(9))


def test_a_vacuum_of_everything_while_a_batch_is_read(spark: Any, flow: Flow, by_spark: By, ids: Ids) -> None:
    """RETAIN 0 HOURS, the one that the documents warn of: the batch is read again, the table stays readable."""
    write_ids(flow.src / "3.ndjson", 9, 12)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    once: list[int] = []

    def act() -> None:
        if not once:
            once.append(1)
            by_spark("VACUUM TABLE_NAME RETAIN 0 HOURS")

    try:
        flow.run(while_reading=act)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert ids() == list(range(12))
    assert spark.read.format("delta").load(str(flow.table)).count() == 12


def test_an_append_only_table_takes_rows_and_gives_none_back(flow: Flow, by_spark: By, ids: Ids) -> None:
    by_spark(set_property("delta.appendOnly", "true"))
    with pytest.raises(BlizzardError) as error:
        roll_back(flow, 1)
    assert error.value.kind == "append_only"
    assert ids() == list(range(9))
