"""Joins two folders of JSON files with its checkpoints on S3, keeps both as arrangements there, joins these, and ends.

Every batch of a join writes its rows to ``<output>/<query>/<batch>/<process>.json``: a batch that runs again, in a
later process or in another one at the same time, adds a file next to the first.
"""

from pathlib import Path

from job import arguments, quiet_session, stream, write_batch
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

CONDITION = "id = order_id AND delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR"


def main() -> None:
    """Run the queries that are asked for to their end, one after the other."""
    store, queries = {"required": True, "help": "a folder, s3a://..."}, {"nargs": "+", "required": True}
    args = arguments(__doc__, "input", "output", store=store, queries=queries)
    spark = quiet_session({"spark.streamjoin.arrangements": f"{args.store}/arrangements"} | dict(args.conf))
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


def start(df: DataFrame, folder: Path, checkpoint: str) -> StreamingQuery:
    """Start a query whose batches go to files."""

    def write(batch: DataFrame, number: int) -> None:
        write_batch(folder, number, sorted(repr(tuple(row)) for row in batch.collect()))

    return df.writeStream.foreachBatch(write).trigger(availableNow=True).start(checkpointLocation=checkpoint)


if __name__ == "__main__":
    main()
