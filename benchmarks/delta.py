"""Delta joins compared with recomputing, and arrangements with a Parquet sink: ``python benchmarks/delta.py``.

TPC-H's query 3 at three scales, with 1 % of the orders and lines changed in every batch, and with as many as that is
at scale 0.1; the same join of rows that are only added, compared with Spark's own stream-stream joins. Both sides run
in one session, in turns, on the same rows; each batch's result is compared. Tables are in
``benchmarks/results/delta.md``.
"""

import argparse
import gc
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any, ClassVar

from harness.arrangements import cold_start, commit, hot_key
from harness.changing import TABLES, WARM_UP, Feed, Tables, maintained, measured, registry, session, spread, times
from harness.machine import described
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import streamjoin as sj

RESULTS = Path(__file__).with_name("results") / "delta.md"
PARTS = ("query3", "appended", "arrangements")
# The conditions of each input, and those between inputs.
WHERE = {
    "customer": "c_mktsegment = 'BUILDING'",
    "orders": "o_orderdate < DATE '1995-03-15'",
    "lineitem": "l_shipdate > DATE '1995-03-15'",
}
ON = "c_custkey = o_custkey AND l_orderkey = o_orderkey"
SELECT = ["l_orderkey", "l_linenumber", "l_extendedprice * (1 - l_discount) AS revenue", "o_orderdate"]


