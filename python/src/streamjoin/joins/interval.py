"""``join``: a join of two streams that adds the time bounds to the condition, and joins of streams with tables."""

from pyspark.sql import DataFrame

from streamjoin._arguments.checks import require_dataframes
from streamjoin._arguments.durations import Within, within_limits
from streamjoin._arguments.join_keys import On, join_on
from streamjoin._arguments.join_types import JoinType, parse_join_type
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session
from streamjoin.errors import StreamJoinError


def join(
    left: DataFrame,
    right: DataFrame,
    on: On | None = None,
    how: JoinType | str = "inner",
    *,
    within: Within | None = None,
) -> DataFrame:
    """Join two streams whose event times differ by at most ``within``, or a stream with a table.

    Args:
        left: A streaming DataFrame with a watermark, or a :func:`table`. (Without ``within``, other batch DataFrames
            are joined as Spark joins them.)
        right: Another such DataFrame, or ``left`` again.
        on: The name of a column that both have, a condition, or a list of either; ``F.expr("o.id = d.order_id")`` is a
            condition in SQL, ``F.lit(True)`` joins on time alone. If left out, a :func:`table` is joined by its
            declared key, the first key of its arrangement: with the columns of the same names of a stream, or of
            another table if they are its key.
        how: The join type, in any of Spark's spellings and in any case: ``"left_outer"``, ``"LEFT OUTER"``.
        within: If given, adds ``|right.time - left.time| <= within`` to the condition, both ends included, where
            ``time`` is the event-time column of each side. Text such as ``"1 hour 30 minutes"`` or a ``timedelta``. A
            tuple or list of two contains the limits of ``right.time - left.time``, both included: with
            ``("0 seconds", "1 hour")``, the right row is up to an hour later. A limit may be negative. In limits of a
            day or more, days are calendar days of the session's time zone, as in all interval arithmetic of Spark.

    Returns:
        The result of ``left.join(right, on, how)``. For two tables, a stream of the changes of that result, with
        ``_diff``, as :func:`delta_join` returns it. With names in ``on``, these columns come first, each once: from the
        right side in a right join, and the one that is not null in a full outer join.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_TYPE``; ``STREAMJOIN_JOIN_KEYS`` (``on``); ``STREAMJOIN_WITHIN`` (no fixed
            duration); ``STREAMJOIN_WRONG_ARGUMENT``; and for two streams any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_EVENT_TIME`` (a side has no event-time column, or several);
            ``STREAMJOIN_NOT_A_STREAM`` (``within`` where a side is a batch).

    Source:
        Hazelcast, "Stream to stream JOIN", for streams; Lenses, "Joins", for streams with tables.

    Example:
        >>> joined = join(orders, deliveries, "order_id", "left_outer", within=("0 seconds", "1 hour"))
        >>> joined.columns
        ['order_id', 'order_time', 'delivery_time']
    """
    require_dataframes("sj.join", "two DataFrames", left, right)
    kind = parse_join_type(how)
    span = None if within is None else within_limits(within)
    if span is not None:
        check_session(left.sparkSession)
        lower, upper = (f"{limit} microseconds" for limit in span)
        return call_function(join_on(left, right, on, kind), "sj_within", lower=lower, upper=upper)
    if left.isStreaming or right.isStreaming:
        if left.isStreaming and right.isStreaming:
            check_session(left.sparkSession)
        return join_on(left, right, on, kind)
    return _join_of_batches(left, right, on, kind)


def _join_of_batches(left: DataFrame, right: DataFrame, on: On | None, how: str) -> DataFrame:
    """Return the changes of a join of two tables, and any other join unchanged."""
    joined = join_on(left, right, on, how)
    try:
        check_session(left.sparkSession)
    except StreamJoinError:  # without streamjoin there are no tables
        return joined
    return call_function(joined, "sj_changes")
