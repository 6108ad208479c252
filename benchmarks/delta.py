"""Delta joins beside recomputing the join, and arrangements beside a Parquet sink: ``python benchmarks/delta.py``.

TPC-H's query 3 at three scales, with 1 % of the orders and lines changed in every batch, and with as many as that is
at scale 0.1; the same join where rows only come, beside Spark's own stream-stream joins. Both sides run in one
session, in turns, on the same rows; each batch's result is compared. Tables are in ``benchmarks/results/delta.md``.
"""

import argparse
import gc
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any, ClassVar

from machine import machine, project
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

RESULTS = Path(__file__).with_name("results") / "delta.md"
LINES_PER_ORDER = 4
WARM_UP = 3
SEGMENTS = ("BUILDING", "AUTOMOBILE", "MACHINERY", "HOUSEHOLD", "FURNITURE")
ON = (
    "c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"
)
SELECT = ["l_orderkey", "l_linenumber", "l_extendedprice * (1 - l_discount) AS revenue", "o_orderdate"]
KEYS = {
    "customer": [["c_custkey"]],
    "orders": [["o_orderkey"], ["o_custkey"]],
    "lineitem": [["l_orderkey", "l_linenumber"], ["l_orderkey"]],
}


def main() -> None:
    """Measure what the command line asks for, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scales", nargs="+", type=float, default=[0.1, 0.05, 0.2], help="of TPC-H")
    parser.add_argument("--rounds", type=int, default=10, help="batches that are measured, behind three that warm up")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the arrangement beside the Parquet sink")
    parser.add_argument("--work", type=Path, default=Path("build/bench-delta"))
    options = parser.parse_args()
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    spark = session(work)
    lines = ["# Delta joins and arrangements", ""]
    lines += [f"- {name}: {value}" for name, value in {**machine(), **project()}.items()]
    lines += ["- both sides in one session, in turns; medians, and in brackets the least and the most", ""]
    rows: dict[tuple[float, float], str] = {}
    heads = "| scale | lines | changes a batch | delta join, ms | recomputed, ms | x | loaded, ms |"
    for title, share in (("1 % of orders and lines changed", None), ("as many changes at each scale", 0.001)):
        lines += [f"## A batch of TPC-H query 3, {title}", "", heads, "|---|---|---|---|---|---|---|"]
        for scale in options.scales:
            of = share / scale if share else 0.01
            if (scale, of) not in rows:
                rows[scale, of] = Query3(spark, work / f"q3-{scale}-{of}", scale, of).measure(options.rounds)
            lines.append(rows[scale, of])
            print(lines[-1], flush=True)
        lines += ["", *Query3.notes, ""]
        Query3.notes.clear()
    lines += ["## The same join where rows only come, beside a chain of Spark's stream-stream joins", ""]
    lines += ["| lines | new rows a batch | both maintainers and the join, ms | Spark, ms | x |"]
    lines += ["|---|---|---|---|---|", *Appended(spark, work / "appended", 0.1).measure(options.rounds), ""]
    print(lines[-3], lines[-2], flush=True)
    lines += ["## A batch of 10,000 changes, beside the same rows into a Parquet sink", ""]
    lines += ["| rows | arrangement, ms | Parquet, ms | x |", "|---|---|---|---|"]
    lines += [*commit(spark, work / "commit", options.rows, options.rounds)]
    print(*lines[-3:], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)


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
        # A query without new rows looks for them a hundred times a second otherwise, beside what is measured.
        .config("spark.sql.streaming.pollingDelay", "300ms")
        .config("spark.streamjoin.arrangements", str(work / "arrangements"))
    )
    return sj.configure(builder).getOrCreate()


class Feed:
    """A changelog as a folder of Parquet files, one a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.number = 0

    def put(self, rows: DataFrame, op: str) -> None:
        """Write the file of the next batch."""
        made = self.folder.with_name(f"{self.folder.name}-made")
        rows.withColumn("op", F.lit(op)).coalesce(1).write.mode("overwrite").parquet(str(made))
        self.folder.mkdir(parents=True, exist_ok=True)
        next(made.glob("part-*")).rename(self.folder / f"{self.number:05d}.parquet")
        self.number += 1

    def stream(self) -> DataFrame:
        """Return the changelog, a file a batch."""
        schema = self.spark.read.parquet(str(self.folder)).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def chance(seed: int, modulus: int) -> Column:
    """Return a number below a modulus that depends on the column ``id``."""
    return F.abs(F.xxhash64(F.lit(seed), "id")) % modulus