def main() -> None:
    """Measure what the command line selects, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scales", nargs="+", type=float, default=[0.1, 0.05, 0.2], help="of TPC-H")
    parser.add_argument("--rounds", type=int, default=10, help="batches that are measured, behind three that warm up")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the arrangement beside the Parquet sink")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("build/bench-delta"))
    options = parser.parse_args()
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    spark = session(work)
    lines = ["# Delta joins and arrangements", ""]
    lines += described()
    lines += ["- both sides in one session, in turns; medians, and in brackets the least and the most"]
    for part in options.parts:
        if part == "query3":
            lines += ["", *query3(spark, work, options.scales, options.rounds)]
        elif part == "appended":
            lines += ["", *Appended(spark, work / "appended", options.scales[0]).measure(options.rounds)]
        else:
            lines += ["", *commit(spark, work / "commit", options.rows, options.rounds)]
            lines += ["", cold_start(spark, work / "commit")]
            lines += ["", *hot_key(spark, work / "hot", options.rows, options.rounds)]
        print(*lines[-8:], sep="\n", flush=True)
    options.results.write_text("\n".join(lines) + "\n")
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)


def query3(spark: SparkSession, work: Path, scales: list[float], rounds: int) -> list[str]:
    """Return both tables."""
    lines = []
    rows: dict[tuple[float, float], str] = {}
    for title, share in (("1 % of orders and lines changed", None), ("as many changes at each scale", 0.001)):
        lines += [
            f"## A batch of TPC-H query 3, {title}",
            "",
            "| scale | lines | changes a batch | delta join, ms | recomputed, ms | x | loaded, ms |",
            "|---|---|---|---|---|---|---|",
        ]
        for scale in scales:
            of = share / scale if share else 0.01
            if (scale, of) not in rows:
                rows[scale, of] = Query3(spark, work / f"q3-{scale}-{of}", scale, of).measure(rounds)
            lines.append(rows[scale, of])
            print(lines[-1], flush=True)
        lines += ["", *Query3.notes, ""]
        Query3.notes.clear()
    return lines[:-2]


def delta_query(spark: SparkSession, names: dict[str, str], on: str, name: str, work: Path) -> StreamingQuery:
    """Start the join; a batch waits until both tables have changed."""
    inputs = {table[0]: names[table] for table in TABLES}
    joined = sj.delta_join(inputs, on=on, select=SELECT, spark=spark)
    writer = joined.writeStream.format("memory").queryName(name).trigger(processingTime="5 seconds")
    query = writer.start(checkpointLocation=str(work / f"checkpoint-{name}"))
    query.processAllAvailable()
    return query


class Query3:
    """The join of TPC-H's third query, while orders and lines change."""

    notes: ClassVar[list[str]] = []
    keys: ClassVar[dict[str, list[list[str]]]] = {
        "customer": [["c_custkey"]],
        "orders": [["o_orderkey"], ["o_custkey"]],
        "lineitem": [["l_orderkey", "l_linenumber"], ["l_orderkey"]],
    }
    on = " AND ".join([*WHERE.values(), ON])

    def __init__(self, spark: SparkSession, work: Path, scale: float, share: float) -> None:
        self.spark = spark
        self.work = work
        self.scale = scale
        self.one_in = round(1 / share)
        self.tables = Tables(spark, scale)
        self.feeds = {name: Feed(spark, work / name) for name in TABLES}
        self.names = {name: f"{name}-{scale}-{share}" for name in TABLES}
        self.schemas: dict[str, StructType] = {}

    def measure(self, rounds: int) -> str:
        """Return the row of the table."""
        maintaining = {}
        for table, keys in self.keys.items():
            self.feeds[table].put(self.tables.rows(table), "i")
            maintaining[table] = maintained(
                self.feeds[table].stream(), self.names[table], keys, self.work / f"checkpoint-{table}", "op"
            )
        query = delta_query(self.spark, self.names, self.on, "result", self.work)
        delta, recomputed, loaded, changes = [], [], [], []
        for number in range(1, rounds + WARM_UP + 1):
            for table in ("orders", "lineitem"):
                self.feeds[table].put(self.tables.rows(table, number, self.one_in), "u")
                maintaining[table].processAllAvailable()
            batches = joined(query, number)
            expected, recomputing = self.recompute()
            found = self.spark.table("result").agg(F.sum("_diff"), F.sum(F.expr("_diff * CAST(revenue * 100 AS LONG)")))
            if tuple(found.first() or ()) != expected:
                raise SystemExit(f"scale {self.scale}, batch {number}: {found.first()}, recomputed {expected}")
            if number > WARM_UP:
                delta.append(took(batches))
                recomputed.append(recomputing)
                sources = [source["metrics"] for each in batches for source in each["sources"]]
                loaded.append(sum(int(source.get("loadTimeMs", 0)) for source in sources))
                changes.append(sum(each["numInputRows"] for each in batches))
            if any(each["stateOperators"] for each in batches):
                raise SystemExit("the query keeps state")
        if self.one_in == 100 and not Query3.notes:
            self.second_query(query)
        for running in (query, *maintaining.values()):
            running.stop()
        ratio = statistics.median(recomputed) / statistics.median(delta)
        return (
            f"| {self.scale} | {self.tables.lines:,} | {statistics.median(changes):,.0f} | {spread(delta)} "
            f"| {spread(recomputed)} | {ratio:.2f} | {statistics.median(loaded):.0f} |"
        )

    def recompute(self) -> tuple[tuple[int, int], float]:
        """Join Parquet tables of the current rows; only the join and the count of its rows are timed."""
        for table, name in self.names.items():
            if table != "customer" or not (self.work / "parquet" / table).exists():
                rows = self.spark.read.format("streamjoin").load(name)
                rows.write.mode("overwrite").parquet(str(self.work / "parquet" / table))
                self.schemas[table] = rows.schema
        begun = time.perf_counter()
        # With the schema, Spark need not open the files of each table to infer it.
        tables = [
            self.spark.read.schema(self.schemas[table]).parquet(str(self.work / "parquet" / table)) for table in TABLES
        ]
        joined = tables[0].crossJoin(tables[1]).crossJoin(tables[2]).where(self.on).selectExpr(*SELECT)
        found = joined.agg(F.count("*"), F.sum(F.expr("CAST(revenue * 100 AS LONG)"))).first()
        assert found is not None
        return (found[0], found[1]), 1000 * (time.perf_counter() - begun)

    def second_query(self, first: StreamingQuery) -> None:
        """Note what another query over the same arrangements costs."""
        before = heap(self.spark)
        second = delta_query(self.spark, self.names, self.on, "second", self.work)
        indexes = [index_bytes(each) for each in (first, second)]
        files = sum(1 for path in (self.work / "checkpoint-second").rglob("*") if path.is_file())
        Query3.notes.append(
            f"A second query at scale {self.scale}: {indexes[1] - indexes[0]:+,} bytes of indexes "
            f"({indexes[0]:,} before); heap after collections {before:.0f} MB before, {heap(self.spark):.0f} MB after, "
            f"its result in memory included; {files} files in its checkpoint and none elsewhere; "
            "0 rows kept by either query."
        )
        second.stop()


