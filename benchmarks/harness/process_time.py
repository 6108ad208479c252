"""A stream joined with the current table: rows per second while the table changes.

Each side joins the same clicks with the same customers for the same time, in turns. In a minute 1 % of the customers
change (or another share):

- ``sj.table``: the customers are an arrangement, and a query reads the changes in batches of a twelfth of a minute.
- ``static``: Spark's join of a stream with a Parquet table. It never sees a change.
- ``broadcast``: ``foreachBatch`` reads the newest Parquet table when there is another one, which is once a minute,
  caches it, and joins each batch with ``F.broadcast`` of it. This is how a user refreshes without
  streamjoin. Spark builds the broadcast again in each batch.

DuckDB writes the changes and the new tables alongside the queries, without a Spark task.
"""

import json
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj
from harness.changing import maintained
from harness.query import executed

SIDES = {
    "sj.table": "looked up in an arrangement",
    "static": "stream-static join of a Parquet table",
    "broadcast": "broadcast, refreshed each minute in foreachBatch",
}
CLICKS = "click_id BIGINT, customer BIGINT, page STRING"
CUSTOMERS = "id BIGINT, name STRING, city STRING, changed INT"
ON = "customer = id"
# The number of parts in which the changes of a minute arrive.
PARTS = 12


@dataclass(frozen=True)
class Sizes:
    """How large it all is.

    Attributes:
        rows: of the table.
        share: of them that change in a minute.
        minute: seconds of one; less to try it out.
        batch: rows of the stream in a batch.
        files: batches that there are at the most.
        seconds: for which a side runs.
    """

    rows: int
    share: float
    minute: float
    batch: int
    files: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """What a side did in a round."""

    rows_per_second: float
    batch_ms: float
    batches: int
    changed: float


