"""The first command on every folder in one Spark session; and some of the tables read by Spark too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import blizzard
from tests.producers.accounting import Landed, differences, rows_of
from tests.producers.corpus import PRODUCERS, write_folder

pytestmark = pytest.mark.spark

# Maps and rescued values, names with spaces and dollars, names with dots. Reading all of them would take a minute.
READ_BY_SPARK = {"kubernetes_audit", "mongo", "zeek"}


@pytest.mark.parametrize("name", PRODUCERS)
def test_every_value_is_what_python_reads(name: str, spark: Any, tmp_path: Path) -> None:
    producer, table = PRODUCERS[name], tmp_path / "table"
    records = write_folder(tmp_path / "src", producer.files(), producer.key)
    options = {"source.pattern": producer.pattern} if producer.pattern else {}
    summary = blizzard.ingest(spark, source=str(tmp_path / "src"), table=str(table), infer=True, options=options)
    assert (summary.status, summary.records, summary.bad_records) == ("done", len(records), 0)
    landed = Landed.read(table)
    assert differences(records, landed) == []
    if name in READ_BY_SPARK:
        by_spark = rows_of(spark.read.format("delta").load(str(table)).toArrow())
        assert differences(records, replace(landed, rows=by_spark)) == []
