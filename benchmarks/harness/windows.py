"""The time of a batch of a temporal or an as-of join, at a window and at ten times the window.

The cost of a batch should depend on its rows and their keys, not on what is kept. So each case runs as two queries in
one session, one with a tenth of the other's window, which read the same batches in turns: some facts, and the versions
of as many seconds. The ratio of their times should be near 1.

- ``pieces``: a table of five million keys, loaded in ten batches, its versions in any order.
- ``tolerance``: an as-of join with ``tolerance="1 hour"`` and 20,000 quotes a second.
- ``hot key``: one key with two million versions in the window.
- ``history``: a temporal join with ``history="1 day"``.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from harness.changing import Feed, chance, next_batch_ms, spread

GOAL = 1.3
TIMES = (1, 10)
WARM_UP = 2
BATCHES = 5  # of a round
# The number of batches with the window.
PIECES = 10
START = 1_767_225_600  # 2026-01-01
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Case:
    """What is kept, and what a batch contains.

    Attributes:
        name: of the case.
        seconds: of the window at ten times.
        rate: versions a second.
        keys: of the versions.
        facts: in a batch.
        batch: seconds of versions that a batch has.
        join: of facts and versions, with a window of so many seconds.
        in_order: whether the versions of the window arrive in the order of time.
    """

    name: str
    seconds: int
    rate: float
    keys: int
    facts: int
    batch: float
    join: Callable[[DataFrame, DataFrame, int], DataFrame]
    in_order: bool = True


def table(facts: DataFrame, versions: DataFrame, window: int) -> DataFrame:
    """Join facts with a table."""
    return sj.temporal_join(facts, sj.versions(versions, key="key", time="since"), "key", "left", ordered=False)


def history(facts: DataFrame, versions: DataFrame, window: int) -> DataFrame:
    """Join facts with a table that keeps its history."""
    known = sj.versions(versions, key="key", time="since")
    return sj.temporal_join(facts, known, "key", "left", history=f"{window} seconds", ordered=False)


def closest(facts: DataFrame, versions: DataFrame, window: int) -> DataFrame:
    """Join facts with the last version that is not too old."""
    return sj.asof_join(facts, versions, "key", "left", tolerance=f"{window} seconds", ordered=False)


def cases(scale: float) -> list[Case]:
    """Return the cases, with a share of their rows."""
    day, hour = 86_400, 3_600
    keys = max(10, int(5_000_000 * scale))
    return [
        Case("pieces", day, keys / day, keys, 20_000, 1, table, in_order=False),
        Case("tolerance", hour, 20_000 * scale, max(10, int(5_000 * scale)), 20_000, 1, closest),
        Case("hot key", day, 2_000_000 * scale / day, 1, 1_000, 10, closest),
        Case("history", day, 200 * scale, max(10, int(10_000 * scale)), 20_000, 1, history),
    ]


class Run:
    """A query of a case, with its part of the window."""

    def __init__(self, spark: SparkSession, work: Path, case: Case, times: int) -> None:
        self.spark = spark
        self.case = case
        self.window = case.seconds * times // TIMES[-1]
        self.rows = int(self.window * case.rate)
        # The end of the window, from which the batches continue.
        self.now = float(START + case.seconds)
        self.number = 0
        self.took: list[float] = []
        folder = work / f"{case.name.replace(' ', '-')}-{times}"
        self.facts, self.versions = Feed(spark, folder / "facts"), Feed(spark, folder / "versions")
        for piece in range(PIECES):
            self.put(self.of_window(piece), 1)
        self.query = self.start(folder)
        self.query.processAllAvailable()

    def of_window(self, piece: int) -> DataFrame:
        """Return the versions of a tenth of the window, one per key if they arrive in pieces."""
        step = self.window / self.rows
        first = START + self.case.seconds - self.window
        if self.case.in_order:
            rows = self.spark.range(piece * self.rows // PIECES, (piece + 1) * self.rows // PIECES, 1, 2)
            return self.timed(rows, F.lit(first) + F.col("id") * step, chance(1, self.case.keys))
        rows = self.spark.range(0, self.rows, 1, 2).where(chance(2, PIECES) == piece)
        return self.timed(rows, F.lit(first) + chance(3, self.window), F.col("id"))

    def timed(self, rows: DataFrame, seconds: Column, key: Column) -> DataFrame:
        """Return versions of a key at a time."""
        return rows.select(key.alias("key"), F.timestamp_seconds(seconds).alias("since"), F.col("id").alias("price"))

    def put(self, versions: DataFrame, facts: int) -> None:
        """Add the files of a batch: versions, and facts of the present."""
        ids = self.spark.range(0, facts, 1, 1)
        at = F.timestamp_seconds(F.lit(self.now) + F.col("id") * (self.case.batch / facts))
        keys = self.rows if not self.case.in_order else self.case.keys
        self.versions.put(versions)
        self.facts.put(ids.select(chance(self.number, keys).alias("key"), at.alias("time"), F.col("id").alias("fact")))
        self.number += 1

    def start(self, folder: Path) -> StreamingQuery:
        """Start the query."""
        facts = self.facts.stream().withWatermark("time", "0 seconds")
        versions = self.versions.stream().withWatermark("since", "0 seconds")
        joined = self.case.join(facts, versions, self.window).select("fact", "price")
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        return writer.start()

    def batch(self) -> None:
        """Take one more batch, and note how long it took."""
        count = max(1, int(self.case.batch * self.case.rate))
        self.now += self.case.batch
        at = F.lit(self.now) + F.col("id") * (self.case.batch / count)
        self.put(self.timed(self.spark.range(0, count, 1, 1), at, chance(self.number, self.case.keys)), self.case.facts)
        self.took.append(next_batch_ms(self.query))

    def median(self) -> float:
        """Return how long a batch took, in milliseconds."""
        return statistics.median(self.took[WARM_UP:])


def windows(spark: SparkSession, work: Path, scale: float, rounds: int) -> list[str]:
    """Return the table of all cases."""
    settings = {
        # Each batch releases the facts of the one before it.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    lines = []
    for case in cases(scale):
        runs = [Run(spark, work, case, times) for times in TIMES]
        for _ in range(WARM_UP + rounds * BATCHES):
            for run in runs:
                run.batch()
        for run in runs:
            run.query.stop()
        one, ten = runs
        ratio = ten.median() / one.median()
        shown = [spread(run.took[WARM_UP:]) for run in runs]
        print(f"{case.name}: {one.rows:,} rows {shown[0]} ms, {ten.rows:,} rows {shown[1]} ms, {ratio:.2f}", flush=True)
        lines.append(f"| {case.name} | {one.rows:,} | {shown[0]} | {ten.rows:,} | {shown[1]} | {ratio:.2f} |")
    return [
        f"## A batch beside the window: the goal is at most {GOAL} times at ten times the window",
        "",
        "| case | rows in the window | batch, ms | rows at ten times | batch, ms | x |",
        "|---|---|---|---|---|---|",
        *lines,
    ]
