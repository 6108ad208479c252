"""Joins two folders of JSON files in several join types at once, one file of each side a batch, and ends.

The type ``chain`` is a left outer join of both, and of that with a third folder; ``window`` is a full outer join of
both with a window, in the order of its rowtime, ``within`` one on the name of a column. ``temporal`` takes the right
side for the history of a table, with deletes, and ``asof`` finds the nearest row of it; both come in the order of the
left time. ``rematch`` looks up left rows in the right side as a table, which is brought up to date before, and keeps
those without a match.

Every batch writes its rows to ``<output>/<join type>/<batch>/<process>.json``: a batch that is run again, by a later
process, adds a file beside the first, and a test can see whether both times the rows were the same.

With ``--pause before:3`` every query stops in batch 3 before it has written its rows (``after:3``: after), leaves
a mark in ``<output>/paused`` and waits to be killed.
"""

import argparse
import json
import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from quiet_session import quiet_session

import streamjoin as sj

CONDITION = "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 20 SECONDS AND lv + rv < 15"
OPERATION = "IF(rv < 2, 'delete', 'update')"
MUCH_LATER = "lid + 100 = rid"  # a row of the next file
THIRD = "rk = tk AND tt BETWEEN rt AND rt + INTERVAL 15 SECONDS"


def main() -> None:
    """Run all queries to their end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--types", nargs="+", required=True)
    parser.add_argument("--pause", default="never:-1")
    parser.add_argument("--only-data-batches", action="store_true", help="leave out batches without new rows")
    parser.add_argument("--conf", nargs="*", default=[], help="more settings, each as key=value")
    args = parser.parse_args()

    no_data = str(not args.only_data_batches).lower()
    more = dict(setting.split("=", 1) for setting in args.conf)
    more["spark.streamjoin.arrangements"] = str(args.output / "arrangements")
    spark = quiet_session({"spark.sql.streaming.noDataMicroBatches.enabled": no_data} | more)
    left = read(spark, args.input / "left", "lk INT, lt TIMESTAMP, lv INT, lid INT").withWatermark("lt", "5 seconds")
    right = read(spark, args.input / "right", "rk INT, rt TIMESTAMP, rv INT, rid INT").withWatermark("rt", "8 seconds")

    def joined(how: str) -> DataFrame:
        if how == "window":
            window = sj.window_join(
                left, right, F.expr("lk = rk AND lv + rv < 15"), "full_outer", following="20 seconds"
            )
            return window.withColumn("rowtime", F.unix_micros("rowtime"))
        if how == "within":
            one, other = left.withColumnRenamed("lk", "k"), right.withColumnRenamed("rk", "k")
            return sj.join(one, other, "k", "full_outer", within=("-5 seconds", "20 seconds"))
        if how == "temporal":
            versions = sj.versions(right.withColumn("op", F.expr(OPERATION)), key="rk", op="op")
            met = sj.temporal_join(left, versions, F.expr("lk = rk AND lv + rv < 15"), "left")
            return met.withColumn("rowtime", F.unix_micros("lt"))
        if how == "asof":
            met = sj.asof_join(left, right, F.expr("lk = rk"), "left", direction="nearest", tolerance="7 seconds")
            return met.withColumn("rowtime", F.unix_micros("lt"))
        if how == "rematch":
            sj.arrange(right, "right", keys=[["rid"]]).trigger(availableNow=True).start(
                checkpointLocation=str(args.output / "arranging")
            ).awaitTermination()
            return left.join(sj.table("right", rematch="1 hour"), F.expr(MUCH_LATER), "left")
        if how != "chain":
            return left.join(right, F.expr(CONDITION), how)
        third = read(spark, args.input / "third", "tk INT, tt TIMESTAMP, tv INT, tid INT")
        both = left.join(right, F.expr(CONDITION), "left_outer")
        return both.join(third.withWatermark("tt", "5 seconds"), F.expr(THIRD), "left_outer")

    queries = [start(joined(how), how, args) for how in args.types]
    for query in queries:
        query.awaitTermination()
    spark.stop()


def read(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return the stream of a folder, one file a batch.

    Restored elsewhere, a stream makes its last batch once more; Spark rejects the files of another folder, but not
    those of another pattern.
    """
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{folder}/*.json")


def start(joined: DataFrame, how: str, args: argparse.Namespace) -> StreamingQuery:
    """Start the query of one join type."""
    point, _, paused_batch = args.pause.partition(":")

    def pause(here: str, batch: int) -> None:
        if here == point and batch == int(paused_batch):
            (args.output / "paused").mkdir(parents=True, exist_ok=True)
            (args.output / "paused" / how).touch()
            time.sleep(600)

    def write(rows: DataFrame, batch: int) -> None:
        lines = [row[0] for row in rows.select(F.to_json(F.struct("*"))).collect()]
        pause("before", batch)
        folder = args.output / how / str(batch)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{os.getpid()}.unfinished"
        unfinished.write_text(json.dumps(lines))
        unfinished.rename(folder / f"{os.getpid()}.json")
        pause("after", batch)

    return (
        joined.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(args.checkpoints / how))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    main()
