"""A join of two streams with a bound on the distance of their event times."""

from functools import reduce
from typing import TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from streamjoin._columns import is_same, quoted, spelled
from streamjoin._durations import interval_sql
from streamjoin._event_times import event_times

Span: TypeAlias = tuple[int, int]
"""The least and the greatest ``right.time - left.time``, in microseconds."""

_LEFT_TIME = "__streamjoin_left_time"
_RIGHT_TIME = "__streamjoin_right_time"


def join_on_names(left: DataFrame, right: DataFrame, names: list[str], how: str, span: Span) -> DataFrame:
    """Join as Spark does on names (``USING``), with the bounds inside the condition.

    Spark takes either names or a condition. So the keys of one side are renamed for the condition, which also
    tells them apart when both sides come from one stream; the result shows those of the other side.
    """
    from_right = how == "right"
    kept, other = (right, left) if from_right else (left, right)
    left_time, right_time = event_times(left, right)
    keys = [spelled(kept, name) for name in names]
    renamed = {spelled(other, name): f"__streamjoin_key_{i}" for i, name in enumerate(names)}
    if from_right:
        left, left_time = left.withColumnsRenamed(renamed), renamed.get(left_time, left_time)
    else:
        right, right_time = right.withColumnsRenamed(renamed), renamed.get(right_time, right_time)
    pairs = [(F.col(quoted(key)), F.col(copy)) for key, copy in zip(keys, renamed.values(), strict=True)]
    condition = reduce(Column.__and__, [key == copy for key, copy in pairs])
    joined = join_within(left, right, condition, (left_time, right_time), how, span)

    if how == "full":
        first = [F.coalesce(*pair).alias(key) for key, pair in zip(keys, pairs, strict=True)]
    else:
        first = [key for key, _ in pairs]
    hidden = [column for column in joined.columns if column in keys or column in renamed.values()]
    return joined.select(*first, F.expr(f"* EXCEPT ({', '.join(map(quoted, hidden))})"))


def join_within(
    left: DataFrame, right: DataFrame, condition: Column, times: tuple[str, str], how: str, span: Span
) -> DataFrame:
    """Join with the bounds on the two time columns, named so that Spark cannot mistake one for the other."""
    left_time, right_time = map(quoted, times)
    columns = left.columns + right.columns
    if all(sum(is_same(time, column) for column in columns) == 1 for time in times):
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
