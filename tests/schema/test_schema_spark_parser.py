"""Spark's own parser and parse_ddl agree, on what DDL means and on what is none."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from blizzard.schema.ddl import parse_ddl, to_ddl
from tests.failing import ends_with

pytestmark = pytest.mark.spark

_SPARK_READS = [
    "id BIGINT NOT NULL COMMENT 'x', `we ird` STRING",
    "s STRUCT<a: INT NOT NULL COMMENT 'in', b: ARRAY<STRING>, `c d`: MAP<STRING, DECIMAL(10,2)>>",
    "a TINYINT, b BYTE, c SMALLINT, d SHORT, e INT, f INTEGER, g BIGINT, h LONG, i FLOAT, j REAL, k DOUBLE",
    "a BOOLEAN, b STRING, c BINARY, d DATE, e TIMESTAMP, f TIMESTAMP_NTZ, g TIMESTAMP_LTZ",
    "a DECIMAL, b DEC(5), c NUMERIC(38,38)",
    "a: int, b: struct<c int, d: array<struct<e: map<string, array<int>>>>>",
    "show INT, like INT, key INT, index INT, comment STRING COMMENT 'c', values INT, not INT",
    "struct STRUCT<map: INT>, array ARRAY<INT>, timestamp DATE, begin INT, rename INT, primary INT",
    "1a INT, _x INT, `a``b` INT, `a.b` INT, `é` INT",
    r"a INT COMMENT 'x\\y\'z\n\t\0\%\_\q\u0041\101\201\U00000041\ud83d\ude00', b INT COMMENT 'it''s'",
    "a INT COMMENT \"d'q\", b INT COMMENT '', c INT COMMENT r'x\\n'",
    "-- why\na INT /* and\nhow */, b INT",
]
_SPARK_REFUSES = [
    "id INT, , x INT",
    "id INT,",
    "id INT, x",
    "id INT NULL",
    "id INT NOT NULL NOT NULL",
    "id INT PRIMARY KEY",
    "id INT COMMENT 'x' NOT NULL",
    "id INT DEFAULT 3",
    "id INT); DROP TABLE t",
    "id INT[]",
    "id BOOL",
    "id TEXT",
    "id DATETIME",
    "id DOUBLE PRECISION",
    "id TIMESTAMP(3)",
    "a ARRAY<INT NOT NULL>",
    "s STRUCT<a>",
    "é INT",
    "d DECIMAL(39,1)",
    "d DECIMAL(2,5)",
    "d DECIMAL()",
    "d DECIMAL(3,-1)",
    "a.b INT",
    "a$ INT",
    "1L INT",
]


@pytest.mark.parametrize("ddl", _SPARK_READS)
def test_ddl_means_the_same_to_blizzard_and_to_spark(spark: Any, ddl: str) -> None:
    assert spark.createDataFrame([], ddl).schema.jsonValue() == parse_ddl(ddl)
    assert spark.createDataFrame([], to_ddl(parse_ddl(ddl))).schema.jsonValue() == parse_ddl(ddl)


@pytest.mark.parametrize("ddl", _SPARK_REFUSES)
def test_what_spark_refuses_blizzard_refuses_too(spark: Any, ddl: str) -> None:
    with pytest.raises(PySparkException, match=r"(?i)syntax|unsupported|decimal|quoted"):
        spark.createDataFrame([], ddl)
    with ends_with("schema"):
        parse_ddl(ddl)
