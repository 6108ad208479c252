"""The highest fixed rate that batches of one second keep up with.

The input is Spark's ``rate-micro-batch`` source: each batch has as many rows of each stream, whether the one before
took long or not. Orders and deliveries are computed from their numbers. Event time has 200 of each a second, as in W2,
so it runs faster than the clock, and the state has the same rows at any rate once a trial has filled it.

A side keeps up with a rate if at least nine of ten batches take no more than their second. Trials double the rate until
a side no longer keeps up, and then halve the distance between the highest rate that it kept up with and the lowest that
it did not. All trials run in one JVM, each with a checkpoint of its own.
"""

import math
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from harness.inputs import DISORDER_MICROS, MICROS_PER_ROW, Streams, Table, connect, numbers
from harness.query import executed, marked, observed, query_rows, totals
from harness.runs import Record
from harness.scenario import Scenario, rows
from harness.sides import COMPARED, Side

START_MICROS = 1_767_225_600_000_000
BOUND_ROWS = 240_000
FIRST_RATE = 20_000
LOWEST_RATE = 1_000
# Rates are searched until the next one would differ by less than this factor.
NEAR = 1.1
# Batches of a trial that are measured, how many of them may take longer than their second, and the
# least that precede them.
MEASURED, LONG, WARM_UP = 20, 2, 5
BATCH_MS = 1000


@dataclass(frozen=True)
class Numbered(Streams):
    """Streams that are computed from numbers, without files.

    The SQL of their rows is for both Spark and DuckDB. It reads the column ``value`` of ``{numbers}``.

    Attributes:
        bound_rows: so many rows of a stream are as far apart as the bound.
    """

    bound_rows: int

    @property
    def filling_rows(self) -> int:
        """The rows of a stream after which the state no longer grows."""
        return self.bound_rows * 3 // 2 + self.delay_ms * 1000 // MICROS_PER_ROW


def rates(scale: float) -> Scenario:
    """Return the scenario; the scale multiplies the rows that the bound keeps."""
    bound_rows = rows(BOUND_ROWS, scale)
    minutes = bound_rows * MICROS_PER_ROW / 60_000_000
    return Scenario(
        "rate",
        "rate",
        f"The highest rate that batches of one second keep up with: orders and their deliveries within {minutes:g} "
        "minutes of event time, inner",
        streams(bound_rows),
        "inner",
        sides=COMPARED,
        kind="rate",
    )


def streams(bound_rows: int) -> Numbered:
    """Return orders and the deliveries of nine tenths of them, each up to one and a half bounds after its order."""
    time_of = f"timestamp_micros({START_MICROS} + value * {MICROS_PER_ROW})"
    lag = f"(value * 7919) % {bound_rows * 3 // 2}"
    order_rows = (
        f"SELECT value AS order_id, {time_of} AS order_time, concat('customer-', value % 10007) AS customer, "
        "(value * 7919) % 20000 AS cents FROM {numbers}"
    )
    delivery_rows = (
        f"SELECT value AS delivery_id, CASE WHEN value % 10 < 9 THEN value - {lag} ELSE -10 - value END "
        f"AS delivered_order_id, {time_of} AS delivery_time, concat('courier-', value % 101) AS courier "
        "FROM {numbers}"
    )
    bound = f"INTERVAL {bound_rows * MICROS_PER_ROW // 1000} MILLISECONDS"
    return Numbered(
        name=f"rate-{bound_rows}",
        left=Table("orders", "order_id", "order_id", "order_time", order_rows, ""),
        right=Table("deliveries", "delivery_id", "delivered_order_id", "delivery_time", delivery_rows, ""),
        bound=f"delivery_time >= order_time AND delivery_time <= order_time + {bound}",
        delay_ms=DISORDER_MICROS // 1000,
        bound_rows=bound_rows,
    )


def highest(keeps_up: Callable[[int], bool], first: int = FIRST_RATE) -> int | None:
    """Return the highest rate that something keeps up with, to about a tenth; None if that is below the lowest rate.

    Args:
        keeps_up: tries a rate.
        first: the rate that is tried first.
    """
    good: int | None = None
    bad: int | None = None
    rate = first
    while good is None or bad is None or bad / good > NEAR:
        if keeps_up(rate):
            good = rate
        else:
            bad = rate
        if good is None:
            rate //= 2
            if rate < LOWEST_RATE:
                return None
        elif bad is None:
            rate *= 2
        else:
            rate = round(math.sqrt(good * bad))
    return good


