"""What a side runs: the streams of a scenario, their join or no join, and the totals of its rows.

An observation below the sink can count the rows and those with a row of the last stream, and sum up hashes of all
columns.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from harness.inputs import Streams, Table
from harness.runs import Record
from harness.scenario import Scenario
from harness.sides import WITH_STATE, Side
from harness.with_state import with_state


def query_rows(scenario: Scenario, side: Side, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return what the query computes: the join, or for the floor all inputs, shuffled as for the join.

    Args:
        scenario: which join.
        side: whose query it is.
        inputs: the streams with their watermarks, in the order of the scenario's tables.
    """
    streams = scenario.streams
    left, right = inputs[:2]
    if side.engine == "floor":
        return floor(streams, inputs, scenario.partitions)
    if side.engine in WITH_STATE:
        return with_state(left, right, buckets=side.engine == "with-state-buckets")
    if scenario.temporal:
        versions = sj.versions(right, key=streams.right.key, time=streams.right.time)
        same = F.expr(f"{streams.left.key} = {streams.right.key}")
        # No other side puts its output in order.
        return sj.temporal_join(left, versions, same, "left", as_of=streams.left.time, ordered=side.ordered)
    if side.engine == "spark" and not streams.has_key:
        return with_constant_key(left, right, streams.condition, scenario.how)
    if side.ordered:
        window = timedelta(milliseconds=scenario.window_ms or 0)
        joined = sj.window_join(left, right, F.expr(streams.condition), scenario.how, following=window)
        # The output is compared with that of the other sides.
        return joined.drop("rowtime")
    return joins(streams, side, inputs, scenario.how)


def joins(streams: Streams, side: Side, inputs: Sequence[DataFrame], how: str) -> DataFrame:
    """Return the first stream joined with each other one in turn.

    Spark rejects a second join whose input has two event-time columns. For its side, the time of the first stream is a
    number between the joins.
    """
    first, *others = inputs
    as_number = side.engine == "spark" and len(others) > 1
    joined = first
    for number, (other, condition) in enumerate(zip(others, streams.conditions, strict=True), 1):
        joined = joined.join(other, F.expr(condition), how)
        if as_number and number == 1:
            joined = joined.withColumn(streams.left.time, F.unix_micros(streams.left.time))
    return joined.withColumn(streams.left.time, F.timestamp_micros(streams.left.time)) if as_number else joined


def with_constant_key(left: DataFrame, right: DataFrame, condition: str, how: str) -> DataFrame:
    """Return a join without an equality as Spark takes it: by the same constant on both sides, all rows in one task."""
    keyed = left.withColumn("left_key", F.lit(1)), right.withColumn("right_key", F.lit(1))
    return keyed[0].join(keyed[1], F.expr(f"left_key = right_key AND {condition}"), how).drop("left_key", "right_key")


def files(spark: SparkSession, streams: Streams, inputs: Path) -> list[DataFrame]:
    """Return the streams with their watermarks, one file of each per batch."""
    found = []
    for table in streams.tables:
        folder = str(inputs / table.name)
        schema = spark.read.parquet(folder).schema
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        found.append(marked(rows, streams, table))
    return found


def marked(rows: DataFrame, streams: Streams, table: Table) -> DataFrame:
    """Return a stream with its watermark."""
    return rows.withWatermark(table.time, f"{streams.delay_ms} milliseconds")


def floor(streams: Streams, inputs: Sequence[DataFrame], partitions: int) -> DataFrame:
    """Return all rows of all inputs, each shuffled on its join key to as many partitions as the join has.

    This is the cost of any join of them before its first row: reading, watermarks, a shuffle of all columns. To have
    one query, they are united, each padded with nulls for the others' columns. Nothing is matched and nothing kept.
    The sink takes every column, so the optimizer cannot drop any of them before the shuffle.
    """
    first, *others = (
        rows.repartition(partitions, table.key or table.row_id)
        for rows, table in zip(inputs, streams.tables, strict=True)
    )
    united = first
    for other in others:
        united = united.unionByName(other, allowMissingColumns=True)
    return united


def observed(rows: DataFrame, last_id: str) -> DataFrame:
    """Return the same rows, with their totals in the progress of each batch."""
    # 32 bits of each hash: the sum of a run stays far below what a LONG holds.
    row_hash = F.xxhash64(*rows.columns).bitwiseAND(F.lit(0xFFFFFFFF))
    return rows.observe(
        "totals",
        F.count(F.lit(1)).alias("rows"),
        F.count(last_id).alias("matched"),
        F.coalesce(F.sum(row_hash), F.lit(0)).alias("hash"),
    )


def totals(batch: Record, name: str) -> int:
    """Return a total that a batch observed."""
    return int(batch["observedMetrics"]["totals"][name])


def rows_out(batches: Sequence[Record]) -> int:
    """Return how many rows the sink has taken from the batches."""
    return sum(batch["sink"]["numOutputRows"] for batch in batches)


def executed(query: StreamingQuery) -> list[Record]:
    """Return the progress of each batch that ran, in order.

    A trigger without work also reports progress. It repeats the figures of the last batch, but lacks the time of
    ``addBatch``.
    """
    progress = [json.loads(each.json) for each in query.recentProgress]
    batches = {each["batchId"]: each for each in progress if "addBatch" in each["durationMs"]}
    return [batches[number] for number in sorted(batches)]


def jvm(spark: SparkSession) -> Any:
    """Return the driver's JVM."""
    return spark._jvm
