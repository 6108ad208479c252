"""``temporal_join``: each row of a stream with the version of a table that was valid at its time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, NamedTuple, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from streamjoin._join import event_time, join, quoted
from streamjoin.durations import spark_interval
from streamjoin.jvm import answered, checked_entry, expect, wrong_argument

NOW = "NOW()"
"""As ``as_of`` of :func:`temporal_join`: what is valid when a row is joined."""

StreamJoinType = Literal["inner", "left", "leftouter", "left_outer"]
"""The types of a join in which each row of the left stream has one match, or none."""


class VersionedStream(NamedTuple):
    """A stream of versions of the rows of a table, as :func:`versions` returns it."""

    changes: DataFrame
    key: list[str]
    time: str
    op: str | None
    order: str | None


def versions(
    changes: DataFrame,
    *,
    key: str | Sequence[str],
    time: str | None = None,
    op: str | None = None,
    order: str | None = None,
) -> VersionedStream:
    """Say how a stream is the history of a table, for :func:`temporal_join`.

    A version is valid from its time on, that instant included, until the next one of its key or a delete. Of versions
    with one key and one time the one with the greater ``order`` wins; without it, or where that is the same too, a row
    wins over a delete, and of two rows the one with the greater values, column by column from left to right, nulls
    lowest. A version without a key or without a time is left out, and counted as ``ignoredVersions`` in the progress.

    Debezium's envelope, known by its columns ``before`` and ``after``, structs with the columns of the key, and ``op``,
    is taken as it is: a row of the table is ``after``, or ``before`` where that is null, and the right side of the join
    has the columns of the table, then ``time``, ``op`` and ``order``. A tombstone, in which all three are null, is left
    out and counted.

    Args:
        changes: A streaming DataFrame with a watermark.
        key: The column or columns that tell the rows of the table apart.
        time: The ``TIMESTAMP`` column, with a watermark, from which on a version is valid; without it, the one with a
            watermark.
        op: A column of text: ``insert``, ``update`` or ``delete``; Debezium's ``c``, ``r``, ``u`` or ``d``; or
            the ``_change_type`` of Spark's ``readStream.changes``. Without it all rows are versions, and none is ever
            deleted; of an envelope it is ``op``. Any other text fails the query with ``STREAMJOIN_OPERATION``.
        order: A column that says in which order versions of one key and one time came, such as a position in a log.

    Returns:
        What :func:`temporal_join` takes as its second argument.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_EVENT_TIME``.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NOT_A_STREAM``, where it looks for ``time`` in a batch.

    Source:
        Flink, "Versioned tables"; Debezium's change events.

    Example:
        >>> versions(deliveries, key="order_id").time
        'delivery_time'
    """
    expect(DataFrame, changes, "sj.versions", "a streaming DataFrame")
    keys = [key] if isinstance(key, str) else list(key) if isinstance(key, Sequence) else []
    if not keys or not all(isinstance(each, str) for each in keys):
        raise wrong_argument("sj.versions", 'the columns of the key, such as key=["id"]', key)
    at = event_time(changes, "right", "sj.versions") if time is None else time
    if not _is_envelope(changes, keys):
        return VersionedStream(changes, keys, at, op, order)
    return VersionedStream(_rows_of_table(changes, at, order), keys, at, "op" if op is None else op, order)


def _is_envelope(changes: DataFrame, key: list[str]) -> bool:
    fields = {field.name: field.dataType for field in changes.schema.fields}
    rows = [fields.get("before"), fields.get("after")]
    return "op" in fields and all(isinstance(row, StructType) and set(key) <= set(row.names) for row in rows)


def _rows_of_table(envelope: DataFrame, time: str, order: str | None) -> DataFrame:
    kept = list(dict.fromkeys([time, "op", *([] if order is None else [order])]))
    columns = cast(StructType, envelope.schema["after"].dataType).names
    twice = [name for name in kept if name in columns]
    if twice:
        raise wrong_argument("sj.versions", "names outside before and after that no column of the table has", twice)
    return envelope.select(
        *(F.expr(f"IF(after IS NULL, before, after).{quoted(name)}").alias(name) for name in columns),
        *(name for name in kept if name != "op"),
        F.expr("IF(after IS NULL AND before IS NULL AND op IS NULL, 'd', op)").alias("op"),
    )


def temporal_join(
    stream: DataFrame,
    versions: VersionedStream | DataFrame,
    on: str | Column | Sequence[str] | Sequence[Column],
    how: StreamJoinType = "inner",
    *,
    as_of: str | None = None,
    history: str | timedelta | None = None,
) -> DataFrame:
    """Join each row of a stream with the version of a table that was valid at the row's time.

    A row waits until the watermarks of both inputs have passed its time; then nothing that comes can change its match.
    Of the table the newest version of each key is kept, and those that rows which wait, or may still come, can meet.
    In SQL: ``stream [LEFT] JOIN changes FOR SYSTEM_TIME AS OF stream.t ON ...``.

    Args:
        stream: A streaming DataFrame with a watermark, whose rows stay; not a changelog.
        versions: The table, as :func:`versions` makes it of a stream; with ``sj.NOW``, a :func:`table`.
        on: A condition with an equality for each column of the versions' key, the names of columns that both have, or
            a list of either. What the condition asks besides decides whether the valid version matches.
        how: ``"inner"``, or ``"left"`` to keep rows for which no version was valid.
        as_of: The event-time column of ``stream``; without it, the one with a watermark. Or ``sj.NOW``: each row
            meets the table as it is in its batch, and waits for nothing.
        history: How far behind its watermark a row of ``stream`` may come and still meet what was valid at its time:
            text such as ``"1 day"`` or a ``timedelta``; without it, not at all. The versions are kept for so much
            longer, and the output's watermark is behind by as much.

    Returns:
        What ``stream.join(versions, on, how)`` returns; in each batch in the order of ``as_of``, which
        carries a watermark.

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
        >>> history_of_vans = versions(deliveries, key="order_id")
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
        made = entry.temporalJoin(joined._jdf, versions.key, versions.time, versions.op, versions.order, time, longer)
    return DataFrame(made, stream.sparkSession)


