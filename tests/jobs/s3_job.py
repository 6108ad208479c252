"""Joins two folders of JSON files with its checkpoints on S3, keeps both as arrangements there, joins these, and ends.

Every batch of a join writes its rows to ``<output>/<query>/<batch>/<process>.json``: a batch that is run again, by a
later process or by another one at the same time, adds a file beside the first.
"""

import argparse
import json
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from quiet_session import quiet_session

import streamjoin as sj

CONDITION = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"


def main() -> None:
    """Run the queries that are asked for to their end, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--store", required=True, help="a folder, s3a://...")
    parser.add_argument("--queries", nargs="+", required=True)
    parser.add_argument("--conf", nargs="*", default=[], help="more settings, each as key=value")
    args = parser.parse_args()
    more = dict(setting.split("=", 1) for setting in args.conf)
    spark = quiet_session({"spark.streamjoin.arrangements": f"{args.store}/arrangements"} | more)
    orders = stream(spark, args.input / "orders", "id INT, ordered TIMESTAMP")
    deliveries = stream(spark, args.input / "deliveries", "order_id INT, delivered TIMESTAMP")

    for name in args.queries:
        checkpoint = f"{args.store}/checkpoints/{name}"
        if name == "interval":
            marked = orders.withWatermark("ordered", "1 minute"), deliveries.withWatermark("delivered", "1 minute")
            joined = marked[0].join(marked[1], F.expr(CONDITION), "left_outer").select("id", "order_id")
            query = start(joined, args.output / name, checkpoint)
        elif name == "delta":
            changes = sj.delta_join({"o": "orders", "d": "deliveries"}, "o.id = d.order_id", ["id"])
            query = start(changes, args.output / name, checkpoint)
        elif name == "look-up":
            looked_up = deliveries.join(sj.table("orders"), F.expr("order_id = id"), "left").select("order_id", "id")
            query = start(looked_up, args.output / name, checkpoint)
        else:
            rows, key = (orders, "id") if name == "orders" else (deliveries, "order_id")
            query = sj.arrange(rows, name, keys=key).trigger(availableNow=True).start(checkpointLocation=checkpoint)
        query.awaitTermination()
    spark.stop()


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return the stream of a folder, one file a batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def start(df: DataFrame, folder: Path, checkpoint: str) -> StreamingQuery:
    """Start a query whose batches go to files."""

    def write(batch: DataFrame, number: int) -> None:
        rows = sorted(map(repr, (tuple(row) for row in batch.collect())))
        (folder / str(number)).mkdir(parents=True, exist_ok=True)
        # In one step, as the process may be killed at any time.
        unfinished = folder / str(number) / f"{os.getpid()}.unfinished"
        unfinished.write_text(json.dumps(rows))
        unfinished.rename(unfinished.with_suffix(".json"))

    return df.writeStream.foreachBatch(write).trigger(availableNow=True).start(checkpointLocation=checkpoint)


if __name__ == "__main__":
    main()
