"""Arrangements alone: a commit compared with a Parquet sink, and an index that is not in memory."""

import statistics
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj
from harness.changing import WARM_UP, Feed, chance, maintained, measured, registry, spread, times

CHANGES = 10_000
COLD_STARTS = 5


def commit(spark: SparkSession, work: Path, rows: int, rounds: int) -> list[str]:
    """Return the table of a maintained arrangement and a Parquet sink; the arrangement is kept as ``commit``."""

    def of(ids: DataFrame, version: int) -> DataFrame:
        return ids.select(
            F.col("id").alias("key"), chance(version, 1_000_000).alias("value"), F.sha2(F.col("id").cast("string"), 256)
        ).toDF("key", "value", "text")

    # Each side has its own input, so that they take turns.
    feeds = {side: Feed(spark, work / f"feed-{side}") for side in ("arrangement", "parquet")}
    for feed in feeds.values():
        feed.put(of(spark.range(0, rows, 1, 2), 0), "i")
    parquet = feeds["parquet"].stream().repartition(4, "key").writeStream.format("parquet")
    queries = {
        "arrangement": maintained(feeds["arrangement"].stream(), "commit", [["key"]], work / "checkpoint", "op"),
        "parquet": parquet.start(str(work / "parquet"), checkpointLocation=str(work / "checkpoint-parquet")),
    }
    queries["parquet"].processAllAvailable()
    for number in range(1, rounds + WARM_UP + 1):
        for side, query in queries.items():
            feeds[side].put(of(spark.range(0, rows, max(1, rows // CHANGES), 1), number), "u")
            query.processAllAvailable()
    took = {side: times(query, rounds) for side, query in queries.items()}
    for query in queries.values():
        query.stop()
    ratio = statistics.median(took["arrangement"]) / statistics.median(took["parquet"])
    return [
        f"## A batch of {CHANGES:,} changes, beside the same rows into a Parquet sink",
        "",
        "| rows | arrangement, ms | Parquet, ms | x |",
        "|---|---|---|---|",
        f"| {rows:,} | {spread(took['arrangement'])} | {spread(took['parquet'])} | {ratio:.2f} |",
    ]


def cold_start(spark: SparkSession, work: Path) -> str:
    """Return how long it takes to load the index of ``commit`` from nothing, several times."""
    few = spark.range(0, 100).select(F.col("id").alias("key"))
    few.write.parquet(str(work / "few"))
    stream = spark.readStream.schema(few.schema).parquet(str(work / "few"))
    maintained(stream, "few", [["key"]], work / "checkpoint-few").stop()
    per_million, loaded = [], 0
    for number in range(COLD_STARTS):
        registry(spark).clear()
        # The first rows of an input match those of the inputs before it.
        joined = sj.delta_join(
            {"big": "commit", "few": "few"}, on="few.key = big.key", select=["big.value"], spark=spark
        )
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(work / f"checkpoint-cold-{number}"))
        query = writer.start()
        query.processAllAvailable()
        sources = [source["metrics"] for each in measured(query, 1) for source in each["sources"]]
        query.stop()
        loaded = max(int(source.get("loadedRows", 0)) for source in sources)
        spent = max(int(source.get("loadTimeMs", 0)) for source in sources)
        per_million.append(spent * 1_000_000 / loaded)
    return (
        f"An index that is not in memory takes {spread(per_million)} ms of task time a million rows "
        f"({loaded:,} rows that have come or gone were read, {COLD_STARTS} times)."
    )


def hot_key(spark: SparkSession, work: Path, rows: int, rounds: int) -> list[str]:
    """Return the table of updates of a second key: one value for all rows, or a value for each."""

    def of(ids: DataFrame, version: int, hot: bool) -> DataFrame:
        group = F.lit(1) if hot else F.col("id")
        return ids.select(F.col("id").alias("key"), group.cast("long").alias("group"), F.lit(version).alias("value"))

    # A row that finds nothing: its batch only brings the index up to date.
    nothing = spark.range(-1, 0, 1, 1).select(F.col("id").alias("group"))
    sides = {"one value": True, "a value each": False}
    feeds = {side: Feed(spark, work / f"feed-{hot}") for side, hot in sides.items()}
    probes = {side: Feed(spark, work / f"probes-{hot}") for side, hot in sides.items()}
    maintainers, readers = {}, {}
    for side, hot in sides.items():
        feeds[side].put(of(spark.range(0, rows, 1, 2), 0, hot), "i")
        name = f"hot_{hot}".lower()
        keeps = maintained(feeds[side].stream(), name, [["key"], ["group"]], work / f"checkpoint-{hot}", "op")
        maintainers[side] = keeps
        probes[side].put(nothing)
        joined = probes[side].stream().join(sj.table(name, at_least="caught up", spark=spark), "group", "left")
        readers[side] = joined.writeStream.format("noop").start(checkpointLocation=str(work / f"reads-{hot}"))
        readers[side].processAllAvailable()
    for number in range(1, rounds + WARM_UP + 1):
        for side, hot in sides.items():
            feeds[side].put(of(spark.range(0, rows, max(1, rows // CHANGES), 1), number, hot), "u")
            maintainers[side].processAllAvailable()
            probes[side].put(nothing)
            readers[side].processAllAvailable()
    kept = {side: times(query, rounds) for side, query in maintainers.items()}
    read = {side: times(query, rounds) for side, query in readers.items()}
    for query in (*maintainers.values(), *readers.values()):
        query.stop()
    return [
        f"## {CHANGES:,} updates of {rows:,} rows with a second key",
        "",
        "| the second key has | batch of the maintaining query, ms | batch of a reader that follows, ms |",
        "|---|---|---|",
        *(f"| {side} | {spread(kept[side])} | {spread(read[side])} |" for side in sides),
    ]
