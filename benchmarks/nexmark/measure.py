"""One run of one variant by one side in this process: the result is the last line of the output, as JSON."""

import argparse
import json
import math
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.again import again, first_after
from harness.measure import peak_heap, used_heap, versions
from harness.query import executed, rows_out, totals
from harness.sides import BY_NAME, session
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from nexmark.feeds import Feed, FileFeed, TopicFeed
from nexmark.generator import Setting, generate
from nexmark.queries import BY_VARIANT, Query, Variant
from nexmark.running import arrange, create_views, observed, result

Record = dict[str, Any]
# What a run measures: events a second; the heap after a collection behind each batch; times of
# batches while events arrive at a fixed rate.
PARTS = ("throughput", "heap", "live")


@dataclass(frozen=True)
class Run:
    """What this process runs.

    Attributes:
        setting: of the events.
        variant: its name.
        side: its name.
        part: one of ``PARTS``.
        work: the folder for inputs, arrangements and checkpoints.
        seconds: from one file to the next while events arrive at a fixed rate.
        conf: settings of the session, in addition to those of the side.
        share: of the events that comes before those that are measured, for the number of events a second.
        warm_up: seconds that pass before anything is measured, while the query runs again and again. None pass with
            Kafka, because a topic serves one run.
        measured: seconds for which events are measured at least.
        kafka: address and topic, if events come from there.
    """

    setting: Setting
    variant: str
    side: str
    part: str
    work: Path
    seconds: float
    conf: dict[str, str]
    share: float = 0.5
    warm_up: float = 0.0
    measured: float = 0.0
    kafka: tuple[str, str] | None = None


def main() -> None:
    """Do the run that the first argument describes, as JSON."""
    # Spark's workers are this Python, with its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    parser = argparse.ArgumentParser(description="One run of one variant by one side.")
    parser.add_argument("run", type=json.loads)
    made = parser.parse_args().run
    setting, work, kafka = Setting(**made.pop("setting")), Path(made.pop("work")), made.pop("kafka")
    print(json.dumps(measure(Run(setting, work=work, kafka=tuple(kafka) if kafka else None, **made))))


def measure(run: Run) -> Record:
    """Do a run, and return its figures."""
    inputs = generate(run.setting, run.work)
    work = run.work / "running"
    shutil.rmtree(work, ignore_errors=True)
    spark = session(BY_NAME[run.side], run.conf)
    warm: list[Record] = []
    for begun, record in again(lambda folder: once(spark, run, inputs, folder), work, ("counts",)):
        if run.part == "throughput":
            warm += warm_steps(record, run, begun)
        if run.part != "throughput" or run.kafka or sum(step["ms"] for step in warm) >= 1000 * run.measured:
            break
    record |= {"warm": warm, "versions": versions(spark)}
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)
    return record


def once(spark: SparkSession, run: Run, inputs: Path, work: Path) -> Record:
    """Run the query from the beginning to the end."""
    query, variant = BY_VARIANT[run.variant]
    feed = feed_of(run, query, inputs, work)
    create_views(spark, feed, query.reads, inputs)
    return Measured(spark, run, query, variant, feed, inputs, work).run()


def warm_steps(record: Record, run: Run, begun: float) -> list[Record]:
    """Return the events, the rows that the query read, and the time of each step that is measured.

    Args:
        record: of one time that the query ran from the beginning to the end.
        run: what this process runs.
        begun: seconds after which it began.
    """
    setting, times = run.setting, record["stepMs"]
    warm = 0 if run.kafka else first_after(times, run.warm_up - begun)
    rows = [each for each in record["batches"]["inputRows"] if each]
    return [
        {
            "events": min(setting.file_events, setting.events - at * setting.file_events),
            # A query over arrangements reads what its maintaining queries have made of the events.
            "rows": None if record["inSteps"] else rows[at],
            "ms": times[at],
        }
        for at in range(max(warm, math.floor(setting.files * run.share)), setting.files)
    ]


