"""Joins two folders of JSON files in several join types at once, one file of each side a batch, and ends.

The type ``chain`` is a left outer join of both, and of that with a third folder; ``window`` is a full outer join of
both with a window, in the order of its rowtime, ``within`` one on the name of a column. ``temporal`` takes the right
side for the history of a table, with deletes, and ``asof`` finds the nearest row of it; both emit in the order of the
left time. ``rematch`` looks up left rows in the right side as a table, which is brought up to date before, and keeps
those without a match. ``carried`` and ``carried_outer`` are an inner and a left outer join in which each left row
carries the time at which it leaves; ``condition`` compares with that time next to a constant bound.

Every batch writes its rows to ``<output>/<join type>/<batch>/<process>.json``: a batch that runs again in a later
process adds a file next to the first, so a test can compare the rows of both.

With ``--pause before:3`` every query stops in batch 3 before it has written its rows (``after:3``: after), leaves
a mark in ``<output>/paused`` and waits to be killed.
"""

import argparse
import time
from pathlib import Path

from job import arguments, quiet_session, stream, write_batch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import streamjoin as sj

CONDITION = "lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 20 SECONDS AND lv + rv < 15"
OPERATION = "IF(rv < 2, 'delete', 'update')"
UNTIL = "lt + lv * INTERVAL 4 SECONDS"
CARRIED = f"lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND {UNTIL} AND lv + rv < 15"
MUCH_LATER = "lid + 100 = rid"  # a row of the next file
THIRD = "rk = tk AND tt BETWEEN rt AND rt + INTERVAL 15 SECONDS"


def main() -> None:
    """Run all queries to their end."""
    args = arguments(
        *(__doc__, "input", "output", "checkpoints"),
        types={"nargs": "+", "required": True},
        pause={"default": "never:-1"},
        only_data_batches={"action": "store_true", "help": "leave out batches without new rows"},
    )
    settings = {
        "spark.sql.streaming.noDataMicroBatches.enabled": str(not args.only_data_batches).lower(),
        "spark.streamjoin.arrangements": str(args.output / "arrangements"),
        # With isolation, each query has its own class loader and reloads all classes of its tasks.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    spark = quiet_session(settings | dict(args.conf))
    left = read(spark, args.input / "left", "lk INT, lt TIMESTAMP, lv INT, lid INT").withWatermark("lt", "5 seconds")
    right = read(spark, args.input / "right", "rk INT, rt TIMESTAMP, rv INT, rid INT").withWatermark("rt", "8 seconds")

    def joined(how: str) -> DataFrame:
        if how == "window":
            on = F.expr("lk = rk AND lv + rv < 15")
            window = sj.window_join(left, right, on, "full_outer", following="20 seconds")
            return window.withColumn("rowtime", F.unix_micros("rowtime"))
        if how == "within":
            one, other = left.withColumnRenamed("lk", "k"), right.withColumnRenamed("rk", "k")
            return sj.join(one, other, "k", "full_outer", within=("-5 seconds", "20 seconds"))
        if how == "temporal":
            versions = sj.versions(right.withColumn("op", F.expr(OPERATION)), key="rk", op="op")
            matched = sj.temporal_join(left, versions, F.expr("lk = rk AND lv + rv < 15"), "left")
            return matched.withColumn("rowtime", F.unix_micros("lt"))
        if how == "asof":
            matched = sj.asof_join(left, right, F.expr("lk = rk"), "left", direction="nearest", tolerance="7 seconds")
            return matched.withColumn("rowtime", F.unix_micros("lt"))
        if how == "rematch":
            sj.arrange(right, "right", keys=[["rid"]]).trigger(availableNow=True).start(
                checkpointLocation=str(args.output / "arranging")
            ).awaitTermination()
            return left.join(sj.table("right", rematch="1 hour"), F.expr(MUCH_LATER), "left")
        if how in {"carried", "carried_outer"}:
            return left.join(right, F.expr(CARRIED), "left_outer" if how == "carried_outer" else "inner")
        if how == "condition":
            return left.join(right, F.expr(f"{CONDITION} AND rt <= {UNTIL}"), "left_outer")
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
    """Return the stream of a folder.

    Restored elsewhere, a stream makes its last batch once more; Spark rejects the files of another folder, but not
    those of another pattern.
    """
    return stream(spark, folder / "*.json", schema)


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
        write_batch(args.output / how, batch, lines)
        pause("after", batch)

    writer = joined.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.start(checkpointLocation=str(args.checkpoints / how))


if __name__ == "__main__":
    main()
