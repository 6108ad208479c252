"""The join of TPC-H's query 3, kept up to date while its three tables change: inserts, updates and deletes.

Three queries keep customers, orders and lines as arrangements. A fourth joins them: it looks the changes of one table
up in the indexes of the others and keeps no rows. Halfway, a second join of other rows starts over the same indexes,
and the program prints the memory before and after.

    spark-submit --jars "$(python -m streamjoin jar)" \
        --properties-file examples/demo/spark-defaults.conf examples/demo/delta_join.py

At the end the changes of both joins are added up, and compared with DuckDB's join of the tables.
"""

import argparse
import contextlib
import io
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from batch_progress import Batch, BatchProgress, Column
from check_tpch import check
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tpch_changes import rounds

import streamjoin as sj

# The changes of each table, as `tpch_changes` writes them, and the indexes of its arrangement.
TABLES = {
    "customer": ("c_custkey BIGINT, c_name STRING, c_mktsegment STRING, op STRING", [["c_custkey"]]),
    "orders": (
        "o_orderkey BIGINT, o_custkey BIGINT, o_orderdate DATE, o_shippriority INT, op STRING",
        [["o_orderkey"], ["o_custkey"]],
    ),
    "lineitem": (
        "l_orderkey BIGINT, l_linenumber INT, l_extendedprice BIGINT, l_discount INT, l_shipdate DATE, op STRING",
        [["l_orderkey", "l_linenumber"], ["l_orderkey"]],
    ),
}
INPUTS = {"c": "customer", "o": "orders", "l": "lineitem"}
COLUMNS = ["o_orderkey", "o_orderdate", "o_shippriority", "l_linenumber", "l_extendedprice", "l_discount"]
KEYS = "c_custkey = o_custkey AND l_orderkey = o_orderkey"
CONDITIONS = {
    "query 3": f"{KEYS} AND c_mktsegment = 'BUILDING'"
    " AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
    "furniture": f"{KEYS} AND c_mktsegment = 'FURNITURE' AND o_orderdate < DATE '1994-01-01'",
}


def main() -> int:
    """Run the demo; return 0 if both results are right."""
    args = parse_arguments()
    shutil.rmtree(args.work, ignore_errors=True)
    spark = SparkSession.builder.appName("delta join").getOrCreate()
    spark.conf.set("spark.streamjoin.arrangements", str(args.work / "arrangements"))

    changes = rounds(args.scale, args.rounds)
    write(next(changes), args, 0)
    tables = [arrange(spark, args, name) for name in TABLES]
    for query in tables:
        query.processAllAvailable()
    progress = {"query 3": start(spark, args, "query 3")}
    for number, each in enumerate(changes, 1):
        write(each, args, number)
        show_for(args.seconds, progress["query 3"])
        if number == args.rounds // 2:
            progress["furniture"] = start_beside(spark, args, tables, progress["query 3"])
    for query in (*tables, *(each.query for each in progress.values())):
        query.processAllAvailable()
    progress["query 3"].show()
    print("\nThe second join")
    progress["furniture"].show()
    show_paths("query 3")
    show_arrangements(spark)

    same = [compare(spark, args, name, each.rows_in_state()) for name, each in progress.items()]
    show_answer(spark, args)
    for query in spark.streams.active:
        query.stop()
    spark.stop()
    return 0 if all(same) else 1


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="The join of TPC-H's query 3, kept up to date.")
    parser.add_argument("--scale", type=float, default=0.02, help="of TPC-H: 1 is six million lines")
    parser.add_argument("--rounds", type=int, default=12, help="of changes, the first load counted")
    parser.add_argument("--seconds", type=float, default=2, help="from one round to the next")
    parser.add_argument("--work", type=Path, default=Path("build/demo-delta"), help="folder for all files of the demo")
    args = parser.parse_args()
    args.work = args.work.resolve()
    return args


def write(changes: Any, args: argparse.Namespace, number: int) -> None:
    """Let a round of changes come."""
    changes.write(args.work, number)


def arrange(spark: SparkSession, args: argparse.Namespace, name: str) -> StreamingQuery:
    """Start the query that keeps a table. A file is a batch, and a batch a version."""
    schema, keys = TABLES[name]
    (args.work / name).mkdir(exist_ok=True)
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(args.work / name))
    writer = sj.arrange(stream, name, keys=keys, op="op").queryName(name)
    return writer.start(checkpointLocation=str(args.work / "checkpoints" / name))


def join(name: str) -> DataFrame:
    """Return the changes of a join."""
    return sj.delta_join(INPUTS, on=CONDITIONS[name], select=COLUMNS)


