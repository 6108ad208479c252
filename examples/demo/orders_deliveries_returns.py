"""Orders, their deliveries within an hour, and the returns of these within half an hour: three streams in one query.

Each event-time column has a watermark of its own. The stream of returns stalls for a while: the state of the first join
stays within its bound all the same, and only what waits for returns grows. The last lines on the screen show both.

    spark-submit --jars "$(python -m streamjoin jar)" \
        --properties-file examples/demo/spark-defaults.conf examples/demo/orders_deliveries_returns.py

A generator lets three folders grow while the query runs; the result is compared with DuckDB's batch answer.
"""

import argparse
import sys
from pathlib import Path

from batch_progress import BatchProgress, late, metric, number, watermark
from check_orders import check_returns
from orders_deliveries import (
    DELIVERIES,
    ORDERS,
    compare,
    read,
    run_while_generated,
    show_bounds,
    start_afresh,
    write,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

RETURNS = "return_id BIGINT, delivery_id BIGINT, return_time TIMESTAMP, reason STRING"
COLUMNS = [
    *number(),
    watermark("orders until", 1, "left.order_time"),
    watermark("deliveries until", 1, "right.delivery_time"),
    metric("1: orders", 1, "leftRowsInState"),
    metric("deliveries", 1, "rightRowsInState"),
    watermark("orders until", 2, "left.order_time"),
    watermark("deliveries until", 2, "left.delivery_time"),
    watermark("returns until", 2, "right.return_time"),
    metric("2: delivered", 2, "leftRowsInState"),
    metric("returns", 2, "rightRowsInState"),
    metric("returned", 2, "joinedRows"),
    late(),
]


def main() -> int:
    """Run the demo; return 0 if the result is right."""
    args = parse_arguments()
    start_afresh(args)
    spark = SparkSession.builder.appName("orders, deliveries and returns").getOrCreate()
    joined = join(*(read(spark, args, name, schema) for name, schema in STREAMS.items()))
    show_bounds(joined)
    print("\nEach join with the watermarks that it has received, and the rows that it keeps")
    progress = BatchProgress(write(joined, args), COLUMNS)
    run_while_generated(progress, args)
    result = spark.read.parquet(str(args.work / "joined"))
    same = compare(result, progress, lambda rows, dropped: check_returns(args.work, rows, dropped))
    spark.stop()
    return 0 if same else 1


STREAMS = {"orders": ORDERS, "deliveries": DELIVERIES, "returns": RETURNS}


def join(orders: DataFrame, deliveries: DataFrame, returns: DataFrame) -> DataFrame:
    """Return the two joins, plain Spark."""
    return (
        orders.withWatermark("order_time", "10 minutes")
        .alias("o")
        .join(
            deliveries.withWatermark("delivery_time", "10 minutes").alias("d"),
            F.expr(
                "o.order_id = d.order_id AND d.delivery_time BETWEEN o.order_time AND o.order_time + INTERVAL 1 HOUR"
            ),
            "left_outer",
        )
        .join(
            returns.withWatermark("return_time", "10 minutes").alias("r"),
            F.expr(
                "d.delivery_id = r.delivery_id"
                " AND r.return_time BETWEEN d.delivery_time AND d.delivery_time + INTERVAL 30 MINUTES"
            ),
            "left_outer",
        )
        .select("o.*", "d.delivery_id", "d.delivery_time", "d.courier", "r.return_id", "r.return_time", "r.reason")
    )


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="Orders, deliveries and returns, joined live.")
    parser.add_argument("--orders", type=int, default=100_000, help="how many orders to generate")
    parser.add_argument("--work", type=Path, default=Path("build/demo-chain"), help="folder for all files of the demo")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.source = "files"
    args.streams = tuple(STREAMS)
    return args


if __name__ == "__main__":
    sys.exit(main())