class ProcessTime:
    """The comparison."""

    def __init__(self, spark: SparkSession, work: Path, sizes: Sizes) -> None:
        self.spark = spark
        self.work = work
        self.sizes = sizes
        self.number = 0
        self.found: dict[str, list[Measured]] = {side: [] for side in SIDES}
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        # A query that is stopped within a batch logs an error for each of its tasks. What fails
        # ends the benchmark.
        spark.sparkContext.setLogLevel("FATAL")
        for folder in ("clicks", "changes", "parquet"):
            (work / folder).mkdir(parents=True)
        file = self.copy(
            f"""SELECT range AS click_id, ({chance("range", 1)} % {sizes.rows})::BIGINT AS customer,
                'page-' || range % 101 AS page FROM range({sizes.batch})""",
            "clicks",
        )
        for number in range(1, sizes.files):
            (work / "clicks" / f"{number:05}.parquet").hardlink_to(file)
        self.copy(f"SELECT *, 'i' AS op FROM ({self.customers()})", "changes")
        self.copy(self.customers(), "parquet")

    def customers(self) -> str:
        """Return SQL of the initial table."""
        return f"""SELECT range AS id, 'customer-' || range AS name, 'city-' || range % 1009 AS city, 0 AS changed
            FROM range({self.sizes.rows})"""

    def measure(self, rounds: int) -> list[str]:
        """Return the table of the sides, of several rounds after one that warms up."""
        stream = self.spark.readStream.schema(f"{CUSTOMERS}, op STRING").parquet(str(self.work / "changes"))
        maintainer = maintained(stream, "customers", [["id"]], self.work / "checkpoint-customers", "op")
        for number in range(rounds + 1):
            for side, measured in self.found.items():
                run = self.run(side, number)
                # Its remaining input must not be read while the next side runs.
                maintainer.processAllAvailable()
                print(f"{f'round {number}' if number else 'warm-up'}, {side}: {run}", flush=True)
                if number:
                    measured.append(run)
        maintainer.stop()
        speeds = {side: statistics.median(self.speeds(side)) for side in SIDES}
        return [
            f"## A stream meets a table of {self.sizes.rows:,} rows, of which {self.sizes.share:.0%} change in "
            f"{self.sizes.minute:g} seconds; {self.sizes.batch:,} rows a batch",
            "",
            "| side | rows a second | a batch, ms | batches | rows that met a change | sj.table is faster, x |",
            "|---|---|---|---|---|---|",
            *(self.line(side, runs, speeds) for side, runs in self.found.items()),
        ]

    def speeds(self, side: str) -> list[float]:
        """Return the rows a second of a side, of each round."""
        return [run.rows_per_second for run in self.found[side]]

    def line(self, side: str, runs: list[Measured], speeds: dict[str, float]) -> str:
        """Return the line of a side."""
        each = self.speeds(side)
        batch = statistics.median(run.batch_ms for run in runs)
        changed = statistics.median(run.changed for run in runs)
        return (
            f"| {side}: {SIDES[side]} | {speeds[side]:,.0f} ({min(each):,.0f} to {max(each):,.0f}) | {batch:,.0f} "
            f"| {sum(run.batches for run in runs)} | {changed:.2%} | {speeds['sj.table'] / speeds[side]:.2f} |"
        )

    def run(self, side: str, number: int) -> Measured:
        """Let a side run for its time, and return what it did after its first batch."""
        checkpoint = self.work / f"checkpoint-{side}-{number}"
        clicks = self.spark.readStream.schema(CLICKS).option("maxFilesPerTrigger", 1)
        stream = clicks.parquet(str(self.work / "clicks"))
        observed: list[dict[str, Any]] = []
        over = threading.Event()
        if side == "broadcast":
            writer = stream.writeStream.foreachBatch(self.refreshing(observed, over))
        else:
            table = sj.table("customers") if side == "sj.table" else self.newest()
            joined = stream.join(table, F.expr(ON)).observe("totals", *metrics(self.number))
            writer = joined.writeStream.format("noop")
        changing = {"sj.table": self.change, "broadcast": self.rewrite}.get(side)
        with Repeatedly(changing, self.sizes.minute / (PARTS if side == "sj.table" else 1)):
            query = writer.start(checkpointLocation=str(checkpoint))
            self.wait(query)
            batches = executed(query)
            over.set()
            while side == "broadcast" and len(executed(query)) == len(batches):
                # Stopped within a Python function, the query's thread may overflow its stack over
                # the error's text.
                query.awaitTermination(1)
            query.stop()
        if side != "broadcast":
            observed = [batch["observedMetrics"]["totals"] for batch in batches]
        shutil.rmtree(checkpoint, ignore_errors=True)
        return self.judged(side, batches, observed[: len(batches)])

    def judged(self, side: str, batches: list[dict[str, Any]], observed: list[dict[str, Any]]) -> Measured:
        """Return the figures of a run; end the benchmark if it lost a row."""
        wrong = [totals for totals in observed if not totals["rows"] == totals["matched"] == self.sizes.batch]
        if wrong:
            raise SystemExit(f"{side}: {self.sizes.batch} rows were to meet a customer, {json.dumps(wrong[0])}")
        times = [batch["durationMs"]["triggerExecution"] for batch in batches[1:]]
        return Measured(
            len(times) * self.sizes.batch * 1000 / sum(times),
            statistics.median(times),
            len(times),
            observed[-1]["changed"] / self.sizes.batch,
        )

    def wait(self, query: StreamingQuery) -> None:
        """Wait for the time of a run, and longer if there is no batch to measure yet."""
        end = time.monotonic() + self.sizes.seconds
        while time.monotonic() < end or len(executed(query)) < 3:
            if query.awaitTermination(1):
                raise SystemExit("the query has ended")
            last = query.lastProgress
            if last is not None and last.batchId >= self.sizes.files - 1:
                return

    def newest(self) -> DataFrame:
        """Return the newest Parquet table."""
        return self.spark.read.schema(CUSTOMERS).parquet(str(max((self.work / "parquet").glob("[0-9]*"))))

    def refreshing(self, observed: list[dict[str, Any]], over: threading.Event) -> Callable[[DataFrame, int], None]:
        """Return what a user gives to ``foreachBatch``; it does nothing once the run is over."""
        kept: dict[str, Any] = {}
        since = self.number

        def join(batch: DataFrame, _: int) -> None:
            if over.is_set():
                return
            newest = self.newest()
            if kept.get("files") != newest.inputFiles():
                if kept:
                    kept["table"].unpersist()
                kept.update(files=newest.inputFiles(), table=newest.persist())
            observation = Observation()
            joined = batch.join(F.broadcast(kept["table"]), F.expr(ON)).observe(observation, *metrics(since))
            joined.write.format("noop").mode("overwrite").save()
            observed.append(observation.get)

        return join

    def change(self) -> None:
        """Add a part of a minute's changes."""
        self.number += 1
        rows = max(1, round(self.sizes.rows * self.sizes.share / PARTS))
        # A key occurs once in a batch.
        ids = (
            f"SELECT DISTINCT ({chance('range', self.number + 1)} % {self.sizes.rows})::BIGINT AS id FROM range({rows})"
        )
        self.copy(
            f"""SELECT id, 'customer-' || id AS name, 'city-' || (id + {self.number}) % 1009 AS city,
                {self.number} AS changed, 'u' AS op FROM ({ids})""",
            "changes",
        )

    def rewrite(self) -> None:
        """Write the Parquet table again, with the changes of a minute in it."""
        self.number += 1
        one_in = round(1 / self.sizes.share)
        hit = f"{chance('id', self.number + 1)} % {one_in} = 0"
        self.copy(
            f"""SELECT id, name, CASE WHEN {hit} THEN 'city-' || (id + {self.number}) % 1009 ELSE city END AS city,
                CASE WHEN {hit} THEN {self.number} ELSE changed END AS changed
            FROM '{max((self.work / "parquet").glob("[0-9]*"))}'""",
            "parquet",
        )

    def copy(self, rows: str, folder: str) -> Path:
        """Write rows as the next file of a folder, visible only when complete."""
        at = self.work / folder
        unfinished = at / "_unfinished"
        with duckdb.connect() as db:
            db.execute(f"COPY ({rows}) TO '{unfinished}' (FORMAT parquet)")
        file = at / f"{len(list(at.glob('[0-9]*'))):05}.parquet"
        unfinished.rename(file)
        return file


def metrics(since: int) -> list[Column]:
    """Return the observation: all rows, those that matched a customer, and those of a customer changed in this run."""
    observed = {
        "rows": "count(*)",
        "matched": "count(name)",
        "changed": f"count_if(changed > {since})",
        # So that no column is left out.
        "hash": "sum(xxhash64(click_id, customer, page, name, city) & 65535)",
    }
    return [F.expr(sql).alias(name) for name, sql in observed.items()]


class Repeatedly:
    """Calls something every so many seconds, in a thread, while a block runs."""

    def __init__(self, action: Callable[[], None] | None, seconds: float) -> None:
        self.action = action
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.loop)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def loop(self) -> None:
        """Call it until the block ends."""
        while self.action is not None and not self.ended.wait(self.seconds):
            self.action()


def chance(column: str, seed: int) -> str:
    """Return SQL of a number that depends on a column."""
    return f"md5_number_lower(concat({column}, '-', {seed}))"
