"""``window_join``: a join with a sliding window over one input, which emits its output in the order of time."""

from pyspark.sql import DataFrame

from streamjoin._arguments.checks import require_dataframes
from streamjoin._arguments.durations import Duration, checked_microseconds, spark_interval
from streamjoin._arguments.join_keys import On, join_on
from streamjoin._arguments.join_types import JoinType
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session
from streamjoin.errors import StreamJoinError


def window_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: JoinType | str = "inner",
    *,
    following: Duration | None = None,
    preceding: Duration | None = None,
) -> DataFrame:
    """Join two streams within a sliding window, with the output in ascending order of time.

    A pair matches if its right row is later than its left row by at most the length of the window. The two windows
    differ only in the order of the output. With ``following``, each left row sees the right rows that follow it, and
    the output is in the order of the left rows. With ``preceding``, each right row sees the left rows that precede it,
    and the output is in the order of the right rows. A row is emitted as soon as no earlier one can arrive. In SQL:
    ``l JOIN r OVER (RANGE INTERVAL '10' MINUTE FOLLOWING)``, ``l OVER (RANGE INTERVAL '10' MINUTE PRECEDING) JOIN r``.

    Args:
        left: A streaming DataFrame with a watermark.
        right: Another streaming DataFrame with a watermark, or ``left`` again.
        on: The name of a column that both have, a condition in addition to the window, or a list of either;
            ``F.expr("o.id = d.order_id")`` is a condition in SQL, ``F.lit(True)`` joins on time alone.
        how: The join type, in any of Spark's spellings and in any case: ``"left_outer"``, ``"LEFT OUTER"``.
        following: The length of the window over ``right``, both ends included: text such as ``"10 minutes"`` or a
            ``timedelta``, more than zero. A day is 24 hours, even where clocks change.
        preceding: The length of the window over ``left``. Exactly one of the two has to be given.

    Returns:
        The result of ``left.join(right, on, how)``, and a column ``rowtime`` with the time that orders the output: the
        left or the right event time. A row without a match has the latest rowtime that a match could have given it. The
        column carries a watermark, so an aggregation or another window join can follow. For a window join of a window
        join, ``rowtime`` is that of the last one. Rows with a null event time have no place in the order, and are
        emitted without waiting.

    Raises:
        StreamJoinError: ``STREAMJOIN_WINDOW`` (not exactly one window, or one that is not longer than zero);
            ``STREAMJOIN_DURATION`` (no fixed duration, or a negative one); and the errors of :func:`streamjoin.join`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_EVENT_TIME``.

    Source:
        "Streaming joins" in the documentation of SQLstream s-Server.

    Example:
        >>> joined = window_join(orders, deliveries, "order_id", following="1 hour")
        >>> joined.columns
        ['order_id', 'order_time', 'delivery_time', 'rowtime']
    """
    require_dataframes("sj.window_join", "two DataFrames", left, right)
    window, length = _one_window(following, preceding)
    check_session(left.sparkSession)
    return call_function(join_on(left, right, on, how), "sj_window_join", **{window: length})


def _one_window(following: Duration | None, preceding: Duration | None) -> tuple[str, str]:
    """Return the kind of the window, and its length as the text of an interval."""
    windows = {"following": following, "preceding": preceding}
    given = {name: length for name, length in windows.items() if length is not None}
    if len(given) != 1:
        raise StreamJoinError("STREAMJOIN_WINDOW", found="both" if given else "neither of the two")
    ((name, window),) = given.items()
    length = spark_interval(window, name, "sj.window_join")
    if checked_microseconds(window, name, "sj.window_join") == 0:
        raise StreamJoinError("STREAMJOIN_WINDOW", found=f"a window without length, {window!r}")
    return name, length
