"""Joins two folders of JSON files, one file of each side a batch, into the files of a sink, and ends.

The bound of the join is an argument: a process with another one than that before continues a changed query.
"""

from job import arguments, quiet_session, stream
from pyspark.sql import functions as F  # noqa: N812


def main() -> None:
    """Run the query to the end of its files."""
    seconds = {"type": int, "required": True, "help": "how much later than a left row its match may be"}
    args = arguments(__doc__, "input", "output", "checkpoint", seconds=seconds, how={"required": True})
    settings = {
        "spark.streamjoin.evolve": "exact",
        # A log of the sink has the files of its batch alone.
        "spark.sql.streaming.fileSink.log.compactInterval": "1000",
    }
    spark = quiet_session(settings | dict(args.conf))
    left = stream(spark, args.input / "left", "lk INT, lt TIMESTAMP, lid INT").withWatermark("lt", "5 seconds")
    right = stream(spark, args.input / "right", "rk INT, rt TIMESTAMP, rid INT").withWatermark("rt", "5 seconds")
    on = f"lk = rk AND rt BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL {args.seconds} SECONDS"
    joined = left.join(right, F.expr(on), args.how).select("lid", "rid")
    writer = joined.writeStream.format("json").option("path", str(args.output)).trigger(availableNow=True)
    writer.start(checkpointLocation=str(args.checkpoint)).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
