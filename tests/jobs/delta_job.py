"""Maintains two arrangements, reads them by a delta join, one file of each a batch, looks one of them up, and ends.

Every batch of the join writes its rows to ``<output>/batches/<batch>/<process>.json``, one of the look-up to
``<output>/looked``, and one of a look-up that keeps rows without a match to ``<output>/kept``: a batch that
runs again in a later process adds a file next to the first, so a test can compare the rows of both. At the end, the
rows of the arrangements at each version that can be read are written to ``<output>/<name>.json``.
"""

import functools
import json
import time
from pathlib import Path

from job import arguments, quiet_session, stream, write_batch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import streamjoin as sj

# A changelog, whose rows are large so that bases are written, and updates.
SCHEMAS = {"a": "id INT, k INT, payload STRING, at LONG, op STRING", "b": "id INT, k INT, n INT, d INT"}
KEYS = [["id"], ["k"]]


def main() -> None:
    """Run all queries to their end."""
    live = {"action": "store_true", "help": "wait for more rows; bases are written alongside the batches"}
    args = arguments(__doc__, "input", "output", live=live)
    settings = {
        "spark.sql.streaming.minBatchesToRetain": "1000",
        "spark.streamjoin.arrangements": str(args.output / "arrangements"),
        "spark.streamjoin.arrangements.minVersionsToRetain": "3",
        # With isolation, each query has its own class loader and reloads all classes of its tasks.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    spark = quiet_session(settings)

    def checkpoint(name: str) -> str:
        return str(args.output / "checkpoints" / name)

    maintaining = [maintain(spark, args.input, name, checkpoint(name), args.live) for name in SCHEMAS]

    def linger(folder: Path, rows: DataFrame, batch: int) -> None:
        write(folder, rows, batch)
        time.sleep(0.1)  # for a test to kill it before the batch is committed

    reading = [
        df.writeStream.foreachBatch(write_rows).start(checkpointLocation=checkpoint(name))
        for name, df, write_rows in (
            ("join", joined(), functools.partial(write, args.output / "batches")),
            ("looked", looked_up(spark, args.input), functools.partial(linger, args.output / "looked")),
            ("kept", looked_up(spark, args.input, rematch="1 hour"), functools.partial(linger, args.output / "kept")),
        )
    ]
    for query in maintaining:
        query.awaitTermination()
    for query in reading:
        query.processAllAvailable()
        query.stop()
    for name in SCHEMAS:
        (args.output / f"{name}.json").write_text(json.dumps(versions(name)))
    spark.stop()


def maintain(spark: SparkSession, folder: Path, name: str, checkpoint: str, live: bool) -> StreamingQuery:
    """Start the query of one arrangement."""
    writer = arrange(stream(spark, folder / name, SCHEMAS[name]), name)
    return (writer if live else writer.trigger(availableNow=True)).start(checkpointLocation=checkpoint)


def arrange(rows: DataFrame, name: str) -> DataStreamWriter:
    """Return the writer of one arrangement."""
    if name == "a":
        return sj.arrange(rows, name, keys=KEYS, op="op", time="at")
    return sj.arrange(rows, name, keys=KEYS, diff="d")


def joined() -> DataFrame:
    """Return the changes of the join; ``expected_join`` of the tests says the same in Python."""
    select = ["a.id", "a.at", "b.id AS other", "b.n"]
    return sj.delta_join({"a": "a", "b": "b"}, "a.k = b.k AND a.id % 3 <> b.n", select)


def looked_up(spark: SparkSession, folder: Path, rematch: str | None = None) -> DataFrame:
    """Return the rows in the files of ``b``, each with the rows of ``a`` that have its key on arrival, or later."""
    rows = (
        stream(spark, folder / "b", SCHEMAS["b"])
        .withColumn("t", F.timestamp_seconds("n"))
        .withWatermark("t", "0 seconds")
    )
    a = sj.table("a", rematch=rematch).select(F.col("id").alias("a_id"), F.col("k").alias("a_k"), "at")
    return rows.join(a, F.expr("k = a_k"), "left").select("id", "n", "a_id", "at")


def write(folder: Path, rows: DataFrame, batch: int) -> None:
    """Write the rows of a batch to a file of this process."""
    write_batch(folder, batch, [list(row) for row in rows.collect()])


def versions(name: str) -> dict[int, list[list[object]]]:
    """Return the rows of an arrangement at each version."""
    arrangement = sj.arrangement(name)
    assert arrangement.versions is not None
    oldest, newest = arrangement.versions
    found: dict[int, list[list[object]]] = {version: [] for version in range(oldest, newest + 1)}
    tables = [arrangement.toDF(version=version).withColumn("version", F.lit(version)) for version in found]
    columns = ["id", "k", "at"] if name == "a" else ["id", "k", "n"]
    for row in functools.reduce(DataFrame.unionAll, tables).select("version", *columns).collect():
        found[row[0]].append(list(row[1:]))
    return found


if __name__ == "__main__":
    main()