class Appended:
    """The same join of rows that are only added, which Spark can join as streams.

    Both sides keep the same rows: those that can have a match, with the columns that the query needs. One runs after
    the other, because work between the batches of one would slow the other; Spark is second, in a warm JVM.
    """

    keys: ClassVar[dict[str, list[list[str]]]] = {
        "customer": [["c_custkey"]],
        "orders": [["o_orderkey"], ["o_custkey"]],
        "lineitem": [["l_orderkey"]],
    }
    columns: ClassVar[dict[str, list[str]]] = {
        "customer": ["c_custkey"],
        "orders": ["o_orderkey", "o_custkey", "o_orderdate"],
        "lineitem": ["l_orderkey", "l_linenumber", "l_extendedprice", "l_discount"],
    }

    def __init__(self, spark: SparkSession, work: Path, scale: float) -> None:
        self.spark = spark
        self.work = work
        self.tables = Tables(spark, scale)
        self.names = {table: f"{table}-appended" for table in TABLES}

    def batch(self, table: str, version: int) -> DataFrame:
        """Return the rows that a version adds: first all of them, then 1 % more, with new keys."""
        rows = self.tables.rows(table)
        if version == 0:
            return rows
        # New orders with all of their lines.
        key = "o_orderkey" if table == "orders" else "l_orderkey"
        new = rows.where(F.abs(F.xxhash64(F.lit(version), key)) % 100 == 0)
        return new.withColumn(key, F.col(key) + version * 10 * self.tables.orders)

    def feeds(self, side: str) -> dict[str, Feed]:
        """Return the inputs of a side, with their first rows."""
        feeds = {table: Feed(self.spark, self.work / f"{side}-{table}") for table in TABLES}
        for table, feed in feeds.items():
            feed.put(self.batch(table, 0))
        return feeds

    def wanted(self, feed: Feed, table: str) -> DataFrame:
        """Return the rows of a stream that can have a match, without what the query does not read."""
        return feed.stream().where(WHERE[table]).select(*self.columns[table])

    def measure(self, rounds: int) -> list[str]:
        """Return the table, and a note on the state."""
        own, index, changes = self.delta_join(rounds)
        chained, state, kept = self.chain(rounds)
        found = [
            self.spark.table(name).agg(F.count("*"), F.sum(F.expr("CAST(revenue * 100 AS LONG)"))).first()
            for name in ("appended", "chain")
        ]
        if found[0] != found[1]:
            raise SystemExit(f"{found[0]} of the delta join, {found[1]} of Spark's")
        together = [sum(each) for each in zip(*own.values(), strict=True)]
        ratio = statistics.median(chained) / statistics.median(together)
        parts = ", ".join(f"{name} {spread(each)} ms" for name, each in own.items())
        return [
            "## The same join where rows only come, beside a chain of Spark's stream-stream joins",
            "",
            "| lines | new rows a batch | both maintainers and the join, ms | Spark, ms | x |",
            "|---|---|---|---|---|",
            f"| {self.tables.lines:,} | {changes:,.0f} | {spread(together)} | {spread(chained)} | {ratio:.2f} |",
            "",
            f"In parts: {parts}. State: the indexes of the three arrangements {index:,} bytes, shared by all queries, "
            f"none of the query's own; Spark's chain {state:,} bytes in memory for itself, {kept:,} rows: "
            f"{index / state:.2f} of it.",
        ]

    def delta_join(self, rounds: int) -> tuple[dict[str, list[float]], int, float]:
        """Return the milliseconds of each part, the bytes of the indexes, and the new rows of a batch."""
        registry(self.spark).clear()
        feeds = self.feeds("streamjoin")
        queries = {
            table: maintained(
                self.wanted(feeds[table], table), self.names[table], keys, self.work / f"checkpoint-{table}"
            )
            for table, keys in self.keys.items()
        }
        queries["join"] = delta_query(self.spark, self.names, ON, "appended", self.work)
        batches = []
        for number in range(1, rounds + WARM_UP + 1):
            for table in TABLES[1:]:
                feeds[table].put(self.batch(table, number))
                queries[table].processAllAvailable()
            batches.append(joined(queries["join"], number))
        parts = {table: times(queries[table], rounds) for table in TABLES[1:]}
        parts["the join"] = [took(each) for each in batches[-rounds:]]
        changes = statistics.median(sum(each["numInputRows"] for each in batch) for batch in batches[-rounds:])
        index = int(registry(self.spark).bytes())
        for query in queries.values():
            query.stop()
        return parts, index, changes

    def chain(self, rounds: int) -> tuple[list[float], int, int]:
        """Return the milliseconds of Spark's own joins, the bytes of their state and its rows."""
        feeds = self.feeds("spark")
        self.spark.conf.set("spark.streamjoin.enabled", "false")
        tables = [self.wanted(feeds[table], table) for table in TABLES]
        joined = tables[0].join(tables[1], F.expr("c_custkey = o_custkey"))
        joined = joined.join(tables[2], F.expr("l_orderkey = o_orderkey"))
        writer = joined.selectExpr(*SELECT).writeStream.format("memory").queryName("chain")
        query = writer.start(checkpointLocation=str(self.work / "checkpoint-chain"))
        self.spark.conf.unset("spark.streamjoin.enabled")
        query.processAllAvailable()
        for number in range(1, rounds + WARM_UP + 1):
            for table in TABLES[1:]:
                feeds[table].write(self.batch(table, number))
            # A batch that finds new orders, which it reads first, finds their lines too.
            for table in reversed(TABLES[1:]):
                feeds[table].publish()
            query.processAllAvailable()
        last = measured(query, 1)[0]["stateOperators"]
        durations = times(query, rounds)
        query.stop()
        state = sum(int(operator["memoryUsedBytes"]) for operator in last)
        return durations, state, sum(int(operator["numRowsTotal"]) for operator in last)


