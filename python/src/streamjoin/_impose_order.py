"""``impose_order``: ``withWatermark`` that checks its arguments."""

from datetime import timedelta

from pyspark.sql import DataFrame

from streamjoin.durations import spark_interval
from streamjoin.jvm import answered, checked_entry, expect


def impose_order(df: DataFrame, time: str, lag: str | timedelta, *, sort: bool = False) -> DataFrame:
    """Mark the event-time column of a stream, as ``df.withWatermark(time, lag)`` does, and check that it can be one.

    The watermark of the column is its newest time minus ``lag``. A row whose time is below the watermark is late. A
    null in the column moves no watermark.

    Args:
        df: A streaming DataFrame without a watermark.
        time: The name of its event-time column, a ``TIMESTAMP``.
        lag: How much later than a row with a newer time a row may come: text such as ``"10 seconds"`` or a
            ``timedelta``, zero or longer. It is rounded up to whole milliseconds.
        sort: Let the rows leave in ascending order of ``time``: over all tasks, and from one batch to the next. Each
            is kept until the watermark has reached it. A row without a time is not held up.

    Returns:
        The same rows and columns, with a watermark on ``time``.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``lag`` has months or years in it, or is negative),
            ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (no such column, or not a ``TIMESTAMP``),
            ``STREAMJOIN_TWO_WATERMARKS``, ``STREAMJOIN_NOT_A_STREAM``.

    Source:
        Hazelcast's ``IMPOSE_ORDER``; "Rowtime bounds" in the documentation of SQLstream s-Server for ``sort``.

    Example:
        >>> impose_order(events, "time", lag="10 seconds").columns
        ['id', 'time', 'is_bound']
    """
    expect(DataFrame, df, "sj.impose_order", "a streaming DataFrame")
    expect(str, time, "sj.impose_order", "the name of a column as time")
    length = spark_interval(lag, "lag", "sj.impose_order")
    entry = checked_entry(df.sparkSession)
    with answered():
        marked = entry.imposeOrder(df._jdf, time, length)
        return DataFrame(entry.ordered(marked, time) if sort else marked, df.sparkSession)
