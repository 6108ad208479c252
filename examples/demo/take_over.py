"""Orders joined with their deliveries within an hour, in plain Spark: nothing here is of streamjoin.

``run_take_over_demo.py`` runs this job twice on one checkpoint: first with Spark's own join, then with streamjoin's.
"""

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812


def main() -> None:
    """Join what is in the folders so far, and say which operator did it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    work = parser.parse_args().work
    spark = SparkSession.builder.appName("take over").getOrCreate()

    def read(name: str) -> DataFrame:
        folder = str(work / name)
        schema = spark.read.parquet(folder).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 4).parquet(folder)

    orders = read("orders").withWatermark("order_time", "10 minutes").alias("o")
    deliveries = read("deliveries").withWatermark("delivery_time", "10 minutes").alias("d")
    within = "d.delivery_time BETWEEN o.order_time AND o.order_time + INTERVAL 1 HOUR"
    joined = orders.join(deliveries, F.expr(f"o.order_id = d.order_id AND {within}"), "left_outer")
    query = (
        joined.select("o.*", "d.delivery_id", "d.delivery_time", "d.courier")
        .writeStream.format("parquet")
        .option("path", str(work / "joined"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for batch in query.recentProgress:
        (operator,) = batch["stateOperators"]
        print(
            f"batch {batch['batchId']:>2}: {batch['numInputRows']:>7,} rows, {operator['numRowsTotal']:>7,} in state, "
            f"{operator['operatorName']}"
        )
    spark.stop()


if __name__ == "__main__":
    main()
