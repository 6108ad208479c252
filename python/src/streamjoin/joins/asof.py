"""``asof_join``: joins each row of a stream with the row of another stream that is closest in time."""

from typing import Literal

from pyspark.sql import Column, DataFrame

from streamjoin._arguments.checks import require_dataframes, wrong_argument
from streamjoin._arguments.durations import Duration, spark_interval
from streamjoin._arguments.join_keys import On, join_on
from streamjoin._arguments.join_types import StreamJoinType
from streamjoin._spark.calls import call_function
from streamjoin._spark.checks import check_session


def asof_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: StreamJoinType | str = "inner",
    *,
    match: str | Column | None = None,
    direction: Literal["backward", "forward", "nearest"] | None = None,
    allow_exact_matches: bool = True,
    tolerance: Duration | None = None,
    ordered: bool = True,
) -> DataFrame:
    """Join each row of a stream with the row of another stream that has the same key and is closest in time.

    A row waits until the watermarks rule out a closer one. With a ``tolerance``, both inputs are kept for that long;
    without one, the newest row of each key is kept. In SQL:
    ``l [LEFT] ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON ...``.

    Args:
        left: A streaming DataFrame with a watermark.
        right: Another streaming DataFrame with a watermark.
        on: The name of a column that both have, a condition, or a list of either; ``F.expr("o.id = d.id")`` is a
            condition in SQL. Allowed are equalities, also ``<=>``, and conditions on one input; those on ``right``
            restrict which of its rows are candidates. Use ``F.lit(True)`` for no key.
        how: ``"inner"``, or ``"left"`` to keep rows without a match; in any of Spark's spellings.
        match: How the event times compare: ``"l.t >= r.t"`` looks backward, ``"l.t <= r.t"`` forward; ``>`` and ``<``
            exclude rows of the same time. ``l`` and ``r`` are the two inputs; their own aliases work as well.
        direction: Instead of ``match``, compares the columns with a watermark: ``"backward"`` (the default if neither
            is given), ``"forward"`` or ``"nearest"``. Of two equally near rows, ``"nearest"`` takes the earlier one.
        allow_exact_matches: With ``direction``: whether a row of the same time is a match.
        tolerance: How far apart the times may be, both ends included: text such as ``"10 minutes"`` or a ``timedelta``.
            Required by ``forward`` and ``nearest``.
        ordered: Emit the rows of each batch in the order of the left time. ``False`` saves a shuffle and a sort, for
            instance below an aggregation.

    Returns:
        The result of ``left.join(right, on, how)``, in each batch in the order of the left time unless ``ordered`` is
        false. The left time carries a watermark. Of right rows with the same time and key, the one with the greatest
        values counts, column by column from left to right, nulls lowest, in every direction.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION``, ``STREAMJOIN_JOIN_KEYS``, or any of
            :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_EVENT_TIME``; ``STREAMJOIN_TEMPORAL`` (no tolerance where it
            looks forward, another type of join, a condition between the inputs that is not an equality),
            ``STREAMJOIN_NOT_A_STREAM``; ``start()`` raises ``STREAMJOIN_TEMPORAL_TIME`` for an input without a
            watermark, ``STREAMJOIN_OUTPUT_MODE`` in another mode than append, and ``STREAMJOIN_TEMPORAL_DISABLED``.

    Source:
        Spark's ``ASOF JOIN`` of batches; pandas' ``merge_asof``.

    Example:
        >>> asof_join(orders, deliveries, "order_id", match="l.order_time >= r.delivery_time").columns
        ['order_id', 'order_time', 'delivery_time']
        >>> asof_join(orders, deliveries, "order_id", "left", direction="nearest", tolerance="5 minutes").columns
        ['order_id', 'order_time', 'delivery_time']
    """
    require_dataframes("sj.asof_join", "two DataFrames", left, right)
    if match is not None and (direction is not None or not allow_exact_matches):
        raise wrong_argument(
            "sj.asof_join", "either match=, which says both, or direction= and allow_exact_matches=", direction
        )
    if match is not None and not isinstance(match, str | Column):
        raise wrong_argument("sj.asof_join", 'a condition as match, such as "l.t >= r.t"', match)
    apart = None if tolerance is None else spark_interval(tolerance, "tolerance", "sj.asof_join")
    check_session(left.sparkSession)
    by: dict[str, object] = {"direction": direction or "backward", "allow_exact_matches": allow_exact_matches}
    columns = [match] if isinstance(match, Column) else []
    if match is not None:
        by = {} if columns else {"match": match}
    joined = join_on(left, right, on, how)
    return call_function(joined, "sj_asof_join", *columns, **by, tolerance=apart, ordered=ordered)
