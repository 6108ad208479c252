"""What goes wrong with joins of streams, made on purpose, and where it shows: ``symptoms.py <name>``, or ``all``.

Each symptom is a query on generated rows. What is printed is the line of ``sj.explain_analyze`` with its hint. With
``--report <folder>`` the page of ``sj.report`` is written too, which has the same in its picture.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

START = datetime(2026, 1, 1, 9, tzinfo=UTC)


class Shop:
    """Orders and deliveries as streams of files, a file a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0

    def add(self, name: str, rows: int, key: Any, minutes: float = 0, step: float = 0.001) -> None:
        """Add a file: rows whose times are so many minutes after the start, a step apart."""
        at = F.timestamp_seconds(F.lit(START.timestamp() + 60 * minutes) + F.col("id") * step)
        made = self.spark.range(0, rows, 1, 1).select(key.cast("string").alias("id"), at.alias("t"))
        self.files += 1
        target = self.folder / name
        target.mkdir(parents=True, exist_ok=True)
        written = self.folder / "made"
        made.coalesce(1).write.mode("overwrite").parquet(str(written))
        next(written.glob("part-*")).rename(target / f"{self.files:05}.parquet")

    def stream(self, name: str) -> DataFrame:
        """Return a stream with its watermark."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        read = self.spark.readStream.schema("id STRING, t TIMESTAMP").option("maxFilesPerTrigger", 1)
        return read.parquet(str(self.folder / name)).withWatermark("t", "10 seconds").alias(name)

    @contextmanager
    def joined(self, within: tuple[str, str] = ("0 seconds", "1 hour")) -> Iterator[StreamingQuery]:
        """Run the join."""
        joined = sj.join(self.stream("orders"), self.stream("deliveries"), "id", within=within)
        query = joined.writeStream.format("noop").start(checkpointLocation=str(self.folder / "checkpoint"))
        try:
            yield query
        finally:
            query.stop()

    @contextmanager
    def set(self, **settings: str) -> Iterator[None]:
        """Set settings of streamjoin for the queries that are started meanwhile."""
        named = {f"spark.streamjoin.{name}": value for name, value in settings.items()}
        for name, value in named.items():
            self.spark.conf.set(name, value)
        yield
        for name in named:
            self.spark.conf.unset(name)


def many(values: int) -> Any:
    """Return a key with so many values."""
    return F.col("id") % values


def stalled_input(shop: Shop, silence: float = 61) -> Iterator[StreamingQuery]:
    """Deliveries stop, and orders pile up: they wait for the watermark of the deliveries."""
    shop.add("orders", 1000, many(1000))
    shop.add("deliveries", 1000, many(1000))
    with shop.joined() as query:
        query.processAllAvailable()
        time.sleep(silence)
        shop.add("orders", 5000, many(1000), minutes=180)
        query.processAllAvailable()
        yield query


def hot_key(shop: Shop) -> Iterator[StreamingQuery]:
    """Half of the orders have an empty id."""
    shop.add("orders", 20_000, F.when(F.col("id") % 2 == 0, F.lit("")).otherwise(F.col("id").cast("string")))
    shop.add("deliveries", 1000, many(1000))
    with shop.joined() as query:
        query.processAllAvailable()
        yield query


def far_future_row(shop: Shop) -> Iterator[StreamingQuery]:
    """One order has a time of 2999, and all orders after it are late."""
    shop.add("orders", 1000, many(1000))
    shop.add("deliveries", 1000, many(1000))
    with shop.joined() as query:
        query.processAllAvailable()
        years = (datetime(2999, 1, 1, tzinfo=UTC) - START) / timedelta(minutes=1)
        shop.add("orders", 1, many(1), minutes=years)
        query.processAllAvailable()
        shop.add("orders", 100, many(100), minutes=1)
        query.processAllAvailable()
        yield query


def wide_bound(shop: Shop) -> Iterator[StreamingQuery]:
    """Deliveries come within minutes, and orders are kept for a day."""
    shop.add("orders", 5000, F.col("id"))
    shop.add("deliveries", 5000, F.col("id"), minutes=3)
    with shop.joined(("0 seconds", "1 day")) as query:
        query.processAllAvailable()
        yield query


def no_memory(shop: Shop) -> Iterator[StreamingQuery]:
    """The index does not fit into its budget, and rows are read from the state store."""
    with shop.set(indexMemory="64k"), shop.joined() as query:
        for minute in range(6):
            shop.add("orders", 20_000, F.col("id"), minutes=minute * 9)
            query.processAllAvailable()
        yield query


def dead_reader(shop: Shop) -> Iterator[StreamingQuery]:
    """A reader of an arrangement was stopped for good, and every version since is kept for it."""
    with shop.set(arrangements=str(shop.folder / "arrangements")):
        shop.spark.conf.set("spark.streamjoin.arrangements.minVersionsToRetain", 2)
        arranged = sj.arrange(shop.stream("orders"), "orders", keys="id")
        query = arranged.start(checkpointLocation=str(shop.folder / "maintainer"))
        try:
            shop.add("orders", 100, many(100))
            query.processAllAvailable()
            changes = sj.arrangement("orders").changes()
            reader = changes.writeStream.format("noop").start(checkpointLocation=str(shop.folder / "reader"))
            reader.processAllAvailable()
            reader.stop()
            hours_ago = time.time() - 3 * 3600
            for lease in (shop.folder / "arrangements" / "orders" / "readers").rglob("*"):
                os.utime(lease, (hours_ago, hours_ago))
            for minute in range(4):
                shop.add("orders", 100, many(100), minutes=minute)
                query.processAllAvailable()
            yield query
        finally:
            query.stop()
            shop.spark.conf.unset("spark.streamjoin.arrangements.minVersionsToRetain")


Symptom = Callable[[Shop], Iterator[StreamingQuery]]
SYMPTOMS: dict[str, Symptom] = {
    function.__name__.replace("_", "-"): function
    for function in (stalled_input, hot_key, far_future_row, wide_bound, no_memory, dead_reader)
}


def show(spark: SparkSession, name: str, reports: Path | None) -> None:
    """Make a symptom, and print the lines that say it."""
    symptom = SYMPTOMS[name]
    with tempfile.TemporaryDirectory() as folder:
        for query in symptom(Shop(spark, Path(folder))):
            print(f"\n== {name}: {symptom.__doc__}")
            plan = sj.explain_analyze(query)
            plan.select("plan", "rows_in", "rows_kept", "late").show(truncate=False)
            for row in plan.where("size(hints) > 0").collect():
                print("\n".join(f"{row.plan.strip()}: {hint}" for hint in row.hints))
            # A query that maintains an arrangement has no join to draw.
            if reports and plan.where("operator IS NOT NULL").count():
                print("report:", sj.report(query, reports / f"{name}.html"))


def main() -> None:
    """Show what the command line asks for."""
    parser = argparse.ArgumentParser(description="What goes wrong with joins of streams, and where it shows.")
    parser.add_argument("name", choices=["all", *SYMPTOMS])
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write the report of each, too")
    options = parser.parse_args()
    if options.report:
        options.report.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = sj.configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for each in SYMPTOMS if options.name == "all" else [options.name]:
        show(spark, each, options.report)
    spark.stop()


if __name__ == "__main__":
    main()
