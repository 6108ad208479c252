"""Properties of a single stream: its order, its bounds, and whether it may be idle."""

from pyspark.sql import DataFrame

from streamjoin._arguments.checks import require_dataframes
from streamjoin._arguments.columns import ColumnOrName, column_path
from streamjoin._arguments.durations import Duration, spark_interval
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session


def impose_order(df: DataFrame, time: ColumnOrName, lag: Duration, *, sort: bool = False) -> DataFrame:
    """Mark the event-time column of a stream like ``df.withWatermark(time, lag)``, and check both arguments.

    The watermark of the column is its newest time minus ``lag``. A row whose time is below the watermark is late. A
    null in the column does not move the watermark.

    Args:
        df: A streaming DataFrame without a watermark.
        time: Its event-time column, a ``TIMESTAMP``, as a name or a Column.
        lag: How far a row may lag behind a row with a newer time: text such as ``"10 seconds"`` or a ``timedelta``,
            zero or longer. It is rounded up to whole milliseconds.
        sort: Emit the rows in ascending order of ``time``, across all tasks and batches. Each row is kept until the
            watermark has reached it. A row without a time is emitted without waiting.

    Returns:
        The same rows and columns, with a watermark on ``time``.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``lag`` contains months or years, or is negative),
            ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_COLUMN`` (no such column, or not a ``TIMESTAMP``; a
            StreamJoinError for a computed Column), ``STREAMJOIN_TWO_WATERMARKS``, ``STREAMJOIN_NOT_A_STREAM``.

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
    """Treat some rows of a stream as bounds (punctuation): they move its watermark and carry no data.

    A bound states that no row with an earlier time, minus ``lag``, will arrive. It moves the watermark of ``time`` for
    the following batches, as a row of data with its time would. It is then dropped, and reaches no join, no state and
    no output. A bound that goes back in time has no effect, because a watermark never goes back. All bounds move the
    watermark, regardless of the filters that follow this call. The rows of data that these filters remove move it as
    well.

    Args:
        df: A streaming DataFrame of data and bounds. Its columns are given as names or Columns.
        time: The event-time column, a ``TIMESTAMP``, in data and bounds alike. A null has no effect.
        is_bound: A boolean column: true for a bound, false or null for a row of data.
        lag: If given, ``time`` gets a watermark that lags this far behind its newest time, as with
            :func:`impose_order`. Use ``"0 seconds"`` if a bound is final. Leave it out if ``df`` already has a
            watermark; filters between ``withWatermark`` and this call must let the bounds pass.
        per: A column of text or whole numbers that identifies the partitions of the stream, such as Kafka's
            ``partition``, if each partition has its own bounds. The watermark is then that of the slowest partition
            among those that have had a row. With :func:`idle_after`, silent partitions do not count. This applies to
            joins that streamjoin runs; Spark's own watermark remains that of the newest row.

    Returns:
        The rows of data, with all columns except ``is_bound``, and with a watermark on ``time``.

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
    """Stop an input from holding others back once it has had no row for a while.

    A join keeps rows until the watermark of the other input has passed them, and a union has the watermark of its
    slowest input. The watermark of an input without rows does not move, so everything that depends on it waits. Once
    the input has been silent for ``after``, its watermark counts as the lowest of the active inputs that it is joined
    or united with (the highest, if all of them are idle).

    The driver decides this with the clock of the query's trigger: an input is idle in a batch if no row of it has
    reached its ``withWatermark`` in the batches of the last ``after``. The time in which a query does not run does not
    count, except for runs that end by themselves (``availableNow``): there, silence is counted across runs. The
    decision is in the checkpoint, so a repeated batch uses the same one.

    When the input sends rows again, whether they are late depends on the watermark that the input itself had, not on
    the one that the others have reached meanwhile. The matches of a row that is not late may already have left the
    state: the row is joined with what is still there, and an outer join pads it with nulls. In a temporal or as-of
    join, whether a row is late depends on what has been emitted: versions from such an input count for later rows.

    Args:
        df: A streaming DataFrame with a watermark, before any join or aggregation. Each input of a union is idle
            separately.
        after: The duration: text such as ``"30 seconds"`` or a ``timedelta``, one millisecond or longer. It should be
            longer than the gaps of the input in normal operation.

    Returns:
        The same rows and columns. The call has an effect in queries with joins of streams that streamjoin runs. Spark's
        own operators below such a join, or in a query without one, use Spark's own watermark, which this call does not
        change.

    Raises:
        StreamJoinError: ``STREAMJOIN_DURATION`` (``after``), ``STREAMJOIN_WRONG_ARGUMENT``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_INPUT`` (no watermark, or ``df`` comes from a join or an
            aggregation), ``STREAMJOIN_NOT_A_STREAM``. ``start()`` raises ``STREAMJOIN_INPUT`` for a query without a
            join that streamjoin runs.

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