def enough(times: list[float]) -> bool:
    """Return whether a trial has all of its batches, and enough of them took no more than their second."""
    return len(times) == MEASURED and not hopeless(times)


def hopeless(times: list[float]) -> bool:
    """Return whether a trial has had so many long batches that the others no longer matter."""
    return sum(ms > BATCH_MS for ms in times) > LONG


def expected_at(streams: Streams, count: int) -> list[int]:
    """Return how many rows DuckDB's join of the first numbers of both streams has, and how many with a right row."""
    source = f"(SELECT range AS value FROM range({count}))"
    left, right = (table.rows.format(numbers=source) for table in streams.tables)
    with connect() as db:
        query = f"SELECT count(*), count({streams.right.row_id}) FROM ({left}) JOIN ({right}) ON {streams.condition}"
        return numbers(db, query)


def highest_rate(spark: SparkSession, scenario: Scenario, side: Side, checkpoint: Path) -> Record:
    """Return the highest rate that a side keeps up with, in rows of both streams a second, and all trials."""
    trials: list[Record] = []

    def keeps_up(rate: int) -> bool:
        # A store that the last trial has not closed yet may still write into its folder.
        trial = Trial(spark, scenario, side, checkpoint / str(len(trials)), rate // 2)
        trials.append(trial.run())
        return bool(trials[-1]["keptUp"])

    begun = time.perf_counter()
    highest(keeps_up)
    rate = max((trial["rate"] for trial in trials if trial["keptUp"]), default=None)
    return {"rate": rate, "trials": trials, "wall": time.perf_counter() - begun, "batches": {}, "operator": None}


class Trial:
    """One rate, for as many batches as fill the state and some more.

    Args:
        spark: the session.
        scenario: the join.
        side: which engine.
        checkpoint: the folder of the checkpoint, which is removed at the end.
        batch_rows: rows of each stream in a batch.
    """

    def __init__(self, spark: SparkSession, scenario: Scenario, side: Side, checkpoint: Path, batch_rows: int) -> None:
        self.checkpoint = checkpoint
        self.batch_rows = batch_rows
        streams = scenario.streams
        inputs = []
        for table in streams.tables:
            source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", batch_rows)
            source.option("numPartitions", scenario.partitions).load().createOrReplaceTempView("numbers")
            inputs.append(marked(spark.sql(table.rows.format(numbers="numbers")), streams, table))
        self.rows = observed(query_rows(scenario, side, inputs), streams.tables[-1].row_id)
        assert isinstance(streams, Numbered), f"{scenario.name} reads files"
        self.filling = max(WARM_UP, math.ceil(streams.filling_rows / batch_rows))

    def run(self) -> Record:
        """Run it, and return what it did."""
        writer = self.rows.writeStream.format("noop").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(processingTime="1 second").start()
        self._follow(query)
        query.stop()
        if failed := query.exception():
            raise failed
        batches = executed(query)
        times = [float(batch["durationMs"]["triggerExecution"]) for batch in batches]
        measured = times[self.filling : self.filling + MEASURED]
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        return {
            "rate": 2 * self.batch_rows,
            "keptUp": enough(measured),
            "medianMs": statistics.median(measured) if measured else None,
            "stateRows": sum(each["numRowsTotal"] for each in batches[-1]["stateOperators"]),
            "numbers": len(batches) * self.batch_rows,
            "counts": [sum(totals(batch, name) for batch in batches) for name in ("rows", "matched")],
        }

    def _follow(self, query: StreamingQuery) -> None:
        """Wait until the trial has all of its batches, or can no longer succeed."""
        wanted = self.filling + MEASURED
        deadline = time.monotonic() + 2 * wanted * BATCH_MS / 1000
        seen = -1
        times: list[float] = []
        while query.isActive and seen < wanted - 1 and time.monotonic() < deadline and not hopeless(times):
            time.sleep(0.1)
            last = query.lastProgress
            if last is not None and last.batchId > seen:
                seen = last.batchId
                if seen >= self.filling:
                    times.append(float(last.durationMs["triggerExecution"]))