def day(seed: int) -> Column:
    """Return a day of TPC-H's seven years."""
    return F.date_add(F.lit("1992-01-01").cast("date"), chance(seed, 2500).cast("int"))


class Query3:
    """TPC-H's customers, orders and lines, and the join of its third query."""

    notes: ClassVar[list[str]] = []

    def __init__(self, spark: SparkSession, work: Path, scale: float, share: float) -> None:
        self.spark = spark
        self.work = work
        self.scale = scale
        self.one_in = round(1 / share)
        self.customers = int(150_000 * scale)
        self.orders = int(1_500_000 * scale)
        self.lines = self.orders * LINES_PER_ORDER
        self.feeds = {name: Feed(spark, work / name) for name in KEYS}
        self.names = {name: f"{name}-{scale}-{share}" for name in KEYS}

    def rows(self, table: str, version: int) -> DataFrame:
        """Return all rows of a table, as a version has those that it changes."""
        count = {"customer": self.customers, "orders": self.orders, "lineitem": self.lines}[table]
        ids = self.spark.range(0, count, 1, 2)
        if version:
            ids = ids.where(chance(100 + version, self.one_in) == 0)
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

    def measure(self, rounds: int) -> str:
        """Return the row of the table."""
        maintaining = self.maintained()
        query = self.delta_query("result")
        query.processAllAvailable()
        delta, recomputed, loaded, changes = [], [], [], []
        for number in range(1, rounds + WARM_UP + 1):
            for table in ("orders", "lineitem"):
                self.feeds[table].put(self.rows(table, number), "u")
                maintaining[table].processAllAvailable()
            progress = wait_for(query, number)
            expected, took = self.recompute()
            found = self.spark.table("result").agg(F.sum("_diff"), F.sum(F.expr("_diff * CAST(revenue * 100 AS LONG)")))
            if tuple(found.first() or ()) != expected:
                raise SystemExit(f"scale {self.scale}, batch {number}: {found.first()}, recomputed {expected}")
            if number > WARM_UP:
                delta.append(progress["durationMs"]["triggerExecution"])
                recomputed.append(took)
                loaded.append(sum(int(source["metrics"].get("loadTimeMs", 0)) for source in progress["sources"]))
                changes.append(progress["numInputRows"])
            if progress["stateOperators"]:
                raise SystemExit("the query keeps state")
        if self.one_in == 100 and not Query3.notes:
            self.second_query(query)
        for running in (query, *maintaining.values()):
            running.stop()
        ratio = statistics.median(recomputed) / statistics.median(delta)
        return (
            f"| {self.scale} | {self.lines:,} | {statistics.median(changes):,.0f} | {spread(delta)} "
            f"| {spread(recomputed)} | {ratio:.2f} | {statistics.median(loaded):.0f} |"
        )

    def maintained(self) -> dict[str, StreamingQuery]:
        """Start the queries that maintain the three tables, with their first rows."""
        queries = {}
        for table, keys in KEYS.items():
            self.feeds[table].put(self.rows(table, 0), "i")
            arranged = sj.arrange(self.feeds[table].stream(), self.names[table], keys, op="op")
            queries[table] = arranged.start(checkpointLocation=str(self.work / f"checkpoint-{table}"))
            queries[table].processAllAvailable()
        return queries

    def delta_query(self, name: str) -> StreamingQuery:
        """Start the join; a batch waits until both tables have changed."""
        inputs = {"c": self.names["customer"], "o": self.names["orders"], "l": self.names["lineitem"]}
        joined = sj.delta_join(inputs, on=ON, select=SELECT, spark=self.spark)
        writer = joined.writeStream.format("memory").queryName(name).trigger(processingTime="5 seconds")
        return writer.start(checkpointLocation=str(self.work / f"checkpoint-{name}"))

    def recompute(self) -> tuple[tuple[int, int], float]:
        """Join Parquet tables of the rows as they are; only the join is timed, and the count of its rows."""
        for table, name in self.names.items():
            if table != "customer" or not (self.work / "parquet" / table).exists():
                rows = self.spark.read.format("streamjoin").load(name)
                rows.write.mode("overwrite").parquet(str(self.work / "parquet" / table))
        begun = time.perf_counter()
        tables = [self.spark.read.parquet(str(self.work / "parquet" / table)) for table in KEYS]
        joined = tables[0].crossJoin(tables[1]).crossJoin(tables[2]).where(ON).selectExpr(*SELECT)
        found = joined.agg(F.count("*"), F.sum(F.expr("CAST(revenue * 100 AS LONG)"))).first()
        assert found is not None
        return (found[0], found[1]), 1000 * (time.perf_counter() - begun)

    def second_query(self, first: StreamingQuery) -> None:
        """Note what another query over the same arrangements costs."""
        before = heap(self.spark)
        second = self.delta_query("second")
        second.processAllAvailable()
        indexes = [int(source["metrics"]["executorIndexBytes"]) for source in both(first, second)]
        files = sum(1 for path in (self.work / "checkpoint-second").rglob("*") if path.is_file())
        Query3.notes.append(
            f"A second query at scale {self.scale}: {indexes[1] - indexes[0]:+,} bytes of indexes "
            f"({indexes[0]:,} before); heap after collections {before:.0f} MB before, {heap(self.spark):.0f} MB after, "
            f"its result in memory included; {files} files in its checkpoint and none elsewhere; "
            "0 rows kept by either query."
        )
        second.stop()


