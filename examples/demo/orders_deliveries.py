"""Orders joined with their deliveries within an hour of event time, live, on streamjoin.

The job is plain Spark: two streams with watermarks, a left outer join with a time bound, a sink. What makes it run
on streamjoin's operator are the jar and one setting, given to spark-submit:

    spark-submit --jars "$(python -m streamjoin jar)" \
        --properties-file examples/demo/spark-defaults.conf examples/demo/orders_deliveries.py

With ``--source files`` (the default) the job starts a generator that lets two folders grow while the query
runs, writes Parquet, exactly once, and compares the result with DuckDB's batch answer. With ``--source sql`` the query
is that of ``orders_deliveries.sql``. With ``--source kafka`` it
reads what is in the topics ``orders`` and ``deliveries``, writes to the topic ``joined`` and stops: see
``run_kafka_demo.py``.
"""

import argparse
import contextlib
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from batch_progress import BatchProgress, late, metric, number, watermark
from check_orders import Check, check
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

ORDERS = "order_id BIGINT, order_time TIMESTAMP, customer STRING, cents BIGINT"
DELIVERIES = "delivery_id BIGINT, order_id BIGINT, delivery_time TIMESTAMP, courier STRING"
COLUMNS = [
    *number(),
    watermark("orders until", 1, "left.order_time"),
    watermark("deliveries until", 1, "right.delivery_time"),
    metric("orders kept", 1, "leftRowsInState"),
    metric("deliveries kept", 1, "rightRowsInState"),
    metric("joined", 1, "joinedRows"),
    metric("padded", 1, "paddedRows"),
    late(),
]


def main() -> int:
    """Run the demo; return 0 if the result is right."""
    args = parse_arguments()
    if args.source != "kafka":
        start_afresh(args)
    spark = SparkSession.builder.appName("orders and deliveries").getOrCreate()

    joined = from_sql(spark, args) if args.source == "sql" else join(spark, args)
    show_bounds(joined)

    progress = BatchProgress(write(joined, args), COLUMNS)
    if args.source == "kafka":
        run_until_stopped(progress)
        show_plan(progress)
        spark.stop()
        return 0
    run_while_generated(progress, args)
    show_plan(progress)
    result = spark.read.parquet(str(args.work / "joined"))
    print("\nThe first joined rows")
    result.where("delivery_id IS NOT NULL").orderBy("order_time", "delivery_id").show(5, truncate=False)
    same = compare(result, progress, lambda rows, dropped: check(args.work, rows, dropped))
    spark.stop()
    return 0 if same else 1


def join(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Return the join of both streams."""
    orders = read(spark, args, "orders", ORDERS).withWatermark("order_time", "10 minutes")
    deliveries = read(spark, args, "deliveries", DELIVERIES).withWatermark("delivery_time", "10 minutes")
    condition = "o.order_id = d.order_id AND d.delivery_time BETWEEN o.order_time AND o.order_time + INTERVAL 1 HOUR"
    joined = orders.alias("o").join(deliveries.alias("d"), F.expr(condition), "left_outer")
    return joined.select("o.*", "d.delivery_id", "d.delivery_time", "d.courier")


def from_sql(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Return the same join, as ``orders_deliveries.sql`` has it: its last statement is the query."""
    spark.conf.set("demo.work", str(args.work))
    text = Path(__file__).with_suffix(".sql").read_text()
    *tables, query = text.strip().removesuffix(";").split(";\n")
    for table in tables:
        spark.sql(table)
    return spark.sql(query)


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="Orders joined with their deliveries, live.")
    parser.add_argument("--orders", type=int, default=200_000, help="how many orders to generate (files)")
    parser.add_argument("--work", type=Path, default=Path("build/demo"), help="folder for all files of the demo")
    parser.add_argument("--source", choices=["files", "sql", "kafka"], default="files")
    parser.add_argument("--bootstrap", help="address of the Kafka broker")
    parser.add_argument("--batch-rows", type=int, default=20_000, help="rows of a topic in one batch (kafka)")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.streams = ("orders", "deliveries")
    return args


def read(spark: SparkSession, args: argparse.Namespace, name: str, schema: str) -> DataFrame:
    """Return one of the streams, from a folder of Parquet files or from a topic of JSON."""
    if args.source == "files":
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 4).parquet(str(args.work / name))
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", args.batch_rows)
        .load()
    )
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def write(joined: DataFrame, args: argparse.Namespace) -> StreamingQuery:
    """Start the query: to Parquet files until it is stopped, or to a topic until the input is read."""
    checkpoint = str(args.work / "checkpoint")
    if args.source != "kafka":
        return (
            joined.writeStream.format("parquet")
            .queryName("orders with deliveries")
            .option("path", str(args.work / "joined"))
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="1 second")
            .start()
        )
    return (
        joined.select(F.col("order_id").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("topic", "joined")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def start_afresh(args: argparse.Namespace) -> None:
    """Remove what an earlier run left in the work folder."""
    for name in (*args.streams, "joined", "checkpoint"):
        shutil.rmtree(args.work / name, ignore_errors=True)
    for name in args.streams:
        (args.work / name).mkdir(parents=True)


def run_while_generated(progress: BatchProgress, args: argparse.Namespace) -> None:
    """Let the generator fill the folders, and stop the query when it has read and written everything."""
    generator = Path(__file__).with_name("generate_orders.py")
    command = [sys.executable, str(generator), f"--orders={args.orders}", f"--work={args.work}"]
    if "returns" in args.streams:
        command.append("--returns")
    with subprocess.Popen(command) as process:
        while process.poll() is None and progress.query.isActive:
            progress.show()
            time.sleep(0.5)
        if process.poll() is None:
            process.terminate()
    progress.query.processAllAvailable()
    progress.show()
    progress.query.stop()
    if process.returncode != 0:
        sys.exit(f"The generator ended with exit code {process.returncode}")


def run_until_stopped(progress: BatchProgress) -> None:
    """Show the batches of a query that stops by itself."""
    while not progress.query.awaitTermination(1):
        progress.show()
    progress.show()


def show_bounds(joined: DataFrame) -> None:
    """Print the time bounds that keep the state of the join finite."""
    print("\nWhat bounds the state")
    sj.bounds(joined).show(truncate=False)


def compare(result: DataFrame, progress: BatchProgress, check: Callable[[str, int], Check]) -> bool:
    """Compare what the query has written with DuckDB's answer, show both, and tell whether they are the same.

    Args:
        result: the rows of the sink.
        progress: of the query.
        check: compares a relation of DuckDB's with the rows, and a number with that of the late rows.
    """
    # The files that the sink's log names: a batch that was cut off may leave others in the folder.
    files = [name.removeprefix("file://") for name in result.inputFiles()]
    checked = check(f"read_parquet({files})", progress.late_rows())
    checked.show()
    print(f"\n{'The same rows' if checked.same else 'DIFFERENT ROWS'}, joined by {progress.operator()}")
    return checked.same


def show_plan(progress: BatchProgress) -> None:
    """Print the line of the physical plan that joins."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        progress.query.explain()
    lines = [line.lstrip("+-: *") for line in text.getvalue().splitlines() if "Join" in line]
    print("\nThe operator\n" + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