def index_bytes(query: StreamingQuery) -> int:
    """Return how large the indexes of the process were after a query's last batch."""
    metrics = [source["metrics"] for progress in query.recentProgress for source in progress["sources"]]
    return int([each for each in metrics if "executorIndexBytes" in each][-1]["executorIndexBytes"])


def heap(spark: SparkSession) -> float:
    """Return the live memory of the driver's heap, in MB."""
    jvm = spark._jvm
    assert jvm is not None
    for _ in range(3):
        gc.collect()
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def joined(query: StreamingQuery, version: int) -> list[dict[str, Any]]:
    """Wait until both tables are joined at a version; return the progress of its batches, one or two."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        batches = []
        for progress in query.recentProgress:
            sources = [json.loads(str(source["endOffset"]).replace("'", '"')) for source in progress["sources"]]
            ends = [source["version"] for source in sources[1:]]
            if progress["numInputRows"] and max(ends) == version:
                batches.append(dict(progress))
                if min(ends) == version:
                    return batches
        time.sleep(0.1)
    raise SystemExit(f"version {version} was not joined: {query.exception() or query.lastProgress}")


def took(batches: list[dict[str, Any]]) -> float:
    """Return the milliseconds of each."""
    return float(sum(each["durationMs"]["triggerExecution"] for each in batches))


if __name__ == "__main__":
    main()