class Appended(Query3):
    """The same tables, whose rows come and stay: what Spark can join as streams."""

    def __init__(self, spark: SparkSession, work: Path, scale: float) -> None:
        super().__init__(spark, work, scale, 0.01)
        self.names = {name: f"{name}-appended" for name in KEYS}
        self.spark_feeds = {name: Feed(spark, work / f"spark-{name}") for name in KEYS}

    def batch(self, table: str, version: int) -> DataFrame:
        """Return the rows that a version adds: first all of them, then 1 % more, with keys of their own."""
        rows = self.rows(table, 0)
        if version == 0:
            return rows
        # New orders with all of their lines.
        key = "o_orderkey" if table == "orders" else "l_orderkey"
        new = rows.where(F.abs(F.xxhash64(F.lit(version), key)) % self.one_in == 0)
        return new.withColumn(key, F.col(key) + version * 10 * self.orders)

    def put(self, version: int) -> None:
        """Write the next files of both sides."""
        for table in KEYS if version == 0 else ("orders", "lineitem"):
            for feeds in (self.feeds, self.spark_feeds):
                feeds[table].put(self.batch(table, version), "i")

    def measure(self, rounds: int) -> list[str]:  # type: ignore[override]
        """Return the row of the table, and a note on the state."""
        self.put(0)
        maintaining = {}
        for table, keys in KEYS.items():
            stream = self.feeds[table].stream()
            maintaining[table] = sj.arrange(stream, self.names[table], keys, op="op").start(
                checkpointLocation=str(self.work / f"checkpoint-{table}")
            )
            maintaining[table].processAllAvailable()
        query = self.delta_query("appended")
        query.processAllAvailable()
        chain = self.chain()
        chain.processAllAvailable()
        for number in range(1, rounds + WARM_UP + 1):
            self.put(number)
            for running in (chain, maintaining["orders"], maintaining["lineitem"]):
                running.processAllAvailable()
            wait_for(query, number)
        counted = [self.spark.table(name).count() for name in ("appended", "chain")]
        if counted[0] != counted[1]:
            raise SystemExit(f"{counted[0]} rows of the delta join, {counted[1]} of Spark's")
        own = [times(running, rounds) for running in (maintaining["orders"], maintaining["lineitem"], query)]
        chained = times(chain, rounds)
        together = [sum(each) for each in zip(*own, strict=True)]
        index = int(both(query)[0]["metrics"]["executorIndexBytes"])
        operators = measured(chain, 1)[0]["stateOperators"]
        state = sum(int(operator["memoryUsedBytes"]) for operator in operators)
        rows = sum(int(operator["numRowsTotal"]) for operator in operators)
        changes = statistics.median(each["numInputRows"] for each in measured(query, rounds))
        for running in (query, chain, *maintaining.values()):
            running.stop()
        ratio = statistics.median(chained) / statistics.median(together)
        return [
            f"| {self.lines:,} | {changes:,.0f} | {spread(together)} | {spread(chained)} | {ratio:.2f} |",
            "",
            f"The join alone: {spread(own[2])} ms. State: the indexes of the three arrangements {index:,} bytes, "
            f"shared by all queries, none of the query's own; Spark's chain {state:,} bytes in memory for itself, "
            f"{rows:,} rows, {state / index:.2f} x.",
        ]

    def chain(self) -> StreamingQuery:
        """Start Spark's own joins of the same rows, without the extension."""
        self.spark.conf.set("spark.streamjoin.enabled", "false")
        tables = [self.spark_feeds[table].stream().drop("op") for table in KEYS]
        joined = tables[0].where("c_mktsegment = 'BUILDING'")
        joined = joined.join(tables[1].where("o_orderdate < DATE '1995-03-15'"), F.expr("c_custkey = o_custkey"))
        joined = joined.join(tables[2].where("l_shipdate > DATE '1995-03-15'"), F.expr("l_orderkey = o_orderkey"))
        writer = joined.selectExpr(*SELECT).writeStream.format("memory").queryName("chain")
        query = writer.start(checkpointLocation=str(self.work / "checkpoint-chain"))
        self.spark.conf.unset("spark.streamjoin.enabled")
        return query


