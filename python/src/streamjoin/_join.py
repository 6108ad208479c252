"""``join``: a join of two streams whose time bounds are written for you. DataFrame API only."""

from collections.abc import Sequence
from functools import reduce
from typing import Literal, TypeAlias, cast, get_args

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType

from streamjoin._check import check
from streamjoin.durations import Within, interval_sql, limits
from streamjoin.errors import StreamJoinError
from streamjoin.jvm import checked_entry, expect, is_connect

JoinType = Literal[
    "inner",
    "left",
    "leftouter",
    "left_outer",
    "right",
    "rightouter",
    "right_outer",
    "full",
    "outer",
    "fullouter",
    "full_outer",
    "semi",
    "leftsemi",
    "left_semi",
    "anti",
    "leftanti",
    "left_anti",
]
"""The six join types, in all of Spark's spellings."""

Span: TypeAlias = tuple[int, int]
"""The least and the greatest ``right.time - left.time``, in microseconds."""

_WATERMARK = "spark.watermarkDelayMs"  # Spark marks an event-time column with it (EventTimeWatermark.delayKey).
_ROWTIME = "streamjoin.rowtime"  # Marks the rowtime of a window join, which goes before other event times.
_KEY = "streamjoin.tableKey"  # On a column of a table's key: all columns of the key; below, its place among them.
_KEY_PLACE = "streamjoin.tableKeyPlace"
_LEFT_TIME = "__streamjoin_left_time"
_RIGHT_TIME = "__streamjoin_right_time"


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Column | Sequence[str] | Sequence[Column] | None = None,
    how: JoinType = "inner",
    *,
    within: Within | None = None,
) -> DataFrame:
    """Join two streams, with the distance of their event times bounded by ``within``.

    Args:
        left: A streaming DataFrame with a watermark, or a :func:`table`. (Without ``within``, other batch DataFrames
            are joined as Spark joins them.)
        right: Another, or the same.
        on: A condition, the name of a column that both have, or a list of either; ``F.lit(True)`` to join on time
            alone. Left out, a :func:`table` is joined by its declared key, the first of its arrangement: with the
            columns of the same names of a stream, or of another table whose key they are.
        how: The join type.
        within: If given, ``|right.time - left.time| <= within`` is added to the condition, both ends
            included, ``time`` being the event-time column of each side. Text such as ``"1 hour 30 minutes"`` or
            a ``timedelta``. A pair of them has the two limits of ``right.time - left.time``, both included:
            ``("0 seconds", "1 hour")`` for what comes up to an hour later on the right, and a limit may be negative.
            From a day up, days are calendar days of the session's time zone, as in all of Spark's interval arithmetic.

    Returns:
        What ``left.join(right, on, how)`` returns; of two tables a stream of the changes of that, with ``_diff``, as
        :func:`delta_join` has it. With names in ``on``, these columns come first and once:
        from the right side in a right join, the one that is not null in a full outer join.

    Raises:
        StreamJoinError: ``STREAMJOIN_JOIN_TYPE``; ``STREAMJOIN_JOIN_KEYS`` (``on``); ``STREAMJOIN_WITHIN`` (no
            fixed duration); ``STREAMJOIN_EVENT_TIME`` (a side has no event-time column, or several);
            ``STREAMJOIN_NOT_A_STREAM`` (``within`` where a side is a batch); ``STREAMJOIN_WRONG_ARGUMENT``;
            ``STREAMJOIN_SPARK_CONNECT`` (two tables there); and for two
            streams of a classic session any of :func:`streamjoin.check`.

    Source:
        Hazelcast, "Stream to stream JOIN", for streams; Lenses, "Joins", for streams with tables.

    Example:
        >>> joined = join(orders, deliveries, "order_id", "left_outer", within=("0 seconds", "1 hour"))
        >>> joined.columns
        ['order_id', 'order_time', 'delivery_time']
    """
    for side in (left, right):
        expect(DataFrame, side, "sj.join", "two DataFrames")
    _check_type(how)
    span = None if within is None else limits(within)
    if not is_connect(left) and left.isStreaming and right.isStreaming:
        check(left.sparkSession)
    names, condition = _keys(left, right, _declared(left, right) if on is None else on)
    if span is None:
        if is_connect(left) and _declared_key(left) and _declared_key(right):
            raise StreamJoinError(
                "STREAMJOIN_SPARK_CONNECT",
                call="sj.join of two tables",
                advice="Write it in SQL: SELECT ... FROM STREAM a JOIN STREAM b ON ..., with the arrangements' names.",
            )
        joined = left.join(right, names or condition, how)
        return joined if is_connect(left) or left.isStreaming or right.isStreaming else _changes(joined)
    if names:
        return _join_on_names(left, right, names, how, span)
    return _join_within(left, right, cast(Column, condition), event_times(left, right), how, span)


