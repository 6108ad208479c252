"""Joins three streams at a fixed rate, with restarts, and prints what grew.

A second of wall time brings a second of event time: a file of each stream. The query is stopped and started again
every ``--restart`` seconds. Every two seconds, after a collection of garbage, a sample is taken of the heap, of the
files in the state's folder, of the files that the process has open, and of the bytes of the joins' indexes. At the end
the streams are closed, and each order must have been emitted exactly once, with its delivery and its return.
"""

import gc
import json
import os
import shutil
import statistics
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from job import arguments, quiet_session
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

START = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLE_SECONDS = 2
# The seconds from an order to its delivery, and from a delivery to its return.
DELIVERED, RETURNED = 4, 3


def main() -> None:
    """Run for a while, and print the figures as JSON in the last line."""
    args = arguments(
        __doc__,
        seconds={"type": int, "default": 900},
        rate={"type": int, "default": 1000, "help": "orders a second"},
        restart={"type": int, "default": 45, "help": "seconds between two restarts"},
        work={"type": Path, "default": Path("build/soak")},
    )
    shutil.rmtree(args.work, ignore_errors=True)
    soak = Soak(args.work.resolve(), args.rate)
    print(json.dumps(soak.run(args.seconds, args.restart)))


class Soak:
    """One run."""

    def __init__(self, work: Path, rate: int) -> None:
        self.work = work
        self.rate = rate
        self.late = 0
        self.reported = -1
        for name in ("o", "d", "r"):
            (work / name).mkdir(parents=True)
        self.spark = quiet_session(
            {
                "spark.driver.memory": "2g",
                "spark.sql.streaming.minBatchesToRetain": "5",
                # What Spark itself remembers of the past would grow for a quarter of an hour.
                "spark.sql.ui.retainedExecutions": "10",
                "spark.ui.retainedJobs": "10",
                "spark.ui.retainedStages": "10",
                "spark.sql.streaming.numRecentProgressUpdates": "20",
                "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
            }
        )

    def run(self, seconds: int, restart: int) -> dict[str, Any]:
        """Feed the streams for some seconds; return the figures."""
        query = self.start()
        samples: list[dict[str, float]] = []
        begun = time.monotonic()
        restarts = 0
        for second in range(seconds):
            self.feed(second)
            time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
            if second % restart == restart - 1:
                self.report(query)
                query.stop()
                query = self.start()
                restarts += 1
            elif second % SAMPLE_SECONDS == 0:
                self.report(query)
                samples.append(self.sample(query, second))
        for far in (1, 2):
            self.close(seconds + far * 1000)
            query.processAllAvailable()
        self.report(query)
        query.stop()
        return {
            "seconds": seconds,
            "restarts": restarts,
            "orders": seconds * self.rate,
            "same": self.same(seconds),
            "late": self.late,
            "batches": self.reported + 1,
        } | {name: growth(samples, name, restart) for name in ("heapMiB", "stateFiles", "openFiles", "indexKiB")}

    def start(self) -> StreamingQuery:
        """Start the query, or continue it."""
        o, d, r = (self.stream(name) for name in ("o", "d", "r"))
        joined = o.join(d, F.expr("oi = di AND dt BETWEEN ot AND ot + INTERVAL 10 SECONDS"), "left_outer").join(
            r, F.expr("di = ri AND rt BETWEEN dt AND dt + INTERVAL 10 SECONDS"), "left_outer"
        )

        # A sink that takes each batch once. With foreachBatch PySpark would leave a connection open
        # for each start.
        return (
            joined.select("oi", "di", "ri")
            .writeStream.format("parquet")
            .option("path", str(self.work / "joined"))
            .option("checkpointLocation", str(self.work / "checkpoint"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )

    def stream(self, name: str) -> DataFrame:
        """Return one of the streams; its files are deleted when they have been read."""
        rows = self.spark.readStream.schema(f"{name}i INT, {name}t TIMESTAMP").option("cleanSource", "delete")
        return rows.json(str(self.work / name)).withWatermark(f"{name}t", "1 second")

    def feed(self, second: int) -> None:
        """Write the rows of one second."""
        orders = range(second * self.rate, (second + 1) * self.rate)
        self.write("o", second, orders)
        self.write("d", second, [i for i in (i - DELIVERED * self.rate for i in orders) if i >= 0 and i % 10])
        earlier = (i - (DELIVERED + RETURNED) * self.rate for i in orders)
        self.write("r", second, [i for i in earlier if i >= 0 and i % 10 and i % 3 == 0])

    def close(self, second: int) -> None:
        """Write one row to each stream, which is far from all others."""
        for place, name in enumerate("odr"):
            self.write(name, second, [-1 - place])

    def write(self, name: str, second: int, ids: Any) -> None:
        """Write the rows of these ids, all within one second, as one file."""
        moment = START + timedelta(seconds=second)
        lines = []
        for place, i in enumerate(ids):
            at = (moment + timedelta(microseconds=place * 1_000_000 // self.rate)).isoformat()
            lines.append(json.dumps({f"{name}i": i, f"{name}t": at}) + "\n")
        unfinished = self.work / f"{name}-{second}"
        unfinished.write_text("".join(lines))
        unfinished.rename(self.work / name / f"{second}.json")

    def report(self, query: StreamingQuery) -> None:
        """Add up the rows that were dropped as late since the last call."""
        for progress in query.recentProgress:
            if progress.batchId > self.reported and "addBatch" in progress.durationMs:
                self.late += sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
                self.reported = progress.batchId

    def sample(self, query: StreamingQuery, second: int) -> dict[str, float]:
        """Return a sample of the resources in use."""
        jvm = self.spark.sparkContext._jvm
        assert jvm
        gc.collect()  # what Python still holds stays in the JVM
        jvm.java.lang.System.gc()
        heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        pid = jvm.java.lang.ProcessHandle.current().pid()
        state = self.work / "checkpoint" / "state"
        operators = query.lastProgress.stateOperators if query.lastProgress else []
        return {
            "second": second,
            "heapMiB": heap / 2**20,
            "stateFiles": sum(len(files) for _, _, files in os.walk(state)),
            "openFiles": sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
            "indexKiB": sum(each.customMetrics.get("indexBytes", 0) for each in operators) / 2**10,
        }

    def same(self, seconds: int) -> bool:
        """Tell whether every order was emitted once, with its delivery and return if they are in time."""
        joined = self.spark.read.parquet(str(self.work / "joined")).where("oi >= 0")
        orders = seconds * self.rate
        expected: Counter[tuple[int, int | None, int | None]] = Counter()
        for i in range(orders):
            delivered = i if i % 10 and i + DELIVERED * self.rate < orders else None
            returned = delivered is not None and i % 3 == 0 and i + (DELIVERED + RETURNED) * self.rate < orders
            expected[(i, delivered, i if returned else None)] += 1
        return Counter(tuple(row) for row in joined.collect()) == expected


def growth(samples: list[dict[str, float]], name: str, restart: int) -> dict[str, float]:
    """Return the mean after a warm-up of a third of the time, and how the fitted line rises from there to the end.

    All values go up and down between two restarts; the line is fitted to the medians of these spans. ``perMinute`` is
    in the samples' unit. ``rise`` is a fraction of the mean: a value that has grown linearly from zero has a rise of 1.
    """
    spans = defaultdict(list)
    for sample in samples[len(samples) // 3 :]:
        spans[sample["second"] // restart].append(sample)
    seconds = [statistics.mean(sample["second"] for sample in span) for span in spans.values()]
    medians = [statistics.median(sample[name] for sample in span) for span in spans.values()]
    line = statistics.linear_regression(seconds, medians)
    mean = statistics.mean(medians)
    # The caller rejects a mean of zero.
    rise = line.slope * (seconds[-1] - seconds[0]) / mean if mean else 0.0
    return {"mean": round(mean, 1), "perMinute": round(line.slope * 60, 2), "rise": round(rise, 3)}


if __name__ == "__main__":
    main()
