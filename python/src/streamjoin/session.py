"""A Spark session with streamjoin: how to make one, whether it is ready, and what its joins keep and drop."""

from typing import Any, cast

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjoin import _packaged_jar
from streamjoin._arguments import expect, expect_frames
from streamjoin._jvm import EXTENSION, answered, checked_entry, entry, is_connect
from streamjoin._spark_settings import EXTENSIONS, JARS, given, jvm_runs, merged, start_jvm_with
from streamjoin._sql import ask
from streamjoin.errors import StreamJoinError


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar of this package and the extension to a session that is about to be built.

    What is there already stays: the ``spark.jars`` and ``spark.sql.extensions`` of the builder, and those of
    spark-submit or spark-defaults.conf. A streamjoin jar among them is used in place of the package's own. Set
    these two on the builder before, not after. No JVM is started.

    Args:
        builder: ``SparkSession.builder``, with or without settings; also with ``remote("local[2]")``, which
            starts a Spark Connect server in this process.

    Returns:
        The same builder. If a session with the extension runs already, unchanged.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``; ``STREAMJOIN_JAR_MISSING``; ``STREAMJOIN_JAR_VERSION``;
            ``STREAMJOIN_SPARK_VERSION``;
            ``STREAMJOIN_SPARK_ALREADY_RUNNING`` if a SparkContext runs without the extension, because
            ``getOrCreate()`` would return its session and say nothing; ``STREAMJOIN_SPARK_CONNECT`` if the
            builder connects to a server, which alone decides on its extensions.

    Example:
        >>> spark = configure(SparkSession.builder.appName("orders")).getOrCreate()
    """
    expect(SparkSession.Builder, builder, "sj.configure", "SparkSession.builder, from which it makes the session")
    _refuse_remote(builder)
    if SparkContext._active_spark_context is not None:
        _check_running(SparkContext._active_spark_context)
        return builder
    outside = given()
    before = merged(builder._options.get(JARS), outside.get(JARS))
    jar = next((each for each in before.split(",") if _packaged_jar.version_in_name(each)), None)
    if jar is None:
        jar = str(_packaged_jar.jar_path())
        found = _packaged_jar.built(_packaged_jar.jar_path())
    else:
        # It may be on another machine or in an object store, so only its name tells what it is.
        own_version = _packaged_jar.version_in_name(jar) or ""
        found = _packaged_jar.Built(own_version, _packaged_jar.line_in_name(jar) or "")
    _packaged_jar.check_built(found, pyspark.__version__)

    jars = merged(before, jar)
    if jvm_runs():
        _add_to_driver(jar)
        builder.config(JARS, jars)
    else:
        if jars != outside.get(JARS):
            start_jvm_with(jars)
        if JARS in builder._options:
            builder.config(JARS, jars)
    return builder.config(EXTENSIONS, merged(builder._options.get(EXTENSIONS), outside.get(EXTENSIONS), EXTENSION))


def _refuse_remote(builder: SparkSession.Builder) -> None:
    if is_connect(builder) or str(builder._options.get("spark.remote", "")).startswith("sc://"):
        raise StreamJoinError(
            "STREAMJOIN_SPARK_CONNECT",
            call="sj.configure",
            advice="Start the server with `start-connect-server.sh --jars $(python -m streamjoin jar) "
            f"--conf spark.sql.extensions={EXTENSION}` and leave sj.configure out: df.join, SQL and sj.join work "
            "as they are.",
        )


def _check_running(context: SparkContext) -> None:
    """Accept a running context only if its sessions have the extension.

    Spark reads the setting from the SparkContext's configuration when it creates a session
    (``SparkSession.applyAndLoadExtensions``). Given to a builder later, it shows up in ``spark.conf`` but has no
    effect.
    """
    extensions = context.getConf().get(EXTENSIONS) or ""
    if EXTENSION not in [each.strip() for each in extensions.split(",")]:
        raise StreamJoinError(
            "STREAMJOIN_SPARK_ALREADY_RUNNING",
            application=repr(context.appName),
            extension=EXTENSION,
        )
    session = SparkSession.getActiveSession()
    if session is None:
        jvm_entry = entry(context._jvm, context.version)
        _packaged_jar.check_built(_packaged_jar.Built(jvm_entry.version(), jvm_entry.sparkVersion()), context.version)
    else:
        checked_entry(session, "sj.configure")


def _add_to_driver(jar: str) -> None:
    """Put the jar on the class path of a JVM that started before its session.

    A session's ``spark.jars`` reaches the executors only. The driver's class path was made when the JVM started,
    and Spark merely logs a warning about an extension class that it cannot find there.
    """
    jvm: Any = SparkContext._jvm
    try:
        entry(jvm, pyspark.__version__)
        return
    except StreamJoinError as error:
        if error.getCondition() != "STREAMJOIN_JAR_MISSING":
            raise
        missing = error
    try:
        # Spark's launcher gives its threads a MutableURLClassLoader, which can be extended.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.org.apache.spark.util.Utils.resolveURI(jar).toURL())
    except Py4JError as error:
        raise missing from error
    entry(jvm, pyspark.__version__)


def check(spark: SparkSession) -> None:
    """Return if the session has the operator of this package; else say what is missing.

    Whether joins run on it is up to ``spark.streamjoin.enabled``, too.

    Args:
        spark: A classic session. The session of a Spark Connect client cannot be looked into.

    Raises:
        StreamJoinError: ``STREAMJOIN_WRONG_ARGUMENT``, ``STREAMJOIN_JAR_MISSING``, ``STREAMJOIN_JAR_VERSION``,
            ``STREAMJOIN_SPARK_VERSION``, ``STREAMJOIN_EXTENSION_MISSING`` or ``STREAMJOIN_SPARK_CONNECT``, each with
            its fix.

    Example:
        >>> sj.check(spark)
    """
    expect(SparkSession, spark, "sj.check", "a SparkSession")
    checked_entry(spark, "sj.check")


def bounds(df: DataFrame) -> DataFrame:
    """Return the time bounds of the joins of two streams in a streaming DataFrame.

    Args:
        df: A streaming DataFrame. It is analysed, not started.

    Returns:
        A batch DataFrame, a row for each join, input and bound: ``join`` (its number, from the inputs up), ``side``
        (``left`` or ``right``), ``input`` (its name), ``column`` (the event-time column), ``bound`` (as text),
        ``keeps`` (how long rows stay in state), ``conjunct`` (the condition that it comes from) and ``origin`` (where
        that stands: ``this join``, or the joins and filters below that it was derived from). An event-time column that
        has no bound in a join keeps nothing there; its row says what gives it its watermark in the output. Not listed
        are joins that Spark runs (with a table, or handed over by a setting), and those without such bounds: temporal
        and as-of joins, delta joins, look-ups. ``show(truncate=False)`` shows all of the text.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, ``STREAMJOIN_WRONG_ARGUMENT``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: A ``STREAMJOIN_`` condition, for a join that ``start()`` would refuse.

    Example:
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> [tuple(row) for row in bounds(joined).select("side", "column", "keeps").collect()]
        [('left', 'order_time', 'left kept 1 hour'), ('right', 'delivery_time', 'right kept 0 seconds')]
    """
    expect_frames("sj.bounds", "the streaming DataFrame with the joins, before writeStream", df)
    spark = df.sparkSession
    found = None if is_connect(df) else checked_entry(spark, "sj.bounds")
    if not df.isStreaming:
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call="sj.bounds",
            wanted="a streaming DataFrame (spark.readStream)",
            found="this one is a batch, whose joins keep no state",
            advice="Pass the DataFrame of the streaming query, before writeStream.",
        )
    if found is None:
        return ask(spark, "SELECT * FROM sj_bounds(TABLE({df}))", df=df)
    with answered():
        return DataFrame(found.joins().bounds(df._jdf), spark)


def late_rows(query: StreamingQuery, streaming: bool = False) -> DataFrame:
    """Return the rows that the joins of a query have dropped as late, as a table or as a stream.

    Of a query that maintains an arrangement (:func:`streamjoin.arrange`) they are the updates and deletes of keys that
    it did not know, and the changes that were older than the last one of their key.

    They are kept where the query was started with ``spark.streamjoin.lateRows=keep``: a file for each batch, join and
    task that had some, in the query's checkpoint, each row once, whatever was retried or replayed. Files older than
    ``spark.streamjoin.lateRows.maxAge``, and the oldest beyond ``spark.streamjoin.lateRows.maxBytes``, are removed.

    Args:
        query: A streaming query of this session, running or stopped; over Spark Connect, a running one.
        streaming: Return a stream, which goes on as rows are dropped, and not the table of those up to the last
            committed batch.

    Returns:
        A DataFrame with the columns ``batch`` (its number), ``join``, ``side`` and ``input`` (as in
        :func:`streamjoin.bounds`), ``column`` (the event-time column by which the row is late), ``watermark`` (that the
        column had, a timestamp) and ``row`` (the columns of it that the query uses, as JSON for
        ``from_json``; times in UTC). Of an arrangement ``input`` is its name, ``row`` has the operation too,
        ``column`` is that of ``time=`` where the change came too late, and the other columns are null.

    Raises:
        StreamJoinError: ``STREAMJOIN_NOT_A_STREAM``, or any of :func:`streamjoin.check`.
        pyspark.errors.AnalysisException: ``STREAMJOIN_LATE_ROWS_NOT_KEPT``; over Spark Connect
            ``STREAMJOIN_TABLE_FUNCTION``, if the query does not run.

    Example:
        >>> spark.conf.set("spark.streamjoin.lateRows", "keep")
        >>> joined = sj.join(orders, deliveries, "order_id", within=("0 seconds", "1 hour"))
        >>> query = joined.writeStream.start(format="noop", checkpointLocation="checkpoints/joined")
        >>> late_rows(query).where("join = 1").count()
        0
        >>> query.stop()
    """
    if is_connect(query):
        stream = "STREAM " if streaming else ""
        return ask(cast(Any, query)._session, f"SELECT * FROM {stream}sj_late_rows('{query.id}')")
    if not isinstance(query, StreamingQuery):
        raise StreamJoinError(
            "STREAMJOIN_NOT_A_STREAM",
            call="sj.late_rows",
            wanted="the StreamingQuery that writeStream...start() returned",
            found=f"this is a {type(query).__name__}",
            advice="Start the query, and pass what start() returned.",
        )
    spark = SparkSession.active()
    found = checked_entry(spark, "sj.late_rows")
    with answered():
        joins = found.joins()
        rows = joins.lateRowsStream(query._jsq) if streaming else joins.lateRows(query._jsq)
        own = rows.sparkSession()
        return DataFrame(rows, spark if own == spark._jsparkSession else SparkSession(spark.sparkContext, own))
