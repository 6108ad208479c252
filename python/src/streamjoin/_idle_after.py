"""``idle_after``: an input that is silent stops holding others back."""

from datetime import timedelta

from pyspark.sql import DataFrame

from streamjoin.durations import spark_interval
from streamjoin.jvm import answered, checked_entry, expect


def idle_after(df: DataFrame, after: str | timedelta) -> DataFrame:
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
    expect(DataFrame, df, "sj.idle_after", "a streaming DataFrame")
    length = spark_interval(after, "after", "sj.idle_after", least=1000)
    entry = checked_entry(df.sparkSession)
    with answered():
        return DataFrame(entry.idleAfter(df._jdf, length), df.sparkSession)
