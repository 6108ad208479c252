"""`impose_order`, `with_bounds`, `idle_after`: what a query declares about its streams. The operator's own tests are
in BoundsOfInputsSuite and IdleInputsSuite."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from queries import Inputs

import streamjoin as sj

SCHEMA = "id STRING, t TIMESTAMP, b BOOLEAN"
NTZ = "CAST(t AS TIMESTAMP_NTZ)"


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).json(str(tmp_path))


class Events(Inputs):
    """Streams of events, and the rows of a query that joins them."""

    def events(self, name: str) -> DataFrame:
        return self.stream(name, SCHEMA)

    def add(self, name: str, *rows: tuple[str | None, str, bool | None]) -> None:
        self.feed(name, *({"id": key, "t": f"2026-01-01T{at}:00Z", "b": bound} for key, at, bound in rows))

    def start(self, df: DataFrame, name: str) -> StreamingQuery:
        return df.writeStream.format("memory").queryName(name).start(checkpointLocation=self.checkpoint(name))

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.table(name).collect())


def test_bounds_move_the_watermark_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Events(spark, tmp_path)

    def bounded(name: str) -> DataFrame:
        return sj.with_bounds(inputs.events(name), "t", is_bound="b", lag="0 seconds")

    orders, deliveries = bounded("orders").alias("o"), bounded("deliveries").where("id is not null").alias("d")
    assert orders.columns == ["id", "t"]
    joined = sj.join(orders, deliveries, F.expr("o.id = d.id"), "left_outer", within=("0 seconds", "1 hour"))
    query = inputs.start(joined.select(F.col("o.id").alias("order"), F.col("d.id").alias("delivery")), "bounded")
    inputs.add("orders", ("a", "10:00", None), ("b", "10:00", False))
    inputs.add("deliveries", ("a", "10:30", False))
    query.processAllAvailable()
    assert inputs.rows("bounded") == [("a", "a")]
    # The bound moves the watermark of deliveries to 11:01: order b of 10:00 can no longer match.
    inputs.add("deliveries", (None, "11:01", True))
    query.processAllAvailable()
    assert inputs.rows("bounded") == [("a", "a"), ("b", None)]
    # A bound that goes back in time moves nothing: the row is late as before.
    inputs.add("deliveries", (None, "09:00", True))
    query.processAllAvailable()
    inputs.add("orders", ("c", "10:30", None))
    inputs.add("deliveries", ("c", "11:00", None))
    query.processAllAvailable()
    assert inputs.rows("bounded") == [("a", "a"), ("b", None)]
    inputs.add("deliveries", ("c", "11:01", None))
    query.processAllAvailable()
    assert inputs.rows("bounded") == [("a", "a"), ("b", None), ("c", "c")]


def test_an_idle_input_holds_nobody_back(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Events(spark, tmp_path)
    orders = sj.impose_order(inputs.events("orders"), "t", "0 seconds").alias("o")
    deliveries = inputs.events("deliveries").withWatermark("t", "0 seconds")
    idle = sj.idle_after(deliveries, timedelta(milliseconds=500)).alias("d")
    joined = sj.join(orders, idle, F.expr("o.id = d.id"), "left_outer", within=("0 seconds", "1 hour"))
    query = inputs.start(joined.select(F.col("o.id").alias("order")), "idle")
    inputs.add("orders", ("a", "10:00", None), ("b", "11:01", None))
    end = time.monotonic() + 60
    while inputs.rows("idle") != [("a",)] and time.monotonic() < end:
        query.processAllAvailable()
    assert inputs.rows("idle") == [("a",)]
    progress = query.lastProgress
    assert progress is not None
    assert progress["stateOperators"][0]["customMetrics"]["idleSinceMs.right.t"] > 0


def batch(df: DataFrame) -> DataFrame:
    return df.sparkSession.createDataFrame([], SCHEMA)


def marked(df: DataFrame) -> DataFrame:
    return df.withWatermark("t", "1 second")


def counted(df: DataFrame) -> DataFrame:
    return marked(df).groupBy("t", "b").count()


def twice(df: DataFrame) -> DataFrame:
    return marked(df).union(marked(df))


def ordered(df: DataFrame, time: str = "t", delay: Any = "1s") -> DataFrame:
    return sj.impose_order(df, time, delay)


def bounded(df: DataFrame, time: str = "t", is_bound: str = "b", lag: str | None = "0s", **more: str) -> DataFrame:
    return sj.with_bounds(df, time, is_bound=is_bound, lag=lag, **more)


def started(df: DataFrame) -> Any:
    return df.writeStream.format("noop").start()


REJECTED: list[tuple[str, str, Callable[[DataFrame], Any]]] = [
    ("STREAMJOIN_COLUMN.UNKNOWN", "there is no such column", lambda df: ordered(df, "x")),
    ("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", 'F.to_timestamp("id")', lambda df: ordered(df, "id")),
    ("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", 'cast("timestamp")', lambda df: ordered(df.selectExpr("date(t) d"), "d")),
    ("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", "TIMESTAMP_NTZ", lambda df: ordered(df.selectExpr(f"{NTZ} n"), "n")),
    ("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", "timestamp_millis", lambda df: ordered(df.selectExpr("1L AS ms"), "ms")),
    ("STREAMJOIN_COLUMN.FIELD", "is a field", lambda df: ordered(df.select(F.struct("t").alias("s")), "s.t")),
    ("STREAMJOIN_COLUMN.AMBIGUOUS", "does not name exactly one", lambda df: ordered(df.selectExpr("t", "now() t"))),
    ("STREAMJOIN_TWO_WATERMARKS", "one on t", lambda df: ordered(marked(df))),
    ("STREAMJOIN_NOT_A_STREAM.STREAM", "sj.impose_order", lambda df: ordered(batch(df))),
    ("STREAMJOIN_WRONG_ARGUMENT", "a streaming DataFrame", lambda df: sj.impose_order("t", df, "1s")),  # type: ignore[arg-type]
    ("STREAMJOIN_DURATION", "lag='-1s'", lambda df: ordered(df, delay="-1s")),
    ("STREAMJOIN_DURATION", "a month varies", lambda df: ordered(df, delay="1 month")),
    ("STREAMJOIN_DURATION", "'parsec' is not a unit", lambda df: ordered(df, delay="1 parsec")),
    ("STREAMJOIN_DURATION", "no unit", lambda df: ordered(df, delay=10)),
    ("STREAMJOIN_COLUMN.IS_BOUND_TYPE", "one is STRING", lambda df: bounded(df, is_bound="id")),
    ("STREAMJOIN_COLUMN.UNKNOWN", "no such column", lambda df: bounded(df, is_bound="x")),
    ("STREAMJOIN_COLUMN.NO_WATERMARK", 'lag="0 seconds"', lambda df: bounded(df, lag=None)),
    ("STREAMJOIN_COLUMN.UNKNOWN", "no such column", lambda df: bounded(df, "x")),
    ("STREAMJOIN_DURATION", "lag='-1s'", lambda df: bounded(df, lag="-1s")),
    ("STREAMJOIN_TWO_WATERMARKS", "one on t", lambda df: bounded(marked(df))),
    ("STREAMJOIN_NOT_A_STREAM.STREAM", "sj.with_bounds", lambda df: bounded(batch(df))),
    ("STREAMJOIN_DURATION", "lag='1 year'", lambda df: bounded(df, lag="1 year")),
    ("STREAMJOIN_INPUT.OUTPUT_OF_OPERATOR", "(Aggregate)", lambda df: bounded(counted(df), lag=None)),
    ("STREAMJOIN_COLUMN.PARTITION_TYPE", "per must be a column", lambda df: bounded(df, per="t")),
    ("STREAMJOIN_INPUT.PER_NEEDS_ONE_STREAM", "before any union", lambda df: bounded(twice(df), lag=None, per="id")),
    ("STREAMJOIN_INPUT.NO_WATERMARK", "withWatermark", lambda df: sj.idle_after(df, "1s")),
    ("STREAMJOIN_NOT_A_STREAM.STREAM", "sj.idle_after", lambda df: sj.idle_after(batch(df), "1s")),
    ("STREAMJOIN_DURATION", "after='0 seconds'", lambda df: sj.idle_after(marked(df), "0 seconds")),
    ("STREAMJOIN_DURATION", "after='-1s'", lambda df: sj.idle_after(marked(df), "-1s")),
    ("STREAMJOIN_DURATION", "a month varies", lambda df: sj.idle_after(marked(df), "1 month")),
    ("STREAMJOIN_DURATION", "year varies", lambda df: sj.idle_after(marked(df), "1 year")),
    ("STREAMJOIN_INPUT.NO_JOIN", "no join of two streams", lambda df: started(sj.idle_after(marked(df), "1s"))),
]


@pytest.mark.parametrize(("condition", "words", "call"), REJECTED, ids=[f"{c}: {w}" for c, w, _ in REJECTED])
def test_what_is_rejected(events: DataFrame, condition: str, words: str, call: Callable[[DataFrame], Any]) -> None:
    rejected(condition, lambda: call(events), words)
