"""``temporal_join``: each row of a stream with the version of a table that was valid at its time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, cast

from pyspark.sql import Column, DataFrame

from streamjoin._join import event_time, join
from streamjoin._versions import VersionedStream
from streamjoin.durations import spark_interval
from streamjoin.jvm import answered, checked_entry, expect, wrong_argument

NOW = "NOW()"
"""As ``as_of`` of :func:`temporal_join`: what is valid when a row is joined."""

StreamJoinType = Literal["inner", "left", "leftouter", "left_outer"]
"""The types of a join in which each row of the left stream has one match, or none."""


def temporal_join(
    stream: DataFrame,
    versions: VersionedStream | DataFrame,
    on: str | Column | Sequence[str] | Sequence[Column],
    how: StreamJoinType = "inner",
    *,
    as_of: str | None = None,
    history: str | timedelta | None = None,
    ordered: bool = True,
) -> DataFrame:
    """Join each row of a stream with the version of a table that was valid at the row's time.

    A row waits until the watermarks of both inputs have passed its time; then nothing that comes in time can change its
    match. A version that comes later counts for the rows after it, if its key has no newer one. Of the table the newest
    version of each key is kept, and those that rows which wait, or may still come, can meet.
    In SQL: ``stream [LEFT] JOIN changes FOR SYSTEM_TIME AS OF stream.t ON ...``.

    Args:
        stream: A streaming DataFrame with a watermark, whose rows stay; not a changelog.
        versions: The table, as :func:`versions` makes it of a stream; with ``sj.NOW``, a :func:`table`.
        on: A condition with an equality for each column of the versions' key, the names of columns that both have, or
            a list of either. What the condition asks besides decides whether the valid version matches.
        how: ``"inner"``, or ``"left"`` to keep rows for which no version was valid.
        as_of: The event-time column of ``stream``; without it, the one with a watermark. Or ``sj.NOW``: each row
            meets the table as it is in its batch, and waits for nothing.
        history: How far behind what has come out a row of ``stream`` may come and still meet what was valid at its
            time: text such as ``"1 day"`` or a ``timedelta``; without it, not at all. The versions are kept for so much
            longer, and the output's watermark is behind by as much.
        ordered: In each batch rows come out in the order of ``as_of``. ``False`` saves a shuffle and a sort, such as
            below an aggregation.

    Returns:
        What ``stream.join(versions, on, how)`` returns; in each batch in the order of ``as_of``, unless ``ordered``
        is false. ``as_of`` carries a watermark.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION``, ``STREAMJOIN_EVENT_TIME``,
            ``STREAMJOIN_JOIN_KEYS``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_TEMPORAL`` (the key is outside the equality, the stream is a
            changelog, another type of join), ``STREAMJOIN_COLUMN``, ``STREAMJOIN_NOT_A_STREAM``; ``start()`` raises
            ``STREAMJOIN_TEMPORAL_TIME`` for an input without a watermark, ``STREAMJOIN_OUTPUT_MODE`` in another mode
            than append, and ``STREAMJOIN_TEMPORAL_DISABLED``. An operation that is none fails the query with
            ``STREAMJOIN_OPERATION``.

    Source:
        RisingWave, "Temporal join", event time.

    Example:
        >>> history_of_vans = sj.versions(deliveries, key="order_id")
        >>> temporal_join(orders, history_of_vans, "order_id", "left").columns
        ['order_id', 'order_time', 'delivery_time']
    """
    expect(DataFrame, stream, "sj.temporal_join", "a streaming DataFrame")
    if as_of == NOW:
        expect(DataFrame, versions, "sj.temporal_join", "sj.table(name) as its second argument, with as_of=sj.NOW")
        if history is not None:
            raise wrong_argument("sj.temporal_join", "no history with as_of=sj.NOW", history)
        return join(stream, cast(DataFrame, versions), on, how)
    if not isinstance(versions, VersionedStream):
        raise wrong_argument("sj.temporal_join", "sj.versions(changes, key=...) as its second argument", versions)
    longer = None if history is None else spark_interval(history, "history", "sj.temporal_join")
    entry = checked_entry(stream.sparkSession, "sj.temporal_join")
    time = event_time(stream, "left", "sj.temporal_join") if as_of is None else as_of
    joined = join(stream, versions.changes, on, how)
    with answered():
        made = entry.temporalJoin(
            joined._jdf, versions.key, versions.time, versions.op, versions.order, time, longer, ordered
        )
    return DataFrame(made, stream.sparkSession)
