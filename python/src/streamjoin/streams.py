"""What a query says about one of its streams: its order, its bounds, and that it may be idle."""

from pyspark.sql import DataFrame

from streamjoin._arguments.checks import require_dataframes
from streamjoin._arguments.columns import ColumnOrName, column_path
from streamjoin._arguments.durations import Duration, spark_interval
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session


def impose_order(df: DataFrame, time: ColumnOrName, lag: Duration, *, sort: bool = False) -> DataFrame:
    """Mark the event-time column of a stream, as ``df.withWatermark(time, lag)`` does, and check that it can be one.

    The watermark of the column is its newest time minus ``lag``. A row whose time is below the watermark is late. A
    null in the column moves no watermark.

    Args:
        df: A streaming DataFrame without a watermark.
        time: Its event-time column, a ``TIMESTAMP``, by name or as a Column.
        lag: How much later than a row with a newer time a row may come: text such as ``"10 seconds"`` or a
            ``timedelta``, zero or longer. It is rounded up to whole milliseconds.
        sort: Let the rows leave in ascending order of ``time``: over all tasks, and from one batch to the next. Each
            is kept until the watermark has reached it. A row without a time is not held up.

    Returns:
        The same rows and columns, with a watermark on ``time``.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``lag`` has months or years in it, or is negative),
            ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (no such column, or not a ``TIMESTAMP``; a
            StreamJoinError for a Column that is computed), ``STREAMJOIN_TWO_WATERMARKS``, ``STREAMJOIN_NOT_A_STREAM``.

    Source:
        Hazelcast's ``IMPOSE_ORDER``; "Rowtime bounds" in the documentation of SQLstream s-Server for ``sort``.

    Example:
        >>> impose_order(events, "time", lag="10 seconds").columns
        ['id', 'time', 'is_bound']
    """
    require_dataframes("sj.impose_order", "a streaming DataFrame", df)
    length = spark_interval(lag, "lag", "sj.impose_order")
    check_session(df.sparkSession)
    name = column_path(time, df, "sj.impose_order", "time")
    return call_function(df, "sj_impose_order", time=name, lag=length, sort=sort or None)


def with_bounds(
    df: DataFrame,
    time: ColumnOrName,
    *,
    is_bound: ColumnOrName,
    lag: Duration | None = None,
    per: ColumnOrName | None = None,
) -> DataFrame:
    """Take some rows of a stream as bounds (punctuation): they move its watermark and carry no data.

    A bound says that no row with an earlier time, minus ``lag``, is still to come. It moves the watermark of ``time``
    just as a row of data with its time would, for the batches after its own, and is then dropped: it reaches no join,
    no state and no output. A bound that goes back in time moves nothing, for a watermark never goes back. All bounds
    move the watermark, whatever filters the query has after this call; so do the rows of data that these filters
    remove.

    Args:
        df: A streaming DataFrame of data and bounds. Its columns are given by name or as Columns.
        time: The event-time column, a ``TIMESTAMP``, in data and bounds alike. A null moves nothing.
        is_bound: A boolean column: true in a bound, false or null in a row of data.
        lag: If given, ``time`` gets a watermark so far behind its newest time, as :func:`impose_order` does it.
            ``"0 seconds"`` where a bound is final. Leave it out where ``df`` has its watermark already; filters between
            ``withWatermark`` and this call must let the bounds pass.
        per: A column of text or whole numbers that tells the partitions of the stream apart, such as
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
    require_dataframes("sj.with_bounds", "a streaming DataFrame", df)
    length = None if lag is None else spark_interval(lag, "lag", "sj.with_bounds")
    check_session(df.sparkSession)
    at = column_path(time, df, "sj.with_bounds", "time")
    bound = column_path(is_bound, df, "sj.with_bounds", "is_bound")
    partition = None if per is None else column_path(per, df, "sj.with_bounds", "per")
    return call_function(df, "sj_with_bounds", time=at, is_bound=bound, lag=length, per=partition)


def idle_after(df: DataFrame, after: Duration) -> DataFrame:
    """Let an input stop holding others back once it has had no row for a time.

    A join keeps rows until the watermark of the other input has passed them; a union has the watermark of its slowest
    input. An input without rows keeps its watermark where it is, and with it everything that waits for it. Once it has
    been silent for ``after``, its watermark is taken to be the lowest of the others that it is joined or united with
    (the highest, where all of them are idle).

    The driver decides this with the clock of the query's trigger: an input is idle in a batch if the batches of the
    last ``after`` had no row of it that reached its ``withWatermark``. The time in which a query does not run does not
    count, but where its runs end by themselves (``availableNow``): there silence is counted over the runs. The decision
    is in the checkpoint, so a batch that is done again sees the same one.

    When the input speaks again, its rows are late or not by the watermark that it had left, and not by the one that
    the others have reached in the meantime. A row that is not late may still find that its partners have left: it is
    then joined with what is there, and padded with nulls in an outer join. In a temporal or as-of join a row is late by
    what has come out: versions of such an input count for the rows after them.

    Args:
        df: A streaming DataFrame with a watermark, before any join or aggregation. Of a union, each input is idle by
            itself.
        after: For how long: text such as ``"30 seconds"`` or a ``timedelta``, a millisecond or longer. Longer than the
            gaps that the input has in normal operation.

    Returns:
        The same rows and columns. It is of use in a query with joins of streams that streamjoin runs; Spark's own
        operators below such a join, or without one, go by Spark's own watermark, which it does not change.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``after``), ``STREAMJOIN_WRONG_ARGUMENT``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_INPUT`` (no watermark, or ``df`` comes from a join or an
            aggregation), ``STREAMJOIN_NOT_A_STREAM``. ``start()`` raises ``STREAMJOIN_INPUT`` for a query without
            a join that streamjoin runs.

    Source:
        Flink, ``WatermarkStrategy.withIdleness``.

    Example:
        >>> idle_after(events.withWatermark("time", "10 seconds"), "30 seconds").columns
        ['id', 'time', 'is_bound']
    """
    require_dataframes("sj.idle_after", "a streaming DataFrame", df)
    length = spark_interval(after, "after", "sj.idle_after", least=1000)
    check_session(df.sparkSession)
    return call_function(df, "sj_idle_after", after=length)
