"""`impose_order`, `with_bounds`, `idle_after`: what a query declares about its streams. The operator's own tests are
in BoundsOfInputsSuite and IdleInputsSuite."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

SCHEMA = "id STRING, t TIMESTAMP, b BOOLEAN"


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).json(str(tmp_path))


def write(folder: Path, number: int, *rows: tuple[str | None, str, bool | None]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": key, "t": f"2026-01-01T{at}:00Z", "b": bound}) for key, at, bound in rows]
    (folder / f"{number}.json").write_text("\n".join(lines))


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).collect())


def test_bounds_move_the_watermark_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    def stream(name: str) -> DataFrame:
        (tmp_path / name).mkdir()
        raw = spark.readStream.schema(SCHEMA).json(str(tmp_path / name))
        return sj.with_bounds(raw, "t", is_bound="b", lag="0 seconds")

    orders, deliveries = stream("orders").alias("o"), stream("deliveries").where("id is not null").alias("d")
    assert orders.columns == ["id", "t"]
    joined = sj.join(orders, deliveries, F.expr("o.id = d.id"), "left_outer", within=("0 seconds", "1 hour"))
    out = joined.select(F.col("o.id").alias("order"), F.col("d.id").alias("delivery"))
    query = (
        out.writeStream.format("memory").queryName("bounded").option("checkpointLocation", str(tmp_path / "c")).start()
    )
    try:
        write(tmp_path / "orders", 0, ("a", "10:00", None), ("b", "10:00", False))
        write(tmp_path / "deliveries", 0, ("a", "10:30", False))
        query.processAllAvailable()
        assert rows(spark, "bounded") == [("a", "a")]
        # The bound moves the watermark of deliveries to 11:01: order b of 10:00 cannot match any
        # more.
        write(tmp_path / "deliveries", 1, (None, "11:01", True))
        query.processAllAvailable()
        assert rows(spark, "bounded") == [("a", "a"), ("b", None)]
        # A bound that goes back in time moves nothing: the row is late as before.
        write(tmp_path / "deliveries", 2, (None, "09:00", True))
        query.processAllAvailable()
        write(tmp_path / "orders", 1, ("c", "10:30", None))
        write(tmp_path / "deliveries", 3, ("c", "11:00", None))
        query.processAllAvailable()
        assert rows(spark, "bounded") == [("a", "a"), ("b", None)]
        write(tmp_path / "deliveries", 4, ("c", "11:01", None))
        query.processAllAvailable()
        assert rows(spark, "bounded") == [("a", "a"), ("b", None), ("c", "c")]
    finally:
        query.stop()


def test_an_idle_input_holds_nobody_back(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("orders", "deliveries"):
        (tmp_path / name).mkdir()
    orders = sj.impose_order(spark.readStream.schema(SCHEMA).json(str(tmp_path / "orders")), "t", "0 seconds")
    deliveries = spark.readStream.schema(SCHEMA).json(str(tmp_path / "deliveries")).withWatermark("t", "0 seconds")
    joined = sj.join(
        orders.alias("o"),
        sj.idle_after(deliveries, timedelta(milliseconds=500)).alias("d"),
        F.expr("o.id = d.id"),
        "left_outer",
        within=("0 seconds", "1 hour"),
    )
    out = joined.select(F.col("o.id").alias("order"))
    query = out.writeStream.format("memory").queryName("idle").option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        write(tmp_path / "orders", 0, ("a", "10:00", None), ("b", "11:01", None))
        end = time.monotonic() + 60
        while rows(spark, "idle") != [("a",)] and time.monotonic() < end:
            query.processAllAvailable()
        assert rows(spark, "idle") == [("a",)]
        progress = query.lastProgress
        assert progress is not None
        assert progress["stateOperators"][0]["customMetrics"]["idleSinceMs.right.t"] > 0
    finally:
        query.stop()


def batch(df: DataFrame) -> DataFrame:
    return df.sparkSession.createDataFrame([], SCHEMA)


def marked(df: DataFrame) -> DataFrame:
    return df.withWatermark("t", "1 second")


REJECTED: list[tuple[str, str, Callable[[DataFrame], Any]]] = [
    ("STREAMJOIN_COLUMN.UNKNOWN", "there is no such column", lambda df: sj.impose_order(df, "x", "1s")),
    ("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", 'F.to_timestamp("id")', lambda df: sj.impose_order(df, "id", "1s")),
    (
        "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP",
        'cast("timestamp")',
        lambda df: sj.impose_order(df.selectExpr("date(t) d"), "d", "1s"),
    ),
    (
        "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP",
        "TIMESTAMP_NTZ",
        lambda df: sj.impose_order(df.selectExpr("cast(t as timestamp_ntz) n"), "n", "1s"),
    ),
    (
        "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP",
        "timestamp_millis",
        lambda df: sj.impose_order(df.selectExpr("1L AS ms"), "ms", "1s"),
    ),
    (
        "STREAMJOIN_COLUMN.FIELD",
        "is a field",
        lambda df: sj.impose_order(df.select(F.struct("t").alias("s")), "s.t", "1s"),
    ),
    (
        "STREAMJOIN_COLUMN.AMBIGUOUS",
        "does not name exactly one",
        lambda df: sj.impose_order(df.selectExpr("t", "t + INTERVAL 1 DAY AS t"), "t", "1s"),
    ),
    ("STREAMJOIN_TWO_WATERMARKS", "one on t", lambda df: sj.impose_order(marked(df), "t", "1s")),
    ("STREAMJOIN_NOT_A_STREAM.STREAM", "sj.impose_order", lambda df: sj.impose_order(batch(df), "t", "1s")),
    ("STREAMJOIN_WRONG_ARGUMENT", "a streaming DataFrame", lambda df: sj.impose_order("t", df, "1s")),  # type: ignore[arg-type]
    ("STREAMJOIN_DURATION", "lag='-1s'", lambda df: sj.impose_order(df, "t", "-1s")),
    ("STREAMJOIN_DURATION", "a month varies", lambda df: sj.impose_order(df, "t", "1 month")),
    ("STREAMJOIN_DURATION", "'parsec' is not a unit", lambda df: sj.impose_order(df, "t", "1 parsec")),
    ("STREAMJOIN_DURATION", "no unit", lambda df: sj.impose_order(df, "t", 10)),  # type: ignore[arg-type]
    ("STREAMJOIN_COLUMN.IS_BOUND_TYPE", "this is STRING", lambda df: sj.with_bounds(df, "t", is_bound="id", lag="0s")),
    ("STREAMJOIN_COLUMN.UNKNOWN", "no such column", lambda df: sj.with_bounds(df, "t", is_bound="x", lag="0s")),
    ("STREAMJOIN_COLUMN.NO_WATERMARK", 'lag="0 seconds"', lambda df: sj.with_bounds(df, "t", is_bound="b")),
    ("STREAMJOIN_COLUMN.UNKNOWN", "no such column", lambda df: sj.with_bounds(df, "x", is_bound="b", lag="0s")),
    ("STREAMJOIN_DURATION", "lag='-1s'", lambda df: sj.with_bounds(df, "t", is_bound="b", lag="-1s")),
    ("STREAMJOIN_TWO_WATERMARKS", "one on t", lambda df: sj.with_bounds(marked(df), "t", is_bound="b", lag="0s")),
    (
        "STREAMJOIN_NOT_A_STREAM.STREAM",
        "sj.with_bounds",
        lambda df: sj.with_bounds(batch(df), "t", is_bound="b", lag="0s"),
    ),
    ("STREAMJOIN_DURATION", "lag='1 year'", lambda df: sj.with_bounds(df, "t", is_bound="b", lag="1 year")),
    (
        "STREAMJOIN_INPUT.OUTPUT_OF_OPERATOR",
        "(Aggregate)",
        lambda df: sj.with_bounds(marked(df).groupBy("t", "b").count(), "t", is_bound="b"),
    ),
    (
        "STREAMJOIN_COLUMN.PARTITION_TYPE",
        "per is a column",
        lambda df: sj.with_bounds(df, "t", is_bound="b", lag="0s", per="t"),
    ),
    (
        "STREAMJOIN_INPUT.PER_NEEDS_ONE_STREAM",
        "before any union",
        lambda df: sj.with_bounds(marked(df).union(marked(df)), "t", is_bound="b", per="id"),
    ),
    ("STREAMJOIN_INPUT.NO_WATERMARK", "withWatermark", lambda df: sj.idle_after(df, "1s")),
    ("STREAMJOIN_NOT_A_STREAM.STREAM", "sj.idle_after", lambda df: sj.idle_after(batch(df), "1s")),
    ("STREAMJOIN_DURATION", "after='0 seconds'", lambda df: sj.idle_after(marked(df), "0 seconds")),
    ("STREAMJOIN_DURATION", "after='-1s'", lambda df: sj.idle_after(marked(df), "-1s")),
    ("STREAMJOIN_DURATION", "a month varies", lambda df: sj.idle_after(marked(df), "1 month")),
    ("STREAMJOIN_DURATION", "year varies", lambda df: sj.idle_after(marked(df), "1 year")),
    (
        "STREAMJOIN_INPUT.NO_JOIN",
        "no join of two streams",
        lambda df: sj.idle_after(marked(df), "1s").writeStream.format("noop").start(),
    ),
]


@pytest.mark.parametrize(("condition", "words", "call"), REJECTED, ids=[f"{c}: {w}" for c, w, _ in REJECTED])
def test_what_is_rejected(events: DataFrame, condition: str, words: str, call: Callable[[DataFrame], Any]) -> None:
    rejected(condition, lambda: call(events), words)
