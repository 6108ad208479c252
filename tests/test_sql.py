"""SQL: clauses, errors, views and parameters, as PySpark shows them."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import rejected
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from queries import finish

import streamjoin as sj

ORDERS = '{"id": 1, "t": "2026-01-01T10:00:00Z"}\n{"id": 2, "t": "2026-01-01T10:00:00Z"}\n'
DELIVERIES = '{"id": 1, "t": "2026-01-01T10:40:00Z"}\n{"id": 2, "t": "2026-01-01T11:40:00Z"}\n'


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create the tables orders and deliveries, which are read as streams with ``STREAM``."""
    names = {"orders": ORDERS, "deliveries": DELIVERIES}
    for name, rows in names.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "1.json").write_text(rows)
        spark.sql(f"CREATE TABLE {name} (id INT, t TIMESTAMP) USING json LOCATION '{folder}'")
    yield
    for name in names:
        spark.sql(f"DROP TABLE {name}")


INPUTS = (
    "STREAM orders WATERMARK t DELAY OF INTERVAL 0 SECONDS AS o",
    "STREAM deliveries WATERMARK t DELAY OF INTERVAL 0 SECONDS AS d",
)
PAIRS = f"SELECT o.id, d.t FROM {INPUTS[0]} JOIN {INPUTS[1]} ON o.id = d.id WITHIN BETWEEN 0s AND 1h"


def rows(df: DataFrame, tmp_path: Path) -> list[Row]:
    """Run a streaming query to its end, and return its rows."""
    finish(df.writeStream.format("memory").queryName("out"), tmp_path / "checkpoint")
    return df.sparkSession.table("out").collect()


def ids(df: DataFrame, tmp_path: Path) -> list[int]:
    return sorted(row.id for row in rows(df, tmp_path))


def test_a_query(spark: SparkSession, tables: None, tmp_path: Path) -> None:
    assert ids(spark.sql(PAIRS), tmp_path) == [1]


def test_a_persistent_view(spark: SparkSession, tables: None, tmp_path: Path) -> None:
    spark.sql(f"CREATE OR REPLACE VIEW pairs AS {PAIRS}")
    try:
        assert "WITHIN BETWEEN 0s AND 1h" in spark.sql("SHOW CREATE TABLE pairs").collect()[0][0]
        assert ids(spark.table("pairs"), tmp_path) == [1]
    finally:
        spark.sql("DROP VIEW pairs")


def test_parameters(spark: SparkSession, tables: None, tmp_path: Path) -> None:
    named = spark.sql(PAIRS.replace("1h", ":most") + " WHERE o.id = :id", {"most": timedelta(hours=2), "id": 2})
    assert ids(named, tmp_path / "named") == [2]
    placed = spark.sql(PAIRS.replace("1h", "INTERVAL ? HOUR") + " WHERE o.id = ?", [2, 2])
    assert ids(placed, tmp_path / "placed") == [2]


def test_dataframes_in_a_query(spark: SparkSession, tables: None, tmp_path: Path) -> None:
    o = spark.readStream.table("orders").withWatermark("t", "0 seconds")
    d = spark.readStream.table("deliveries").withWatermark("t", "0 seconds")
    df = spark.sql("SELECT {o}.id FROM {o} JOIN {d} WITHIN 1h ON {o}.id = {d}.id", o=o, d=d)
    assert ids(df, tmp_path) == [1]
    named = spark.sql("SELECT * FROM {o} JOIN {d} AS x WITHIN 1h USING (id)", o=o.alias("orders"), d=d)
    assert [row.input for row in sj.bounds(named).collect()] == ["orders", "x"]


def test_an_error_points_at_the_clause(spark: SparkSession, tables: None) -> None:
    with pytest.raises(AnalysisException, match="STREAMJOIN_CLAUSE_DURATION") as caught:
        spark.sql(PAIRS.replace("1h", "1 month"))
    assert caught.value.getSqlState() == "42601"
    message = str(caught.value)
    assert "the length of months and years varies" in message
    assert "== SQL (line 1, position " in message
    assert "^" * len("WITHIN BETWEEN 0s AND 1 month") in message
    assert "INTERNAL_ERROR" not in message


REJECTED = [
    ("JOIN d OVER (RANGE INTERVAL '0' MINUTE FOLLOWING) USING (id)", "OVER (RANGE INTERVAL '0' MINUTE FOLLOWING)"),
    ("JOIN d OVER (RANGE INTERVAL '-1' MINUTE FOLLOWING) USING (id)", "OVER (RANGE INTERVAL '-1' MINUTE FOLLOWING)"),
    ("JOIN d OVER (RANGE 1 MONTH FOLLOWING) USING (id)", "OVER (RANGE 1 MONTH FOLLOWING)"),
    ("JOIN d OVER (ROWS 5 PRECEDING) USING (id)", "OVER (ROWS 5 PRECEDING)"),
    ("JOIN d WITHIN 5 parsecs USING (id)", "WITHIN 5 parsecs"),
    ("JOIN d WITHIN 5s USING (id) WITHIN 6s", "WITHIN 6s"),
    ("JOIN IMPOSE_ORDER(TABLE(d), DESCRIPTOR(u), INTERVAL 1 SECOND) AS x WITHIN 5s USING (id)", "DESCRIPTOR(u)"),
]


@pytest.mark.parametrize(("join", "words"), REJECTED, ids=[join for join, _ in REJECTED])
def test_errors_point_at_the_words(spark: SparkSession, tables: None, join: str, words: str) -> None:
    text = f"WITH o AS (SELECT * FROM {INPUTS[0]}), d AS (SELECT * FROM {INPUTS[1]})\nSELECT 1 FROM o\n{join}"
    with pytest.raises(AnalysisException, match="STREAMJOIN_") as caught:
        spark.sql(text)
    shown, arrows = str(caught.value).splitlines()[-3:-1]
    assert shown[arrows.index("^") :][: len(arrows.strip())] == words


def test_a_table_is_no_stream(spark: SparkSession, tables: None) -> None:
    batch = PAIRS.replace("STREAM deliveries WATERMARK t DELAY OF INTERVAL 0 SECONDS", "deliveries")
    said = "WITHIN takes two streams, and the right input is a batch."
    rejected("STREAMJOIN_NOT_A_STREAM.BOUND", lambda: spark.sql(batch), said)


def test_a_mistake_of_sparks_grammar_is_sparks_to_report(spark: SparkSession) -> None:
    rejected("PARSE_SYNTAX_ERROR", lambda: spark.sql("SELECT * FROM a JOIN b WITHIN ON"))