def _changes(joined: DataFrame) -> DataFrame:
    """Return the changes of a join of two tables, and any other join as it is."""
    session = joined.sparkSession
    try:
        entry = checked_entry(session)
    except StreamJoinError:  # without streamjoin there are no tables
        return joined
    changes = entry.joinOfTables(joined._jdf)
    return joined if changes is None else DataFrame(changes, session)


def _check_type(how: str) -> None:
    if how not in get_args(JoinType):
        raise StreamJoinError(
            "STREAMJOIN_JOIN_TYPE",
            how=repr(how),
            types=", ".join(get_args(JoinType)),
        )


def _keys(
    left: DataFrame, right: DataFrame, on: str | Column | Sequence[str] | Sequence[Column]
) -> tuple[list[str], Column | None]:
    """Return the names of the key columns, or else the condition."""
    given = [on] if isinstance(on, str | Column) else list(on) if isinstance(on, Sequence) else []
    names = [each for each in given if isinstance(each, str)]
    columns = [each for each in given if isinstance(each, Column)]
    if not given or len(given) != max(len(names), len(columns)):
        raise StreamJoinError(
            "STREAMJOIN_JOIN_KEYS",
            on=repr(on),
            reason="it is neither a condition nor column names",
            advice="Write a name, a list of names, a condition such as F.expr('o.id = d.order_id'), or a list of "
            "conditions; names and conditions do not mix. To join on time alone, on=F.lit(True).",
        )
    for side, df in (("left", left), ("right", right)):
        for name in names:
            if sum(_same(name, column) for column in df.columns) != 1:
                raise StreamJoinError(
                    "STREAMJOIN_JOIN_KEYS",
                    on=repr(on),
                    reason=f"the {side} input does not have exactly one column {name!r}; its columns are "
                    f"{', '.join(df.columns)}",
                    advice="Name columns that both inputs have, or write a condition.",
                )
    return names, reduce(Column.__and__, columns) if columns else None


def _declared(left: DataFrame, right: DataFrame) -> list[str]:
    """Return the key columns by which a table is joined if ``on`` is left out."""
    keys = {side: key for side, df in (("left", left), ("right", right)) if (key := _declared_key(df))}
    if not keys:
        raise _no_keys(
            "neither input is a sj.table with the columns of its key",
            "Name the columns or write a condition: a stream has no declared key. To join on time alone, write "
            "on=F.lit(True).",
        )
    for side, df in (("left", left), ("right", right)):
        if side not in keys and not df.isStreaming:
            raise _no_keys(
                f"the {side} input is neither a stream nor a sj.table with the columns of its key",
                "Name the columns or write a condition.",
            )
    names, *others = keys.values()
    for other in others:
        if {name.casefold() for name in names} != {name.casefold() for name in other}:
            raise _no_keys(
                f"the keys of the tables differ: {names} and {other}",
                "Name the columns or write a condition, or rename the columns of one key to those of the other.",
            )
    for side, df in (("left", left), ("right", right)):
        missing = [name for name in names if sum(_same(name, column) for column in df.columns) != 1]
        if missing:
            raise _no_keys(
                f"the table's key is {names}, and the {side} input does not have exactly one column "
                f"{', '.join(missing)}; its columns are {', '.join(df.columns)}",
                f"Rename a column of the {side} input, or write a condition: on=F.expr('{missing[0]} = ...').",
            )
    return names


def _declared_key(df: DataFrame) -> list[str] | None:
    """Return what the columns of a table's key are called now, if it is a table and all of them are there."""
    if df.isStreaming:
        return None
    marked = [(field.metadata[_KEY_PLACE], field) for field in df.schema.fields if _KEY in field.metadata]
    places = sorted(place for place, _ in marked)
    if not marked or places != list(range(len(marked[0][1].metadata[_KEY]))):
        return None
    return [field.name for _, field in sorted(marked, key=lambda each: cast(int, each[0]))]


def _no_keys(reason: str, advice: str) -> StreamJoinError:
    return StreamJoinError("STREAMJOIN_JOIN_KEYS", on="None", reason=reason, advice=advice)


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def event_times(left: DataFrame, right: DataFrame, call: str = "within=") -> tuple[str, str]:
    """Return the names of the event-time columns of both inputs."""
    return event_time(left, "left", call), event_time(right, "right", call)


