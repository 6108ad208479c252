"""``with_bounds``: rows that say how far a stream is."""

from datetime import timedelta

from pyspark.sql import DataFrame

from streamjoin.durations import spark_interval
from streamjoin.jvm import answered, checked_entry, expect


def with_bounds(
    df: DataFrame, time: str, *, is_bound: str, lag: str | timedelta | None = None, per: str | None = None
) -> DataFrame:
    """Take some rows of a stream as bounds (punctuation): they move its watermark and carry no data.

    A bound says that no row with an earlier time, minus ``lag``, is still to come. It moves the watermark of ``time``
    just as a row of data with its time would, for the batches after its own, and is then dropped: it reaches no join,
    no state and no output. A bound that goes back in time moves nothing, for a watermark never goes back. All bounds
    move the watermark, whatever filters the query has after this call; so do the rows of data that these filters
    remove.

    Args:
        df: A streaming DataFrame of data and bounds.
        time: The name of the event-time column, a ``TIMESTAMP``, in data and bounds alike. A null moves nothing.
        is_bound: The name of a boolean column: true in a bound, false or null in a row of data.
        lag: If given, ``time`` gets a watermark so far behind its newest time, as :func:`impose_order` does it.
            ``"0 seconds"`` where a bound is final. Leave it out where ``df`` has its watermark already; filters between
            ``withWatermark`` and this call must let the bounds pass.
        per: The name of a column of text or whole numbers that tells the partitions of the stream apart, such as
            Kafka's ``partition``, where each of them has bounds of its own. The watermark is then that of the slowest
            partition among those that have had a row. With :func:`idle_after`, one that is silent is left out. It is
            for joins that streamjoin runs: Spark's own watermark stays that of the newest row.

    Returns:
        The rows of data, with all columns but ``is_bound``, and with a watermark on ``time``.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``lag``), ``STREAMJOIN_WRONG_ARGUMENT``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (no such column, not a ``TIMESTAMP``, no watermark on
            it, or ``is_bound`` is not boolean), ``STREAMJOIN_TWO_WATERMARKS``, ``STREAMJOIN_INPUT`` (``df`` comes from
            a join or an aggregation; ``per`` with several watermarks), ``STREAMJOIN_NOT_A_STREAM``.

    Source:
        "Rowtime bounds" in the documentation of SQLstream s-Server.

    Example:
        >>> with_bounds(events, "time", is_bound="is_bound", lag="0 seconds").columns
        ['id', 'time']
    """
    expect(DataFrame, df, "sj.with_bounds", "a streaming DataFrame")
    expect(str, time, "sj.with_bounds", "the name of a column as time")
    expect(str, is_bound, "sj.with_bounds", "the name of a column as is_bound")
    if per is not None:
        expect(str, per, "sj.with_bounds", "the name of a column as per")
    length = None if lag is None else spark_interval(lag, "lag", "sj.with_bounds")
    entry = checked_entry(df.sparkSession)
    with answered():
        return DataFrame(entry.withBounds(df._jdf, time, is_bound, length, per), df.sparkSession)