def measured(query: StreamingQuery, rounds: int) -> list[dict[str, Any]]:
    """Return the progress of the batches that are measured: the last with rows."""
    return [dict(progress) for progress in query.recentProgress if progress["numInputRows"]][-rounds:]


def times(query: StreamingQuery, rounds: int) -> list[float]:
    """Return how many milliseconds they took."""
    return [each["durationMs"]["triggerExecution"] for each in measured(query, rounds)]


def both(*queries: StreamingQuery) -> list[dict[str, Any]]:
    """Return a source of each query that says how large the indexes are."""
    found = []
    for query in queries:
        sources = [source for progress in query.recentProgress for source in progress["sources"]]
        found.append([source for source in sources if "executorIndexBytes" in source["metrics"]][-1])
    return found


def heap(spark: SparkSession) -> float:
    """Return what is live on the driver's heap, in MB."""
    jvm = spark._jvm
    assert jvm is not None
    for _ in range(3):
        gc.collect()
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def wait_for(query: StreamingQuery, version: int) -> dict[str, Any]:
    """Return the progress of the batch that took both tables to a version."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for progress in query.recentProgress:
            ends = [json.loads(str(source["endOffset"]).replace("'", '"')) for source in progress["sources"]]
            if progress["numInputRows"] and all(end["version"] == version for end in ends[1:]):
                return dict(progress)
        time.sleep(0.1)
    raise SystemExit(f"version {version} was not joined in one batch: {query.exception() or query.lastProgress}")


def commit(spark: SparkSession, work: Path, rows: int, rounds: int) -> list[str]:
    """Return the row of the table, a maintained arrangement beside a Parquet sink; and how long its index takes."""
    changes = 10_000

    def of(ids: DataFrame, version: int) -> DataFrame:
        return ids.select(
            F.col("id").alias("key"), chance(version, 1_000_000).alias("value"), F.sha2(F.col("id").cast("string"), 256)
        ).toDF("key", "value", "text")

    # Each side has its own input, so that they take turns.
    feeds = {side: Feed(spark, work / f"feed-{side}") for side in ("arrangement", "parquet")}
    for feed in feeds.values():
        feed.put(of(spark.range(0, rows, 1, 2), 0), "i")
    arranged = sj.arrange(feeds["arrangement"].stream(), "commit", [["key"]], op="op")
    parquet = feeds["parquet"].stream().repartition(4, "key").writeStream.format("parquet")
    queries = {
        "arrangement": arranged.start(checkpointLocation=str(work / "checkpoint-arrangement")),
        "parquet": parquet.start(str(work / "parquet"), checkpointLocation=str(work / "checkpoint-parquet")),
    }
    for query in queries.values():
        query.processAllAvailable()
    for number in range(1, rounds + WARM_UP + 1):
        for side, query in queries.items():
            feeds[side].put(of(spark.range(0, rows, max(1, rows // changes), 1), number), "u")
            query.processAllAvailable()
    took = {side: times(query, rounds) for side, query in queries.items()}
    for query in queries.values():
        query.stop()
    ratio = statistics.median(took["arrangement"]) / statistics.median(took["parquet"])
    row = f"| {rows:,} | {spread(took['arrangement'])} | {spread(took['parquet'])} | {ratio:.2f} |"
    return [row, "", cold_start(spark, work)]


def cold_start(spark: SparkSession, work: Path) -> str:
    """Return how long it takes to load an index from nothing, several times."""
    few = spark.range(0, 100).select(F.col("id").alias("key"))
    few.write.parquet(str(work / "few"))
    stream = spark.readStream.schema(few.schema).parquet(str(work / "few"))
    asking = sj.arrange(stream, "few", [["key"]]).start(checkpointLocation=str(work / "checkpoint-few"))
    asking.processAllAvailable()
    asking.stop()
    jvm: Any = spark._jvm
    per_million, loaded = [], 0
    for number in range(5):
        jvm.org.apache.spark.sql.streamjoin.arrangement.IndexRegistry.apply(jvm.scala.Option.empty()).clear()
        # The first rows of an input meet those of the inputs before it.
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
        f"({loaded:,} rows that have come or gone were read, five times)."
    )


def spread(values: list[float]) -> str:
    """Return the median, the least and the most."""
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    main()