def asof_join(
    left: DataFrame,
    right: DataFrame,
    on: str | Column | Sequence[str] | Sequence[Column],
    how: StreamJoinType = "inner",
    *,
    match: str | Column | None = None,
    direction: Literal["backward", "forward", "nearest"] | None = None,
    allow_exact_matches: bool = True,
    tolerance: str | timedelta | None = None,
) -> DataFrame:
    """Join each row of a stream with the row of another one that is closest in time and has its key.

    A row waits until the watermarks say that no closer one can come. With a ``tolerance`` both inputs are kept for so
    long; without one, the newest row of each key is kept. In SQL: ``l [LEFT] ASOF JOIN r MATCH_CONDITION (l.t >= r.t)
    ON ...``.

    Args:
        left: A streaming DataFrame with a watermark.
        right: Another.
        on: A condition, the names of columns that both have, or a list of either. Equalities, and conditions on one
            input; those on ``right`` say which of its rows are candidates. ``F.lit(True)`` for no key.
        how: ``"inner"``, or ``"left"`` to keep rows without a match.
        match: How the event times compare: ``"l.t >= r.t"`` looks back, ``"l.t <= r.t"`` ahead; with ``>`` or ``<`` a
            row of the same time is none. ``l`` and ``r`` are the two inputs; their own aliases do as well.
        direction: In place of ``match``, between the columns with a watermark: ``"backward"`` (without either, this),
            ``"forward"`` or ``"nearest"``; of two that are as near, ``"nearest"`` takes the one before.
        allow_exact_matches: With ``direction``: whether a row of the same time is a match.
        tolerance: How far apart the times may be, both ends included: text such as ``"10 minutes"`` or a ``timedelta``.
            ``forward`` and ``nearest`` need one.

    Returns:
        What ``left.join(right, on, how)`` returns; in each batch in the order of the left time, which carries a
        watermark. Of right rows with one time and key the last counts, in the order of their columns from left to
        right, nulls first.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_DURATION``, ``STREAMJOIN_EVENT_TIME``,
            ``STREAMJOIN_JOIN_KEYS``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_TEMPORAL`` (no tolerance where it looks ahead, another type of
            join, a condition between the inputs that is no equality), ``STREAMJOIN_NOT_A_STREAM``; ``start()`` raises
            ``STREAMJOIN_TEMPORAL_TIME`` for an input without a watermark, ``STREAMJOIN_OUTPUT_MODE`` in another mode
            than append, and ``STREAMJOIN_TEMPORAL_DISABLED``.

    Source:
        Spark's ``ASOF JOIN`` of batches; pandas' ``merge_asof``.

    Example:
        >>> asof_join(orders, deliveries, "order_id", match="l.order_time >= r.delivery_time").columns
        ['order_id', 'order_time', 'delivery_time']
        >>> asof_join(orders, deliveries, "order_id", "left", direction="nearest", tolerance="5 minutes").columns
        ['order_id', 'order_time', 'delivery_time']
    """
    for side in (left, right):
        expect(DataFrame, side, "sj.asof_join", "two DataFrames")
    if match is not None and (direction is not None or not allow_exact_matches):
        raise wrong_argument(
            "sj.asof_join", "either match=, which says both, or direction= and allow_exact_matches=", direction
        )
    apart = None if tolerance is None else spark_interval(tolerance, "tolerance", "sj.asof_join")
    entry = checked_entry(left.sparkSession, "sj.asof_join")
    joined = join(left, right, on, how)._jdf
    with answered():
        if match is None:
            times = (event_time(left, "left", "sj.asof_join"), event_time(right, "right", "sj.asof_join"))
            made = entry.asofJoin(joined, *times, direction or "backward", allow_exact_matches, apart)
        elif isinstance(match, str):
            made = entry.asofJoin(joined, match, apart)
        else:
            made = entry.asofJoin(joined, match._jc, apart)
    return DataFrame(made, left.sparkSession)
