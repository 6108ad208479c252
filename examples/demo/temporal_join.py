"""Orders with what was valid when they were placed: the price of the item, and the rate of the currency.

Both change while the orders arrive. A temporal join finds the price: it is valid until the next price, or until the
item is taken out of the shop. An as-of join finds the newest rate that is at most an hour old. Both are left joins, so
they emit every order, once, as soon as nothing can change its price and its rate.

    spark-submit --jars "$(python -m streamjoin jar)" \
        --properties-file examples/demo/spark-defaults.conf examples/demo/temporal_join.py

The three folders grow while the query runs. At the end the result is compared with DuckDB's as-of joins of the same
files.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from batch_progress import BatchProgress, late, metric, number, watermark
from check_priced_orders import check
from priced_orders import rounds, write
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

SCHEMAS = {
    "orders": "order_id BIGINT, order_time TIMESTAMP, item BIGINT, currency STRING, quantity BIGINT",
    "prices": "priced_item BIGINT, price_time TIMESTAMP, cents BIGINT, op STRING",
    "rates": "code STRING, rate_time TIMESTAMP, rate BIGINT",
}
TOLERANCE = "1 hour"
COLUMNS = [
    *number(),
    watermark("orders until", 1, "left.order_time"),
    watermark("prices until", 1, "right.price_time"),
    watermark("rates until", 2, "right.rate_time"),
    metric("waiting for prices", 1, "leftRowsInState"),
    metric("for rates", 2, "leftRowsInState"),
    metric("prices kept", 1, "rightRowsInState"),
    metric("rates kept", 2, "rightRowsInState"),
    metric("with a price", 1, "joinedRows"),
    metric("with a rate", 2, "joinedRows"),
    late(),
]


def main() -> int:
    """Run the demo; return 0 if the result is right."""
    args = parse_arguments()
    shutil.rmtree(args.work, ignore_errors=True)
    for name in SCHEMAS:
        (args.work / name).mkdir(parents=True)
    spark = SparkSession.builder.appName("temporal join").getOrCreate()

    writer = joined(spark, args.work).writeStream.format("parquet").option("path", str(args.work / "joined"))
    query = writer.option("checkpointLocation", str(args.work / "checkpoint")).start()
    progress = BatchProgress(query, COLUMNS)
    for each, rows in enumerate(rounds(args.orders, args.rounds)):
        write(args.work, each, rows)
        time.sleep(args.seconds)
        progress.show()
    query.processAllAvailable()
    progress.show()
    query.stop()

    result = spark.read.parquet(str(args.work / "joined"))
    print("\nSome orders of a currency that is quoted, and of the yen, which is not for some hours")
    result.where("order_time >= '2026-01-01 15:30:00'").orderBy("order_time").show(8, truncate=False)
    same = compare(result, progress, args.work)
    spark.stop()
    return 0 if same else 1


def joined(spark: SparkSession, work: Path) -> DataFrame:
    """Return the orders, each with its price and its rate."""
    orders = read(spark, work, "orders", "order_time")
    prices = sj.versions(read(spark, work, "prices", "price_time"), key="priced_item", op="op")
    rates = read(spark, work, "rates", "rate_time")
    priced = sj.temporal_join(orders, prices, F.expr("item = priced_item"), "left", as_of="order_time")
    rated = sj.asof_join(
        priced.drop("priced_item", "op"),
        rates,
        F.expr("currency = code"),
        "left",
        match="l.order_time >= r.rate_time",
        tolerance=TOLERANCE,
    )
    return rated.drop("code")


def read(spark: SparkSession, work: Path, name: str, event_time: str) -> DataFrame:
    """Return one of the streams, whose rows come up to five minutes after their time."""
    stream = spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 2).parquet(str(work / name))
    return stream.withWatermark(event_time, "6 minutes")


def compare(result: DataFrame, progress: BatchProgress, work: Path) -> bool:
    """Compare what the query has written with DuckDB's answer, show both, and tell whether they are the same."""
    # The files that the sink's log names: a batch that was cut off may leave others in the folder.
    files = [name.removeprefix("file://") for name in result.inputFiles()]
    checked = check(work, f"read_parquet({files})", TOLERANCE, progress.late_rows())
    checked.show()
    print(f"\n{'The same rows' if checked.same else 'DIFFERENT ROWS'}, joined by {progress.operator()}")
    return checked.same


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="Orders with the prices and the rates of their time.")
    parser.add_argument("--orders", type=int, default=200_000, help="how many")
    parser.add_argument("--rounds", type=int, default=48, help="in which the streams come")
    parser.add_argument("--seconds", type=float, default=0.5, help="from one round to the next")
    parser.add_argument("--work", type=Path, default=Path("build/demo-temporal"), help="folder for all files")
    args = parser.parse_args()
    args.work = args.work.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
