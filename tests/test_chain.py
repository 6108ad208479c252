"""Three streams in one query, from PySpark: operators above the joins, and what the joins report."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from queries import Inputs, settings

import streamjoin as sj

ORIGIN = 1_767_225_600  # the start of 2026, in seconds


class Chain(Inputs):
    """Orders, deliveries within an hour, returns within half an hour of a delivery; times are in minutes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self.batches: dict[int, list[tuple[object, ...]]] = {}

    def timed(self, name: str) -> DataFrame:
        rows = self.stream(name, "id STRING, minute INT, v INT")
        timed = rows.withColumn("t", F.timestamp_seconds(F.lit(ORIGIN) + F.col("minute") * 60)).drop("minute")
        return timed.withWatermark("t", "0 seconds").alias(name)

    def joined(self, first: str = "inner", second: str = "inner") -> DataFrame:
        delivered = F.expr("o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR")
        returned = F.expr("d.id = r.id AND r.t BETWEEN d.t AND d.t + INTERVAL 30 MINUTES")
        both = self.timed("o").join(self.timed("d"), delivered, first)
        return both.join(self.timed("r"), returned, second)

    def start(self, frame: DataFrame) -> StreamingQuery:
        def collect(batch: DataFrame, number: int) -> None:
            self.batches[number] = [tuple(row) for row in batch.collect()]

        return frame.writeStream.foreachBatch(collect).start(checkpointLocation=self.checkpoint("chain"))

    def emitted(self, query: StreamingQuery, **rows: list[tuple[str, int, int]]) -> list[tuple[object, ...]]:
        """Feed rows; return the rows that the query emits."""
        before = set(self.batches)
        for name, some in rows.items():
            self.feed(name, *({"id": i, "minute": minute, "v": v} for i, minute, v in some))
        query.processAllAvailable()
        return sorted(row for number in self.batches if number not in before for row in self.batches[number])


@pytest.fixture
def chain(spark: SparkSession, tmp_path: Path) -> Chain:
    return Chain(spark, tmp_path)


def test_pandas_behind_the_joins(chain: Chain) -> None:
    def twice(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(v=frame["v"] * 2)

    frame = chain.joined().select("o.id", "r.v").mapInPandas(twice, "id STRING, v INT")
    query = chain.start(frame)
    assert chain.emitted(query, o=[("a", 0, 1)], d=[("a", 10, 2)], r=[("a", 20, 3)]) == [("a", 6)]


def test_windows_and_distinct_rows_behind_the_joins(chain: Chain) -> None:
    counted = (
        chain.joined("left_outer", "left_outer")
        .select("o.id", F.col("o.t").alias("ordered"))
        .dropDuplicates(["id", "ordered"])
        .groupBy(F.window("ordered", "1 hour"))
        .count()
        .select(F.minute("window.start"), "count")
    )
    query = chain.start(counted)
    first = [("a", 0, 1), ("b", 5, 1), ("c", 10, 1)]
    chain.emitted(query, o=first, d=[("a", 10, 1), ("a", 20, 2)], r=[("a", 30, 1)])
    assert chain.emitted(query, o=[("x", 600, 0)], d=[("y", 600, 0)], r=[("z", 600, 0)]) == [(0, 3)]
    assert sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators) == 0


def test_bounds_of_a_chain(chain: Chain) -> None:
    shown = [tuple(row) for row in sj.bounds(chain.joined()).select("join", "column", "bound", "origin").collect()]
    assert shown == [
        (1, "t", "d.t <= o.t + 1 hour", "this join"),
        (1, "t", "o.t <= d.t", "this join"),
        (2, "t", "r.t <= d.t + 30 minutes", "this join"),
        (2, "t", "d.t <= r.t", "this join"),
        (2, "t", "d.t <= o.t + 1 hour", "join 1"),
    ]


def test_late_rows(chain: Chain, spark: SparkSession) -> None:
    with settings(spark, {"spark.streamjoin.lateRows": "keep"}):
        query = chain.start(chain.joined().select("o.v", "d.v", "r.v"))
    for _ in range(2):
        chain.emitted(query, o=[("a", 60, 1)], d=[("a", 60, 1)], r=[("a", 60, 1)])
    chain.emitted(query, o=[("late", 10, 7)], r=[("later", 5, 8)])
    rows = sj.late_rows(query).select("join", "side", "input", "column", F.get_json_object("row", "$.v")).collect()
    assert sorted(tuple(row) for row in rows) == [(1, "left", "o", "t", "7"), (2, "right", "r", "t", "8")]
    assert sj.late_rows(query, streaming=True).isStreaming
    watermark = sj.late_rows(query).selectExpr("max(unix_seconds(CAST(watermark AS TIMESTAMP)))").first()
    assert watermark and watermark[0] == ORIGIN + 3600


def test_late_rows_of_what_is_no_query(chain: Chain) -> None:
    rejected("STREAMJOIN_NOT_A_STREAM.QUERY", lambda: sj.late_rows(chain.joined()), "this is a DataFrame")  # type: ignore[arg-type]
