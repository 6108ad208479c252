"""Joins two folders of JSON files, one file of each side a batch, in several queries with one sink each, and ends.

The bound and the type of the join are arguments: a process with others than the one before continues changed queries.
The name of a query says which sink and which state store it has, such as ``files-default`` or ``batches-rocksdb``.

With ``--pause 7`` the queries with ``foreachBatch`` wait in batch 7 to be killed, once they have written its rows.
"""

import time
from pathlib import Path

from job import REQUIRED, arguments, quiet_session, stream, write_batch
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {"default": "HDFSBackedStateStoreProvider", "rocksdb": "RocksDBStateStoreProvider"}
# A row takes a while, so that a process can be killed in a task.
SLOWLY = "java_method('java.lang.Thread', 'sleep', 10L) = 'null'"


def main() -> None:
    """Run the queries to the end of their files."""
    args = arguments(
        *(__doc__, "input", "output", "checkpoints"),
        queries={"nargs": "+", "required": True},
        seconds={"type": int, "help": "how much later than a left row its match may be"} | REQUIRED,
        how=REQUIRED,
        pause={"type": int, "default": -1},
    )
    settings = {
        "spark.streamjoin.evolve": "exact",
        # A log of the sink has the files of its batch alone.
        "spark.sql.streaming.fileSink.log.compactInterval": "1000",
    }
    spark = quiet_session(settings)
    left = stream(spark, args.input / "left", "lk INT, lt TIMESTAMP, lid INT").withWatermark("lt", "5 seconds")
    right = stream(spark, args.input / "right", "rk INT, rt TIMESTAMP, rid INT").withWatermark("rt", "5 seconds")
    on = f"lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL {args.seconds} SECONDS"
    joined = left.join(right, F.expr(on), args.how).select("lid", "rid").where(SLOWLY)

    def start(name: str) -> StreamingQuery:
        sink, store = name.split("-")
        provider = {"spark.sql.streaming.stateStore.providerClass": f"{PACKAGE}.{PROVIDERS[store]}"}
        for key, value in (provider | dict(args.conf)).items():
            spark.conf.set(key, value)
        output = args.output / name
        writer = joined.writeStream.trigger(availableNow=True)
        if sink == "files":
            writer = writer.format("json").option("path", str(output))
        else:
            writer = writer.foreachBatch(lambda rows, batch: write(output, rows, batch, args.pause))
        return writer.start(checkpointLocation=str(args.checkpoints / name))

    for query in [start(name) for name in args.queries]:
        query.awaitTermination()
    spark.stop()


def write(output: Path, rows: DataFrame, batch: int, pause: int) -> None:
    """Write the rows of a batch, and wait if it is the one of the pause."""
    write_batch(output, batch, [row.asDict() for row in rows.collect()])
    if batch == pause:
        time.sleep(600)


if __name__ == "__main__":
    main()
