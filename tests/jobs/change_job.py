"""Joins two folders of JSON files, one file of each side a batch, in several queries with one sink each, and ends.

The bound and the type of the join are arguments: a process with others than the one before continues changed queries.
With another type of ``--id``, or ``--key``, the rows in state are written again. A third folder is a stream whose rows
are emitted as they come, and with ``--above`` joined with the rows of the first join.

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
NAMES = ["left", "right", "third"]


def rows(of: str) -> str:
    """Return the schema of a stream."""
    return f"{of}k INT, {of}t TIMESTAMP, {of}id INT"


def timed(rows: DataFrame, of: str, type_of_id: str) -> DataFrame:
    """Return a stream with its watermark and ids of a type."""
    ids = F.expr(f"CAST({of}id AS {type_of_id}) AS {of}id")
    return rows.select(f"{of}k", f"{of}t", ids).withWatermark(f"{of}t", "5 seconds")


def main() -> None:
    """Run the queries to the end of their files."""
    args = arguments(
        *(__doc__, "input", "output", "checkpoints"),
        queries={"nargs": "+", "required": True},
        seconds={"type": int, "help": "how much later than a left row its match may be"} | REQUIRED,
        how=REQUIRED,
        id={"default": "INT", "help": "the type of the ids"},
        key={"default": "lk = rk", "help": "by what rows match"},
        above={"action": "store_true", "help": "join the rows with those of the third folder"},
        pause={"type": int, "default": -1},
    )
    settings = {
        "spark.streamjoin.evolve": "allow" if args.above else "exact",
        # A log of the sink has the files of its batch alone.
        "spark.sql.streaming.fileSink.log.compactInterval": "1000",
    }
    spark = quiet_session(settings)
    left, right, third = (timed(stream(spark, args.input / name, rows(name[0])), name[0], args.id) for name in NAMES)
    on = f"{args.key} AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL {args.seconds} SECONDS"
    joined = left.join(right, F.expr(on), args.how)
    if args.above:
        later = "lk = tk AND tt BETWEEN lt AND lt + INTERVAL 10 SECONDS"
        shown = joined.join(third, F.expr(later), "left_outer").select("lid", "rid", "tid")
    else:
        nothing = F.lit(None).cast(args.id)
        shown = joined.select("lid", "rid", nothing.alias("tid")).union(third.select(nothing, nothing, "tid"))
    shown = shown.where(SLOWLY)

    def start(name: str) -> StreamingQuery:
        sink, store = name.split("-")
        provider = {"spark.sql.streaming.stateStore.providerClass": f"{PACKAGE}.{PROVIDERS[store]}"}
        for key, value in (provider | dict(args.conf)).items():
            spark.conf.set(key, value)
        output = args.output / name
        writer = shown.writeStream.trigger(availableNow=True)
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
