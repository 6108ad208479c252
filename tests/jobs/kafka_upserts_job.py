"""Keeps a compacted topic of Kafka up to date by a delta join; prints the topic by key after each step."""

import json
from typing import Any

from job import REQUIRED, arguments
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

AGAIN = 2
CHANGES: list[dict[str, list[tuple[Any, ...]]]] = [
    {"orders": [(1, "open", "i"), (2, "closed", "i")], "lines": [(1, 1, 100, "i"), (1, 2, 50, "i"), (2, 1, 7, "i")]},
    {"lines": [(1, 1, 90, "u")]},
    {"orders": [(2, "open", "u")], "lines": [(1, 2, None, "d")]},
    {"orders": [(1, None, "d")]},
]
SCHEMAS = {"orders": "order_id INT, status STRING, op STRING", "lines": "order_id INT, line INT, cents INT, op STRING"}
KEYS = {"orders": [["order_id"]], "lines": [["order_id", "line"], ["order_id"]]}


def main() -> None:
    """Run the steps, each with all of its changes."""
    args = arguments(__doc__, "work", bootstrap=REQUIRED, topic=REQUIRED)
    spark = sj.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    spark.conf.set("spark.streamjoin.arrangements", str(args.work / "arrangements"))
    kafka = {"kafka.bootstrap.servers": args.bootstrap}

    def arrange(name: str) -> None:
        stream = spark.readStream.schema(SCHEMAS[name]).parquet(str(args.work / name))
        writer = sj.arrange(stream, name, KEYS[name], op="op").trigger(availableNow=True)
        writer.start(checkpointLocation=str(args.work / "checkpoints" / name)).awaitTermination()

    for step, changes in enumerate(CHANGES):
        for name, rows in changes.items():
            spark.createDataFrame(rows, SCHEMAS[name]).write.mode("append").parquet(str(args.work / name))
            arrange(name)
        joined = sj.delta_join(
            {"o": "orders", "l": "lines"},
            on="o.order_id = l.order_id AND o.status = 'open'",
            select=["o.order_id", "l.line", "l.cents"],
        )
        writer = sj.upsert(joined, {**kafka, "topic": args.topic}, ["order_id", "line"]).trigger(availableNow=True)
        checkpoint = args.work / "checkpoints" / "joined"
        writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
        if step == AGAIN:
            # As if the driver had died after it wrote the batch: it runs again.
            commit = checkpoint / "commits" / str(step)
            commit.unlink()
            commit.with_name(f".{step}.crc").unlink(missing_ok=True)
            writer.start(checkpointLocation=str(checkpoint)).awaitTermination()
        records = spark.read.format("kafka").options(**kafka, subscribe=args.topic).load()
        newest = records.groupBy(F.col("key").cast("string")).agg(
            F.max_by(F.col("value").cast("string"), "offset").alias("value"), F.count("*").alias("records")
        )
        said = {
            row["key"]: (row["value"] and json.loads(row["value"])["cents"], row["records"]) for row in newest.collect()
        }
        print(json.dumps([step, said], sort_keys=True))
    # The checkpoint belongs to its topic.
    other = sj.upsert(joined, {**kafka, "topic": f"{args.topic}-2"}, ["order_id", "line"])
    try:
        other.start(checkpointLocation=str(checkpoint)).stop()
    except AnalysisException as error:
        print(json.dumps([len(CHANGES), error.getCondition()]))


if __name__ == "__main__":
    main()