def feed_of(run: Run, query: Query, inputs: Path, work: Path) -> Feed:
    """Return the feed of a run; while events arrive at a fixed rate, a batch reads all that there are."""
    if run.kafka:
        return TopicFeed(run.setting, *run.kafka, per_batch=run.part != "live")
    return FileFeed(inputs, work / "arrived", query.reads, None if run.part == "live" else 1)


class Measured:
    """A run, while it is measured."""

    def __init__(
        self, spark: SparkSession, run: Run, query: Query, variant: Variant, feed: Feed, inputs: Path, work: Path
    ) -> None:
        self.spark = spark
        self.part = run.part
        self.seconds = run.seconds
        self.setting = run.setting
        self.feed = feed
        self.variant = variant
        self.work = work
        self.maintaining = arrange(spark, variant, feed, inputs, work)
        # An observation takes time, too. The run for the heap observes the same rows.
        self.observes = run.part != "throughput"
        rows = result(spark, variant, run.setting)
        if self.observes:
            rows = observed(rows, query)
        self.writer = rows.writeStream.format("noop").option("checkpointLocation", str(work / "checkpoints" / "query"))
        self.peak = 0

    def run(self) -> Record:
        """Run it to the end of its input, and return its figures."""
        begun = time.perf_counter()
        if self.part == "live":
            query, record = self._at_a_rate()
        elif self.maintaining:
            query, record = self._in_steps()
        else:
            query, record = self._all_there()
        batches = executed(query)
        for each in (query, *self.maintaining):
            if failed := each.exception():
                raise failed
            each.stop()
        return record | {
            "wall": time.perf_counter() - begun,
            "counts": self._counts(batches),
            "peakHeapBytes": self.peak or None,
            "inSteps": bool(self.maintaining),
            "arrangedRows": sum(int(sj.arrangement(name).rows) for name in self.variant.arranged),
            "batches": {
                "inputRows": [batch["numInputRows"] for batch in batches],
                "ms": [batch["durationMs"]["triggerExecution"] for batch in batches],
                "stateRows": [
                    sum(operator["numRowsTotal"] for operator in batch["stateOperators"]) for batch in batches
                ],
            },
        }

    def _counts(self, batches: list[Record]) -> list[int]:
        """Return how many rows the batches emitted, and the sum of their checksums if these are observed."""
        if not self.observes:
            return [rows_out(batches)]
        return [sum(totals(batch, name) for batch in batches) for name in ("rows", "check")]

    def _all_there(self) -> tuple[StreamingQuery, Record]:
        """Run over all files at once, one of each kind in a batch; a step is a batch."""
        for number in range(self.setting.files + 1):
            self.feed.publish(number)
        query = self.writer.trigger(availableNow=True).start()
        if self.part == "heap":
            self.peak = peak_heap(self.spark, query)
        query.awaitTermination()
        steps = [batch for batch in executed(query) if batch["numInputRows"]]
        return query, {"stepMs": [batch["durationMs"]["triggerExecution"] for batch in steps]}

    def _in_steps(self) -> tuple[StreamingQuery, Record]:
        """Let one file of each kind arrive after the other; a step ends when all queries have read it."""
        query = self.writer.start()
        steps = []
        for number in range(self.setting.files + 1):
            begun = time.perf_counter()
            self.feed.publish(number)
            for each in (*self.maintaining, query):
                each.processAllAvailable()
            steps.append(1000 * (time.perf_counter() - begun))
            if self.part == "heap":
                self.peak = max(self.peak, used_heap(self.spark))
        return query, {"stepMs": steps}

    def _at_a_rate(self) -> tuple[StreamingQuery, Record]:
        """Let the files arrive at fixed times, whether the queries have read the ones before or not."""
        query = self.writer.start()
        begun = time.perf_counter()
        for number in range(self.setting.files):
            time.sleep(max(0.0, begun + number * self.seconds - time.perf_counter()))
            self.feed.publish(number)
        published = time.perf_counter()
        for each in (*self.maintaining, query):
            each.processAllAvailable()
        behind = time.perf_counter() - published
        self.feed.publish(self.setting.files)
        for each in (*self.maintaining, query):
            each.processAllAvailable()
        return query, {"behind": behind}


if __name__ == "__main__":
    main()
