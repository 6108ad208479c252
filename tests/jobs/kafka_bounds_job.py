"""Joins two topics of Kafka. One has two partitions, each with bounds of its own; prints the rows after each step.

Deliveries of a partition come in order. A bound has neither a number nor an order.
"""

import json

from job import REQUIRED, arguments
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

SCHEMA = "order_id INT, time TIMESTAMP"


def main() -> None:
    """Run the steps, each a batch of rows and the batches without rows after it."""
    args = arguments(__doc__, bootstrap=REQUIRED, checkpoint=REQUIRED)
    spark = sj.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    kafka = {"kafka.bootstrap.servers": args.bootstrap}

    def read(topic: str) -> DataFrame:
        source = spark.readStream.format("kafka").options(**kafka, subscribe=topic, startingOffsets="earliest").load()
        parsed = source.select("partition", F.from_json(F.col("value").cast("string"), SCHEMA).alias("row"))
        return parsed.select("partition", "row.*", F.col("row.order_id").isNull().alias("is_bound"))

    def write(topic: str, partition: int, order_id: int | None, at: str) -> None:
        value = json.dumps({"order_id": order_id, "time": f"2026-01-01T{at}:00Z"})
        row = spark.createDataFrame([(value, partition)], "value STRING, partition INT")
        row.write.format("kafka").options(**kafka, topic=topic).save()

    orders = sj.with_bounds(read("orders"), "time", is_bound="is_bound", lag="0 seconds").alias("o")
    deliveries = read("deliveries")
    deliveries = sj.with_bounds(deliveries, "time", is_bound="is_bound", lag="0 seconds", per="partition").alias("d")
    on = F.expr("o.order_id = d.order_id")
    joined = sj.join(orders, deliveries, on, "left_outer", within=("0 seconds", "1 hour"))
    out = joined.select(F.col("o.order_id").alias("order_id"), F.col("d.partition").alias("partition"))
    # Both partitions have had a row when the query starts.
    for partition in (0, 1):
        write("deliveries", partition, None, "10:00")
    write("orders", 0, 1, "10:00")
    write("orders", 0, 2, "10:00")
    query = out.writeStream.format("memory").queryName("out").start(checkpointLocation=args.checkpoint)

    def step() -> None:
        query.processAllAvailable()
        print(json.dumps(sorted(tuple(row) for row in spark.table("out").collect())))

    step()
    # Partition 0 is far past the orders; partition 1 still has a delivery for them.
    write("deliveries", 0, None, "20:00")
    step()
    write("deliveries", 1, 1, "10:30")
    step()
    write("deliveries", 1, None, "11:01")
    step()
    query.stop()


if __name__ == "__main__":
    main()
