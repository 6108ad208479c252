"""What the benchmarks of delta joins and arrangements share: a session, tables that change, figures of a query."""

import statistics
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

# Batches of a query before those that are measured.
WARM_UP = 3
LINES_PER_ORDER = 4
SEGMENTS = ("BUILDING", "AUTOMOBILE", "MACHINERY", "HOUSEHOLD", "FURNITURE")
TABLES = ("customer", "orders", "lineitem")


def session(work: Path) -> SparkSession:
    """Start a session of two cores."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 4)
        # Otherwise a query without new rows looks for them a hundred times a second, during the
        # measurement.
        .config("spark.sql.streaming.pollingDelay", "300ms")
        .config("spark.streamjoin.arrangements", str(work / "arrangements"))
    )
    return sj.configure(builder).getOrCreate()


class Feed:
    """A stream as a folder of Parquet files, one per batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.made = folder.with_name(f"{folder.name}-made")
        self.number = 0

    def put(self, rows: DataFrame, op: str | None = None) -> None:
        """Add the file of the next batch, for a changelog with the operation."""
        self.write(rows.withColumn("op", F.lit(op)) if op else rows)
        self.publish()

    def write(self, rows: DataFrame) -> None:
        """Write the next file outside the stream's folder."""
        rows.coalesce(1).write.mode("overwrite").parquet(str(self.made))

    def publish(self) -> None:
        """Add the file that was written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        next(self.made.glob("part-*")).rename(self.folder / f"{self.number:05d}.parquet")
        self.number += 1

    def stream(self) -> DataFrame:
        """Return the stream, one file per batch."""
        schema = self.spark.read.parquet(str(self.folder)).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def chance(seed: int, modulus: int) -> Column:
    """Return a number below a modulus that depends on the column ``id``."""
    return F.abs(F.xxhash64(F.lit(seed), "id")) % modulus


def day(seed: int) -> Column:
    """Return a day of TPC-H's seven years."""
    return F.date_add(F.lit("1992-01-01").cast("date"), chance(seed, 2500).cast("int"))


class Tables:
    """TPC-H's customers, orders and lines at a scale."""

    def __init__(self, spark: SparkSession, scale: float) -> None:
        self.spark = spark
        self.customers = int(150_000 * scale)
        self.orders = int(1_500_000 * scale)
        self.lines = self.orders * LINES_PER_ORDER

    def rows(self, table: str, version: int = 0, one_in: int = 1) -> DataFrame:
        """Return the new state of the rows that a version of a table changes."""
        count = {"customer": self.customers, "orders": self.orders, "lineitem": self.lines}[table]
        ids = self.spark.range(0, count, 1, 2)
        if one_in > 1:
            ids = ids.where(chance(100 + version, one_in) == 0)
        if table == "customer":
            segments = F.array(*[F.lit(segment) for segment in SEGMENTS])
            return ids.select(
                F.col("id").alias("c_custkey"),
                F.element_at(segments, (chance(1, len(SEGMENTS)) + 1).cast("int")).alias("c_mktsegment"),
            )
        if table == "orders":
            return ids.select(
                F.col("id").alias("o_orderkey"),
                chance(2, self.customers).alias("o_custkey"),
                day(3 + version).alias("o_orderdate"),
                (chance(4 + version, 100_000) / 100).alias("o_totalprice"),
            )
        return ids.select(
            F.floor(F.col("id") / LINES_PER_ORDER).alias("l_orderkey"),
            (F.col("id") % LINES_PER_ORDER).cast("int").alias("l_linenumber"),
            (chance(5 + version, 100_000) / 100).alias("l_extendedprice"),
            (chance(6, 10) / 100).alias("l_discount"),
            day(7 + version).alias("l_shipdate"),
        )


def maintained(
    stream: DataFrame, name: str, keys: list[list[str]], checkpoint: Path, op: str | None = None
) -> StreamingQuery:
    """Start the query that maintains an arrangement, and let it read the existing input."""
    query = sj.arrange(stream, name, keys, op=op).start(checkpointLocation=str(checkpoint))
    query.processAllAvailable()
    return query


def next_batch_ms(query: StreamingQuery) -> float:
    """Let a query read what has arrived, and return how long its last batch took, milliseconds."""
    query.processAllAvailable()
    progress = query.lastProgress
    assert progress is not None
    return float(progress["durationMs"]["triggerExecution"])


def measured(query: StreamingQuery, rounds: int) -> list[dict[str, Any]]:
    """Return the progress of the batches that are measured: the last with rows."""
    return [dict(progress) for progress in query.recentProgress if progress["numInputRows"]][-rounds:]


def times(query: StreamingQuery, rounds: int) -> list[float]:
    """Return the milliseconds of each batch."""
    return [each["durationMs"]["triggerExecution"] for each in measured(query, rounds)]


def spread(values: list[float]) -> str:
    """Return the median, the least and the most."""
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def registry(spark: SparkSession) -> Any:
    """Return the indexes of the process."""
    jvm: Any = spark._jvm
    index = jvm.org.apache.spark.sql.streamjoin.arrangement.index
    none = jvm.scala.Option.empty()
    return index.IndexRegistry.apply(index.IndexSettings(none, none))