def start(spark: SparkSession, args: argparse.Namespace, name: str) -> BatchProgress:
    """Start a join; the changes of its result go to Parquet files, exactly once."""
    writer = join(name).writeStream.queryName(name).format("parquet").option("path", str(result(args, name)))
    writer = writer.option("checkpointLocation", str(args.work / "checkpoints" / name.replace(" ", "-")))
    columns = [
        Column("batch", 5, lambda batch: batch["batchId"]),
        *(changed(table) for table in TABLES),
        Column("index MB", 8, lambda batch: f"{index_bytes(batch) / 1e6:.1f}"),
        Column("ms", 6, lambda batch: batch["durationMs"]["triggerExecution"]),
    ]
    return BatchProgress(writer.start(), columns)


def result(args: argparse.Namespace, name: str) -> Path:
    """Return the folder with the changes of a join."""
    folder: Path = args.work / "results" / name.replace(" ", "-")
    return folder


def changed(table: str) -> Column:
    """Return a column with how many changes of a table a batch has read, and up to which version."""

    def value(batch: Batch) -> str:
        (source,) = (each for each in batch["sources"] if each["description"].endswith(f"/{table}"))
        return f"{source['numInputRows']} (v{source['metrics']['version']})"

    title = f"rows of {table} (version)"
    return Column(title, len(title), value)


def show_for(seconds: float, progress: BatchProgress) -> None:
    """Print the batches of a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        progress.show()
        time.sleep(min(0.5, seconds))
    progress.show()


def index_bytes(batch: Batch) -> int:
    """Return how many bytes all indexes of the process took when a batch last looked something up."""
    return max(int(source["metrics"].get("executorIndexBytes", 0)) for source in batch["sources"])


def start_beside(
    spark: SparkSession, args: argparse.Namespace, tables: list[StreamingQuery], first: BatchProgress
) -> BatchProgress:
    """Start the second join once all others wait, and print the memory before and after."""
    for query in (*tables, first.query):
        query.processAllAvailable()
    before = heap(spark)
    second = start(spark, args, "furniture")
    second.query.processAllAvailable()
    after = heap(spark)
    first.show()
    indexes = [max(map(index_bytes, batches(each.query))) / 1e6 for each in (first, second)]
    print(
        f"A second join has started. Indexes: {indexes[0]:.1f} MB before, {indexes[1]:.1f} MB after; "
        f"the whole heap: {before:.1f} MB before, {after:.1f} MB after"
    )
    return second


def batches(query: StreamingQuery) -> list[Batch]:
    """Return what the newest batches of a query have reported, without those that only waited."""
    found: list[Batch] = [json.loads(progress.json) for progress in query.recentProgress]
    return [batch for batch in found if "addBatch" in batch["durationMs"]][-3:]


def heap(spark: SparkSession) -> float:
    """Return how many megabytes the process holds: driver and executor, which are one here."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.System.gc()
        time.sleep(0.2)
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def show_paths(name: str) -> None:
    """Print the steps of a join that read changes or look up, a path for each table."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        join(name).explain()
    steps = [line for line in text.getvalue().splitlines() if "LookUp" in line or "Changes" in line]
    print("\nThe paths, each from the bottom up")
    print("\n".join(line.lstrip("+-: *") for line in steps))


def show_arrangements(spark: SparkSession) -> None:
    """Print what the arrangements keep, and for how many readers."""
    print("\nThe arrangements")
    spark.sql("""
        SELECT name, keys, newest_version, rows, bytes, size(readers) AS readers, versions_behind
        FROM sj_arrangements()""").show(truncate=False)


def compare(spark: SparkSession, args: argparse.Namespace, name: str, kept: int) -> bool:
    """Compare what the changes of a join add up to with DuckDB's answer, and show both."""
    # The files that the sink's log names: a batch that was cut off may leave others in the folder.
    files = [each.removeprefix("file://") for each in spark.read.parquet(str(result(args, name))).inputFiles()]
    checked = check(args.work, f"read_parquet({files})", COLUMNS, CONDITIONS[name])
    checked.show()
    print(f"\n{'The same rows' if checked.same else 'DIFFERENT ROWS'} in {name}; rows that the query keeps: {kept}")
    return checked.same


def show_answer(spark: SparkSession, args: argparse.Namespace) -> None:
    """Print the ten rows of TPC-H's query 3, from the changes of the join."""
    print("\nQuery 3")
    spark.read.parquet(str(result(args, "query 3"))).createOrReplaceTempView("changes")
    spark.sql("""
        SELECT o_orderkey, CAST(sum(l_extendedprice * (100 - l_discount) * _diff) / 10000 AS DECIMAL(18, 2)) AS revenue,
          o_orderdate, o_shippriority
        FROM changes GROUP BY o_orderkey, o_orderdate, o_shippriority HAVING sum(_diff) > 0
        ORDER BY revenue DESC, o_orderdate LIMIT 10""").show()


if __name__ == "__main__":
    sys.exit(main())
