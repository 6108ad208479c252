"""The cost of observing a query: ``python benchmarks/observing.py``.

One interval join runs as three queries in one session, which read the same batches in turns: two that neither show
nor keep figures, one with all of it (rows are observed, the web page has its tab, the history is written). The
goal is at most 2 % of a batch. The three are compared batch by batch, and their order changes with each batch. The
difference between the two without figures is the noise of the machine.

While no row matches, the tasks also sample keys, to say why; the last line is of such a query.
"""

import argparse
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from harness.changing import Feed, chance, spread
from harness.machine import machine, project
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

GOAL = 1.02
WARM_UP = 30
START = 1_767_225_600  # 2026-01-01
RESULTS = Path(__file__).with_name("results") / "observing.md"
OFF = {"spark.streamjoin.observeRows": "false", "spark.streamjoin.ui.enabled": "false"}


def session() -> SparkSession:
    """Start a session of two cores with Spark's web page."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 4)
        .config("spark.sql.streaming.noDataMicroBatches.enabled", False)
        .config("spark.sql.streaming.pollingDelay", "300ms")
    )
    return sj.configure(builder).getOrCreate()


class Side:
    """The query, with its own copy of each batch."""

    def __init__(
        self, spark: SparkSession, work: Path, name: str, settings: dict[str, str], rows: int, *, matching: bool
    ) -> None:
        self.spark, self.rows, self.matching, self.number = spark, rows, matching, 0
        self.took: list[float | None] = []
        self.orders, self.deliveries = Feed(spark, work / name / "orders"), Feed(spark, work / name / "deliveries")
        self.put()
        for key, value in settings.items():
            spark.conf.set(key, value)
        self.query = self.start(work / name / "checkpoint")
        self.query.processAllAvailable()
        for key in settings:
            spark.conf.unset(key)

    def put(self) -> None:
        """Add the files of a batch, ten seconds of rows each."""
        for feed, column, later in ((self.orders, "ordered", 0), (self.deliveries, "delivered", 5)):
            at = F.lit(START + 10 * self.number + later) + F.col("id") * (10.0 / self.rows)
            keys = chance(self.number, self.rows // 4)
            if later and not self.matching:
                keys = keys + self.rows
            feed.write(
                self.spark.range(0, self.rows, 1, 1).select(
                    keys.alias("key"), F.timestamp_seconds(at).alias(column), F.col("id").alias(f"{column}_id")
                )
            )
        self.orders.publish()
        self.deliveries.publish()
        self.number += 1

    def start(self, checkpoint: Path) -> StreamingQuery:
        """Start the query."""
        orders = self.orders.stream().withWatermark("ordered", "5 seconds")
        deliveries = self.deliveries.stream().withWatermark("delivered", "5 seconds")
        joined = sj.join(orders, deliveries, "key", "left", within=("0 seconds", "30 seconds"))
        return joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()

    def batch(self) -> None:
        """Read one more batch and note its time, unless the query saw one of the files before the other."""
        self.query.processAllAvailable()
        (progress,) = [each for each in self.query.recentProgress if each["numInputRows"] > 0][-1:]
        whole = progress["numInputRows"] == 2 * self.rows
        self.took.append(progress["durationMs"]["triggerExecution"] if whole else None)


def compare(spark: SparkSession, work: Path, rows: int, rounds: int, *, matching: bool = True) -> str:
    """Return the line of the table for batches of a number of rows."""
    seen = {"spark.streamjoin.history": str(work / "history")}
    settings = {"on": seen, "off": OFF, "again": OFF}
    sides = [Side(spark, work, name, each, rows, matching=matching) for name, each in settings.items()]
    for number in range(WARM_UP + rounds):
        for at in range(3):
            side = sides[(number + at) % 3]
            side.put()
            side.batch()
    for side in sides:
        side.query.stop()
    assert list((work / "history").rglob("*.jsonl")), "the history was written"
    batches = zip(*(side.took[WARM_UP:] for side in sides), strict=True)
    whole = [(on, off, again) for on, off, again in batches if on and off and again]
    assert len(whole) > rounds / 2, "most batches have both files"
    on, off, again = ([batch[at] for batch in whole] for at in range(3))
    ratio = statistics.median(2 * on / (off + again) for on, off, again in whole)
    control = statistics.median(again / off for _, off, again in whole)
    name = f"{rows:,}" if matching else f"{rows:,}, none matches"
    print(f"{name}: off {spread(off)} ms, again {spread(again)} ms, on {spread(on)} ms", flush=True)
    print(f"{name}: {ratio:.3f}, of the two without {control:.3f}", flush=True)
    met = "yes" if ratio <= GOAL else "**no**"
    return f"| {name} | {spread(off)} | {spread(again)} | {spread(on)} | {control:.3f} | {ratio:.3f} | {met} |"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="What it costs to see a query.")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 200_000])
    options = parser.parse_args()
    spark = session()
    lines = []
    for rows, matching in [*((rows, True) for rows in options.rows), (max(options.rows), False)]:
        with tempfile.TemporaryDirectory() as work:
            lines.append(compare(spark, Path(work), rows, options.rounds, matching=matching))
    spark.stop()
    RESULTS.write_text(
        "\n".join(
            [
                "# What it costs to see a query",
                "",
                f"`python benchmarks/observing.py`, {datetime.now(UTC):%Y-%m-%d}, {options.rounds} batches of each. "
                f"{machine()['CPU']}; {project()['streamjoin']}.",
                "",
                f"## A batch with all of it beside one with nothing: the goal is at most {GOAL} times",
                "",
                "| rows an input | nothing, ms | once more, ms | all of it, ms | once more, x | all of it, x | met |",
                "|---|---|---|---|---|---|---|",
                *lines,
                "",
            ]
        )
    )


if __name__ == "__main__":
    main()
