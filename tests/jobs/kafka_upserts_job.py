"""Keeps a compacted topic of Kafka up to date by a delta join; prints what the topic says after each step, by key."""

import argparse
import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import streamjoin as sj

COLUMNS = ["order_id", "line", "cents"]
CHANGES: list[dict[str, list[tuple[Any, ...]]]] = [
    {"orders": [(1, "open", "i"), (2, "closed", "i")], "lines": [(1, 1, 100, "i"), (1, 2, 50, "i"), (2, 1, 7, "i")]},
    {"lines": [(1, 1, 90, "u")]},
    {"orders": [(2, "open", "u")], "lines": [(1, 2, None, "d")]},
    {"orders": [(1, None, "d")]},
]
SCHEMAS = {"orders": "order_id INT, status STRING, op STRING", "lines": "order_id INT, line INT, cents INT, op STRING"}
KEYS = {"orders": [["order_id"]], "lines": [["order_id", "line"], ["order_id"]]}


def upserts(batch: DataFrame) -> DataFrame:
    """Return the new value of each key that has changed, or a null where the key is gone."""
    key = F.concat_ws("-", "order_id", "line").alias("key")
    # Of the old row and the new one of a key, the new one has the greater _diff.
    newest = batch.groupBy(key).agg(F.max_by(F.struct(*COLUMNS), "_diff").alias("row"), F.max("_diff").alias("_diff"))
    return newest.select("key", F.when(F.col("_diff") > 0, F.to_json("row")).alias("value"))


def main() -> None:
    """Run the steps, each with all of its changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--work", required=True, type=Path)
    args = parser.parse_args()
    spark = sj.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    spark.conf.set("spark.streamjoin.arrangements", str(args.work / "arrangements"))
    kafka = {"kafka.bootstrap.servers": args.bootstrap}

    def arrange(name: str) -> None:
        stream = spark.readStream.schema(SCHEMAS[name]).parquet(str(args.work / name))
        writer = sj.arrange(stream, name, KEYS[name], op="op").trigger(availableNow=True)
        writer.start(checkpointLocation=str(args.work / "checkpoints" / name)).awaitTermination()

    def write(batch: DataFrame, _: int) -> None:
        upserts(batch).write.format("kafka").options(**kafka, topic=args.topic).save()

    for step, changes in enumerate(CHANGES):
        for name, rows in changes.items():
            spark.createDataFrame(rows, SCHEMAS[name]).write.mode("append").parquet(str(args.work / name))
            arrange(name)
        joined = sj.delta_join(
            {"o": "orders", "l": "lines"},
            on="o.order_id = l.order_id AND o.status = 'open'",
            select=["o.order_id", "l.line", "l.cents"],
        )
        query = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
        query.start(checkpointLocation=str(args.work / "checkpoints" / "joined")).awaitTermination()
        records = spark.read.format("kafka").options(**kafka, subscribe=args.topic).load()
        newest = records.groupBy(F.col("key").cast("string")).agg(
            F.max_by(F.col("value").cast("string"), "offset").alias("value"), F.count("*").alias("records")
        )
        said = {
            row["key"]: (row["value"] and json.loads(row["value"])["cents"], row["records"]) for row in newest.collect()
        }
        print(json.dumps([step, said], sort_keys=True))


if __name__ == "__main__":
    main()
