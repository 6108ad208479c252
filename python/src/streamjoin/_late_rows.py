"""``late_rows``: the rows that a query has dropped as late."""

from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjoin.errors import StreamJoinError
from streamjoin.jvm import answered, checked_entry, is_connect
from streamjoin.sql import ask


def late_rows(query: StreamingQuery, streaming: bool = False) -> DataFrame:
    """Return the rows that the joins of a query have dropped as late, as a table or as a stream.

    Of a query that maintains an arrangement (:func:`streamjoin.arrange`) they are the updates and deletes of keys that
    it did not know, and the changes that were older than the last one of their key.

    They are kept where the query was started with ``spark.streamjoin.lateRows=keep``: a file for each batch, join and
    task that had some, in the query's checkpoint, each row once, whatever was retried or replayed. Files older than
    ``spark.streamjoin.lateRows.maxAge``, and the oldest beyond ``spark.streamjoin.lateRows.maxBytes``, are removed.

    Args:
        query: A streaming query of this session, running or stopped; over Spark Connect, a running one.
        streaming: Return a stream, which goes on as rows are dropped, and not the table of those up to the last
            committed batch.

    Returns:
        A DataFrame with the columns ``batch`` (its number), ``join``, ``side`` and ``input`` (as in
        :func:`streamjoin.bounds`), ``column`` (the event-time column by which the row is late), ``watermark`` (that the
        column had, a timestamp) and ``row`` (the columns of it that the query uses, as JSON for
        ``from_json``; times in UTC). Of an arrangement ``input`` is its name, ``row`` has the operation too,
        ``column`` is that of ``time=`` where the change came too late, and the other columns are null.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_LATE_ROWS_NOT_KEPT``; over Spark Connect
            ``STREAMJOIN_TABLE_FUNCTION``, if the query does not run.

    Example:
        >>> spark.conf.set("spark.streamjoin.lateRows", "keep")
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/joined")
        >>> late_rows(query).where("join = 1").count()
        0
        >>> query.stop()
    """
    if is_connect(query):
        stream = "STREAM " if streaming else ""
        return ask(cast(Any, query)._session, f"SELECT * FROM {stream}sj_late_rows('{query.id}')")
    if not isinstance(query, StreamingQuery):
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call="sj.late_rows",
            wanted="the StreamingQuery that writeStream...start() returned",
            found=f"this is a {type(query).__name__}",
            advice="Start the query, and pass what start() returned.",
        )
    spark = SparkSession.active()
    found = checked_entry(spark)
    with answered():
        return DataFrame(found.lateRows(spark._jsparkSession, query._jsq, streaming), spark)
