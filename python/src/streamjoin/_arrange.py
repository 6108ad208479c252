"""``arrange``: a collection, indexed and kept up to date, for any number of queries to share."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamjoin.jvm import answered, checked_entry, expect, wrong_argument


def arrange(
    df: DataFrame,
    name: str,
    keys: Sequence[Sequence[str]],
    *,
    op: str | None = None,
    diff: str | None = None,
    time: str | None = None,
    order: str | None = None,
) -> DataStreamWriter:
    """Keep a stream's rows as an arrangement: a durable collection with an index for each key and a history.

    Each batch is a version, shared by all keys. Queries read it as a table (:func:`streamjoin.arrangement`), as a
    stream of changes (``spark.readStream.format("streamjoin")``) or join it with others
    (:func:`streamjoin.delta_join`). One query maintains an arrangement, from one checkpoint. It has as many partitions
    as ``spark.sql.shuffle.partitions`` said when it began.

    Args:
        df: A streaming DataFrame. With ``op`` it is a changelog: rows that are inserted, updated and deleted by the
            first of the keys. Debezium's ``before`` and ``after`` are taken apart. With ``diff`` its rows come and go
            in numbers of copies. Without either, rows are added and stay.
        name: A name in the folder ``spark.streamjoin.arrangements``, or a path.
        keys: The columns of each index: ``[["order_id"], ["customer_id"]]``. The first is the primary key of a
            changelog.
        op: The column with the operation: ``insert``, ``update``, ``delete`` or their first letters; Debezium's ``c``,
            ``r``, ``u``, ``d``; the ``_change_type`` of ``readStream.changes``. In any case. The row before an update
            goes, so that an update may move a row to another key.
        diff: The column with the number of copies that come, or go where it is negative.
        time: The column by which the rows of one key follow each other: one that is older than the last one of its
            key, or than its deletion, does not count, in whichever batch it comes. The progress says how many there
            were, and ``spark.streamjoin.lateRows=keep`` keeps them. Nulls are lowest. Within a batch, at the same time
            and without this column, a deletion comes first, then what the other columns say decides.
        order: The column that decides between changes of one time, such as a position in a log. Debezium may have the
            insert and the delete of a transaction at one time.

    Returns:
        A writer, which is started as any other: ``.trigger(...)``, ``.start(checkpointLocation=...)``.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`: over Spark Connect
            ``STREAMJOIN_SPARK_CONNECT``.
        pyspark.errors.AnalysisException: ``STREAMJOIN_ARRANGE`` (a column that is none, two ways to change, a key that
            cannot be one); ``STREAMJOIN_NOT_A_STREAM``; ``STREAMJOIN_NO_ARRANGEMENTS_FOLDER``; and at ``start()``
            ``STREAMJOIN_ARRANGEMENT_CHANGED`` (begun with other columns or keys), ``STREAMJOIN_ARRANGEMENT_OWNED``
            (another query maintains it) or ``STREAMJOIN_ARRANGEMENT_OUTPUT_MODE`` (complete mode, or update mode
            without ``op``). The query fails with ``STREAMJOIN_OPERATION`` for an operation that is none, and with
            ``STREAMJOIN_DIFF`` for a number of copies that is null or does not fit into an INT.

    Source:
        Materialize, "Streaming joins using few resources": shared arrangements.

    Example:
        >>> spark.conf.set("spark.streamjoin.arrangements", "arrangements")
        >>> writer = arrange(deliveries, "deliveries", keys=[["order_id"]])
        >>> query = writer.start(checkpointLocation="checkpoints/deliveries")
    """
    expect(DataFrame, df, "sj.arrange", "a DataFrame")
    if not isinstance(name, str) or not name.strip():
        raise wrong_argument("sj.arrange", "the name or the path of an arrangement", name)
    if not isinstance(keys, Sequence) or isinstance(keys, str) or not all(map(_is_key, keys)):
        wanted = 'a list of columns for each key, such as keys=[["order_id"], ["customer_id"]]'
        raise wrong_argument("sj.arrange", wanted, keys)
    for argument, column in (("op", op), ("diff", diff), ("time", time), ("order", order)):
        if not isinstance(column, str | None):
            raise wrong_argument("sj.arrange", f"the name of a column as {argument}", column)
    found = checked_entry(df.sparkSession, "sj.arrange")
    with answered():
        arranged = found.arrange(df._jdf, name, [list(key) for key in keys], op, diff, time, order)
    return DataFrame(arranged, df.sparkSession).writeStream.format("streamjoin").option("path", name)


def _is_key(key: object) -> bool:
    return isinstance(key, Sequence) and not isinstance(key, str) and all(isinstance(name, str) for name in key)
