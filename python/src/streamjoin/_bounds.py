"""``bounds``: what the joins of a query keep in state, and why."""

from pyspark.sql import DataFrame

from streamjoin.errors import StreamJoinError
from streamjoin.jvm import answered, checked_entry, expect, is_connect
from streamjoin.sql import ask


def bounds(df: DataFrame) -> DataFrame:
    """Return the time bounds of the joins of two streams in a streaming DataFrame.

    Args:
        df: A streaming DataFrame. It is analysed, not started.

    Returns:
        A batch DataFrame, a row for each join, input and bound: ``join`` (its number, from the inputs up), ``side``
        (``left`` or ``right``), ``input`` (its name), ``column`` (the event-time column), ``bound`` (as text),
        ``keeps`` (how long rows stay in state), ``conjunct`` (the condition that it comes from) and ``origin`` (where
        that stands: ``this join``, or the joins and filters below that it was derived from). An event-time column that
        has no bound in a join keeps nothing there; its row says what gives it its watermark in the output. Not listed
        are joins that Spark runs (with a table, or handed over by a setting), and those without such bounds: temporal
        and as-of joins, delta joins, look-ups. ``show(truncate=False)`` shows all of the text.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: A ``STREAMJOIN_`` condition, for a join that ``start()`` would refuse.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> [tuple(row) for row in bounds(joined).select("side", "column", "keeps").collect()]
        [('left', 'order_time', 'left kept 1 hour'), ('right', 'delivery_time', 'right kept 0 seconds')]
    """
    expect(DataFrame, df, "sj.bounds", "the streaming DataFrame with the joins, before writeStream")
    spark = df.sparkSession
    found = None if is_connect(df) else checked_entry(spark)
    if not df.isStreaming:
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call="sj.bounds",
            wanted="a streaming DataFrame (spark.readStream)",
            found="this one is a batch, whose joins keep no state",
            advice="Pass the DataFrame of the streaming query, before writeStream.",
        )
    if found is None:
        return ask(spark, "SELECT * FROM sj_bounds(TABLE({df}))", df=df)
    with answered():
        return DataFrame(found.bounds(df._jdf), spark)