def event_time(df: DataFrame, side: str, call: str) -> str:
    """Return the name of the one event-time column of an input."""
    times = [field for field in df.schema.fields if isinstance(field.dataType, TimestampType)]
    rowtimes = [field.name for field in times if _ROWTIME in field.metadata]
    marked = rowtimes or [field.name for field in times if _WATERMARK in field.metadata]
    if len(marked) == 1:
        return marked[0]
    if marked:
        raise StreamJoinError(
            "STREAMJOIN_EVENT_TIME",
            call=call,
            side=side,
            found=f"{len(marked)}: {', '.join(marked)}",
            advice="Drop the others before. Or join with sj.join, leave within= out and write the bound on the one you "
            "mean into on=, for example "
            f"F.expr(\"l.{marked[0]} BETWEEN r.time - INTERVAL '5' SECOND AND r.time + INTERVAL '5' SECOND\").",
        )
    if not df.isStreaming:
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call=call,
            wanted="two streams",
            found=f"the {side} input is a batch, whose columns carry no watermark",
            advice="Join with sj.join, leave within= out, and write the distance into on=.",
        )
    example = times[0].name if times else "time"
    candidates = ", ".join(field.name for field in times) or "none"
    raise StreamJoinError(
        "STREAMJOIN_EVENT_TIME",
        call=call,
        side=side,
        found=f"none (its timestamp columns: {candidates}; all columns: {', '.join(df.columns)})",
        advice=f'Mark one before the join: {side} = {side}.withWatermark("{example}", "10 seconds").',
    )


def _join_on_names(left: DataFrame, right: DataFrame, names: list[str], how: JoinType, span: Span) -> DataFrame:
    """Join as Spark does on names (``USING``), with the bounds inside the condition.

    Spark takes either names or a condition. So the keys of one side are renamed for the condition, which also
    tells them apart when both sides come from one stream; the result shows those of the other side.
    """
    from_right = how.startswith("right")
    kept, other = (right, left) if from_right else (left, right)
    left_time, right_time = event_times(left, right)
    keys = [_spelled(kept, name) for name in names]
    renamed = {_spelled(other, name): f"__streamjoin_key_{i}" for i, name in enumerate(names)}
    if from_right:
        left, left_time = left.withColumnsRenamed(renamed), renamed.get(left_time, left_time)
    else:
        right, right_time = right.withColumnsRenamed(renamed), renamed.get(right_time, right_time)
    pairs = [(F.col(quoted(key)), F.col(copy)) for key, copy in zip(keys, renamed.values(), strict=True)]
    condition = reduce(Column.__and__, [key == copy for key, copy in pairs])
    joined = _join_within(left, right, condition, (left_time, right_time), how, span)

    if how in ("full", "outer", "fullouter", "full_outer"):
        first = [F.coalesce(*pair).alias(key) for key, pair in zip(keys, pairs, strict=True)]
    else:
        first = [key for key, _ in pairs]
    hidden = [column for column in joined.columns if column in keys or column in renamed.values()]
    return joined.select(*first, F.expr(f"* EXCEPT ({', '.join(map(quoted, hidden))})"))


def _join_within(
    left: DataFrame, right: DataFrame, condition: Column, times: tuple[str, str], how: JoinType, span: Span
) -> DataFrame:
    """Join with the bounds on the two time columns, named so that Spark cannot mistake one for the other."""
    left_time, right_time = map(quoted, times)
    columns = left.columns + right.columns
    if all(sum(_same(time, column) for column in columns) == 1 for time in times):
        bound = _bound(F.col(left_time), F.col(right_time), span)
        return left.join(right, condition & bound, how)
    if _told_apart(left, right, left_time, right_time):
        return left.join(right, condition & _bound(left[left_time], right[right_time], span), how)
    # Both come from one stream. An alias for a side would hide the caller's aliases, so the
    # condition uses copies of the two times under new names, and every other column stays as it
    # was.
    left_copy = left.withColumn(_LEFT_TIME, left[left_time])
    right_copy = right.withColumn(_RIGHT_TIME, right[right_time])
    bound = _bound(F.col(_LEFT_TIME), F.col(_RIGHT_TIME), span)
    return left_copy.join(right_copy, condition & bound, how).drop(_LEFT_TIME, _RIGHT_TIME)


def _bound(left_time: Column, right_time: Column, span: Span) -> Column:
    low, high = span
    return (right_time >= _later(left_time, low)) & (left_time >= _later(right_time, -high))


def _later(time: Column, micros: int) -> Column:
    distance = F.expr(interval_sql(abs(micros)))
    return time + distance if micros > 0 else time - distance


def _told_apart(left: DataFrame, right: DataFrame, left_time: str, right_time: str) -> bool:
    """Tell whether ``left[...]`` and ``right[...]`` are two columns above a join; in a self join they are not."""
    if left.sparkSession.conf.get("spark.sql.analyzer.failAmbiguousSelfJoin") != "true":
        return False
    try:
        _ = left.crossJoin(right).where(left[left_time] >= right[right_time]).schema
    except AnalysisException:
        return False
    return True


def _spelled(df: DataFrame, name: str) -> str:
    return next(column for column in df.columns if _same(name, column))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
