"""Functions to configure and check a Spark session with streamjoin, and to list what its joins keep and drop."""

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.util import is_remote_only

from streamjoin._arguments.checks import require_dataframes, require_type
from streamjoin._arguments.queries import session_of
from streamjoin._display.notebook import with_html_table
from streamjoin._spark.calls import call_function, call_table_function
from streamjoin._spark.checks import check_session
from streamjoin._spark.extension import EXTENSION, is_connect
from streamjoin.errors import StreamJoinError


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar of this package and the extension to a session builder.

    Existing values are kept: the ``spark.jars`` and ``spark.sql.extensions`` of the builder, and those of spark-submit
    or spark-defaults.conf. If a streamjoin jar is among them, it is used instead of the package's own. Set these two
    settings on the builder before this call, not after it. No JVM is started.

    Args:
        builder: ``SparkSession.builder``, with or without settings. It may have ``remote("local[2]")``, which starts a
            Spark Connect server in this process.

    Returns:
        The same builder. It is unchanged if a session with the extension is already running.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_JAR_MISSING``; ``STREAMJOIN_JAR_VERSION``;
            ``STREAMJOIN_SPARK_VERSION``; ``STREAMJOIN_SPARK_ALREADY_RUNNING`` if a SparkContext runs without the
            extension, because ``getOrCreate()`` would silently return its session; ``STREAMJOIN_SPARK_CONNECT`` if the
            builder connects to a server, by ``remote(...)`` or ``SPARK_REMOTE``, because only the server decides on its
            extensions.

    Example:
        >>> spark = configure(SparkSession.builder.appName("orders")).getOrCreate()
    """
    require_type(SparkSession.Builder, builder, "sj.configure", "SparkSession.builder, from which it makes the session")
    _reject_remote(builder)
    # A pure Spark Connect client does not have what is imported here.
    from streamjoin._spark.configure import with_extension

    return with_extension(builder)


def _reject_remote(builder: SparkSession.Builder) -> None:
    # As SparkSession.Builder.getOrCreate decides; `pyspark --remote` sets the variable.
    address = str(builder._options.get("spark.remote", os.environ.get("SPARK_REMOTE", "")))
    if is_connect(builder) or is_remote_only() or address.startswith("sc://"):
        raise StreamJoinError(
            "STREAMJOIN_SPARK_CONNECT",
            call="sj.configure",
            extension=EXTENSION,
        )


def check(spark: SparkSession) -> None:
    """Check that the session can run the operators of this package, and raise an error that names the fix if not.

    Whether joins use them also depends on ``spark.streamjoin.enabled``.

    Args:
        spark: A session. Over Spark Connect, the version of the server is checked. It may differ from that of the
            package in the last number.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_JAR_MISSING``, ``STREAMJOIN_JAR_VERSION``,
            ``STREAMJOIN_SPARK_VERSION`` or ``STREAMJOIN_EXTENSION_MISSING``, each with its fix.

    Example:
        >>> sj.check(spark)
    """
    require_type(SparkSession, spark, "sj.check", "a SparkSession")
    check_session(spark)


def bounds(df: DataFrame) -> DataFrame:
    """Return the time bounds of the joins of two streams in a streaming DataFrame.

    Args:
        df: A streaming DataFrame. It is analyzed, not started.

    Returns:
        A batch DataFrame with a row for each join, input and bound: ``join`` (its number, counted from the inputs up),
        ``side`` (``left`` or ``right``), ``input`` (its name), ``column`` (the event-time column), ``bound`` (as text),
        ``keeps`` (how long rows stay in state), ``conjunct`` (the condition that the bound comes from) and ``origin``
        (where this condition is: ``this join``, or the joins and filters below from which it was derived). An
        event-time column without a bound in a join keeps no rows there; its row says where its watermark in the output
        comes from. Joins that Spark runs (with a table, or handed over by a setting) are not listed, nor are joins
        without such bounds: temporal and as-of joins, delta joins, look-ups. ``show(truncate=False)`` shows the full
        text, and a notebook shows the result as a table.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_NOT_A_STREAM``; or the ``STREAMJOIN_`` condition of a join that
            ``start()`` would reject.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> [tuple(row) for row in bounds(joined).select("side", "column", "keeps").collect()]
        [('left', 'order_time', 'left kept 1 hour'), ('right', 'delivery_time', 'right kept 0 seconds')]
    """
    require_dataframes("sj.bounds", "the streaming DataFrame with the joins, before writeStream", df)
    check_session(df.sparkSession)
    return with_html_table(call_function(df, "sj_bounds"))


def late_rows(query: StreamingQuery, streaming: bool = False) -> DataFrame:
    """Return the rows that the joins of a query have dropped as late, as a table or as a stream.

    For a query that maintains an arrangement (:func:`streamjoin.arrange`), these are the updates and deletes of unknown
    keys, and the changes older than the last one of their key.

    The rows are kept only if the query was started with ``spark.streamjoin.lateRows=keep``. The query's checkpoint then
    has a file for each batch, join and task that dropped rows. Each row is in it once, regardless of retries and
    replays. Files older than ``spark.streamjoin.lateRows.maxAge``, and the oldest files beyond
    ``spark.streamjoin.lateRows.maxBytes``, are removed.

    Args:
        query: A streaming query, running or stopped.
        streaming: If true, return a stream that continues while the query drops rows. If false, return a table of the
            rows up to the last committed batch.

    Returns:
        A DataFrame with the columns ``batch`` (its number), ``join``, ``side`` and ``input`` (as in
        :func:`streamjoin.bounds`), ``column`` (the event-time column by which the row is late), ``watermark`` (of that
        column, as text in UTC: ``2026-01-01T09:10:00Z``) and ``row`` (the columns of the row that the query uses, as
        JSON for ``from_json``; times in UTC). For an arrangement, ``input`` is its name, ``row`` also has the
        operation, ``column`` is that of ``time=`` if the change came too late, and the other columns are null.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_LATE_ROWS_NOT_KEPT``.

    Example:
        >>> spark.conf.set("spark.streamjoin.lateRows", "keep")
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/joined")
        >>> late_rows(query).where("join = 1").count()
        0
        >>> query.stop()
    """
    spark = session_of(query, "sj.late_rows")
    check_session(spark)
    return call_table_function(spark, "sj_late_rows", str(query.id), streaming)
